# SPDX-License-Identifier: GPL-2.0-or-later
"""A trace of requests, replayed at its own times onto three nodes: the effect of balancing when a crowd comes.

Without a file the trace is a synthetic one (trace/synthetic.py); "--set trace=FILE" takes one in the record format
of the WorldCup98 logs. Four sixths of the clients know only one node's address, as in table1. The loop is open: the
crowd does not wait until the servers have time.
"""
import functools
import hashlib
import json
import os
import sys
import time

import stats
from experiment import Arm, Column, Experiment, Line, Plot, Table, middle_run
from netns import LabError
from sitelab import SurgeCluster, Window
from surgerun import newest_beat

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace")
sys.path.append(TOOLS)
# pylint: disable=wrong-import-position
import synthetic
import wc98
import workload

ARMS = ("none", "random", "li")
POLICY = {"none": "local"}
SHARES = (4, 1, 1)


def tool_digest():
    """Tells one state of the trace's tools from another, as runs are kept by their keys."""
    total = hashlib.sha256()
    for name in sorted(name for name in os.listdir(TOOLS) if name == "trace" or name.endswith(".py")):
        with open(os.path.join(TOOLS, name), "rb") as file:
            total.update(file.read())
    return total.hexdigest()[:16]


def synthetic_trace(p, repetition):
    return synthetic.make(synthetic.Plan(
        span_s=int(p["seconds"] * p["compress"]), rate=p["rate"] / p["compress"], objects=p["objects"],
        clients=p["clients"], burst=p["burst"], burst_long=p["burst_long"], cap_bytes=p["cap_bytes"],
        seed=p["seed"] + repetition - 1, file_seed=p["file_seed"]))


@functools.lru_cache(maxsize=1)
def read_once(path):
    return wc98.read(path)


def make_workload(p, repetition):
    """The workload that all arms of a repetition replay. LabError when the trace cannot be used."""
    try:
        trace = read_once(p["trace"]) if p["trace"] else synthetic_trace(p, repetition)
        return workload.prepare(trace, workload.Slice(
            start=p["start"], seconds=float(p["seconds"]), compress=p["compress"], rate=float(p["rate"]),
            cap_bytes=p["cap_bytes"], seed=p["seed"] + repetition - 1))
    except wc98.TraceError as error:
        raise LabError(f"trace: {error}") from None


def measures_of(result, found, opened):
    """The results of a replay, flat: {name: number or None}."""
    delay, waited = result["delay_ms"] or {}, result["waited_ms"] or {}
    lag, connect, series = result["lag_ms"] or {}, result["connect_ms"] or {}, result["series"]
    burst = result["burst_waited_ms"] or {}
    measures = {
        "planned": result["planned"], "offered": result["offered"], "requests": result["requests"],
        "requests_per_second": result["requests_per_second"], "offered_per_second": result["offered_per_second"],
        "busiest_offered": max(series["offered"]),
        "burst_mean_ms": burst.get("mean"), "burst_p99_ms": burst.get("p99"),
        "mean_ms": delay.get("mean"), "p50_ms": delay.get("p50"), "p90_ms": delay.get("p90"),
        "p99_ms": delay.get("p99"), "waited_mean_ms": waited.get("mean"), "waited_p99_ms": waited.get("p99"),
        "connect_p50_ms": connect.get("p50"), "connect_p99_ms": connect.get("p99"),
        "in_flight_mean": result["in_flight_mean"], "ended_late": result["ended_late"], "waiting": result["waiting"],
        "unsent": result["planned"] - result["offered"],
        "errors": result["errors"]["total"], "bytes_per_second": result["bytes"] / result["seconds"],
        "asked_at_first_share": result["servers"][0]["offered"] / result["offered"] if result["offered"] else None,
        "generator_lag_mean_ms": lag.get("mean"), "generator_lag_max_ms": lag.get("max"),
    }
    for name, of in stats.three_indices(series["served"], opened).items():
        measures.update({f"{name}_{key}": value for key, value in of.items()})
    for node, values in series["served"].items():
        measures[f"served_{node}_per_second"] = sum(values) / len(values)
    measures.update({name: value for name, value in found.items() if name != "host"})
    measures.update(found["host"])
    return measures


