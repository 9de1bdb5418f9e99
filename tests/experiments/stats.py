# SPDX-License-Identifier: GPL-2.0-or-later
"""The statistics of the experiments. Pure: numbers in, numbers out.

Nothing here guesses: a result that cannot be computed (no value, a zero to divide by) is None.
"""
import math
import statistics


def quantile(values, share):
    """The smallest value that at least this share of all do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


def spread(values):
    """{median, min, max} of one value per repetition."""
    known = [value for value in values if value is not None]
    if not known:
        return {"median": None, "min": None, "max": None}
    return {"median": statistics.median(known), "min": min(known), "max": max(known)}


def paired_ratios(values, base):
    """[value / base value] of the repetitions that both have; arguments are {repetition: value}.

    Both values of a pair saw the same users at nearly the same time, so that common effects cancel.
    """
    return [values[repetition] / base[repetition] for repetition in sorted(set(values) & set(base))
            if values[repetition] is not None and base[repetition]]


def histogram(values, edges):
    """How many values are in each bin [edge, next edge), as a list one shorter than edges; what lies
    below the first or not below the last edge is counted apart: (counts, below, above)."""
    counts, below, above = [0] * (len(edges) - 1), 0, 0
    for value in values:
        if value < edges[0]:
            below += 1
        elif value >= edges[-1]:
            above += 1
        else:
            place = next(i for i, edge in enumerate(edges[1:]) if value < edge)
            counts[place] += 1
    return counts, below, above


def imbalance(values):
    """{m, p10, p90, index} with the paper's index, 1 + ((p90 - p10) / 2) / m; 1 is perfect balance."""
    if not values:
        return {"m": None, "p10": None, "p90": None, "index": None}
    mean, low, high = statistics.fmean(values), quantile(values, 0.1), quantile(values, 0.9)
    return {"m": mean, "p10": low, "p90": high, "index": 1 + (high - low) / 2 / mean if mean else None}


INDICES = {
    "cluster_served": "connections that the whole cluster served in a second",
    "node_served": "connections that one node served in a second, all nodes pooled",
    "node_open": "open connections of one node, looked at once a second, all nodes pooled",
}


def three_indices(served, opened):
    """The imbalance of one run in three readings, by the names in INDICES. Arguments: {node: [each second]}.

    The paper bins "concurrent open connections", but its means are the cluster's connections per second
    (the first reading); only the other two separate the nodes.
    """
    def pooled(by_node):
        return [value for series in by_node.values() for value in series]

    return {
        "cluster_served": imbalance([sum(second) for second in zip(*served.values())]),
        "node_served": imbalance(pooled(served)),
        "node_open": imbalance(pooled(opened)),
    }


def little_ms(in_flight, per_second):
    """The mean delay by Little's law: it also counts requests that still waited when the run ended."""
    return in_flight / per_second * 1000 if per_second else None


def think_time_s(users, per_second, mean_ms):
    """N / X - R: the time of a closed loop's users between two requests."""
    return users / per_second - mean_ms / 1000 if per_second and mean_ms is not None else None


def knee(points, bound=0.01):
    """The largest rate up to which no rate has more errors than bound; None when the first has already.
    points: (offered rate, share of errors)."""
    best = None
    for rate, errors in sorted(points):
        if errors is None or errors > bound:
            break
        best = rate
    return best


def per_second(moments, seconds):
    """How many of the moments (seconds since the start) fall into each of the first whole seconds."""
    counts = [0] * int(seconds)
    for moment in moments:
        if 0 <= moment < len(counts):
            counts[int(moment)] += 1
    return counts
