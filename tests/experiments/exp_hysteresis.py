# SPDX-License-Identifier: GPL-2.0-or-later
"""Persistent connections, and a threshold that avoids useless forwarding of them: MinAdvantage, after the alpha of the
LVS-eCAD paper, with httperf's ten requests per connection. That paper hands connections over after the request is
known; dprd decides on the SYN, so its +24.62 % is not measured here.
"""
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines
from httperfrun import run_httperf
from sitelab import SurgeCluster

PAGE = "page"


class Hysteresis(Experiment):
    name = "hysteresis"
    title = "MinAdvantage with persistent connections"
    bases = ("MinAdvantage 0",)
    ratio_measures = ("replies_per_second", "connection_mean_ms", "connection_median_ms", "forwarded_share")
    long = {"nodes": 3, "rate_mbit": 24, "page_bytes": 10000, "calls": 10, "rate": 60, "timeout_s": 5, "warmup": 0,
            "seconds": 30, "advantages": [0, 1, 2, 5, 10], "policy": "least", "period": "200ms", "plane": "auto"}
    quick = {**long, "seconds": 4, "advantages": [0, 5]}
    overhead_s = 4

    def arms(self, parameters):
        return (Arm("none", {"policy": "local", "advantage": 0}),) + tuple(
            Arm(f"MinAdvantage {advantage}", {"policy": parameters["policy"], "advantage": advantage})
            for advantage in parameters["advantages"])

    def caption(self, p):
        return (f"Open loop (httperf, Poisson arrivals of {p['rate']} connections/s, {p['calls']} requests each for a "
                f"page of {p['page_bytes']:,} bytes, timeout {p['timeout_s']} s), all to n1 of {p['nodes']} nodes; "
                f"{p['seconds']} s of arrivals. Each node: nginx with keep-alive, 1 worker, accept queue 4,096; link "
                f"of {p['rate_mbit']} Mbit/s each way with a queue of 50 ms. none: Policy=local; else "
                f"Policy={p['policy']}, MaxLoad=auto, Period={p['period']}.")

    def open(self, p, environment):
        return SurgeCluster(nodes=p["nodes"], rate_mbit=p["rate_mbit"], file_count=0, keepalive=True, ipv6=False,
                            plane=p["plane"], more_files=((PAGE, p["page_bytes"]),), **environment)

    def run(self, site, arm, p, repetition, show):
        site.drain()
        site.fresh_daemons(arm.settings["policy"], p["period"], MinAdvantage=arm.settings["advantage"])
        return run_httperf(site, "hysteresis", site.nodes[0].service_v4, p["rate"], p["seconds"],
                           repetition, {"uri": f"/{PAGE}", "timeout": p["timeout_s"], "num_calls": p["calls"]}, show)

    def tables(self, p):
        return [Table("hysteresis", "MinAdvantage against replies, delay and connections forwarded", (
            Column("forwarded, %", "forwarded_share", 1, 100),
            Column("replies/s", "replies_per_second", 0),
            Column("of MinAdvantage 0", "replies_per_second", 3, ratio_to="MinAdvantage 0"),
            Column("connection mean, ms", "connection_mean_ms", 1),
            Column("of MinAdvantage 0", "connection_mean_ms", 2, ratio_to="MinAdvantage 0"),
            Column("connection median, ms", "connection_median_ms", 1),
            Column("errors, %", "error_share", 2, 100),
            Column("index of open connections", "node_open_index", 2),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), tuple(arm.name for arm in self.arms(p)))]

    def plots(self, p, runs):
        def line(measure, scale):
            return Line(p["policy"], median_lines(self.arms(p)[1:], runs, lambda arm: arm.settings["advantage"],
                                                  measure, scale))

        return [Plot(f"hysteresis-{name}", f"MinAdvantage: {label}", "MinAdvantage (open connections)", label,
                     (line(measure, scale),),
                     style="points", note="Medians with the range of all repetitions.")
                for name, measure, label, scale in
                (("forwarded", "forwarded_share", "connections forwarded, %", 100),
                 ("delay", "connection_mean_ms", "mean connection time (ms)", 1))]


EXPERIMENT = Hysteresis()
