# SPDX-License-Identifier: GPL-2.0-or-later
"""The hosts of the kernel benchmark, and the ways from the client through the director to the server.

              10.1.0.0/24             10.2.0.0/24
    client ----------------- director ----------------- server
      |  eth0           eth0          eth1         eth0    |  eth1
      +----------------------------------------------------+
                       10.3.0.0/24: answers that need not pass the director

Each measurement has new hosts, so that the remains of a path do not disturb the next one.
"""
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

from daemons import Daemons
from netns import LabError, Site, run
from servers import NGINX_CONF

SERVICE, SERVER_SERVICE, CLIENT = "192.0.2.1", "192.0.2.2", "203.0.113.10"
DIRECTOR, SERVER = "10.2.0.1", "10.2.0.2"
# A number of tries, not a time: the guest's clock runs ahead while the guest waits for a file of this host.
POLLS_MAX = 600
POLL_S = 0.5
LEASE_MS = 3_600_000
SHARED_MAC = "01:00:5e:00:02:01"  # RFC 1112
SYSCTLS = {
    "net.ipv4.tcp_congestion_control": "reno", "net.core.somaxconn": 4096, "net.ipv4.tcp_max_syn_backlog": 4096,
    "net.ipv4.ip_local_port_range": "1024 65535", "net.ipv4.tcp_tw_reuse": 1,
    "net.ipv4.conf.all.rp_filter": 0, "net.ipv4.conf.default.rp_filter": 0,
    "net.ipv4.conf.all.arp_ignore": 1, "net.ipv4.conf.all.arp_announce": 2,
    "net.ipv6.conf.all.disable_ipv6": 1, "net.ipv6.conf.default.disable_ipv6": 1,
}
ROUTER_SYSCTLS = {"net.ipv4.ip_forward": 1, "net.ipv4.conf.all.send_redirects": 0,
                  "net.ipv4.conf.default.send_redirects": 0}
_serial = itertools.count(1)


class Hosts:
    """The three of them, raised by "with"."""

    def __init__(self, programs):
        self.programs = programs
        self.site = Site(f"kb{next(_serial)}")
        self.directory = None
        self.balanced = None

    def __enter__(self):
        try:
            self._up()
        except BaseException:
            self.site.remove()
            raise
        return self

    def __exit__(self, *_):
        self.site.remove()

    def _up(self):
        self.directory = tempfile.mkdtemp(prefix="kernel-bench-")
        os.chmod(self.directory, 0o755)
        self.site.record["directory"] = self.directory
        self.site.add_namespaces(["client", "director", "server"])
        for host in ("client", "director", "server"):
            self.site.sysctl(host, {**SYSCTLS, **(ROUTER_SYSCTLS if host == "director" else {})})
        self._link("client", "eth0", "director", "eth0")
        self._link("director", "eth1", "server", "eth0")
        self._link("client", "eth1", "server", "eth1")
        self.site.ip("client", ["link set lo up", f"addr add {CLIENT}/32 dev lo", "addr add 10.1.0.10/24 dev eth0",
                                "addr add 10.3.0.10/24 dev eth1",
                                f"route add {SERVICE} via 10.1.0.1 src {CLIENT}"])
        self.site.ip("director", ["link set lo up", "addr add 10.1.0.1/24 dev eth0", f"addr add {DIRECTOR}/24 dev eth1",
                                  f"route add {CLIENT} via 10.1.0.10"])
        self.site.ip("server", ["link set lo up", f"addr add {SERVER}/24 dev eth0", "addr add 10.3.0.2/24 dev eth1",
                                f"route add {CLIENT} via 10.3.0.10"])

    def _link(self, host, interface, other, other_interface):
        self.site.ip(host, [f"link add {interface} type veth peer name {other_interface} netns {self.site.name(other)}",
                            f"link set {interface} up"])
        self.site.ip(other, [f"link set {other_interface} up"])

    def program(self, path):
        """Programs of this project and others by their last name: copies in memory."""
        return os.path.join(self.programs, os.path.basename(path))

    def hardware_address(self, host, interface):
        return json.loads(run(["ip", "-n", self.site.name(host), "-j", "link", "show", interface]))[0]["address"]

    def shared(self, *words):
        """Asks or tells the module of the director."""
        return self.site.execute("director", [self.program("biactive-tool"), *words])

    def start_web(self, host):
        directory = os.path.join(self.directory, host)
        os.makedirs(directory, exist_ok=True)
        conf, log = os.path.join(directory, "nginx.conf"), os.path.join(directory, "nginx.log")
        with open(conf, "w", encoding="ascii") as file:
            file.write(NGINX_CONF.format(directory=directory, name=host, files=directory, keepalive=0))
        self.site.start(host, [self.program("nginx"), "-e", log, "-c", conf, "-p", directory], log)

    def who_answers(self):
        """The host that answers a request to the service; None while no host does."""
        try:
            with self.site.connect("client", SERVICE, 80, 5) as made:
                made.sendall(b"GET /whoami HTTP/1.0\r\n\r\n")
                answer = b""
                while part := made.recv(4096):
                    answer += part
            return answer.split()[-1].decode()
        except (OSError, IndexError):
            return None

    def wait_answer(self, host):
        for _ in range(POLLS_MAX):
            answer = self.who_answers()
            if answer == host:
                return
            time.sleep(POLL_S)
        raise LabError(f"{answer or 'nobody'} answers, not {host}")


