# SPDX-License-Identifier: GPL-2.0-or-later
"""Round robin and related policies on nodes of unequal capacity, 1:3: the value of knowing the weights, and of counting
connections when the work is heavy-tailed.
"""
from experiment import Arm, Column, Experiment, Line, Plot, Table, middle_run
from sitelab import SurgeCluster
from surgerun import run_surge

POLICIES = ("rr", "wrr", "lc", "wlc", "li")


class Capacity(Experiment):
    name = "rr_wrr"
    title = "Nodes of 1:3 capacity: rr, wrr, lc, wlc, li"
    bases = ("rr",)
    ratio_measures = ("requests_per_second", "mean_ms", "p99_ms", "in_flight_mean")
    long = {"rates_mbit": [8, 24], "weights": [1, 3], "users": 600, "warmup": 8, "seconds": 45, "files": 2000,
            "file_seed": 1, "seed": 1, "period": "200ms", "plane": "auto", "policies": list(POLICIES)}
    quick = {**long, "warmup": 2, "seconds": 4, "policies": ["rr", "wrr"]}

    def arms(self, parameters):
        return tuple(Arm(policy) for policy in parameters["policies"])

    def caption(self, p):
        return (f"Closed loop, N = {p['users']:,} users of SURGE, evenly over {len(p['weights'])} nodes, HTTP/1.0, "
                f"{p['files']:,} files; {p['seconds']} s measured after {p['warmup']} s. Links of "
                f"{' and '.join(map(str, p['rates_mbit']))} Mbit/s each way with a queue of 50 ms, weights "
                f"{':'.join(map(str, p['weights']))}; nginx, 1 worker, accept queue 4,096. dprd: "
                f"Period={p['period']}, MaxLoad=auto.")

    def open(self, p, environment):
        rates = {f"n{i + 1}": rate for i, rate in enumerate(p["rates_mbit"])}
        cluster = SurgeCluster(nodes=len(rates), rate_mbit=max(p["rates_mbit"]), rates=rates, file_count=p["files"],
                               surge_seed=p["file_seed"], plane=p["plane"], ipv6=False, **environment)
        return cluster

    def run(self, site, arm, p, repetition, show):
        site.drain()
        for node, weight in zip(site.nodes, p["weights"]):
            site.set_weight(node, weight)
        site.fresh_daemons(arm.name, p["period"])
        return run_surge(site, "capacity", {"servers": ",".join(node.service_v4 for node in site.nodes),
                                            "users": p["users"], "warmup": p["warmup"], "seconds": p["seconds"],
                                            "seed": p["seed"] + repetition - 1, "http": "1.0", "resolve": "once"}, show)

    def tables(self, p):
        return [Table("rr_wrr", "Policies on nodes of unequal capacity", (
            Column("requests/s", "requests_per_second", 0),
            Column("of rr's", "requests_per_second", 2, ratio_to="rr"),
            Column("mean delay, ms", "mean_ms", 0), Column("of rr's", "mean_ms", 2, ratio_to="rr"),
            Column("p99, ms", "p99_ms", 0), Column("in flight", "in_flight_mean", 0),
            Column("n1 served/s", "served_n1_per_second", 0), Column("n2 served/s", "served_n2_per_second", 0),
            Column("forwarded, %", "forwarded_share", 0, 100), Column("errors", "errors", 0),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), tuple(arm.name for arm in self.arms(p)),
            "rr and lc know no weights: with lc the lower load of the faster node is all that it goes by.")]

    def plots(self, p, runs):
        figures = []
        shown = {arm: middle_run(records, "requests_per_second") for arm, records in runs.items() if records}
        top = max((value for record in shown.values() for values in record["series"]["open"].values()
                   for value in values), default=0) * 1.05 or 1
        for arm, record in shown.items():
            lines = tuple(Line(f"{node} ({rate} Mbit/s)", tuple(enumerate(record["series"]["open"][node])))
                          for node, rate in zip(record["series"]["open"], p["rates_mbit"]))
            figures.append(Plot(f"rr_wrr-open-{arm}", f"Open connections of each server: {arm}", "time (s)",
                                "open connections", lines, y_range=(0, top), x_range=(0, p["seconds"])))
        return figures


EXPERIMENT = Capacity()
