# SPDX-License-Identifier: GPL-2.0-or-later
"""Passive real servers behind a laboratory's nodes: hosts with nginx and the echo server, without dprd and loadcast.

    nat      on a network of its own behind its node, which is its only way out
                 eth0 n1 eth2 10.81.1.1 fd81:1::1 --- bridge in-n1 --- eth0 b1 10.81.1.11 fd81:1::b
    direct   on the service network, with the service addresses of its node on lo; it answers the router itself
                 bridge service --- eth0 b2 192.0.2.152 2001:db8:a::152
    tunnel   on the service network as well; gets IP in IP at an address on the cluster network, if there is one
                 bridge cluster --- eth1 b3 10.80.0.53 fd80::53

Servers of the form tunnel have an ipip (ip6tnl) device in the field. Kernels of test machines often lack that module,
so here a program takes the tunnel packets out (ipip_tun.py).
"""
import os
import socket
import struct
import sys

from netns import LabError

UNTUNNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ipip_tun.py")
TUN = "tun0"
FORMS = ("nat", "direct", "tunnel")
ROUTING = {
    "net.ipv4.ip_forward": 1,
    "net.ipv6.conf.all.forwarding": 1,
    "net.ipv4.conf.all.send_redirects": 0,
    "net.ipv4.conf.default.send_redirects": 0,
}
NETLINK_NETFILTER = 12
NFNL_DELETE_CONNECTIONS = 0x0102  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE


class Backend:
    """Names and addresses of one real server. Code that starts and asks web servers can use it like a node."""

    def __init__(self, number, node, form, layout, directory):
        if form not in FORMS:
            raise LabError(f"form {form}: must be one of {', '.join(FORMS)}")
        self.number, self.node, self.form = number, node, form
        self.name = f"b{number}"
        # In dprd.conf; 0 is the port that the client asked for.
        self.weight, self.port = 1, 0
        self.outside_v4, self.outside_v6 = f"192.0.2.{150 + number}", f"2001:db8:a::{150 + number}"
        if form == "nat":
            self.v4, self.v6 = f"10.81.{node.number}.{10 + number}", f"fd81:{node.number}::{10 + number:x}"
        elif form == "tunnel" and layout == "own":
            self.v4, self.v6 = f"10.80.0.{50 + number}", f"fd80::{50 + number}"
        else:
            self.v4, self.v6 = self.outside_v4, self.outside_v6
        self.directory = os.path.join(directory, self.name)
        self.status_polls = 0
        self.alive = True

    def __repr__(self):
        return self.name


