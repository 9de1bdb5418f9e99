# SPDX-License-Identifier: GPL-2.0-or-later
"""Balancers that also serve, against balancers that only forward by NAT: replies and errors of httperf at rates around
the knee, and how long replies are missing when a balancer's host dies. After Table I and Figures 4-7 of Kim, Youn and
Choo, "Bi-active Load Balancer": one balancer with one real server, and two with two.

                      +-- cap -- eth0 n1 eth2 -- cap -- eth0 b1
    client -- router -+
                      +-- cap -- eth0 n2 eth2 -- cap -- eth0 b2      (2+2: one address for n1 and n2)

A cap limits the packets per second, whatever their size, that leave the balancer: one for each of its network cards.
"""
import bisect
import itertools
import json
import os
import sys
import time

import hoststate
import stats
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines, middle_run
from httperfrun import run_httperf
from netns import LabError, run
from sitelab import SurgeCluster

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace")
sys.path.append(TOOLS)
# pylint: disable=wrong-import-position
import replay
import workload

OFF, ON = "off", "on"
SERVE_HERE = {OFF: "no", ON: "yes"}
SHARED_V4 = "192.0.2.100"
PAGE, OBJECT = "page", 1
PAPER = {"replies": 21.6, "errors": 18.9}
ERRORS_MOST = 0.01
# Packets of one connection that leave a balancer: to the client, and with NAT to the real server.
CLIENT_PACKETS, SERVER_PACKETS = 4, 5
FRAME_BYTES, BURST_PACKETS, QUEUE_S = 1514, 8, 0.05
READY_S, SETTLE_S = 10, 0.3
BACK_WINDOW_S, BACK_STEP_S, BACK_SHARE = 0.5, 0.05, 0.95
SERIES_STEP_S = 0.25


def arm_name(pairs, mode, rate):
    return f"{pairs}+{pairs} {mode}, {rate}/s"


def recovery_name(mode):
    return f"2+2 {mode}, a host dies"


def budget_knee(p, pairs, mode):
    """Connections/s at which the first card of a balancer is full."""
    limit = p["packets_per_second"] / (SERVER_PACKETS if mode == OFF else CLIENT_PACKETS)
    return pairs * limit


def recovery_s(moments, died_s, end_s, rate):
    """The time after died_s until the replies are back at their former rate for good: from then on no window has too
    few. None when the last one has. moments: of replies, in order."""
    steps = int((end_s - died_s - BACK_WINDOW_S) / BACK_STEP_S + 1e-9)
    back = 0
    for step in range(steps + 1):
        begin = died_s + step * BACK_STEP_S
        seen = bisect.bisect_left(moments, begin + BACK_WINDOW_S) - bisect.bisect_left(moments, begin)
        if seen < BACK_SHARE * rate * BACK_WINDOW_S:
            back = step + 1
    return back * BACK_STEP_S if back <= steps else None


def parse_log(text):
    """[(start_s, end_s, node or None, outcome)] from the log of "trace replay --log"."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and not line.startswith("#") and words[-1] != "unsent":
            start = float(words[1])
            found.append((start, start + float(words[3]) / 1000, None if words[8] == "-" else words[8], words[9]))
    return found


def recovery_measures(rows, died_s, seconds, rate):
    """The measures of a host's death at died_s from the requests of a run."""
    good = sorted(end for _start, end, _node, outcome in rows if outcome == replay.OK)
    failed = [row for row in rows if row[3] != replay.OK]
    before = [end for end in good if 1 <= end < died_s]
    former = len(before) / (died_s - 1)
    after = [row for row in rows if row[0] >= died_s]
    return {
        "former_per_second": former,
        "recovery_s": recovery_s(good, died_s, seconds, min(former, rate)),
        "errors": len(failed),
        "error_share": len(failed) / len(rows) if rows else None,
        "errors_before": sum(end < died_s for _start, end, _node, _outcome in failed),
        "under_way_lost": sum(start < died_s for start, *_ in failed),
        "slowest_ms": max((1000 * (end - start) for start, end, _node, outcome in after if outcome == replay.OK),
                          default=None),
        "last_error_s": max((start - died_s for start, *_ in failed), default=None),
    }


