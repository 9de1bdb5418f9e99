# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults of one node that its announcements do not show: a filter, a route, a web server that stands still.

    with waylib.TunnelFiltered(cluster, "n2", random.Random(seed)) as fault:
        ...
        assert fault.took_effect()

The dice choose what a kind of fault leaves open, such as the family. places() names the nodes that can have a fault in
this cluster; why_not() gives the reason when there are none. Two kinds need a node that was prepared: boxed() and
bridged().
"""
import contextlib
import os
import signal

import bpf
from containers import box_of, containers, publish, start_server
from faultlib import members, wait_for
from netns import start_time, stop_processes
from traffic import FAMILIES, hardware, rules, service, tunnel_address

TUNNEL = {"v4": "ip protocol 4", "v6": "ip6 nexthdr 41"}
BITS = {"v4": 32, "v6": 128}
PREFIX = {"v4": 24, "v6": 64}
STRANGER = {"own": {"v4": "10.80.0.200", "v6": "fd80::200"}, "one": {"v4": "192.0.2.200", "v6": "2001:db8:a::200"}}
ROUTERS = {"v4": "default via 192.0.2.1", "v6": "::/0 via 2001:db8:a::1"}
WEB_PORT, ECHO_PORTS = 80, (8080, 8081)
BRIDGE_FILTERS = "/proc/sys/net/bridge"
# Strict reverse paths for both families, as firewalld has them for IPv6.
STRICT = ['iifname "lo" accept', "meta l4proto ipv6-icmp accept", "fib saddr . mark . iif oif missing counter drop"]
AFTER_FILTERS = 10  # firewalld's priority


class Fault:
    """One fault of one node. Connections to these families and ports of other nodes meet it."""

    kind = ""
    families, ports = FAMILIES, (WEB_PORT, *ECHO_PORTS)
    own_server = False  # the node's own server fails: its connections may break, those to it may fail until it is noticed

    def __init__(self, cluster, which, dice):
        self.cluster, self.node, self.dice = cluster, cluster.node(which), dice
        self.held = contextlib.ExitStack()  # ends the fault

    @classmethod
    def places(cls, cluster):
        return [] if cls.why_not(cluster) else [node.name for node in cluster.nodes]

    @classmethod
    def why_not(cls, _cluster):
        return None

    def entries(self):
        """The names of the nodes whose clients' connections meet the fault."""
        return [node.name for node in self.cluster.nodes if node is not self.node]

    def inject(self):
        raise NotImplementedError

    def heal(self):
        self.held.close()

    def took_effect(self):
        """True when the fault is there; for a filter, when it has dropped a packet. Asked before it is healed."""
        raise NotImplementedError

    def __enter__(self):
        try:
            self.inject()
        except BaseException:
            self.heal()
            raise
        return self

    def __exit__(self, *_):
        self.heal()

    def __str__(self):
        return f"{self.kind} at {self.node.name} ({' '.join(self.families)})"

    def interface(self):
        """The interface to the cluster's network."""
        return "eth1" if self.cluster.layout == "own" else "eth0"


# ---- the network ----

class TunnelFiltered(Fault):
    kind = "tunnel filtered"

    def __init__(self, *about):
        super().__init__(*about)
        self.families = self.dice.choice((("v4",), ("v6",), FAMILIES))

    def inject(self):
        for family in self.families:
            self.cluster.lose(self.node, TUNNEL[family])

    def heal(self):
        self.cluster.heal(self.node)

    def took_effect(self):
        return sum(self.cluster.lost(self.node)) > 0


class FamilyLost(TunnelFiltered):
    """Nothing of one family comes from the other nodes any more, and of the announcements only those of the other one."""

    kind = "family lost"

    def __init__(self, *about):
        super().__init__(*about)
        self.families = (self.dice.choice(FAMILIES),)

    def inject(self):
        for family in self.families:
            others = [tunnel_address(node, family) for node in self.cluster.nodes if node is not self.node]
            self.cluster.lose(self.node, f"{'ip6' if family == 'v6' else 'ip'} saddr {{ {', '.join(others)} }}")


class WrongRoute(Fault):
    """At one other node, the route to the node leads to a host that does not pass packets on."""

    kind = "wrong route"

    def __init__(self, *about):
        super().__init__(*about)
        self.families = (self.dice.choice(FAMILIES),)
        self.entry = self.dice.choice(super().entries())

    @classmethod
    def why_not(cls, cluster):
        return None if cluster.stranger else "the cluster has no host that is no member"

    def entries(self):
        return [self.entry]

    def _route(self, verb):
        return [f"route {verb} {tunnel_address(self.node, family)}/{BITS[family]} via "
                f"{STRANGER[self.cluster.layout][family]} dev {self.interface()}" for family in self.families]

    def inject(self):
        self.cluster.site.ip(self.entry, self._route("replace"))

    def heal(self):
        self.cluster.site.ip(self.entry, self._route("del"))

    def took_effect(self):
        return all(STRANGER[self.cluster.layout][family] in self.cluster.site.ask(
            self.entry, ["ip", "route", "get", tunnel_address(self.node, family)]) for family in self.families)

    def __str__(self):
        return f"{super().__str__()} from {self.entry}"


