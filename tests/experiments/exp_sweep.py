# SPDX-License-Identifier: GPL-2.0-or-later
"""httperf at rising rates against one address of a cluster: replies, errors and delay with and without
forwarding, and the knee, the largest rate before errors pass 1 %.

All connections come to n1, as if every resolver had cached its address: the worst case of round-robin DNS.
"""
import stats
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines
from httperfrun import run_httperf
from sitelab import SurgeCluster

POLICIES = {"none": "local", "li": "li"}
PAGE = "page"
ERRORS_MOST = 0.01


class Sweep(Experiment):
    name = "sweep"
    title = "httperf sweep: one address, three nodes, with and without forwarding"
    long = {"nodes": 3, "rate_mbit": 24, "page_bytes": 10000, "timeout_s": 2, "warmup": 0, "seconds": 15,
            "rates": [100, 200, 250, 300, 400, 500, 600, 700], "period": "200ms", "plane": "auto"}
    quick = {**long, "seconds": 2, "rates": [300, 700]}
    overhead_s = 14  # data that an overloaded node still has to send

    def arms(self, parameters):
        return tuple(Arm(f"{policy} at {rate}/s", {"policy": policy, "rate": rate})
                     for policy in POLICIES for rate in parameters["rates"])

    def caption(self, p):
        return (f"Open loop (httperf, Poisson arrivals, {min(p['rates'])} to "
                f"{max(p['rates'])} connections/s, one request each for a page of {p['page_bytes']:,} bytes, "
                f"timeout {p['timeout_s']} s), all connections to n1 of {p['nodes']} nodes; {p['seconds']} s of "
                f"arrivals. Each node: nginx, 1 worker, accept queue 4,096; link of {p['rate_mbit']} Mbit/s each way "
                f"with a queue of 50 ms. none: Policy=local. dprd: Period={p['period']}, MaxLoad=auto.")

    def open(self, p, environment):
        return SurgeCluster(nodes=p["nodes"], rate_mbit=p["rate_mbit"], file_count=0, plane=p["plane"], ipv6=False,
                            more_files=((PAGE, p["page_bytes"]),), **environment)

    def run(self, site, arm, p, repetition, show):
        site.drain()
        site.fresh_daemons(POLICIES[arm.settings["policy"]], p["period"])
        return run_httperf(site, "sweep", site.nodes[0].service_v4, arm.settings["rate"], p["seconds"],
                           repetition, {"uri": f"/{PAGE}", "timeout": p["timeout_s"], "http_version": "1.0"}, show)

    def tables(self, p):
        return [Table("sweep", "Replies, errors and delay by rate of connections", (
            Column("replies/s", "replies_per_second", 0), Column("errors, %", "error_share", 2, 100),
            Column("connection mean, ms", "connection_mean_ms", 1),
            Column("connection median, ms", "connection_median_ms", 1),
            Column("forwarded, %", "forwarded_share", 0, 100),
            Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 1),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), tuple(arm.name for arm in self.arms(p)))]

    def _of(self, p, policy):
        return [arm for arm in self.arms(p) if arm.settings["policy"] == policy]

    def plots(self, p, runs):
        figures = []
        for measure, label, scale in (("replies_per_second", "replies per second", 1),
                                      ("error_share", "errors, % of connections", 100),
                                      ("connection_mean_ms", "mean connection time (ms)", 1)):
            lines = tuple(Line(policy, median_lines(self._of(p, policy), runs, lambda arm: arm.settings["rate"],
                                                    measure, scale)) for policy in POLICIES)
            figures.append(Plot(f"sweep-{measure.replace('_', '-')}", f"httperf: {label}",
                                "offered connections per second", label, lines, style="points", x_range=(0, None),
                                note="Medians with the range of all repetitions."))
        return figures

    def findings(self, p, runs):
        found = {}
        for policy in POLICIES:
            points = [(rate, high) for rate, _median, _low, high in median_lines(
                self._of(p, policy), runs, lambda arm: arm.settings["rate"], "error_share")]
            found[f"knee_of_{policy}_per_second"] = stats.knee(points, ERRORS_MOST)
        return found

    def notes(self, p):
        return [f"Knee: the largest rate up to which no repetition had more than {ERRORS_MOST:.0%} errors.",
                "httperf fills a processor at any rate; what it leaves of the host is in the column of idle time.",
                "httperf has at most about 1,020 connections open; what it could not open then counts as an error."]


EXPERIMENT = Sweep()
