# SPDX-License-Identifier: GPL-2.0-or-later
"""The paper's threshold MaxLoad against the announcement period, with the users of Table 1: a low
threshold forwards much and follows stale loads together, a high one leaves the crowded node crowded.
"""
from experiment import Arm, Column, Line, Plot, Table, median_lines
from exp_table1 import SHARES, TableOne
from surgerun import run_surge


def period_ms(text):
    """The seconds of "250ms" or "1s"."""
    return float(text[:-2]) if text.endswith("ms") else 1000 * float(text[:-1])


class MaxLoad(TableOne):
    name = "maxload"
    title = "MaxLoad and the announcement period, 1,500 users, 4:1:1"
    bases = ()
    long = {**TableOne.long, "warmup": 6, "seconds": 30, "policy": "least",
            "max_loads": ["0", "10", "20", "50", "auto"], "periods": ["250ms", "4s"]}
    quick = {**long, "warmup": 2, "seconds": 4, "max_loads": ["0", "auto"], "periods": ["1s"]}

    def arms(self, parameters):
        return tuple(Arm(f"MaxLoad {most}, {period}", {"max_load": most, "period": period})
                     for most in parameters["max_loads"] for period in parameters["periods"])

    def caption(self, p):
        before, _, _ = super().caption(p).partition(" dprd: ")
        return f"{before} dprd: Policy={p['policy']}, MinAdvantage={p['min_advantage']}."

    def run(self, site, arm, p, repetition, show):
        site.drain()
        site.fresh_daemons(p["policy"], arm.settings["period"], MaxLoad=arm.settings["max_load"],
                           MinAdvantage=p["min_advantage"])
        servers = ",".join(f"{node.service_v4}*{share}" for node, share in zip(site.nodes, SHARES))
        return run_surge(site, "maxload", {"servers": servers, "users": p["users"], "warmup": p["warmup"],
                                           "seconds": p["seconds"], "seed": p["seed"] + repetition - 1,
                                           "http": "1.0", "resolve": "once"}, show)

    def tables(self, p):
        return [Table("maxload", "MaxLoad and period", (
            Column("requests/s", "requests_per_second", 0), Column("mean delay, ms", "mean_ms", 0),
            Column("p90, ms", "p90_ms", 0), Column("p99, ms", "p99_ms", 0),
            Column("in flight", "in_flight_mean", 0), Column("forwarded, %", "forwarded_share", 0, 100),
            Column("index of open connections", "node_open_index", 2), Column("errors", "errors", 0),
            Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
        ), tuple(arm.name for arm in self.arms(p)))]

    def plots(self, p, runs):
        figures = []
        for name, measure, label, scale in (("delay", "mean_ms", "mean delay (s)", 0.001),
                                            ("forwarded", "forwarded_share", "connections forwarded, %", 100)):
            lines = tuple(Line(f"MaxLoad {most}", median_lines(
                [arm for arm in self.arms(p) if arm.settings["max_load"] == most], runs,
                lambda arm: period_ms(arm.settings["period"]) / 1000, measure, scale)) for most in p["max_loads"])
            figures.append(Plot(f"maxload-{name}", f"MaxLoad and period: {label}", "announcement period (s)", label,
                                lines, style="points", logarithmic_x=True,
                                note="Medians with the range of all repetitions."))
        return figures

    def notes(self, p):
        return super().notes(p)[1:2]


EXPERIMENT = MaxLoad()
