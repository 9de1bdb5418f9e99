# SPDX-License-Identifier: GPL-2.0-or-later
"""Connections per second against the number of servers: clients at all servers directly, all at one node with
dprd, and all at a central NAT director through which the answers go back, too. After Haddad and Pourzandi,
"Linux on Carrier Grade Web Servers" (2001): eight servers did 7,116 connections/s directly, and 1,790 behind LVS-NAT.

                            +-- wire -- eth0 n1  eth1 --+
    clients -- router ------+-- wire -- eth0 ..  eth1 --+  cluster network, not shaped
              192.0.2.0/24  +-- wire -- eth0 nat eth1 --+  10.80.0.0/24

The director, host nat, is a stand-in for IPVS: nft's dnat, in turn, to the servers' addresses on the network
behind it. They answer the clients' addresses by way of the director.
"""
import json
import os
import subprocess
from types import SimpleNamespace

import stats
from cluster import COMMON_SYSCTLS, NODE_SYSCTLS, ROUTER_SYSCTLS
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines
from netns import LabError, run
from sitelab import SurgeCluster, Window

PORT = 8090
DIRECTOR = "nat"
DIRECTOR_V4, DIRECTOR_INSIDE_V4 = "192.0.2.9", "10.80.0.9"
CLIENTS_V4 = "203.0.113.0/24"
BACK_TABLE = 100
# Connections that ended need not be remembered for the kernel's two minutes.
CONNTRACK_TIME_WAIT_S = 10
GENERATOR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "closedloop.py")

DIRECT, DPRD = "direct", "dprd"
NARROW, WIDE = "nft dnat for IPVS", "nft dnat for IPVS, wide wire"
WAYS = (DIRECT, DPRD, WIDE, NARROW)
PAPER = {"servers": 8, "direct": 7116, "director": 1790}


def arm_name(way, count):
    return f"{way}, {count}"


def director_rules(addresses):
    """nft's text: new connections to the director's address go to these in turn."""
    places = ", ".join(f"{i} : {address}" for i, address in enumerate(addresses))
    return (f"table ip director {{}}\nflush table ip director\ntable ip director {{\n"
            f"\tchain prerouting {{\n\t\ttype nat hook prerouting priority dstnat;\n"
            f"\t\tip daddr {DIRECTOR_V4} tcp dport {PORT} dnat to numgen inc mod {len(addresses)} map {{ {places} }}\n"
            "\t}\n}\n")


def parse_sent(text):
    """{interface: bytes sent} of a /proc/PID/net/dev."""
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name.strip(): int(numbers.split()[8]) for name, _, numbers in lines}


class DirectorCluster(SurgeCluster):
    """A cluster of which the first nodes are used, with a server of fixed capacity on each, and a director."""

    def up(self):
        super().up()
        self.all_nodes, self.unclean = self.nodes, False
        self.set_config("Service", "Port", str(PORT))
        self.set_config("Health", "Port", "80")
        self._make_director()
        words = ["/usr/bin/python3", GENERATOR, "serve", str(PORT)]
        words += [f"{self.site.name(node.name)}={node.name}" for node in self.nodes]
        self.server = self.site.start("sw", words, os.path.join(self.directory, "servers.log"), stdout=subprocess.PIPE)
        if self.server.stdout.readline() != b"ready\n":
            raise LabError(f"the servers did not start; see {self.directory}/servers.log")

    def _make_director(self):
        """A host with a wire like a node's; answers of inside addresses to clients go back through it."""
        self.site.add_namespaces([DIRECTOR])
        self.site.sysctl(DIRECTOR, {**COMMON_SYSCTLS, **NODE_SYSCTLS, **ROUTER_SYSCTLS})
        self._make_slow_wire(SimpleNamespace(name=DIRECTOR))
        self._link(DIRECTOR, "eth0", DIRECTOR, f"w-{DIRECTOR}", "service", [f"{DIRECTOR_V4}/24"])
        self._link(DIRECTOR, "eth1", DIRECTOR + "c", "cluster", "cluster", [f"{DIRECTOR_INSIDE_V4}/24"])
        self._default_routes(DIRECTOR, "192.0.2.1", None)
        self._shape(DIRECTOR)
        for node in self.nodes:
            self.site.ip(node.name, [f"route add default via {DIRECTOR_INSIDE_V4} table {BACK_TABLE}",
                                     f"rule add from {node.cluster_v4} to {CLIENTS_V4} lookup {BACK_TABLE}"])

    def use(self, count):
        """Makes the first nodes the cluster; no dprd runs, and nothing of one is left."""
        self.stop_daemons()
        for node in self.nodes if self.unclean else ():
            self.site.execute(node.name, [self.program("bin/dprd"), "-c", self.config_path(node), "--node", node.name,
                                          "--purge"])
        self.unclean = False
        self.nodes = self.all_nodes[:count]

    def prepare(self, way, policy, period, max_load):
        """Prepares a run; returns the addresses for the clients, in turn."""
        if way == DIRECT:
            self.note_idle_sockets()
            return [node.service_v4 for node in self.nodes]
        if way == DPRD:
            self.unclean = True
            self.fresh_daemons(policy, period, MaxLoad=max_load)
            return [self.nodes[0].service_v4]
        self.note_idle_sockets()
        self._set_director_wire(self.rate_mbit * (len(self.nodes) if way == WIDE else 1))
        self.site.execute(DIRECTOR, ["nft", "-f", "-"], text_in=director_rules([n.cluster_v4 for n in self.nodes]))
        self.site.sysctl(DIRECTOR, {"net.netfilter.nf_conntrack_tcp_timeout_time_wait": CONNTRACK_TIME_WAIT_S})
        return [DIRECTOR_V4]

    def _set_director_wire(self, rate_mbit):
        for interface in (f"{DIRECTOR}-in", DIRECTOR):
            run(["tc", "-n", self.site.name("sw"), "qdisc", "replace", "dev", interface, "root", "tbf",
                 "rate", f"{rate_mbit}mbit", "burst", "8kb", "latency", "50ms"])

    def sent_bytes(self):
        """{interface of the switch: bytes that it sent}: NAME-in has what host NAME sent over its wire, NAME
        what came to it."""
        with open(f"/proc/{self.server.pid}/net/dev", encoding="ascii") as file:
            return parse_sent(file.read())


