# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of surge on a laboratory, and its results as measures."""
import json
import os
import re
from array import array

import stats
from netns import LabError
from sitelab import FILES_BUILD, Window

# Longer than any run: as in the published generator, a slow transfer is waited for and never an error.
PATIENCE_S = 3600
BEAT = re.compile(r"served (\d+)/s  in flight (\d+)  mean (\d+) ms  errors (\d+)/s\s*$")


def parse_beat(text):
    """{requests, in_flight, mean_ms, errors} of surge's newest line of progress; {} when there is none."""
    found = BEAT.search(text)
    return dict(zip(("requests", "in_flight", "mean_ms", "errors"), map(int, found.groups()))) if found else {}


def newest_beat(path):
    """parse_beat() of the last whole line of a file that grows."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - 400))
        lines = file.read().decode("ascii", "replace").split("\n")
    return parse_beat(lines[-2]) if len(lines) > 1 else {}


def served_by_second(lines, warmup_s, seconds, nodes):
    """{node: [transfers that ended well in each second of the measured time]}, from surge's full log.
    The first transfer of all begins with the run."""
    ends, begin_s = {node: array("d") for node in nodes}, float("inf")
    for line in lines:
        words = line.split()
        if len(words) != 13 or line.startswith("#"):
            continue
        start_s = float(words[4])
        begin_s = min(begin_s, start_s)
        if words[12] == "ok" and words[11] in ends:
            ends[words[11]].append(start_s + float(words[7]) / 1000)
    begin_s += warmup_s
    return {node: stats.per_second([end - begin_s for end in ends[node]], seconds) for node in nodes}


def measures_of(result, found, served, opened):
    """All results of a run of surge, flat: {name: number or None}."""
    response = result["response_ms"] or {}
    connect = result["connect_ms"] or {}
    rate, mean_ms = result["requests_per_second"], response.get("mean")
    measures = {
        "requests": result["requests"],
        "requests_per_second": rate,
        "mean_ms": mean_ms,
        "variance_s2": response["variance"] / 1e6 if response else None,
        "p50_ms": response.get("p50"),
        "p90_ms": response.get("p90"),
        "p99_ms": response.get("p99"),
        "connect_p50_ms": connect.get("p50"),
        "connect_p99_ms": connect.get("p99"),
        "in_flight_mean": result["in_flight_mean"],
        "little_ms": stats.little_ms(result["in_flight_mean"], rate),
        "think_time_s": stats.think_time_s(result["users"], rate, mean_ms),
        "censored": result["censored"]["count"],
        "errors": result["errors"]["total"],
        "bytes_per_second": result["bytes"] / result["measured_s"],
        "generator_lag_mean_ms": result["generator"]["lag_mean_ms"],
        "generator_lag_max_ms": result["generator"]["lag_max_ms"],
    }
    for name, of in stats.three_indices(served, opened).items():
        measures.update({f"{name}_{key}": value for key, value in of.items()})
    for node, series in served.items():
        measures[f"served_{node}_per_second"] = sum(series) / len(series) if series else None
    measures.update({name: value for name, value in found.items() if name != "host"})
    measures.update(found["host"])
    return measures


def run_surge(cluster, tag, options, show):
    """Runs surge with these options ({name: value}) in the client's namespace; a run as Experiment.run() gives it."""
    paths = {kind: os.path.join(cluster.directory, f"surge-{tag}.{kind}") for kind in ("json", "log", "err", "out")}
    for path in paths.values():
        with open(path, "wb"):
            pass
    words = [cluster.program(FILES_BUILD), "run", "--index", cluster.index, "--json", paths["json"],
             "--log", paths["log"], "--node-header", "X-Node", "--timeout", str(PATIENCE_S), "--progress"]
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    with open(paths["out"], "wb") as output:
        child = cluster.site.start(cluster.clients[0], words, paths["err"], stdout=output)
    window = Window(cluster, child, options["warmup"], options["seconds"], show,
                    beat=lambda: newest_beat(paths["err"]))
    status = child.wait()
    cluster.site.reap()
    if status:
        with open(paths["err"], encoding="utf-8", errors="replace") as file:
            raise LabError(f"surge ended with status {status}: {file.read()[-500:]}")
    found = window.finish()
    with open(paths["json"], encoding="utf-8") as file:
        result = json.load(file)
    names = [node.name for node in cluster.nodes]
    with open(paths["log"], encoding="ascii", errors="replace") as file:
        served = served_by_second(file, options["warmup"], options["seconds"], names)
    for path in paths.values():
        os.unlink(path)
    return {
        "measures": measures_of(result, found, served, window.opened),
        "series": {"served": served, "open": window.opened},
        "host": found["host"],
        "errors_by_kind": {kind: count for kind, count in result["errors"].items() if kind != "total" and count},
        "settings": result["settings"],
    }