class StrictReversePath(Fault):
    kind = "strict rpf"
    dropped = None

    @classmethod
    def why_not(cls, cluster):
        return None if cluster.layout == "own" else "with one network the way back to a client is the way it came"

    def inject(self):
        self.dropped = self.held.enter_context(rules(self.cluster, self.node.name, STRICT, "prerouting", "lab_strict",
                                                     AFTER_FILTERS))

    def took_effect(self):
        return self.dropped() > 0


class ProgramInFront(Fault):
    """Another tcx program accepts all packets of the cluster's network before dprd's program sees them."""

    kind = "program in front"

    @classmethod
    def why_not(cls, cluster):
        return None if cluster.plane == "bpf" else "the nfqueue plane has no programs"

    def inject(self):
        with self.cluster.site.inside(self.node.name):
            self.held.enter_context(bpf.accepting(self.interface(), first=True))

    def took_effect(self):
        mine = [line for line in bpf.attached(self.cluster.site, self.node.name)
                if line.startswith(f"{self.interface()} ingress")]
        return len(mine) > 1


class AddressLost(Fault):
    """The node loses its address of one family on the cluster's network, and gets it back, with its default route."""

    kind = "address lost"

    def __init__(self, *about):
        super().__init__(*about)
        self.families = (self.dice.choice(FAMILIES),)

    @classmethod
    def why_not(cls, cluster):
        return None if cluster.layout == "own" else "a node of one address would lose its clients with it"

    def replacement(self, _family):
        return None

    def _change(self, verb, family, address):
        if address:
            self.cluster.site.ip(self.node.name, [
                f"addr {verb} {address}/{PREFIX[family]} dev {self.interface()}" + " nodad" * (family == "v6" and verb == "add")])

    def inject(self):
        for family in self.families:
            self._change("del", family, tunnel_address(self.node, family))
            self._change("add", family, self.replacement(family))

    def heal(self):
        for family in self.families:
            self._change("del", family, self.replacement(family))
            self._change("add", family, tunnel_address(self.node, family))
            if self.cluster.layout == "one":
                self.cluster.site.ip(self.node.name, [f"route replace {ROUTERS[family]}"])

    def took_effect(self):
        said = self.cluster.site.ask(self.node.name, ["ip", "-o", "addr", "show", "dev", self.interface()])
        return not any(f" {tunnel_address(self.node, family)}/" in said for family in self.families)


class AddressReplaced(AddressLost):
    """It gets another address instead, as by DHCP, and its neighbours forget the former one."""

    kind = "address replaced"

    def replacement(self, family):
        number = 100 + self.node.number
        return f"10.80.0.{number}" if family == "v4" else f"fd80::{number}"

    def inject(self):
        super().inject()
        for name in self.entries():
            for family in self.families:
                self.cluster.site.ask(name, ["ip", f"-{family[1]}", "neigh", "flush", "dev", self.interface()])


class BridgeNetfilter(Fault):
    """Netfilter of bridges is switched on at a node whose service addresses are on a bridge. All is served all the same."""

    kind = "br_netfilter on"

    @classmethod
    def why_not(cls, cluster):
        if not os.path.isdir(BRIDGE_FILTERS):
            return "the kernel has no br_netfilter"
        return None if getattr(cluster, "bridged_nodes", None) else "no node has its addresses on a bridge"

    @classmethod
    def places(cls, cluster):
        return [] if cls.why_not(cluster) else cluster.bridged_nodes

    def inject(self):
        set_bridge_netfilter(self.cluster, self.node, 1)

    def heal(self):
        set_bridge_netfilter(self.cluster, self.node, 0)

    def took_effect(self):
        return self.cluster.site.ask(self.node.name, ["sysctl", "-n", "net.bridge.bridge-nf-call-iptables"]).strip() == "1"


def set_bridge_netfilter(cluster, node, value):
    cluster.site.execute(node.name, ["sysctl", "-qw", f"net.bridge.bridge-nf-call-iptables={value}",
                                     f"net.bridge.bridge-nf-call-ip6tables={value}"])


def bridged(cluster, which):
    """Puts a node's service addresses on a bridge of which eth0 is a port. To be called before its daemons start."""
    node = cluster.node(which)
    cluster.site.ip(node.name, [
        f"link add br0 address {hardware(cluster, node.name, 'eth0')} type bridge forward_delay 0 mcast_snooping 0",
        "link set br0 up", "addr flush dev eth0 scope global", "link set eth0 master br0",
        f"addr add {node.service_v4}/24 dev br0", f"addr add {node.service_v6}/64 dev br0 nodad",
        *(f"route replace {route}" for route in ROUTERS.values())])
    set_bridge_netfilter(cluster, node, 0)
    cluster.bridged_nodes = getattr(cluster, "bridged_nodes", []) + [node.name]


# ---- the configuration ----