class WireWindow(Window):
    """Also counts the bytes that n1 and the director sent."""

    def _look(self):
        return {**super()._look(), "sent": self.cluster.sent_bytes()}

    @staticmethod
    def _differences(first, last):
        seconds = last["at"] - first["at"]
        return {**Window._differences(first, last),
                **{f"{name}_mbit_per_second": (last["sent"][wire] - first["sent"][wire]) * 8e-6 / seconds
                   for name, wire in (("n1", "n1-in"), ("into_n1", "n1"), ("director", f"{DIRECTOR}-in"))}}


def measures_of(result, servers, seconds, found):
    """The clients' measures. A connection is one request."""
    times = [response * 1000 for response in result["response_s"]]
    total = sum(result["nodes"].values())
    return {
        "requests_per_second": len(times) / seconds,
        "mean_ms": sum(times) / len(times) if times else None,
        "p50_ms": stats.quantile(times, 0.5),
        "p99_ms": stats.quantile(times, 0.99),
        "busiest_share": max(result["nodes"].values()) * servers / total if total else None,
        "errors": sum(result["errors"].values()),
        "generator_lag_max_ms": result["lag_max_ms"],
        **{name: value for name, value in found.items() if name != "host"},
        **found["host"],
    }


def ratios_by_count(p, runs, way):
    """[(servers, [connections/s of a way over direct's in the same repetition])]"""
    found = []
    for count in p["servers"]:
        rates, base = ({record["key"]["repetition"]: record["measures"]["requests_per_second"]
                        for record in runs.get(arm_name(each, count), [])} for each in (way, DIRECT))
        ratios = stats.paired_ratios(rates, base)
        if ratios:
            found.append((count, ratios))
    return found


