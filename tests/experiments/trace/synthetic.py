# SPDX-License-Identifier: GPL-2.0-or-later
"""A synthetic trace: "trace make". Pure; the same arguments give the same records.

Sessions begin as a Poisson process whose rate follows a day: low at first, high in the afternoon, and a burst, the
match, that comes within minutes and fades slowly. Clients are drawn by Zipf's law, as some are proxies. A session has
a heavy-tailed number of pages (Pareto, 1.5), a page a heavy-tailed number of objects (Pareto, 2.43), pauses are Pareto
(1.5). Objects are asked for by Zipf's law; their sizes follow SURGE's laws, matched to the popularity.
"""
import bisect
import itertools
import math
import os
import random
import sys
from dataclasses import dataclass

import wc98

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lab"))
# pylint: disable=wrong-import-position
import httpfiles

START_S = 897_602_400  # 12 June 1998, midnight in Paris
PAGES_ALPHA, PAGES_MOST = 1.5, 200
PAGE_OBJECTS_ALPHA, PAGE_OBJECTS_MOST = 2.43, 50
PAUSE_ALPHA, PAUSE_LEAST_S, PAUSE_MOST_S = 1.5, 1.0, 600.0
NIGHT, DAY = 0.5, 1.5  # of the mean rate
STEPS = 4096  # of the cumulative rate
REQUESTS_MOST = 50_000_000
UNCHANGED_SHARE, PART_SHARE, MISSING_SHARE, HEAD_SHARE, POST_SHARE = 0.18, 0.005, 0.006, 0.002, 0.0005
OLD_HTTP_SHARE = 0.8
TYPE_SHARES = (("image", 0.85), ("HTML", 0.96), ("dynamic", 0.975), ("Java", 0.985), ("compressed", 1.0))
MISSING_BYTES, PART_LEAST_BYTES = 300, 1000


@dataclass(frozen=True)
class Plan:
    """The parameters of a synthetic trace. burst: the highest rate over the day's at that time; 1 is none.
    burst_at, burst_long: middle of the rise, and time constant of the decay, as shares of the span."""
    span_s: int = 86400
    rate: float = 10.0
    objects: int = 2000
    clients: int = 5000
    burst: float = 3.0
    burst_at: float = 0.6
    burst_long: float = 0.08
    cap_bytes: int = 1_000_000
    seed: int = 1
    file_seed: int = 1

    def check(self):
        bounds = {"span_s": (1, 10_000_000), "rate": (1e-6, 1e6), "objects": (2, 200_000), "clients": (1, 10_000_000),
                  "burst": (1, 1000), "burst_at": (0, 1), "burst_long": (1e-4, 1), "cap_bytes": (64, 1 << 30),
                  "seed": (0, 1 << 63), "file_seed": (0, 1 << 63)}
        for name, (low, high) in bounds.items():
            if not low <= getattr(self, name) <= high:
                raise wc98.TraceError(f"--{name.replace('_', '-')}: must be from {low} to {high}")
        if self.span_s * self.rate > REQUESTS_MOST:
            raise wc98.TraceError(f"more than {REQUESTS_MOST:,} requests: take a shorter --span-s or a lower --rate")


def shape(plan, where):
    """The rate at a place of the span (0 to 1), relative to a day without burst."""
    day = NIGHT + (DAY - NIGHT) * (1 - math.cos(2 * math.pi * where)) / 2
    since = (where - plan.burst_at) / plan.burst_long
    rise = 1 / (1 + math.exp(-max(-700, since * 20)))
    return day * (1 + (plan.burst - 1) * rise * min(1.0, math.exp(-since)))


class Law:
    """Draws the index of one of these weights."""

    def __init__(self, weights):
        self.sums = list(itertools.accumulate(weights))

    def draw(self, rng):
        return min(bisect.bisect_right(self.sums, rng.random() * self.sums[-1]), len(self.sums) - 1)


def pareto(rng, alpha, least, most):
    return min(least * (1 - rng.random()) ** (-1 / alpha), most)


def session(rng):
    """[seconds since its begin of each request]"""
    moments, now = [], 0.0
    for page in range(int(pareto(rng, PAGES_ALPHA, 1, PAGES_MOST))):
        if page:
            now += pareto(rng, PAUSE_ALPHA, PAUSE_LEAST_S, PAUSE_MOST_S)
        for place in range(int(pareto(rng, PAGE_OBJECTS_ALPHA, 1, PAGE_OBJECTS_MOST))):
            now += 0.3 * rng.random() if place else 0.0
            moments.append(now)
    return moments


def begins(plan, rng, count):
    """This many moments of the span, sorted, distributed by the shape."""
    law = Law(shape(plan, (step + 0.5) / STEPS) for step in range(STEPS))
    return sorted((law.draw(rng) + rng.random()) / STEPS * plan.span_s for _ in range(count))


def file_set(plan):
    """(sizes, law of popularity, types) of the objects; depends on file_seed only."""
    rng = random.Random(f"files {plan.file_seed}")
    sizes = httpfiles.draw_sizes(plan.objects, plan.cap_bytes, rng)
    law = Law(httpfiles.match_popularity(sizes))
    kinds = []
    for _ in sizes:
        where = rng.random()
        kinds.append(next(name for name, bound in TYPE_SHARES if where < bound))
    return sizes, law, kinds


def outcome(rng, size):
    """(method, status, size) of one request for an object of this size."""
    where = rng.random()
    for share, found in ((UNCHANGED_SHARE, ("GET", "304", wc98.NO_SIZE)), (HEAD_SHARE, ("HEAD", "200", wc98.NO_SIZE)),
                         (MISSING_SHARE, ("GET", "404", MISSING_BYTES)), (POST_SHARE, ("POST", "200", size)),
                         (PART_SHARE if size > PART_LEAST_BYTES else 0, ("GET", "206", size // 2))):
        if where < share:
            return found
        where -= share
    return "GET", "200", size


def make(plan):
    """The Trace. Requests of a session behind the end of the span come at its beginning instead, as if the session
    had begun before: otherwise the first minutes would be too empty."""
    plan.check()
    sizes, law, kinds = file_set(plan)
    rng = random.Random(f"requests {plan.seed}")
    clients = Law(1 / rank for rank in range(1, plan.clients + 1))
    wanted, sessions, drawn = int(plan.span_s * plan.rate), [], 0
    while drawn < wanted:
        sessions.append(session(rng))
        drawn += len(sessions[-1])
    rows = []
    for begin, moments in zip(begins(plan, rng, len(sessions)), sessions):
        client, old = clients.draw(rng) + 1, rng.random() < OLD_HTTP_SHARE
        for moment in moments:
            obj = law.draw(rng)
            rows.append(((begin + moment) % plan.span_s, client, obj, old, outcome(rng, sizes[obj])))
    rows.sort(key=lambda row: row[0])
    trace = wc98.Trace()
    for moment, client, obj, old, (method, status, size) in rows:
        region = wc98.REGIONS[client % len(wc98.REGIONS)]
        flags = wc98.flags_of(method, "HTTP/1.0" if old else "HTTP/1.1", status, kinds[obj], region, obj % 8)
        trace.append(START_S + int(moment), client, obj + 1, size, flags)
    return trace