def run_replay(cluster, plan, prefix, p, show):
    """Replays a plan in the client's namespace, with its files below prefix; a run as Experiment.run() gives it."""
    paths = {kind: os.path.join(cluster.directory, f"trace.{kind}") for kind in ("json", "err")}
    for path in paths.values():
        with open(path, "wb"):
            pass
    servers = ",".join(f"{node.service_v4}*{share}" for node, share in zip(cluster.nodes, SHARES))
    child = cluster.site.start(cluster.clients[0], [
        "/usr/bin/python3", os.path.join(TOOLS, "trace"), "replay", plan, "--servers", servers, "--progress",
        "--timeout", str(p["timeout_s"]), "--prefix", prefix, "--drain", str(p["drain_s"]), "--json", paths["json"],
        "--begin-at", f"{time.monotonic() + p['warmup']:.6f}"], paths["err"])
    window = Window(cluster, child, p["warmup"], p["seconds"], show, beat=lambda: newest_beat(paths["err"]))
    status = child.wait()
    cluster.site.reap()
    if status:
        with open(paths["err"], encoding="utf-8", errors="replace") as file:
            raise LabError(f"trace replay ended with status {status}: {file.read()[-500:]}")
    found = window.finish()
    with open(paths["json"], encoding="utf-8") as file:
        result = json.load(file)
    series = result["series"]
    for node in cluster.nodes:  # one that answered nothing has a list, too
        series["served"].setdefault(node.name, [0] * len(series["planned"]))
    return {
        "measures": measures_of(result, found, window.opened),
        "series": {"served": series["served"], "open": window.opened,
                   "replay": {name: series[name] for name in ("planned", "offered", "failed")}},
        "host": found["host"],
        "errors_by_kind": {kind: count for kind, count in result["errors"].items() if kind != "total"},
    }


