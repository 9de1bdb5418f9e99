# SPDX-License-Identifier: GPL-2.0-or-later
"""One run of httperf on a laboratory, and its results as measures.

httperf keeps a processor busy at any rate, so there is never more than one at a time. It uses select(2) and has at
most about 1,020 connections open: a connection that it cannot open is an error, "no_descriptor".
"""
import os
import re

import stats
from netns import LabError
from sitelab import Window

LINES = {
    "total": r"^Total: connections (\d+) requests (\d+) replies (\d+) test-duration ([\d.]+) s",
    "time": r"^Connection time \[ms\]: min [\d.]+ avg ([\d.]+) max ([\d.]+) median ([\d.]+)",
    "connect": r"^Connection time \[ms\]: connect ([\d.]+)",
    "response": r"^Reply time \[ms\]: response ([\d.]+) transfer ([\d.]+)",
    "status": r"^Reply status: 1xx=(\d+) 2xx=(\d+) 3xx=(\d+) 4xx=(\d+) 5xx=(\d+)",
    "errors": r"^Errors: total (\d+) client-timo (\d+) socket-timo (\d+) connrefused (\d+) connreset (\d+)",
    "more": r"^Errors: fd-unavail (\d+) addrunavail (\d+) ftab-full (\d+) other (\d+)",
}


def parse(text, offered):
    """({measure: number or None}, {kind of error: count}) of httperf's output after this many offered connections.
    LabError for other output."""
    found = {}
    for name, pattern in LINES.items():
        match = re.search(pattern, text, re.M)
        if not match:
            raise LabError(f"httperf printed no line \"{name}\": {text[-300:]}")
        found[name] = [float(word) for word in match.groups()]
    connections, requests, replies, duration = found["total"]
    bad_replies = sum(found["status"]) - found["status"][1]
    kinds = dict(zip(("timeout", "socket_timeout", "refused", "reset", "no_descriptor", "no_address", "table_full",
                      "other"), found["errors"][1:] + found["more"]))
    kinds["status"] = bad_replies
    own = kinds["no_address"] + kinds["table_full"]
    if own:
        raise LabError(f"the host cannot carry this rate: {own:.0f} connections found no port or place")
    errors = found["errors"][0] + bad_replies
    answered = replies > 0
    measures = {
        "connections": connections, "requests": requests, "replies": replies,
        "replies_per_second": replies / duration if duration else None,
        "errors": errors, "error_share": errors / offered,
        "connection_mean_ms": found["time"][0] if answered else None,
        "connection_median_ms": found["time"][2] if answered else None,
        "connection_max_ms": found["time"][1] if answered else None,
        "connect_ms": found["connect"][0] if answered else None,
        "response_ms": found["response"][0] if answered else None,
        "transfer_ms": found["response"][1] if answered else None,
    }
    return measures, {kind: int(count) for kind, count in kinds.items() if count}


def run_httperf(cluster, tag, server, rate, seconds, repetition, options, show):
    """Poisson arrivals at this rate of connections, the same in all arms of a repetition: httperf draws them
    by the number of the client that it is told to be. A run as Experiment.run() gives it."""
    out, err = (os.path.join(cluster.directory, f"httperf-{tag}.{kind}") for kind in ("out", "err"))
    offered = int(rate * seconds)
    words = ["httperf", "--hog", "--server", server, "--port", "80", f"--period=e{1 / rate:.9f}",
             f"--client={repetition - 1}/{repetition}",
             "--num-conns", str(offered)]
    words += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with open(out, "wb") as output:
        child = cluster.site.start(cluster.clients[0], words, err, stdout=output)
    window = Window(cluster, child, 0, seconds, show)
    status = child.wait()
    cluster.site.reap()
    with open(out, encoding="utf-8", errors="replace") as file:
        text = file.read()
    if status:
        with open(err, encoding="utf-8", errors="replace") as file:
            raise LabError(f"httperf ended with status {status}: {file.read()[-300:]}")
    found = window.finish()
    measures, kinds = parse(text, offered)
    for name, of in stats.three_indices(window.served, window.opened).items():
        measures.update({f"{name}_{key}": value for key, value in of.items()})
    measures.update({name: value for name, value in found.items() if name != "host"})
    measures.update(found["host"])
    return {"measures": measures, "series": {"served": window.served, "open": window.opened}, "host": found["host"],
            "errors_by_kind": kinds}
