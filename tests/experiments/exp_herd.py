# SPDX-License-Identifier: GPL-2.0-or-later
"""The herd: sixteen nodes that all see the same old loads, and periods of announcement from a tenth of a service time
to a hundred. A node that follows the lowest announced load does so together with all others.

Servers are queues with exponential service times (queuework.py), arrivals Poisson and uneven, so that the
mean response can be told in service times and compared with queueing theory and the simulator.
"""
import json
import os
import statistics
import subprocess

import stats
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines
from exp_maxload import period_ms
from netns import LabError
from sitelab import SurgeCluster, Window

PORT = 8090
FIRST_SHARE, SECOND_SHARE = 0.30, 0.15


class HerdCluster(SurgeCluster):
    """A cluster with a queue server on each node."""

    def __init__(self, workers, **options):
        super().__init__(file_count=0, **options)
        self.queue_workers = workers

    def up(self):
        super().up()
        self.set_config("Service", "Port", str(PORT))
        self.set_config("Health", "Port", "80")
        words = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "queuework.py"), "serve",
                 str(PORT), str(self.queue_workers)]
        words += [f"{self.site.name(node.name)}={node.name}" for node in self.nodes]
        self.server = self.site.start("sw", words, os.path.join(self.directory, "queues.log"), stdout=subprocess.PIPE)
        if self.server.stdout.readline() != b"ready\n":
            raise LabError("the queue servers did not start")


def entry_shares(count):
    """30 %, 15 %, the rest even."""
    rest = (1 - FIRST_SHARE - SECOND_SHARE) / (count - 2)
    return [FIRST_SHARE, SECOND_SHARE] + [rest] * (count - 2)


def measures_of(result, service_ms, seconds, found, opened):
    """The clients' measures in service times, and the nodes' counts."""
    times = [response * 1000 / service_ms for response in result["response_s"]]
    errors = sum(result["errors"].values())
    measures = {
        "requests_per_second": len(times) / seconds,
        "mean_service_times": statistics.fmean(times) if times else None,
        "p50_service_times": stats.quantile(times, 0.5),
        "p99_service_times": stats.quantile(times, 0.99),
        "max_service_times": max(times, default=None),
        "errors": errors,
        "generator_lag_max_ms": result["lag_max_ms"],
    }
    measures.update({f"node_open_{key}": value for key, value in
                     stats.imbalance([value for series in opened.values() for value in series]).items()})
    measures.update({name: value for name, value in found.items() if name != "host"})
    measures.update(found["host"])
    return measures