# ---- ways from the client to the server; each raises what is special about it ----

def direct(hosts, _):
    hosts.site.ip("client", [f"route replace {SERVICE} via 10.3.0.2 src {CLIENT}"])
    hosts.site.ip("server", [f"addr add {SERVICE}/32 dev lo"])


def routing(hosts, _):
    hosts.site.ip("director", [f"route add {SERVICE} via {SERVER}"])
    hosts.site.ip("server", [f"addr add {SERVICE}/32 dev lo"])


def _ipvs(hosts, method):
    hosts.site.ip("director", [f"addr add {SERVICE}/32 dev lo"])
    service = f"{SERVICE}:80"
    hosts.site.execute("director", ["ipvsadm", "-A", "-t", service, "-s", "rr"])
    hosts.site.execute("director", ["ipvsadm", "-a", "-t", service, "-r", f"{SERVER}:80", method])


def ipvs_dr(hosts, _):
    hosts.site.ip("server", [f"addr add {SERVICE}/32 dev lo"])
    _ipvs(hosts, "--gatewaying")


def ipvs_tun(hosts, _):
    run(["modprobe", "ipip"])
    hosts.site.ip("server", ["link set tunl0 up", f"addr add {SERVICE}/32 dev tunl0"])
    _ipvs(hosts, "--ipip")


def ipvs_nat(hosts, _):
    hosts.site.ip("server", [f"route replace {CLIENT} via {DIRECTOR}"])
    _ipvs(hosts, "--masquerading")


def fastpath(hosts, _):
    """The counterpart of IPVS DR: a packet only gets another hardware address."""
    hosts.site.ip("server", [f"addr add {SERVICE}/32 dev lo"])
    Director(hosts, "direct").up()


def kernel_decision(hosts, _):
    """The same, and the programs also decide SYNs."""
    hosts.site.ip("server", [f"addr add {SERVICE}/32 dev lo"])
    director = Director(hosts, "direct")
    director.set_config("Datapath", "Decide", "kernel")
    director.up()


def fastpath_nat(hosts, _):
    hosts.site.ip("server", [f"route replace {CLIENT} via {DIRECTOR}"])
    Director(hosts, "nat").up()


def fastpath_tunnel(hosts, only_packets):
    """From node to node, as dprd forwards to its peers."""
    Balanced(hosts, "bpf", only_packets).up()


def queue(hosts, only_packets):
    Balanced(hosts, "nfqueue", only_packets).up()


def module(hosts, only_packets):
    """The director has a shared address and the module. For packets only, the other node has all of the share."""
    hosts.site.ip("director", [f"addr add {SERVICE}/32 dev eth0"])
    hosts.site.ip("client", [f"route replace {SERVICE} dev eth0 src {CLIENT}"])
    hosts.shared("set", "eth0", "early", "00112233445566778899aabbccddeeff", "0", SERVICE)
    hosts.shared("lease", str(LEASE_MS), "1", "2" if only_packets else "1")
    if not only_packets:
        hosts.start_web("director")


class Node:
    """One of the two nodes, with the names that Daemons asks for."""

    def __init__(self, name, directory, service_v4, cluster_v4, plane):
        self.name, self.directory = name, os.path.join(directory, name)
        self.service_v4, self.cluster_v4, self.plane = service_v4, cluster_v4, plane
        self.bpf_mount = os.path.join(self.directory, "bpf")
        self.pins = os.path.join(self.bpf_mount, "dprd")
        self.alive = True


