# SPDX-License-Identifier: GPL-2.0-or-later
"""What a connection costs its client: delay of connecting, connections per second, processor time."""
import json

from bench_measure import Rounds, task_seconds
from bench_site import FORWARDS, LOCAL, PLAIN, SERVING, LabError


class Target:
    """A node as the client sees it, and the nodes whose processor time its connections take."""

    def __init__(self, name, node, hosts):
        self.name, self.node, self.hosts = name, node, hosts


TARGETS = [Target("plain", PLAIN, [PLAIN]), Target("local", LOCAL, [LOCAL]),
           Target("forwarded", FORWARDS, [FORWARDS, SERVING])]


class Connected:
    """One run of connclient."""

    def __init__(self, output, cpu_s):
        self.errors = output["errors"]
        self.connections = output["connections"]
        self.rate = self.connections / output["seconds"]
        self.p50_us, self.p99_us = output["p50_us"], output["p99_us"]
        self.cpu_us = (output["cpu_seconds"] + cpu_s) * 1e6 / max(1, self.connections)

    def show_delay(self):
        return f"{self.p50_us:.0f} / {self.p99_us:.0f} us{self._trouble()}"

    def show_rate(self):
        return f"{self.rate:.0f} /s {self.cpu_us:.0f} us{self._trouble()}"

    def _trouble(self):
        return f" {self.errors} bad" if self.errors else ""


def connect(bench, target, mode, in_flight, seconds):
    pids = [pid for host in target.hosts for pid in bench.site.pids(host)]
    before = task_seconds(pids)
    output = json.loads(bench.site.execute("c1", [bench.program("connclient"), bench.address(target.node), "80", mode,
                                                  str(in_flight), str(seconds)]))
    if not output["connections"]:
        raise LabError(f"{target.name}: no connection to {bench.address(target.node)} came about")
    return Connected(output, task_seconds(pids) - before)


def add_delays(results, values, suffix):
    plain = values["plain"]
    for name, infix in (("local", ""), ("forwarded", "forwarded_")):
        for quantile in ("p50", "p99"):
            series = [getattr(one, quantile + "_us") for one in values[name]]
            base = [getattr(one, quantile + "_us") for one in plain]
            results.add(f"connect_{infix}{quantile}_added_us{suffix}", "us",
                        [value - other for value, other in zip(series, base)])
            results.add_ratio(f"connect_{infix}{quantile}_of_without{suffix}", series, base)
    for quantile in ("p50", "p99"):
        results.add(f"connect_{quantile}_without_us{suffix}", "us", [getattr(one, quantile + "_us") for one in plain])


def add_rates(results, values):
    rates = {name: [one.rate for one in found] for name, found in values.items()}
    cpu = {name: [one.cpu_us for one in found] for name, found in values.items()}
    results.add_ratio("local_conn_rate_of_without", rates["local"], rates["plain"])
    results.add_ratio("nfqueue_conn_rate_of_direct", rates["forwarded"], rates["plain"])
    results.add_ratio("local_conn_cpu_of_without", cpu["local"], cpu["plain"])
    results.add_ratio("nfqueue_conn_cpu_of_direct", cpu["forwarded"], cpu["plain"])
    for name, found in rates.items():
        results.add(f"conn_rate_{name}", "1/s", found)
    results.add("conn_errors", "count", [sum(values[name][i].errors for name in values)
                                         for i in range(len(rates["plain"]))])


def run(bench, results, arguments):
    rounds = arguments.rounds or (7 if arguments.quick else 15)
    seconds = 0.5 if arguments.quick else 1.0
    for in_flight, suffix in ((1, ""), (64, "_at_64")):
        found = Rounds(f"connecting, {in_flight} at a time, {seconds} s each: p50 / p99", TARGETS, rounds).run(
            lambda target, n=in_flight: connect(bench, target, "connect", n, seconds), Connected.show_delay)
        add_delays(results, found, suffix)
    found = Rounds(f"requests of a connection each, 64 at a time, {seconds} s each: connections/s, CPU of client and "
                   "servers per connection", TARGETS, rounds).run(
        lambda target: connect(bench, target, "request", 64, seconds), Connected.show_rate)
    add_rates(results, found)