class Herd(Experiment):
    name = "herd"
    title = "The herd: 16 nodes, old loads"
    bases = ()
    long = {"nodes": 16, "workers": 1, "service_ms": 100.0, "load": 0.8, "warmup": 10, "seconds": 30, "seed": 1,
            "policies": ["li", "p2c", "least", "inverse", "wlc", "random"], "periods": ["50ms", "200ms", "1s", "10s"],
            "slow_service_ms": 500.0, "slow_policies": ["li"], "max_load": "auto", "plane": "auto"}
    quick = {**long, "warmup": 1, "seconds": 3, "policies": ["li", "wlc"], "periods": ["50ms", "2s"],
             "slow_policies": []}
    overhead_s = 5

    def arms(self, parameters):
        """dprd's shortest period is half of the usual service time: for less of it, arms with slow service."""
        shortest = min(parameters["periods"], key=period_ms)
        longer = parameters["slow_service_ms"] / parameters["service_ms"]
        usual = [Arm(f"{policy}, {period}", {"policy": policy, "period": period,
                                             "service_ms": parameters["service_ms"]})
                 for policy in parameters["policies"] for period in parameters["periods"]]
        slow = [Arm(f"{policy}, {shortest}, slow service", {"policy": policy, "period": shortest,
                                                            "service_ms": parameters["slow_service_ms"],
                                                            "seconds": round(longer * parameters["seconds"]),
                                                            "warmup": round(longer * parameters["warmup"])})
                for policy in parameters["slow_policies"]]
        return tuple(slow + usual)

    def _rate(self, p, service_ms):
        return p["load"] * p["nodes"] * p["workers"] * 1000 / service_ms

    def caption(self, p):
        slow = (f" (slow service: {p['slow_service_ms']:.0f} ms, with arrivals rarer and the run longer by the same "
                "factor)") if p["slow_policies"] else ""
        return (f"Open loop (Poisson arrivals of {self._rate(p, p['service_ms']):.0f} connections/s, one request each), {p['nodes']} "
                f"nodes; 30 % of the connections come to one node, 15 % to another, the rest evenly; {p['seconds']} s "
                f"measured after {p['warmup']} s. Each node: a queue of any length before {p['workers']} worker, "
                f"exponential service times with a mean of {p['service_ms']:.0f} ms{slow}, load {p['load']:.0%}. dprd: "
                f"MaxLoad={p['max_load']}.")

    def open(self, p, environment):
        return HerdCluster(p["workers"], nodes=p["nodes"], plane=p["plane"], ipv6=False, **environment)

    def run(self, site, arm, p, repetition, show):
        settings = {**p, **arm.settings}
        service_ms, seconds, warmup = settings["service_ms"], settings["seconds"], settings["warmup"]
        site.drain()
        site.fresh_daemons(arm.settings["policy"], arm.settings["period"], MaxLoad=p["max_load"])
        path = os.path.join(site.directory, "herd.json")
        servers = ",".join(f"{node.service_v4}*{share:.6f}" for node, share in
                           zip(site.nodes, entry_shares(p["nodes"])))
        words = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "queuework.py"), "load",
                 "--json", path, "--servers", servers, "--port", str(PORT), "--rate", str(self._rate(p, service_ms)),
                 "--seed", str(p["seed"] + repetition - 1), "--service-ms", str(service_ms),
                 "--warmup", str(warmup), "--seconds", str(seconds)]
        errors = os.path.join(site.directory, "herd.err")
        child = site.site.start(site.clients[0], words, errors)
        window = Window(site, child, warmup, seconds, lambda beat: show({**beat, "served": {}}))
        status = child.wait()
        site.site.reap()
        if status:
            with open(errors, encoding="utf-8", errors="replace") as file:
                raise LabError(f"queuework ended with status {status}: {file.read()[-500:]}")
        found = window.finish()
        with open(path, encoding="ascii") as file:
            result = json.load(file)
        return {"measures": measures_of(result, service_ms, seconds, found, window.opened),
                "series": {"open": window.opened}, "host": found["host"], "errors_by_kind": result["errors"]}

    def tables(self, p):
        return [Table("herd", "Response in service times", (
            Column("mean", "mean_service_times", 2), Column("p50", "p50_service_times", 2),
            Column("p99", "p99_service_times", 1), Column("max", "max_service_times", 0),
            Column("forwarded, %", "forwarded_share", 0, 100),
            Column("index of open connections", "node_open_index", 2), Column("errors", "errors", 0),
            Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 0),
            Column("generator late, ms at most", "generator_lag_max_ms", 0),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), tuple(arm.name for arm in self.arms(p)))]

    def _of(self, p, policy):
        return [arm for arm in self.arms(p) if arm.settings["policy"] == policy]

    def plots(self, p, runs):
        def periods(arm):
            return period_ms(arm.settings["period"]) / arm.settings["service_ms"]

        return [Plot(f"herd-{name}", f"{p['nodes']} nodes: {label}", "announcement period (service times)",
                     f"{label} (service times)",
                     tuple(Line(policy, median_lines(self._of(p, policy), runs, periods, measure))
                           for policy in p["policies"]),
                     style="points", logarithmic_x=True, note="Medians with the range of all repetitions.")
                for name, measure, label in (("mean", "mean_service_times", "mean response"),
                                             ("p99", "p99_service_times", "p99 response"))]

    def findings(self, p, runs):
        """The cost of old loads for each policy: its worst median over that of the shortest period, in service times."""
        found = {}
        for policy in p["policies"]:
            arms = self._of(p, policy)
            medians = [point[1] for point in median_lines(
                arms, runs, lambda arm: period_ms(arm.settings["period"]) / arm.settings["service_ms"],
                "mean_service_times")]
            if len(medians) == len(arms) and medians[0]:
                found[f"worst_mean_of_{policy}_over_that_of_its_shortest_period"] = round(max(medians) / medians[0], 2)
        return found

    def notes(self, p):
        blind = 1 / (1 - p["load"])
        return [f"By theory a blind even choice (M/M/1) has a mean response of {blind:.1f} service times.",
                "dprd allows periods from 50 ms to 10 s."]


EXPERIMENT = Herd()
