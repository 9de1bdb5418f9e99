# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster of web servers in network namespaces: hosts, links, servers, and dprd on top.

    client c1 .. -- bridge clients --+          +-- bridge service --+-- eth0 n1 eth1 --+
    203.0.113.10                     +-- router +   192.0.2.0/24     +-- eth0 n2 eth1 --+-- bridge cluster
    2001:db8:c::10            DNS, forwarding   |   2001:db8:a::/64  +-- ...            |   10.80.0.0/24
                                                +-- stranger x eth0                eth1 +   fd80::/64

Node i has service address 192.0.2.(10+i) and 2001:db8:a::(10+i). In layout "own" it has also the
cluster address 10.80.0.(10+i) and fd80::(10+i) on eth1; in layout "one" there is no cluster network.
The bridges are in a namespace of their own ("sw"), with one port named after each node (n1, n1c).

On every node: nginx on port 80 (files, /whoami, PUT /upload/NAME), the echo server on port 8080 and
the sum server on port 8081 (echoserver.c), all on wildcard addresses of both families. Real servers behind the nodes
(b1, b2, ...) have the same: backends.py.
"""
import atexit
import hashlib
import itertools
import os
import shutil
import signal
import sys
import threading
import time

import backends
import daemons
import faults
import httpfiles
import servers
from netns import LabError, Site, prune, registry_path, run, unmount_bpf

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAME = "www.example.test"
SERVICE_PORTS = (80, 8080, 8081)
PLANES = ("auto", "bpf", "nfqueue")
_serial = itertools.count(1)

COMMON_SYSCTLS = {
    "net.ipv4.tcp_congestion_control": "reno",
    "net.core.somaxconn": 4096,
    "net.ipv4.tcp_max_syn_backlog": 4096,
    "net.ipv6.conf.all.accept_dad": 0,
    "net.ipv6.conf.default.accept_dad": 0,
    "net.ipv6.conf.default.accept_ra": 0,
    "net.ipv4.conf.all.rp_filter": 0,
    "net.ipv4.conf.default.rp_filter": 0,
}
NODE_SYSCTLS = {
    "net.ipv4.conf.all.arp_ignore": 1,
    "net.ipv4.conf.all.arp_announce": 2,
    # Otherwise a server resets a closed connection whose data it could not deliver within about 100 s. On an overloaded
    # link an answer may take longer, and slowness is not an error here.
    "net.ipv4.tcp_orphan_retries": 15,
}
ROUTER_SYSCTLS = {
    "net.ipv4.ip_forward": 1,
    "net.ipv6.conf.all.forwarding": 1,
    "net.ipv4.conf.all.send_redirects": 0,
    "net.ipv4.conf.default.send_redirects": 0,
    "net.ipv4.icmp_ratelimit": 0,
    "net.ipv6.icmp.ratelimit": 0,
}
CLIENT_SYSCTLS = {"net.ipv4.ip_local_port_range": "1024 65535"}


class Node:
    """Names and addresses of one node."""

    def __init__(self, number, layout, directory):
        host = 10 + number
        self.number = number
        self.name = f"n{number}"
        self.service_v4 = f"192.0.2.{host}"
        self.service_v6 = f"2001:db8:a::{host}"
        self.cluster_v4 = f"10.80.0.{host}" if layout == "own" else self.service_v4
        self.cluster_v6 = f"fd80::{host}" if layout == "own" else self.service_v6
        self.directory = os.path.join(directory, self.name)
        self.bpf_mount = os.path.join(self.directory, "bpf")
        self.pins = os.path.join(self.bpf_mount, "dprd")
        self.status_polls = 0
        self.alive = True

    def __repr__(self):
        return self.name


class Cluster(backends.Backends, daemons.Daemons, faults.Faults, servers.Servers):
    """up() (or "with") raises it; down() removes it, and so does the end of the process."""

    def __init__(self, nodes=4, layout="own", rate_mbit=None, mtu_client=1500, mtu_service=1500,
                 mtu_cluster=1500, ipv6=True, offload=True, clients=1, stranger=False, prefix=None,
                 build=None, file_count=1000, file_cap_bytes=1_000_000, file_seed=1, keepalive=False,
                 plane=None, real_servers=()):
        if layout not in ("own", "one"):
            raise LabError(f"layout {layout}: must be own or one")
        self.plane = plane or os.environ.get("DPRD_PLANE") or "auto"
        decide = os.environ.get("DPRD_DECIDE", "auto")
        self.decide = {"Decide": decide} if decide != "auto" and self.plane != "nfqueue" else {}
        if self.plane not in PLANES:
            raise LabError(f"plane {self.plane}: must be {', '.join(PLANES)}")
        self.layout, self.rate_mbit, self.ipv6, self.offload = layout, rate_mbit, ipv6, offload
        self.mtu = {"client": mtu_client, "service": mtu_service, "cluster": mtu_cluster, "inside": 1500}
        self.keepalive = keepalive
        self.build = os.path.abspath(build or os.environ.get("DPRD_BUILD") or os.path.join(TOP, "build"))
        self.site = Site(prefix or f"dprd-{os.getpid()}-{next(_serial)}")
        self.files = (file_count, file_cap_bytes, file_seed)
        self.directory = None
        self.client_count, self.stranger = clients, stranger
        self.node_count = nodes
        self.nodes = []
        self.backend_plan, self.backends = tuple(real_servers), []
        self.daemons = {}
        self.webs = {}
        self.overrides = {}
        self.lossy = set()  # names of nodes with faults of faults.py
        self.loaded = {}  # {node's name: (dprd's process, the configuration that it runs on)}

    # ---- life ----

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        self.down()

    def up(self):
        if os.geteuid() != 0:
            raise LabError("the laboratory needs root: it makes network namespaces")
        prune()
        atexit.register(self.down)
        try:
            self._up()
        except BaseException:
            self.down()
            raise

    def _up(self):
        self.directory = self.site.make_directory()
        self.nodes = [Node(i + 1, self.layout, self.directory) for i in range(self.node_count)]
        self._plan_backends()
        self.site.record["info"] = {"layout": self.layout, "build": self.build, "rate_mbit": self.rate_mbit,
                                    "plane": self.plane, "nodes": [node.name for node in self.nodes]}
        self.site.save()
        self._make_files()
        for node in self.nodes:
            os.makedirs(node.directory)
            self.site.mount_bpf(node.bpf_mount)
        self.clients = [f"c{i + 1}" for i in range(self.client_count)]
        hosts = [node.name for node in self.nodes] + self.clients + (["x"] if self.stranger else [])
        hosts += [backend.name for backend in self.backends]
        self.site.add_namespaces(["sw", "r"] + hosts)
        self._make_switch()
        self._make_router()
        for i, client in enumerate(self.clients):
            self._make_client(client, 10 + i)
        if self.stranger:
            self._make_stranger()
        for node in self.nodes:
            if self.rate_mbit:
                self._make_slow_wire(node)
            self._make_node_links(node)
            self.start_web(node, wait=False)
        for backend in self.backends:
            self._make_backend(backend)
            self.start_web(backend, wait=False)
        self.start_dns()
        for server in self.nodes + self.backends:
            self.wait_web(server)

    def down(self):
        """Removes everything. It may be called twice, and at any point of up()."""
        atexit.unregister(self.down)
        if self.directory is None and not os.path.exists(registry_path(self.site.prefix)):
            return
        if self.site.record["kept"]:
            return
        handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)} \
            if _is_main_thread() else {}
        try:
            self.site.remove()
            self.directory = None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def keep(self):
        """Leaves the cluster running when this process ends; "lab down" removes it."""
        self.site.keep()

    def _make_files(self):
        count, cap, seed = self.files
        self.file_root = os.path.join(self.directory, "files")
        listing = httpfiles.make_files(self.file_root, count, cap, seed)
        self.file_list = os.path.join(self.directory, "files.list")
        with open(self.file_list, "w", encoding="ascii") as file:
            file.write(listing)
        self.mean_request_bytes = httpfiles.mean_request_bytes(listing)

    def add_file(self, name, size_bytes):
        """Adds a file on all servers, which is asked for only by name; returns its path below file_root."""
        with open(self.file_list, "a", encoding="ascii") as file:
            file.write(httpfiles.add_file(self.file_root, name, size_bytes))
        return "/" + name

    # ---- hosts and links ----

    def _make_switch(self):
        self.site.sysctl("sw", {"net.ipv6.conf.default.disable_ipv6": 1, "net.ipv6.conf.all.disable_ipv6": 1})
        lines = []
        for bridge, network in (("clients", "client"), ("service", "service"), ("cluster", "cluster")):
            if bridge == "cluster" and self.layout == "one":
                continue
            lines += [f"link add {bridge} type bridge forward_delay 0 mcast_snooping 0",
                      f"link set {bridge} mtu {self.mtu[network]} up"]
        self.site.ip("sw", lines)
        self._make_inside_bridges()

    def _shape(self, interface):
        """The rate of a link in the switch's namespace, in the direction away from the switch."""
        run(["tc", "-n", self.site.name("sw"), "qdisc", "add", "dev", interface, "root", "tbf",
             "rate", f"{self.rate_mbit}mbit", "burst", "8kb", "latency", "50ms"])

    def _make_slow_wire(self, node):
        """A piece of wire (bridge and veth) between a node's port and the service bridge, whose far end drops packets
        that exceed the rate of the node's link. It is not a queue on the node itself: TCP learns of drops in its own
        host's queue, and then behaves differently than on a wire."""
        wire, ends = f"w-{node.name}", (f"{node.name}-in", f"{node.name}-out")
        mtu = self.mtu["service"]
        self.site.ip("sw", [f"link add {wire} type bridge forward_delay 0 mcast_snooping 0",
                            f"link add {ends[0]} mtu {mtu} type veth peer name {ends[1]} mtu {mtu}",
                            f"link set {ends[0]} master {wire}", f"link set {ends[1]} master service",
                            f"link set {ends[0]} up", f"link set {ends[1]} up", f"link set {wire} mtu {mtu} up"])
        self._shape(ends[0])

    def _link(self, host, interface, port, bridge, network, addresses):
        """Connects an interface of a host to a port of a bridge."""
        mtu = self.mtu[network]
        # A host keeps its hardware address when it reboots: neighbours remember it.
        hardware = ":".join(f"{byte:02x}" for byte in b"\x02" + hashlib.sha256(port.encode()).digest()[:5])
        self.site.ip(host, [f"link add {interface} address {hardware} mtu {mtu} type veth "
                            f"peer name {port} mtu {mtu} netns {self.site.name('sw')}"])
        self.site.ip("sw", [f"link set {port} master {bridge}", f"link set {port} up"])
        lines = ["link set lo up", f"link set {interface} up"]
        lines += [f"addr add {address} dev {interface}" + (" nodad" if ":" in address else "")
                  for address in addresses if self.ipv6 or ":" not in address]
        self.site.ip(host, lines)
        if not self.offload:
            flags = ["tso", "off", "gso", "off", "gro", "off", "tx", "off"]
            self.site.execute(host, ["ethtool", "-K", interface] + flags)
            self.site.execute("sw", ["ethtool", "-K", port] + flags)

    def steer(self, host):
        """Sends all packets of a connection to one processor, as a card with several queues does.

        Between namespaces the first packet of a connection and the next one may arrive on two processors at once.
        While one makes a full socket out of the half-open one, there is a moment in which the other finds neither
        (inet_ehash_insert() removes one before it adds the other) and answers with a reset. That hits about one
        connection in 100,000, also without dprd. When the SYN was answered with a cookie, both make a socket, and
        one of them is dropped.
        """
        mask = f"{(1 << min(os.cpu_count(), 32)) - 1:x}"
        self.site.execute(host, ["sh", "-c", "for to in /sys/class/net/eth*/queues/rx-*/rps_cpus; do "
                                 f"echo {mask} > $to || exit 1; done"])

    def _default_routes(self, host, v4, v6):
        lines = [f"route add default via {v4}"]
        if self.ipv6:
            lines.append(f"route add ::/0 via {v6}")
        self.site.ip(host, lines)

    def _make_router(self):
        self.site.sysctl("r", {**COMMON_SYSCTLS, **ROUTER_SYSCTLS})
        self._link("r", "eth0", "r", "service", "service", ["192.0.2.1/24", "2001:db8:a::1/64"])
        self._link("r", "eth1", "rc", "clients", "client", ["203.0.113.1/24", "2001:db8:c::1/64"])

    def _make_client(self, client, host):
        self.site.sysctl(client, {**COMMON_SYSCTLS, **CLIENT_SYSCTLS})
        self._link(client, "eth0", client, "clients", "client", [f"203.0.113.{host}/24", f"2001:db8:c::{host}/64"])
        self._default_routes(client, "203.0.113.1", "2001:db8:c::1")
        self.site.etc_file(client, "resolv.conf", "nameserver 203.0.113.1\noptions timeout:1 attempts:2\n")
        if os.path.exists("/etc/nsswitch.conf"):
            self.site.etc_file(client, "nsswitch.conf", "hosts: files dns\n")

    def _make_stranger(self):
        """A host on the nodes' networks that is not a member of the cluster."""
        self.site.sysctl("x", {**COMMON_SYSCTLS, **NODE_SYSCTLS})
        self._link("x", "eth0", "x", "service", "service", ["192.0.2.200/24", "2001:db8:a::200/64"])
        if self.layout == "own":
            self._link("x", "eth1", "xc", "cluster", "cluster", ["10.80.0.200/24", "fd80::200/64"])
        self._default_routes("x", "192.0.2.1", "2001:db8:a::1")

    def _tune_server(self, host):
        self.site.sysctl(host, {**COMMON_SYSCTLS, **NODE_SYSCTLS})

    def _make_node_links(self, node):
        self._tune_server(node.name)
        self._link(node.name, "eth0", node.name, f"w-{node.name}" if self.rate_mbit else "service", "service",
                   [f"{node.service_v4}/24", f"{node.service_v6}/64"])
        if self.layout == "own":
            self._link(node.name, "eth1", node.name + "c", "cluster", "cluster",
                       [f"{node.cluster_v4}/24", f"{node.cluster_v6}/64"])
        self._make_inside_link(node)
        self._default_routes(node.name, "192.0.2.1", "2001:db8:a::1")
        if self.rate_mbit:
            self._shape(node.name)
            self.steer(node.name)

    def unplug(self, which):
        """Removes the node's interfaces, as when a driver is unloaded, with their addresses and routes."""
        node = self.node(which)
        self.site.ip("sw", [f"link delete {port}" for port in
                            [node.name] + ([node.name + "c"] if self.layout == "own" else []) + self._inside_ports(node)])

    def plug(self, which):
        """Adds the interfaces again, with other numbers."""
        self._make_node_links(self.node(which))

    def node(self, which):
        """Returns the node (or real server) of this name; a node is returned as it is."""
        if not isinstance(which, str):
            return which
        for node in self.nodes + self.backends:
            if node.name == which:
                return node
        raise LabError(f"{which}: no such node")

    def node_by_address(self, address):
        """The node that owns a service address; None when no node does."""
        for node in self.nodes:
            if address in (node.service_v4, node.service_v6):
                return node
        return None

    def kill_host(self, which):
        """Kills a host at once: its kernel sends nothing, not even RST, and no socket, rule or map is left."""
        node = self.node(which)
        ports = [node.name] + ([node.name + "c"] if self.layout == "own" else []) + self._inside_ports(node)
        self.site.ip("sw", [f"link set {port} down" for port in ports])
        node.alive = False
        for pid in self.site.pids(node.name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.site.ip("sw", [f"link delete {port}" for port in ports])
        deadline = time.monotonic() + 5
        while self.site.pids(node.name) and time.monotonic() < deadline:
            time.sleep(0.01)
        run(["ip", "netns", "delete", self.site.name(node.name)])
        unmount_bpf(node.bpf_mount)
        self.site.reap()
        self.daemons = {key: child for key, child in self.daemons.items() if key[0] != node.name}

    def restart_host(self, which, with_daemons=True):
        """Boots the host of kill_host() again: links, servers and (if they ran) the daemons."""
        node = self.node(which)
        run(["ip", "netns", "add", self.site.name(node.name)])
        self.site.mount_bpf(node.bpf_mount)
        self._make_node_links(node)
        node.alive = True
        for left in ("run", "table"):
            path = os.path.join(node.directory, left)
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)
        self.start_web(node)
        if with_daemons:
            self.start_node_daemons(node)

    def program(self, path):
        """The path of a built program; the error tells how to build it when it is missing."""
        full = os.path.join(self.build, path)
        if not os.access(full, os.X_OK):
            raise LabError(f"{full} is missing: run make first")
        return full


def exit_on_signals():
    """Makes SIGTERM end the program as Ctrl-C does, with everything removed."""
    def leave(number, _frame):
        sys.exit(128 + number)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)


def _is_main_thread():
    return threading.current_thread() is threading.main_thread()
