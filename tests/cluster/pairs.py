# SPDX-License-Identifier: GPL-2.0-or-later
"""Which executions of the scenarios "make check" takes: pairs instead of products.

A scenario runs in many surroundings: on a plane, with or without Decide=kernel, in a layout, with an address family,
and with values of its own. Each is an axis. Most faults need one value, or two that meet (Kuhn, Wallace, Gallo 2004).
So any two values of two axes that meet in the full product meet in the choice as well, for each scenario by itself.
Another seed makes another choice. Pure: no pytest, no clock, no files.
"""
import hashlib
import itertools

ATTEMPTS = 8  # a greedy search that begins elsewhere may end with fewer


def pairs_of(execution):
    """The pairs of values that meet in one execution ({axis: value}), and each value by itself."""
    values = sorted(execution.items())
    return set(itertools.combinations(values, 2)) | {(value,) for value in values}


def choose_once(executions, seed, missing):
    """Places of executions in which all missing pairs occur: each in its turn the one that has most of those still missing."""
    left = sorted(range(len(executions)), key=lambda index: hashlib.sha256(f"{seed} {index}".encode()).digest())
    missing = set(missing)
    chosen = []
    while missing:
        best = max(left, key=lambda index: len(pairs_of(executions[index]) & missing))
        missing -= pairs_of(executions[best])
        left.remove(best)
        chosen.append(best)
    return sorted(chosen)


def choose(executions, seed, had=()):
    """Few of these executions (their places), in which all pairs occur that are in executions and not in had."""
    missing = set().union(*map(pairs_of, executions)) - set().union(*map(pairs_of, had))
    return min((choose_once(executions, f"{seed} {attempt}", missing) for attempt in range(ATTEMPTS)), key=len)