class Director(Experiment):
    name = "director"
    title = "Direct, dprd, and a central NAT director (nft dnat, a stand-in for IPVS)"
    bases = (arm_name(DIRECT, 1),)
    ratio_measures = ("requests_per_second",)
    long = {"servers": [1, 2, 3, 4, 8], "service_ms": 10.0, "answer_bytes": 9300, "rate_mbit": 16,
            "clients_per_server": 16, "warmup": 2.0, "seconds": 10, "seed": 1, "policy": "li", "period": "200ms",
            "max_load": "auto", "plane": "auto"}
    quick = {**long, "servers": [1, 4], "warmup": 0.5, "seconds": 1}
    overhead_s = 1

    def arms(self, parameters):
        # With one server the wide wire is the narrow one.
        return tuple(Arm(arm_name(way, count), {"way": way, "servers": count})
                     for way in WAYS for count in parameters["servers"] if way != WIDE or count > 1)

    def caption(self, p):
        return (f"Closed loop, N = {p['clients_per_server']} clients for each server without think time, one request "
                f"on each connection; {p['seconds']} s measured after {p['warmup']} s. Each server: a queue of any "
                f"length before 1 worker, {p['service_ms']:g} ms for each request ({1000 / p['service_ms']:.0f}/s), "
                f"answers of {p['answer_bytes']:,} bytes; a wire of {p['rate_mbit']} Mbit/s each way with a queue of "
                f"50 ms. direct: clients evenly over all servers, no dprd. dprd: all clients at one node, "
                f"Policy={p['policy']}, Period={p['period']}, MaxLoad={p['max_load']}. {NARROW}: all clients at a "
                "director, nft dnat in turn, with a wire like a server's, or (wide) like all servers' together; no "
                "dprd.")

    def open(self, p, environment):
        return DirectorCluster(file_count=0, nodes=max(p["servers"]), rate_mbit=p["rate_mbit"], plane=p["plane"],
                               ipv6=False, **environment)

    def run(self, site, arm, p, repetition, show):
        site.drain()
        count = arm.settings["servers"]
        site.use(count)
        addresses = site.prepare(arm.settings["way"], p["policy"], p["period"], p["max_load"])
        path, errors = (os.path.join(site.directory, f"director.{kind}") for kind in ("json", "err"))
        words = ["/usr/bin/python3", GENERATOR, "load", "--json", path, "--servers", ",".join(addresses)]
        for name, value in (("port", PORT), ("bytes", p["answer_bytes"]), ("service-ms", p["service_ms"]),
                            ("clients", count * p["clients_per_server"]), ("warmup", p["warmup"]),
                            ("seconds", p["seconds"]), ("seed", p["seed"] + repetition - 1)):
            words += [f"--{name}", str(value)]
        child = site.site.start(site.clients[0], words, errors)
        window = WireWindow(site, child, p["warmup"], p["seconds"], lambda beat: show({**beat, "served": {}}))
        status = child.wait()
        site.site.reap()
        if status:
            with open(errors, encoding="utf-8", errors="replace") as file:
                raise LabError(f"closedloop ended with status {status}: {file.read()[-500:]}")
        found = window.finish()
        with open(path, encoding="ascii") as file:
            result = json.load(file)
        opened = {f"n{i + 1}": window.opened.get(f"n{i + 1}", []) for i in range(max(p["servers"]))}
        return {"measures": measures_of(result, count, p["seconds"], found), "series": {"open": opened},
                "host": found["host"], "errors_by_kind": result["errors"]}

    def tables(self, p):
        names = tuple(arm.name for arm in self.arms(p))
        return [Table("director", "Connections per second by way and number of servers", (
            Column("connections/s", "requests_per_second", 0),
            Column("of one server's", "requests_per_second", 2, ratio_to=arm_name(DIRECT, 1)),
            Column("mean delay, ms", "mean_ms", 0), Column("p50, ms", "p50_ms", 0), Column("p99, ms", "p99_ms", 0),
            Column("busiest server, 1 = even", "busiest_share", 2), Column("errors", "errors", 0),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), names, "nft dnat is a stand-in for IPVS (LVS-NAT). The wide wire is as wide as all servers' together."),
            Table("director-wires", "Which wire carried the answers", (
                Column("out of n1's wire, Mbit/s", "n1_mbit_per_second", 1),
                Column("into n1's wire, Mbit/s", "into_n1_mbit_per_second", 1),
                Column("out of the director's wire, Mbit/s", "director_mbit_per_second", 1),
                Column("forwarded by dprd, %", "forwarded_share", 0, 100),
                Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 1),
                Column("generator, % of a processor", "generator_cpu_percent", 0),
                Column("generator late, ms at most", "generator_lag_max_ms", 0),
                Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
            ), names, "Behind the director (nft dnat, a stand-in for IPVS) the answers leave the servers by the "
                      "cluster network, which is not shaped.")]

    def plots(self, p, runs):
        figures = []
        for name, measure, label in (("rate", "requests_per_second", "connections per second"),
                                     ("delay", "mean_ms", "mean delay (ms)")):
            lines = []
            for way in WAYS:
                arms = [arm for arm in self.arms(p) if arm.settings["way"] == way]
                lines.append(Line(way, median_lines(arms, runs, lambda arm: arm.settings["servers"], measure)))
            figures.append(Plot(f"director-{name}", f"Direct, dprd, central director: {label}", "servers", label,
                                tuple(lines), style="points", x_range=(0, max(p["servers"]) + 0.5),
                                note="Medians with the range of all repetitions. nft dnat is a stand-in for IPVS."))
        return figures

    def findings(self, p, runs):
        found = {}
        for way, name in ((DPRD, "dprd"), (WIDE, "nft_dnat_with_a_wide_wire"), (NARROW, "nft_dnat")):
            for count, ratios in ratios_by_count(p, runs, way):
                middle = stats.spread(ratios)
                found[f"{name}_over_direct_with_{count}_server{'s' if count > 1 else ''}"] = \
                    f"{middle['median']:.2f} [{middle['min']:.2f} - {middle['max']:.2f}]"
        return found

    def notes(self, p):
        return [f"The paper's {PAPER['servers']} servers: {PAPER['direct']:,} connections/s directly, "
                f"{PAPER['director']:,} through its director, {PAPER['director'] / PAPER['direct']:.2f} of it: as much "
                f"as {PAPER['servers'] * PAPER['director'] / PAPER['direct']:.1f} servers. Its figure is not in its "
                "text.",
                "The paper's director was limited by its processor. All hosts here share one machine's processors, so "
                "the director's wire is its limit. The answers' size is fitted: a wire carries about two servers' "
                "answers.",
                "With a wide wire the stand-in is no bottleneck: the wire that all answers pass is the limit, not NAT. "
                "dprd's entry node carries every request and acknowledgement, but only its own answers.",
                "No client pauses, so by Little's law the mean delay is N divided by connections/s; p99 shows how "
                "evenly clients waited.",
                "The director is the simplest one: round robin, which is ideal for equal requests; no health check, "
                "no second director."]


EXPERIMENT = Director()
