# SPDX-License-Identifier: GPL-2.0-or-later
"""Chooses the executions of the scenarios in "make check": pairs instead of products.

A scenario runs in many surroundings: on a plane, with or without Decide=kernel, in a layout, with an address family,
and with its own values. Each is an axis. Most faults need one value, or two that meet (Kuhn, Wallace, Gallo 2004).
So any two values of two axes that meet in the full product also meet in the choice, in each scenario separately.
Another seed makes another choice. Pure: no pytest, no clock, no files.
"""
import hashlib
import itertools

STEPS = 2000  # of the search for a smaller choice than the greedy one


def pairs_of(execution):
    """The pairs of values that meet in one execution ({axis: value}), and each value by itself."""
    values = sorted(execution.items())
    return set(itertools.combinations(values, 2)) | {(value,) for value in values}


def shuffled(executions, seed):
    return sorted(range(len(executions)), key=lambda index: hashlib.sha256(f"{seed} {index}".encode()).digest())


def greedy(contents, order, missing):
    """The places of executions that contain all missing pairs: in each step the execution with the most pairs that are
    still missing."""
    left, missing, chosen = list(order), set(missing), []
    while missing:
        best = max(left, key=lambda index: len(contents[index] & missing))
        missing -= contents[best]
        left.remove(best)
        chosen.append(best)
    return chosen


def fewer(contents, order, missing, most, steps):
    """A choice of at most this many executions, by search; None when there is none, or none was found in these steps.

    steps is a list with one number, which falls. The pair with the fewest executions is the next to be covered."""
    if not missing:
        return []
    steps[0] -= 1
    if steps[0] < 0 or most * max(len(contents[index] & missing) for index in order) < len(missing):
        return None
    rarest = min(sorted(missing), key=lambda pair: sum(pair in contents[index] for index in order))
    for index in order:
        if rarest in contents[index]:
            rest = fewer(contents, order, missing - contents[index], most - 1, steps)
            if rest is not None:
                return [index] + rest
    return None


def choose(executions, seed, had=()):
    """A small set of these executions (their places) that contains all pairs of the executions that are not in had."""
    contents = [pairs_of(execution) for execution in executions]
    missing = set().union(*contents) - set().union(*map(pairs_of, had))
    order = shuffled(executions, seed)
    chosen, steps = greedy(contents, order, missing), [STEPS]
    while chosen and (better := fewer(contents, order, missing, len(chosen) - 1, steps)) is not None:
        chosen = better
    return sorted(chosen)