class BalancerCluster(SurgeCluster):
    """Balancers with capped cards, each with one real server behind NAT."""

    def __init__(self, packets_per_second, **options):
        mbit = packets_per_second * FRAME_BYTES * 8e-6
        super().__init__(nodes=2, file_count=0, rate_mbit=mbit, ipv6=False, keepalive=True,
                         real_servers=(("n1", "nat"), ("n2", "nat")), **options)
        self.packets_per_second = packets_per_second

    def up(self):
        super().up()
        self.all_nodes = self.nodes
        for node in self.nodes:
            self._share_address(node)
        for backend in self.backends:
            self._cap(backend.name)

    def _share_address(self, node):
        self.site.ip(node.name, [f"addr add {SHARED_V4}/32 dev eth0"])

    def _shape(self, interface):
        """Only what a balancer sends is capped."""
        if interface.endswith("-in"):
            self._cap(interface)

    def _cap(self, interface):
        """tbf counts every packet as a full one; behind it at most QUEUE_S of packets wait."""
        words = ["tc", "-n", self.site.name("sw"), "qdisc", "replace", "dev", interface]
        run(words + ["root", "handle", "1:", "tbf", "rate", f"{self.packets_per_second * FRAME_BYTES * 8}bit", "burst",
                     str(BURST_PACKETS * FRAME_BYTES), "limit", str(1 << 20), "mpu", str(FRAME_BYTES)])
        run(words + ["parent", "1:1", "handle", "10:", "pfifo", "limit", str(int(self.packets_per_second * QUEUE_S))])

    def prepare(self, pairs, mode, period):
        """Makes all as new: no connection, tracked connection or flow of the last run is left. Returns the address for
        the clients."""
        self.stop_daemons()
        self.nodes, self.overrides = self.all_nodes, {}
        for node in self.all_nodes:
            if not node.alive:
                self.restart_host(node, with_daemons=False)
                self._share_address(node)
            self.write_config(node)
            self.site.execute(node.name, [self.program("bin/dprd"), "-c", self.config_path(node), "--node", node.name,
                                          "--purge"])
        for server in self.all_nodes + self.backends:
            self.stop_web(server)
        time.sleep(SETTLE_S)
        for server in self.all_nodes + self.backends:
            self.start_web(server)
        for node in self.all_nodes:
            self.flush_connections(node.name)
        self.nodes = self.all_nodes[:pairs]
        self.overrides = {"": {"Backends": {"Policy": "rr", "ServeHere": SERVE_HERE[mode]}}}
        if pairs > 1:
            self.overrides[""]["Shared"] = {"Address": SHARED_V4}
        self.fresh_daemons("local", period)
        for node in self.nodes:
            self.wait_until(lambda node=node: self._is_ready(node, pairs), f"{node.name} and its real server are ready",
                            READY_S)
        return SHARED_V4 if pairs > 1 else self.nodes[0].service_v4

    def _is_ready(self, node, pairs):
        status = self.status(node) or {}
        shared = status.get("shared") or {}
        if pairs > 1 and (shared.get("lease_ms") is None or len(shared.get("members", [])) != pairs):
            return False
        said = json.loads(self.dprctl(node, "backends", "--json", check=False) or "{}").get("backends", [])
        return len(said) == 1 and not said[0]["why_not"]

    def served(self):
        """{balancer or real server: connections that it served so far}"""
        return {server.name: self.web_status(server)[0] for server in self.nodes + self.backends[:len(self.nodes)]}