class Balanced(Daemons):
    """dprd on the director and the server; the director is drained: it forwards every connection. For packets only, the
    server has no BPF programs: their work must not be measured, and they would run before the sink."""

    layout, ipv6, decide = "own", False, {"Decide": "queue"}

    def __init__(self, hosts, plane, only_packets):
        self.hosts, self.plane = hosts, plane
        self.site, self.program, self.directory = hosts.site, hosts.program, hosts.directory
        self.daemons, self.overrides, self.loaded = {}, {}, {}
        self.nodes = [Node("director", self.directory, SERVICE, DIRECTOR, plane),
                      Node("server", self.directory, SERVER_SERVICE, SERVER, "nfqueue" if only_packets else plane)]
        hosts.balanced = self

    def node(self, which):
        return next((node for node in self.nodes if which in (node, node.name)), None)

    def configure(self):
        self.set_config("Service", "Port", 80)
        self.set_config("Balance", "Policy", "random")
        self.set_config("Queue", "Workers", 1)
        # The guard against floods would serve here connections that must be forwarded.
        self.set_config("Flows", "MaxNewFlowsPerSecond", 10_000_000)
        self.set_config("Flows", "MaxFlows", 65_536)
        self.set_config("Flows", "MaxHalfOpen", 32_768)
        self.set_config("Flows", "FinTimeout", "2s")
        self.set_config("Flows", "RstTimeout", "2s")

    def up(self):
        self.configure()
        for node, interface in zip(self.nodes, ("eth0", "eth1")):
            os.makedirs(node.directory, exist_ok=True)
            self.site.mount_bpf(node.bpf_mount)
            self.site.ip(node.name, [f"addr add {node.service_v4}/32 dev {interface}"])
            self.set_config("Datapath", "Plane", node.plane, node)
            self.hosts.start_web(node.name)
        for node in self.nodes:
            self.start_node_daemons(node)
        for node in self.nodes:
            self._wait(node)
        self.dprctl("director", "drain")
        self.hosts.wait_answer("server")

    def _wait(self, node):
        """An emulated kernel is slow with the programs, and asking often keeps it from its work."""
        for _ in range(POLLS_MAX):
            if self._runs(node):
                return
            time.sleep(POLL_S)
        raise LabError(f"dprd of {node.name} does not answer: {self.log_text(node, 'dprd')[-500:].strip()}")

    def _runs(self, node):
        if not self.daemon_alive(node, "dprd"):
            raise LabError(f"dprd of {node.name} ended at its start: {self.log_text(node, 'dprd')[-500:].strip()}")
        if not os.path.exists(os.path.join(node.directory, "run", "control")):
            return False
        status = self.status(node) or {}
        if "datapath" not in status:  # it does not answer yet, or with an error
            return False
        if status["datapath"] != node.plane:
            raise LabError(f"dprd of {node.name} has plane {status['datapath']}: {status['datapath_why']}")
        return True


class Director(Balanced):
    """dprd only on the director, which serves nothing itself and has the server behind it."""

    def __init__(self, hosts, form):
        super().__init__(hosts, "bpf", False)
        self.form = form
        del self.nodes[1]

    def backend_lines(self):
        return ["[Backends]", "Policy=rr", "ServeHere=no", '[Backend "server"]', f"Form={self.form}",
                f"Address={SERVER}"]

    def up(self):
        node = self.nodes[0]
        self.configure()
        # The sink takes the checks' packets as well.
        self.set_config("Health", "Check", "none")
        self.set_config("Datapath", "Plane", node.plane, node)
        os.makedirs(node.directory, exist_ok=True)
        self.site.mount_bpf(node.bpf_mount)
        self.site.ip(node.name, [f"addr add {node.service_v4}/32 dev eth0"])
        self.hosts.start_web("server")
        self.start_node_daemons(node)
        self._wait(node)
        self.hosts.wait_answer("server")


def copy_programs(paths):
    """Copies the programs into memory, and reads their libraries into the cache: a guest whose clock does not wait for
    files must not wait for them while it measures. Returns the directory."""
    directory = tempfile.mkdtemp(prefix="programs-")
    os.chmod(directory, 0o755)
    libraries = set()
    for path in paths:
        full = path if "/" in path else shutil.which(path)
        if not full or not os.access(full, os.X_OK):
            raise LabError(f"{path} is missing")
        shutil.copy(full, directory)
        text = subprocess.run(["ldd", full], capture_output=True, text=True, check=False).stdout
        libraries.update(word for word in text.split() if word.startswith("/"))
    for library in libraries:
        with open(library, "rb") as file:
            file.read()
    return directory