class Backends:
    """Part of Cluster. Its parameter real_servers lists them: (("n1", "nat"), ("n1", "direct"), ...) are b1, b2, ..."""

    def _plan_backends(self):
        self.backends = [Backend(i + 1, self.node(node), form, self.layout, self.directory)
                         for i, (node, form) in enumerate(self.backend_plan)]

    def _has_inside(self, node):
        """True when a network is behind this node."""
        return any(name == node.name and form == "nat" for name, form in self.backend_plan)

    def _inside_ports(self, node):
        """The switch's ports of the node itself on that network."""
        return [node.name + "i"] if self._has_inside(node) else []

    def _make_inside_bridges(self):
        for node in self.nodes:
            if self._has_inside(node):
                self.site.ip("sw", [f"link add in-{node.name} type bridge forward_delay 0 mcast_snooping 0",
                                    f"link set in-{node.name} mtu {self.mtu['inside']} up"])

    def _make_inside_link(self, node):
        """The node's own ends. It routes for servers behind it; to servers that have its service addresses it speaks
        from another address."""
        self._address_apart(node)
        if not self._has_inside(node):
            return
        self._link(node.name, "eth2", node.name + "i", f"in-{node.name}", "inside",
                   [f"10.81.{node.number}.1/24", f"fd81:{node.number}::1/64"])
        self.site.sysctl(node.name, ROUTING)

    def _address_apart(self, node):
        v4, v6, lines = f"192.0.2.{60 + node.number}", f"2001:db8:a::{60 + node.number}", []
        for backend in self.backends:
            if backend.node is node and backend.form != "nat" and backend.v4 == backend.outside_v4:
                lines += [f"route replace {backend.v4}/32 dev eth0 src {v4}"]
                lines += [f"-6 route replace {backend.v6}/128 dev eth0 src {v6}"] if self.ipv6 else []
        if not lines:
            return
        # ARP requests use the first address of a network as source (arp_announce=2), neighbour discovery one that is
        # not deprecated: neither may be the service address.
        self.site.ip(node.name, [f"addr del {node.service_v4}/24 dev eth0", f"addr add {v4}/24 dev eth0",
                                 f"addr add {node.service_v4}/32 dev eth0"] +
                     ([f"addr add {v6}/64 dev eth0 nodad",
                       f"addr change {node.service_v6}/64 dev eth0 preferred_lft 0"] if self.ipv6 else []))
        for line in lines:
            self.site.execute(node.name, ["ip", *line.split()])

    def _make_backend(self, backend):
        os.makedirs(backend.directory)
        self._tune_server(backend.name)
        if backend.form == "nat":
            self._link(backend.name, "eth0", backend.name, f"in-{backend.node.name}", "inside",
                       [f"{backend.v4}/24", f"{backend.v6}/64"])
            self._default_routes(backend.name, f"10.81.{backend.node.number}.1", f"fd81:{backend.node.number}::1")
            return
        self._link(backend.name, "eth0", backend.name, "service", "service",
                   [f"{backend.outside_v4}/24", f"{backend.outside_v6}/64"])
        self._default_routes(backend.name, "192.0.2.1", "2001:db8:a::1")
        for address in (backend.node.service_v4, backend.node.service_v6):
            self.serve_address(backend, address)
        if backend.form == "tunnel":
            interface = "eth0"
            if self.layout == "own":
                interface = "eth1"
                self._link(backend.name, interface, backend.name + "c", "cluster", "cluster",
                           [f"{backend.v4}/24", f"{backend.v6}/64"])
            self._start_untunnel(backend, interface)

    def _start_untunnel(self, backend, interface):
        child = self.site.start(backend.name, [sys.executable, UNTUNNEL, interface, TUN],
                                os.path.join(backend.directory, "ipip_tun.log"))
        self.wait_until(lambda: child.poll() is not None or self._has_interface(backend, TUN),
                        f"{backend.name}: {TUN} is there")
        if child.poll() is not None:
            with open(os.path.join(backend.directory, "ipip_tun.log"), encoding="utf-8", errors="replace") as log:
                raise LabError(f"{backend.name}: ipip_tun.py: {log.read()[-500:]}")
        self.site.ip(backend.name, [f"link set {TUN} up"])

    def _has_interface(self, backend, interface):
        return interface in self.site.execute(backend.name, ["ip", "-o", "link", "show"])

    def serve_address(self, backend, address):
        """Adds one more service address to a direct or tunnel server. ARP and neighbour discovery do not tell of it:
        arp_ignore and arp_announce; neighbour discovery does not answer for addresses on lo."""
        v6 = ":" in address
        if self.ipv6 or not v6:
            self.site.ip(backend.name, [f"addr add {address}/{128 if v6 else 32} dev lo" + (" nodad" if v6 else "")])

    def cut_backend(self, which, up=False):
        """Pulls a real server's cables (or, with up, plugs them in again): it sends nothing any more."""
        backend = self.node(which)
        ports = [backend.name] + ([backend.name + "c"] if backend.form == "tunnel" and self.layout == "own" else [])
        self.site.ip("sw", [f"link set {port} {'up' if up else 'down'}" for port in ports])

    def backend_lines(self):
        """The servers' sections of dprd.conf."""
        lines = []
        for backend in self.backends:
            if backend.node not in self.nodes:
                continue
            lines += [f'[Backend "{backend.name}"]', f"Node={backend.node.name}", f"Form={backend.form}",
                      f"Weight={backend.weight}", f"Address={backend.v4}"]
            lines += [f"Address={backend.v6}"] if self.ipv6 else []
            lines += [f"Port={backend.port}"] if backend.port else []
        return lines

    def flush_connections(self, host):
        """Makes the kernel of a host forget all connections that it tracks."""
        with self.site.inside(host):
            asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        with asked:
            asked.settimeout(5)
            asked.send(struct.pack("=IHHII", 20, NFNL_DELETE_CONNECTIONS, 5, 1, 0) + bytes(4))
            error = struct.unpack_from("=i", asked.recv(4096), 16)[0]
        if error:
            raise LabError(f"{host}: forgetting tracked connections: {os.strerror(-error)}")
