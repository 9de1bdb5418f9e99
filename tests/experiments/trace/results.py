# SPDX-License-Identifier: GPL-2.0-or-later
"""The results of a replay: a summary with a list per second, and a line per request. Pure.

Delays are from just before connect() to the end of the answer. "waited" counts every request: failed and unfinished
ones as if they had ended then, so that its quantiles are lower bounds where those of "delay" flatter.
"""
import math
from collections import Counter

from replay import OK, WAITING

QUANTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
BURST_SHARE = 0.1  # of all seconds: those with the most requests are called the burst
LOG_HEADING = "# due_s start_s connect_ms end_ms bytes kind status server node outcome\n"


def describe_ms(values_s):
    """{mean, p50, p90, p99, max} in ms, by nearest rank; None without a value."""
    ordered = sorted(value * 1000 for value in values_s)
    if not ordered:
        return None
    found = {name: ordered[max(math.ceil(share * len(ordered)), 1) - 1] for share, name in QUANTILES}
    return {"mean": sum(ordered) / len(ordered), **found, "max": ordered[-1]}


def per_second(moments, seconds):
    """The number in each second; the last one includes its remainder, later ones are not counted."""
    counts = [0] * max(1, math.ceil(seconds))
    for moment in moments:
        if 0 <= moment < seconds:
            counts[int(moment)] += 1
    return counts


def in_burst(exchanges):
    """Those whose moments lie in the busiest tenth of the seconds."""
    each = Counter(int(one.due_s) for one in exchanges)
    seconds = int(exchanges[-1].due_s) + 1 if exchanges else 0
    busiest = {second for second, _count in each.most_common(max(1, round(BURST_SHARE * seconds)))}
    return [one for one in exchanges if int(one.due_s) in busiest]


def summarize(exchanges, seconds, servers):
    """The JSON object of a run."""
    started = [one for one in exchanges if one.start_s is not None]
    good = [one for one in started if one.outcome == OK]
    errors = {}
    for one in started:
        if one.outcome not in (OK, WAITING):
            errors[one.outcome] = errors.get(one.outcome, 0) + 1
    lags = [max(0.0, one.start_s - one.due_s) for one in started]
    in_time = [one for one in good if one.end_s < seconds]
    nodes = sorted({one.node or "?" for one in good})
    overlap_s = sum(max(0.0, min(one.end_s, seconds) - one.start_s) for one in started)
    return {
        "schema": "trace-replay/1",
        "seconds": seconds,
        "servers": [{"host": host, "share": share, "offered": sum(one.server == place for one in started)}
                    for place, (host, share) in enumerate(servers)],
        "planned": len(exchanges),
        "offered": len(started),
        "requests": len(in_time),
        "ended_late": len(good) - len(in_time),
        "waiting": sum(one.outcome == WAITING for one in started),
        "errors": {"total": sum(errors.values()), **errors},
        "requests_per_second": len(in_time) / seconds,
        "offered_per_second": len(started) / seconds,
        "bytes": sum(one.received for one in in_time),
        "delay_ms": describe_ms([one.end_s - one.start_s for one in good]),
        "waited_ms": describe_ms([one.end_s - one.start_s for one in started]),
        "burst_waited_ms": describe_ms([one.end_s - one.start_s for one in in_burst(started)]),
        "connect_ms": describe_ms([one.connect_s - one.start_s for one in good]),
        "in_flight_mean": overlap_s / seconds,
        "lag_ms": describe_ms(lags),
        "series": {
            "planned": per_second([one.due_s for one in exchanges], seconds),
            "offered": per_second([one.start_s for one in started], seconds),
            "served": {node: per_second([one.end_s for one in good if (one.node or "?") == node], seconds)
                       for node in nodes},
            "failed": per_second([one.end_s for one in started if one.outcome not in (OK, WAITING)], seconds),
        },
    }


def log_lines(exchanges, servers):
    """A line for each request, as LOG_HEADING names the columns; "-" is a missing value."""
    for one in exchanges:
        if one.start_s is None:
            yield f"{one.due_s:.6f} - - - 0 {one.kind} - {servers[one.server][0]} - unsent\n"
            continue
        connect = f"{(one.connect_s - one.start_s) * 1000:.3f}" if one.connect_s is not None else "-"
        yield (f"{one.due_s:.6f} {one.start_s:.6f} {connect} {(one.end_s - one.start_s) * 1000:.3f} {one.received} "
               f"{one.kind} {one.status or '-'} {servers[one.server][0]} {one.node or '-'} {one.outcome}\n")


class Beat:
    """A line of progress each second, worded as surge's."""

    def __init__(self, seconds, out):
        self.seconds, self.out = seconds, out
        self.before = (0, 0, 0.0)

    def __call__(self, run, now):
        good, failed, good_s = self.before
        self.before = (run.good, run.failed, run.good_s)
        fresh = run.good - good
        mean_ms = 1000 * (run.good_s - good_s) / fresh if fresh else 0
        self.out.write(f"trace replay {int(now)}/{self.seconds:g} s  served {fresh}/s  in flight {len(run.open)}  "
                       f"mean {mean_ms:.0f} ms  errors {run.failed - failed}/s\n")
        self.out.flush()