class TraceReplay(Experiment):
    name = "trace"
    title = "A trace with a burst, replayed onto three nodes"
    bases = ("none", "random")
    ratio_measures = ("requests_per_second", "mean_ms", "p99_ms", "waited_mean_ms", "waited_p99_ms", "burst_mean_ms",
                      "in_flight_mean")
    long = {"nodes": 3, "rate_mbit": 24, "trace": "", "start": "0", "compress": 16.0, "rate": 300, "burst": 3.5,
            "burst_long": 0.12, "objects": 2000, "clients": 5000, "cap_bytes": 1_000_000, "warmup": 1, "seconds": 70,
            "drain_s": 5, "timeout_s": 10, "file_seed": 1, "seed": 1, "period": "200ms", "max_load": "auto",
            "min_advantage": "0", "plane": "auto"}
    quick = {**long, "seconds": 3, "drain_s": 0}
    overhead_s = 4

    def arms(self, parameters):
        digest = tool_digest()
        return tuple(Arm(name, {"tools": digest}) for name in ARMS)

    def caption(self, p):
        source = f"the trace {p['trace']}, from {p['start']}" if p["trace"] else \
            f"a synthetic trace, burst {p['burst']:g} times the day's rate"
        return (f"Open loop (trace replay: {source}; {p['compress']:g} s of it in one; about {p['rate']} connections/s "
                f"in the mean, one request each, HTTP/1.0, timeout {p['timeout_s']} s); {p['seconds']} s; of clients, "
                f"{':'.join(map(str, SHARES))} know the {p['nodes']} nodes. Each node: nginx, 1 worker, accept queue "
                f"4,096; link of {p['rate_mbit']} Mbit/s each way with a queue of 50 ms. dprd: Period={p['period']}, "
                f"MaxLoad={p['max_load']}, MinAdvantage={p['min_advantage']}.")

    def open(self, p, environment):
        make_workload(p, 1)  # finds faults of the trace before anything is raised
        return SurgeCluster(nodes=p["nodes"], rate_mbit=p["rate_mbit"], file_count=0, plane=p["plane"], ipv6=False,
                            **environment)

    def run(self, site, arm, p, repetition, show):
        plan = os.path.join(site.directory, f"plan.{repetition}")
        if not os.path.exists(plan):
            found = make_workload(p, repetition)
            workload.make_files(os.path.join(site.file_root, f"t{repetition}"), found.sizes)
            workload.write_plan(plan, found)
        site.drain()
        site.fresh_daemons(POLICY.get(arm.name, arm.name), p["period"], MaxLoad=p["max_load"],
                           MinAdvantage=p["min_advantage"])
        return run_replay(site, plan, f"/t{repetition}", p, show)

    def tables(self, p):
        return [
            Table("trace", "The replay: requests served, delay and errors", (
                Column("offered/s", "offered_per_second", 1), Column("requests/s", "requests_per_second", 1),
                Column("of none's", "requests_per_second", 2, ratio_to="none"),
                Column("mean delay, ms", "mean_ms", 0), Column("of random's", "mean_ms", 2, ratio_to="random"),
                Column("p99, ms", "p99_ms", 0), Column("of none's", "p99_ms", 2, ratio_to="none"),
                Column("mean of all, ms", "waited_mean_ms", 0), Column("p99 of all, ms", "waited_p99_ms", 0),
                Column("mean in the burst, ms", "burst_mean_ms", 0), Column("of none's", "burst_mean_ms", 2,
                                                                            ratio_to="none"),
                Column("errors", "errors", 0), Column("ended after", "ended_late", 0),
                Column("not ended", "waiting", 0),
            ), ARMS, "The delay is of requests that ended well. \"Of all\" counts those that failed or did not end, "
                     "too, with the time that they had waited: a lower bound. So does the burst, the tenth of the "
                     "seconds with most requests. Ended after: well, but only "
                     "when the time was over."),
            Table("trace-cost", "Where the work was done, and how exact the replay was", (
                Column("asked at n1, %", "asked_at_first_share", 0, 100),
                Column("forwarded, %", "forwarded_share", 0, 100),
                *(Column(f"n{number} served/s", f"served_n{number}_per_second", 0)
                  for number in range(1, p["nodes"] + 1)),
                Column("in flight", "in_flight_mean", 0), Column("Mbit/s of content", "bytes_per_second", 1, 8e-6),
                Column("busiest second", "busiest_offered", 0), Column("late, mean ms", "generator_lag_mean_ms", 1),
                Column("late, most ms", "generator_lag_max_ms", 0), Column("not sent", "unsent", 0),
                Column("dprd and loadcast, % of a processor", "daemons_cpu_percent", 1),
                Column("generator, % of a processor", "generator_cpu_percent", 0),
                Column("host idle, %", "idle_percent", 0), Column("steal, %", "steal_percent", 1),
            ), ARMS, "Late: how long after its moment a request was sent."),
        ]

    def plots(self, p, runs):
        shown = same_repetition(runs)
        if not shown:
            return []
        number = next(iter(shown.values()))["key"]["repetition"]
        planned = next(iter(shown.values()))["series"]["replay"]["planned"]
        served = tuple(Line(f"served: {arm}", _points(record["series"]["served"])) for arm, record in shown.items())
        opened = tuple(Line(arm, _points(record["series"]["open"])) for arm, record in shown.items())
        note = f"Repetition {number}, the median one of {next(iter(shown))} by requests/s, in all arms."
        return [Plot("trace-served", "Requests offered and served per second", "time (s)", "requests per second",
                     (Line("offered", tuple(enumerate(planned))), *served), x_range=(0, p["seconds"]), note=note),
                Plot("trace-open", "Open connections of all nodes", "time (s)", "open connections", opened,
                     x_range=(0, p["seconds"]), note=note)]

    def notes(self, p):
        source = [] if p["trace"] else [
            "The trace is synthetic: no statement about the World Cup's servers. --set trace=FILE replays a real one."]
        return source + [
            "none is dprd with Policy=local: it runs on every node and forwards nothing.",
            "Each request has a connection of its own: the trace does not say which requests shared one.",
            f"The trace's times are whole seconds; within one, requests lie at random moments. {p['compress']:g} "
            "seconds of it in one make sessions that much denser.",
            "Replayed are GETs that were answered with 200, 206 or 304; trace prepare counts what is left out."]


def same_repetition(runs):
    """{arm: record} of one repetition, the median one of the first arm that has any."""
    first = next((records for records in runs.values() if records), None)
    middle = middle_run(first, "requests_per_second") if first else None
    if middle is None:
        return {}
    number = middle["key"]["repetition"]
    return {arm: record for arm, records in runs.items() for record in records
            if record["key"]["repetition"] == number}


def _points(by_node):
    return tuple(enumerate(sum(second) for second in zip(*by_node.values())))


EXPERIMENT = TraceReplay()
