# SPDX-License-Identifier: GPL-2.0-or-later
"""Table 1, Table 2 and Figures 4-9 of Aversa and Bestavros, "Load Balancing a Cluster of Web Servers
using Distributed Packet Rewriting" (1999): three servers, 1,500 SURGE users, four sixths of them at one.

The published users, think times, sizes and 4:1:1 are used; the links' 24 Mbit/s are fitted, so that one
node can do the about 255 requests/s that follow from the paper's row without balancing.
"""
import stats
from experiment import Arm, Column, Experiment, Line, Plot, Table, middle_run
from sitelab import SurgeCluster
from surgerun import run_surge

ARMS = ("none", "random", "least", "inverse", "li")
POLICY = {"none": "local"}
SHARES = (4, 1, 1)
PAPER = {
    "requests": {"none": "96,726", "random": "123,798", "least": "129,278"},
    "requests_per_second": {"none": 496.03, "random": 634.86, "least": 662.96},
    "mean_ms": {"none": 0.918775, "random": 0.372362, "least": 0.263267},
    "variance_s2": {"none": 15.240970, "random": 0.813577, "least": 0.859490},
    "ratio": {"none": 1.00, "random": 1.28, "least": 1.34},
    "m": {"none": 462, "random": 643, "least": 660},
    "p10": {"none": 372, "random": 573, "least": 605},
    "p90": {"none": 557, "random": 722, "least": 717},
    "index": {"none": 1.20, "random": 1.16, "least": 1.08},
}
# The bins of the histograms. Those of the paper's figures 7-9 are not in its text.
CLUSTER_BIN, NODE_BIN, OPEN_BIN = 25, 10, 10