class BiActive(Experiment):
    name = "biactive"
    title = "Bi-active balancers: the paper's reply rate up to +21.6 %, errors -18.9 %"
    long = {"packets_per_second": 990, "rates_per_pair": [160, 185, 200, 220, 245, 280], "timeout_s": 2,
            "page_bytes": 75, "pairs": [1, 2], "recovery_modes": [OFF, ON], "warmup": 0, "seconds": 8,
            "recovery_seconds": 14, "recovery_at": 4.0, "recovery_load": 0.4, "period": "200ms", "plane": "bpf"}
    quick = {**long, "rates_per_pair": [220], "pairs": [1], "recovery_modes": [ON], "seconds": 2, "recovery_seconds": 8,
             "recovery_at": 2.5}
    overhead_s = 4

    def arms(self, parameters):
        p = parameters
        curves = [Arm(arm_name(pairs, mode, pairs * rate), {"pairs": pairs, "mode": mode, "rate": pairs * rate})
                  for pairs in p["pairs"] for mode in (OFF, ON) for rate in p["rates_per_pair"]]
        return tuple(curves) + tuple(
            Arm(recovery_name(mode), {"pairs": 2, "mode": mode, "seconds": p["recovery_seconds"]})
            for mode in p["recovery_modes"])

    def caption(self, p):
        rates = [arm.settings["rate"] for arm in self.arms(p) if "rate" in arm.settings]
        return (f"Open loop (httperf, Poisson arrivals of {min(rates)} to {max(rates)} connections/s, HTTP/1.1, one request "
                f"on each for a page of "
                f"{p['page_bytes']} bytes, timeout {p['timeout_s']} s), {p['seconds']} s of arrivals. Balancers with "
                f"one real server each, nginx with 1 worker on all, round robin with equal weights; 2+2: one address "
                f"for both balancers. off: the balancers only forward (ServeHere=no); on: they serve, too. Each of a "
                f"balancer's two cards sends at most {p['packets_per_second']} packets/s, with a queue of "
                f"{QUEUE_S * 1000:.0f} ms. dprd: Policy=local between the balancers, Period={p['period']}.")

    def open(self, p, environment):
        return BalancerCluster(p["packets_per_second"], plane=p["plane"], more_files=(
            (PAGE, p["page_bytes"]), (workload.file_name(OBJECT), p["page_bytes"])), **environment)

    def run(self, site, arm, p, repetition, show):
        pairs, mode = arm.settings["pairs"], arm.settings["mode"]
        address = site.prepare(pairs, mode, p["period"])
        if "rate" not in arm.settings:
            return self._run_recovery(site, mode, p, address, show)
        before = site.served()
        record = run_httperf(site, "biactive", address, arm.settings["rate"], p["seconds"], repetition,
                             {"uri": f"/{PAGE}", "timeout": p["timeout_s"], "http_version": "1.1"}, show)
        served = {name: count - before[name] for name, count in site.served().items()}
        total = sum(served.values())
        record["measures"]["served_by_balancers_share"] = \
            sum(served[node.name] for node in site.nodes) / total if total else None
        return record

    @staticmethod
    def _run_recovery(site, mode, p, address, show):
        """Requests at even distances; the host of n2 dies amid them."""
        rate = p["recovery_load"] * budget_knee(p, 2, mode)
        seconds, size = p["recovery_seconds"], p["page_bytes"]
        plan = workload.Workload(float(seconds), sizes={OBJECT: size}, requests=[
            (int(i / rate * 1e6), i, OBJECT, workload.FULL, size) for i in range(int(rate * seconds))])
        paths = {kind: os.path.join(site.directory, f"recovery.{kind}") for kind in ("plan", "json", "log", "err")}
        workload.write_plan(paths["plan"], plan)
        begin = time.monotonic() + 1
        child = site.site.start(site.clients[0], [
            "/usr/bin/python3", os.path.join(TOOLS, "trace"), "replay", paths["plan"], "--servers", address,
            "--timeout", str(p["timeout_s"]), "--drain", str(p["timeout_s"]), "--json", paths["json"],
            "--log", paths["log"], "--begin-at", f"{begin:.6f}"], paths["err"])
        time.sleep(max(0.0, begin - time.monotonic()))
        watch = hoststate.HostWatch()
        time.sleep(max(0.0, begin + p["recovery_at"] - time.monotonic()))
        died_s = time.monotonic() - begin
        site.kill_host("n2")
        show({"second": int(died_s), "of": seconds, "measured": True, "served": {}, "open": {}})
        status = child.wait()
        host = watch.stop()
        site.site.reap()
        if status:
            with open(paths["err"], encoding="utf-8", errors="replace") as file:
                raise LabError(f"trace replay ended with status {status}: {file.read()[-500:]}")
        with open(paths["log"], encoding="ascii") as file:
            rows = parse_log(file.read())
        with open(paths["json"], encoding="utf-8") as file:
            result = json.load(file)
        moments = [end for _start, end, _node, outcome in rows if outcome == replay.OK]
        counts = stats.per_second([moment / SERIES_STEP_S for moment in moments], seconds / SERIES_STEP_S)
        return {
            "measures": {"offered_per_second": rate, **recovery_measures(rows, died_s, seconds, rate),
                         "generator_lag_max_ms": (result["lag_ms"] or {}).get("max"), **host},
            "series": {"replies": {"cluster": [count / SERIES_STEP_S for count in counts]}, "died_s": died_s},
            "host": host,
            "errors_by_kind": {kind: count for kind, count in result["errors"].items() if kind != "total" and count},
        }

    def _curve(self, p, pairs, mode):
        return [arm for arm in self.arms(p) if "rate" in arm.settings and
                (arm.settings["pairs"], arm.settings["mode"]) == (pairs, mode)]

    def tables(self, p):
        curves = tuple(arm.name for arm in self.arms(p) if "rate" in arm.settings)
        return [Table("biactive", "Replies and errors by rate of connections", (
            Column("replies/s", "replies_per_second", 0), Column("errors, %", "error_share", 2, 100),
            Column("connection median, ms", "connection_median_ms", 1),
            Column("connection mean, ms", "connection_mean_ms", 0),
            Column("served by balancers, %", "served_by_balancers_share", 0, 100),
            Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 1),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), curves, f"A balancer that only forwards sends {SERVER_PACKETS} packets of each connection to its real "
                   f"server; its card is full at {budget_knee(p, 1, OFF):.0f} connections/s. One that serves half of "
                   f"them itself is limited by the {CLIENT_PACKETS} that go to the client: "
                   f"{budget_knee(p, 1, ON):.0f}/s."),
            Table("biactive-recovery", "The host of one balancer of two dies", (
                Column("offered/s", "offered_per_second", 0), Column("replies/s before", "former_per_second", 0),
                Column("replies are back after, s", "recovery_s", 2),
                Column("requests without a reply", "errors", 0), Column("of all, %", "error_share", 2, 100),
                Column("of those under way as it died", "under_way_lost", 0),
                Column("last one began after, s", "last_error_s", 2),
                Column("slowest reply, ms", "slowest_ms", 0), Column("errors before", "errors_before", 0),
                Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
            ), tuple(recovery_name(mode) for mode in p["recovery_modes"]),
                f"{p['recovery_load']:.0%} of both balancers' knee at even distances, {p['recovery_seconds']} s; the "
                f"host dies after {p['recovery_at']:g} s. Back: from then on no {BACK_WINDOW_S:g} s have less than "
                f"{BACK_SHARE:.0%} of the former replies. Without a reply: none within {p['timeout_s']} s. The paper "
                "names fault tolerance without a figure.")]

    def plots(self, p, runs):
        figures = []
        for measure, label, scale, which in (("replies_per_second", "replies per second", 1, (4, 5)),
                                             ("error_share", "errors, % of connections", 100, (6, 7))):
            for pairs in p["pairs"]:
                lines = tuple(Line(f"{pairs}+{pairs} {mode}", median_lines(
                    self._curve(p, pairs, mode), runs, lambda arm: arm.settings["rate"], measure, scale))
                    for mode in (OFF, ON))
                figures.append(Plot(f"biactive-{measure.replace('_', '-')}-{pairs}",
                                    f"Bi-active {pairs}+{pairs}: {label}", "offered connections per second", label,
                                    lines, style="points", x_range=(0, None),
                                    note=f"The paper's Figure {which[pairs - 1]}. Medians with the range of all "
                                         "repetitions."))
        shown = {mode: middle_run(runs.get(recovery_name(mode), []), "former_per_second") for mode in (OFF, ON)}
        lines = tuple(Line(f"2+2 {mode}", tuple((i * SERIES_STEP_S, value) for i, value in
                                                enumerate(record["series"]["replies"]["cluster"])))
                      for mode, record in shown.items() if record)
        if lines:
            figures.append(Plot("biactive-recovery", "One balancer's host of two dies: replies", "time (s)",
                                "replies per second", lines, x_range=(0, p["recovery_seconds"]),
                                note=f"Counted every {SERIES_STEP_S:g} s; the host dies after {p['recovery_at']:g} s."))
        return figures

    def findings(self, p, runs):
        found = {}
        for pairs, mode in itertools.product(p["pairs"], (OFF, ON)):
            points = [(rate, high) for rate, _median, _low, high in median_lines(
                self._curve(p, pairs, mode), runs, lambda arm: arm.settings["rate"], "error_share")]
            found[f"knee_of_{pairs}+{pairs}_{mode}_per_second"] = stats.knee(points, ERRORS_MOST)
        for pairs in p["pairs"]:
            found.update(gains(self._curve(p, pairs, OFF), self._curve(p, pairs, ON), runs))
        return found

    def notes(self, p):
        return [f"The paper: \"up to\" {PAPER['replies']} % more replies and {PAPER['errors']} % fewer errors; its "
                "curves and rates are not in its text. With open arrivals both ways collapse beyond their knees, so "
                "the gain at a single rate says little: compare knees and whole curves.",
                f"The packet budget gives +{100 * (SERVER_PACKETS / CLIENT_PACKETS - 1):.0f} % at the knee. It is a "
                "fitted explanation: processors limited the paper's balancers, and the paper does not describe them. "
                "Only the sent packets have a limit. With an equal limit on received packets there would be no gain, "
                "because every packet of a client arrives at a balancer either way.",
                f"Knee: the largest rate up to which no repetition had more than {ERRORS_MOST:.0%} errors. A "
                "connection of this length can lose a packet and still end in time.",
                "Between runs all servers and daemons are started anew and tracked connections are forgotten.",
                "The paper had three clients; one httperf is enough here. Announcements have a network of their own."]


def gains(off, on, runs):
    """{what: text}: replies and errors of on against off, rate by rate, repetition by repetition."""
    found = {}
    for one, other in zip(off, on):
        pair = [{record["key"]["repetition"]: record["measures"] for record in runs.get(arm.name, [])}
                for arm in (one, other)]
        both = sorted(set(pair[0]) & set(pair[1]))
        pairs, rate = other.settings["pairs"], other.settings["rate"]
        name = f"{pairs}+{pairs}_on_against_off_at_{rate}_per_second"
        ratios = stats.spread([100 * (pair[1][i]["replies_per_second"] / pair[0][i]["replies_per_second"] - 1)
                               for i in both if pair[0][i]["replies_per_second"] and pair[1][i]["replies_per_second"]])
        errors = stats.spread([100 * (pair[1][i]["error_share"] - pair[0][i]["error_share"]) for i in both])
        if ratios["median"] is not None and errors["median"] is not None:
            found[name] = (f"replies {ratios['median']:+.1f} % [{ratios['min']:+.1f} - {ratios['max']:+.1f}], errors "
                           f"{errors['median']:+.1f} points of a percent [{errors['min']:+.1f} - {errors['max']:+.1f}]")
    return found


EXPERIMENT = BiActive()