class PortRolled(Fault):
    """The node's file lacks the port 8080, as in the middle of a change node by node."""

    kind, ports = "port rolled", (ECHO_PORTS[0],)

    def inject(self):
        self._reload({"Port": "80 8081"})

    def heal(self):
        self._reload(None)

    def _reload(self, service_keys):
        own = self.cluster.overrides.setdefault(self.node.name, {})
        own.pop("Service", None)
        if service_keys:
            own["Service"] = service_keys
        self.cluster.write_config(self.node)
        self.cluster.dprctl(self.node, "reload")

    def took_effect(self):
        return "8080" not in self.cluster.dprctl(self.node, "config")


# ---- web servers ----

class ServerHung(Fault):
    """nginx stands still: the kernel goes on accepting its connections."""

    kind, ports, own_server = "server hung", (WEB_PORT,), True

    def processes(self):
        pid = self.cluster.webs[self.node.name][0].pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [pid] + [int(word) for word in file.read().split()]

    def inject(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGSTOP)

    def heal(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGCONT)

    def took_effect(self):
        with contextlib.ExitStack() as stack:
            states = [stack.enter_context(open(f"/proc/{pid}/stat", encoding="ascii")).read().rpartition(")")[2].split()[0]
                      for pid in self.processes()]
        return set(states) == {"T"}


class ServerFailing(Fault):
    """nginx answers every request with the status 500, at once."""

    kind, ports, own_server = "server failing", (WEB_PORT,), True

    def _configure(self, *changes):
        self.cluster.configure_nginx(self.node, *changes)
        os.kill(self.cluster.webs[self.node.name][0].pid, signal.SIGHUP)

    def inject(self):
        self._configure(("location = /whoami {", "location = /whoami {\nreturn 500;"),
                        ("location / {", "location / {\nreturn 500;"))
        wait_for(self.took_effect, "nginx fails", 5)

    def heal(self):
        self._configure()

    def took_effect(self):
        with self.cluster.site.connect(self.node.name, "127.0.0.1", WEB_PORT, 5) as made:
            made.sendall(b"GET /whoami HTTP/1.0\r\n\r\n")
            return made.recv(12).endswith(b"500")


class ServerBoundElsewhere(Fault):
    """nginx starts anew and listens on the node's own addresses only."""

    kind, ports, own_server = "server bound elsewhere", (WEB_PORT,), True

    def _restart(self, *changes):
        webs = self.cluster.webs[self.node.name]
        stop_processes([(webs[0].pid, start_time(webs[0].pid))], self.cluster.site.children)
        self.cluster.site.reap()
        webs[0] = self.cluster.start_nginx(self.node, *changes)
        self.cluster.wait_web(self.node)

    def inject(self):
        self._restart(("listen 80 ", f"listen {self.node.service_v4}:80 "),
                      ("listen [::]:80 ", f"listen [{self.node.service_v6}]:80 "))

    def heal(self):
        self._restart()

    def took_effect(self):
        bound = self.cluster.site.ask(self.node.name, ["ss", "-Hltn", "sport = :80"])
        return f"{service(self.node, 'v4')}:80 " in bound and "0.0.0.0:80 " not in bound


class ContainerRestarts(Fault):
    """The container with the node's echo server stops and starts again, and with it docker's proxy on the node."""

    kind, ports, own_server = "container restarts", ECHO_PORTS, True

    @classmethod
    def why_not(cls, cluster):
        return None if getattr(cluster, "boxed_nodes", None) else "no node has its server in a container"

    @classmethod
    def places(cls, cluster):
        return [] if cls.why_not(cluster) else list(cluster.boxed_nodes)

    def inject(self):
        gone = (self.cluster.boxed_nodes[self.node.name], self.cluster.webs[self.node.name][1])
        stop_processes([(child.pid, start_time(child.pid)) for child in gone], self.cluster.site.children)
        self.cluster.site.reap()

    def heal(self):
        self.cluster.webs[self.node.name][1] = self.cluster.start_echo(self.node)
        self.cluster.boxed_nodes[self.node.name] = start_server(self.cluster, self.node, box_log(self.cluster, self.node))

    def took_effect(self):
        return self.cluster.boxed_nodes[self.node.name].poll() is not None


def box_log(cluster, node):
    return os.path.join(cluster.directory, box_of(node) + ".log")


@contextlib.contextmanager
def boxed(cluster, which):
    """During the block a container on the node has its echo server, with published ports."""
    node = cluster.node(which)
    with containers(cluster, [node]):
        cluster.boxed_nodes = {node.name: publish(cluster, node, ECHO_PORTS, box_log(cluster, node))}
        yield


KINDS = (TunnelFiltered, FamilyLost, WrongRoute, StrictReversePath, ProgramInFront, BridgeNetfilter, AddressReplaced,
         AddressLost, ContainerRestarts, PortRolled, ServerHung, ServerFailing, ServerBoundElsewhere)


def is_choice(cluster, entry, node, families=FAMILIES, ports=()):
    """True when an entry node sends connections of these families and ports to another node, as far as it tells."""
    member = members(cluster, entry).get(node.name)
    return bool(member and member["eligible"] and not set(member["ports_down"]) & set(ports) and
                not any(member[f"answers_{family}"] is False for family in families))