class TableOne(Experiment):
    name = "table1"
    title = "DPR's Table 1: three nodes, 1,500 users, 4:1:1"
    bases = ("none", "random")
    ratio_measures = ("requests_per_second", "bytes_per_second", "mean_ms", "little_ms", "p50_ms", "p90_ms", "p99_ms",
                      "in_flight_mean")
    long = {"nodes": 3, "rate_mbit": 24, "users": 1500, "warmup": 10, "seconds": 195, "files": 2000, "file_seed": 1,
            "seed": 1, "period": "200ms", "max_load": "auto", "min_advantage": "0", "plane": "auto"}
    quick = {**long, "warmup": 3, "seconds": 5}
    overhead_s = 6

    def arms(self, parameters):
        return tuple(Arm(name) for name in ARMS)

    def caption(self, p):
        return (f"Closed loop, N = {p['users']:,} users of SURGE, {':'.join(map(str, SHARES))} over {p['nodes']} "
                f"nodes, HTTP/1.0, {p['files']:,} files; {p['seconds']} s measured after {p['warmup']} s. Each node: "
                f"nginx, 1 worker, accept queue 4,096; link of {p['rate_mbit']} Mbit/s each way with a queue of 50 ms. "
                f"dprd: Period={p['period']}, MaxLoad={p['max_load']}, MinAdvantage={p['min_advantage']}.")

    def open(self, p, environment):
        return SurgeCluster(nodes=p["nodes"], rate_mbit=p["rate_mbit"], file_count=p["files"],
                            surge_seed=p["file_seed"], plane=p["plane"], ipv6=False, **environment)

    def run(self, site, arm, p, repetition, show):
        site.drain()
        site.fresh_daemons(POLICY.get(arm.name, arm.name), p["period"], MaxLoad=p["max_load"],
                           MinAdvantage=p["min_advantage"])
        servers = ",".join(f"{node.service_v4}*{share}" for node, share in zip(site.nodes, SHARES))
        return run_surge(site, "table1", {"servers": servers, "users": p["users"], "warmup": p["warmup"],
                                          "seconds": p["seconds"], "seed": p["seed"] + repetition - 1,
                                          "http": "1.0", "resolve": "once"}, show)

    def tables(self, p):
        return [self._table_1(), self._delays(), self._table_2(), self._cost()]

    @staticmethod
    def _table_1():
        return Table("table1", "Table 1: performance of the policies", (
            Column("mean delay, s", "mean_ms", 3, 0.001, PAPER["mean_ms"]),
            Column("variance", "variance_s2", 3, 1, PAPER["variance_s2"]),
            Column("requests", "requests", 0, 1, PAPER["requests"]),
            Column("requests/s", "requests_per_second", 1, 1, PAPER["requests_per_second"]),
            Column("requests/s of none's", "requests_per_second", 2, 1, PAPER["ratio"], ratio_to="none"),
            Column("errors", "errors", 0),
        ), ARMS, "The paper's rate is over 195.0 s in all rows. Its \"TCP\" is the row least. Delays are of transfers "
                 "that ended; see the next table for those that did not.")

    @staticmethod
    def _delays():
        return Table("delays", "Delays, and what a mean of ended transfers leaves out", (
            Column("p50, ms", "p50_ms", 0), Column("p90, ms", "p90_ms", 0), Column("p99, ms", "p99_ms", 0),
            Column("p99 of none's", "p99_ms", 2, ratio_to="none"),
            Column("mean of random's", "mean_ms", 2, ratio_to="random"),
            Column("by Little's law, s", "little_ms", 3, 0.001),
            Column("in flight", "in_flight_mean", 0),
            Column("not ended", "censored", 0),
            Column("N/X - R, s", "think_time_s", 3),
            Column("connect p50, ms", "connect_p50_ms", 1), Column("connect p99, ms", "connect_p99_ms", 0),
        ), ARMS, "Little's law: requests in flight divided by requests/s; it counts waiting users whose transfer did "
                 "not end. N/X - R of the paper's three rows: 2.105, 1.990, 1.999 s.")

    @staticmethod
    def _table_2():
        columns = []
        for name, label in (("cluster_served", "(a)"), ("node_served", "(b)"), ("node_open", "(c)")):
            paper = PAPER if name == "cluster_served" else {}
            for key, digits in (("m", 0), ("p10", 0), ("p90", 0), ("index", 2)):
                columns.append(Column(f"{label} {key}", f"{name}_{key}", digits, 1, paper.get(key)))
        return Table("table2", "Table 2: the imbalance index in three readings", tuple(columns), ARMS,
                     "; ".join(f"{label} {stats.INDICES[name]}" for name, label in
                               (("cluster_served", "(a)"), ("node_served", "(b)"), ("node_open", "(c)"))) +
                     ". The index is 1 + ((p90 - p10) / 2) / m. The paper calls its column concurrent connections; its "
                     "means are those of (a). By its own row the printed 1.16 would be 1.116.")

    @staticmethod
    def _cost():
        return Table("cost", "Where the work was done", (
            Column("forwarded, %", "forwarded_share", 0, 100),
            Column("Mbit/s of content", "bytes_per_second", 1, 8e-6),
            Column("n1 served/s", "served_n1_per_second", 0), Column("n2 served/s", "served_n2_per_second", 0),
            Column("n3 served/s", "served_n3_per_second", 0),
            Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 1),
            Column("generator, % of a processor", "generator_cpu_percent", 0),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
            Column("used by others, %", "foreign_percent", 1),
        ), ARMS)

    def plots(self, p, runs):
        figures = []
        shown = {arm: middle_run(records, "requests_per_second") for arm, records in runs.items() if records}
        for kind, label, what in (("served", "connections served per second", "served"),
                                  ("open", "open connections", "open")):
            top = _top(record["series"][kind] for record in shown.values())
            for arm, record in shown.items():
                lines = tuple(Line(node, tuple(enumerate(values))) for node, values in record["series"][kind].items())
                figures.append(Plot(f"table1-{kind}-{arm}", f"{label[0].upper()}{label[1:]} of each server: {arm}",
                                    "time (s)", label, lines, y_range=(0, top), x_range=(0, p["seconds"]),
                                    note=f"{FIGURE[kind].get(arm, LIKE)} Repetition "
                                         f"{record['key']['repetition']}, the median one by requests/s."))
        return figures + self._histograms(runs)

    @staticmethod
    def _histograms(runs):
        def cluster(record):
            return [sum(second) for second in zip(*record["series"]["served"].values())]

        def nodes(kind):
            return lambda record: [value for values in record["series"][kind].values() for value in values]

        figures = []
        edges = list(range(0, 1201, CLUSTER_BIN))
        counted = {arm: _shares(records, cluster, edges) for arm, records in runs.items() if records}
        top = max((share for points in counted.values() for _, share in points), default=0) * 1.05 or 1
        for arm, points in counted.items():
            figures.append(Plot(f"table1-load-{arm}", f"Histogram of the cluster's load: {arm}",
                                "connections served per second by all servers", "% of the observed seconds",
                                (Line(arm, points),), style="boxes", x_range=(0, 1000), y_range=(0, top),
                                note=f"{FIGURE['load'].get(arm, LIKE)} Binned: reading (a), bins of "
                                     f"{CLUSTER_BIN}, all repetitions."))
        for kind, width, most, label in (("served", NODE_BIN, 600, "connections served per second by one server"),
                                         ("open", OPEN_BIN, 1000, "open connections of one server")):
            edges = list(range(0, most + 1, width))
            lines = tuple(Line(arm, _shares(records, nodes(kind), edges)) for arm, records in runs.items() if records)
            reading = "(b)" if kind == "served" else "(c)"
            figures.append(Plot(f"table1-load-per-node-{kind}", "Histogram of the servers' load, all policies", label,
                                "% of the observations", lines, note=f"Binned: reading {reading}, bins of {width}, "
                                "all repetitions. The narrower, the better balanced."))
        return figures

    def notes(self, p):
        return ["none is dprd with Policy=local: it runs on every node and forwards nothing.",
                "The network has no delay (no NETEM here): the round trip is about 0.1 ms unless a queue is full.",
                "The paper announced loads once a second; its MaxLoad is not known. Policy least of dprd also counts "
                "the connections that it sent since the last announcement, which the paper's did not.",
                f"Runs of other lengths cannot be compared with these: large files pile up over {p['seconds']} s."]


LIKE = "Drawn like the paper's figures."
FIGURE = {
    "served": {"none": "The paper's Figure 4.", "random": "The paper's Figure 5.", "least": "The paper's Figure 6."},
    "open": {},
    "load": {"none": "The paper's Figure 7.", "random": "The paper's Figure 8.", "least": "The paper's Figure 9."},
}


def _top(series):
    """One y range for all figures of a kind."""
    return max((value for nodes in series for values in nodes.values() for value in values), default=0) * 1.05 or 1


def _shares(records, values_of, edges):
    """(middle of the bin, % of all observations) over all repetitions; the last bin includes larger values."""
    values = [value for record in records for value in values_of(record)]
    counts, below, above = stats.histogram(values, edges)
    counts[0] += below
    counts[-1] += above
    return tuple(((low + high) / 2, 100 * count / len(values) if values else 0)
                 for low, high, count in zip(edges, edges[1:], counts))


EXPERIMENT = TableOne()
