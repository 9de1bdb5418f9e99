# SPDX-License-Identifier: GPL-2.0-or-later
"""Chooses the executions of the scenarios in "make check": pairs instead of products.

A scenario runs in many surroundings: on a plane, with or without Decide=kernel, in a layout, with an address family,
and with its own values. Each is an axis. Most faults need one value, or two that meet (Kuhn, Wallace, Gallo 2004).
So any two values of two axes that meet in the full product also meet in the choice, in each scenario separately.
Another seed makes another choice. Pure: no pytest, no clock, no files.
"""
import hashlib
import itertools

ATTEMPTS = 8  # a greedy search with another start may end with fewer


def pairs_of(execution):
    """The pairs of values that meet in one execution ({axis: value}), and each value by itself."""
    values = sorted(execution.items())
    return set(itertools.combinations(values, 2)) | {(value,) for value in values}


def choose_once(executions, seed, missing):
    """The places of executions that contain all missing pairs: in each step the execution with the most pairs that are
    still missing."""
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
    """A small set of these executions (their places) that contains all pairs of the executions that are not in had."""
    missing = set().union(*map(pairs_of, executions)) - set().union(*map(pairs_of, had))
    return min((choose_once(executions, f"{seed} {attempt}", missing) for attempt in range(ATTEMPTS)), key=len)
