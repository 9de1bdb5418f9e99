# SPDX-License-Identifier: GPL-2.0-or-later
"""The files that the web servers serve, and how often users request each.

The sizes follow the published SURGE model: a lognormal body (mu 9.357, sigma 1.318) and a Pareto
tail (alpha 1.1 from 133 kB); the sizes as requested follow Pareto (1 kB, alpha 1.0); the popularity
is Zipf's. Sizes and popularity are matched by rank: the share of requests that each size should
have, by the distribution of requested sizes, gets the popularity of the same rank.
"""
import os
import random
import zlib

BODY_MU, BODY_SIGMA = 9.357, 1.318
TAIL_START_BYTES, TAIL_ALPHA, TAIL_SHARE = 133_000, 1.1, 0.07
REQUEST_START_BYTES, REQUEST_ALPHA = 1_000, 1.0


def draw_sizes(count, cap_bytes, rng):
    sizes = []
    while len(sizes) < count:
        if rng.random() < TAIL_SHARE:
            size = TAIL_START_BYTES * (1 - rng.random()) ** (-1 / TAIL_ALPHA)
        else:
            size = rng.lognormvariate(BODY_MU, BODY_SIGMA)
            if size > TAIL_START_BYTES:
                continue
        sizes.append(max(64, min(int(size), cap_bytes)))
    return sorted(sizes)


def match_popularity(sizes):
    """A weight for each of the (sorted) sizes; the weights are Zipf's, in a different order."""
    def share_below(size):
        return 1 - (REQUEST_START_BYTES / size) ** REQUEST_ALPHA if size > REQUEST_START_BYTES else 0.0

    count = len(sizes)
    middles = [0.0] + [share_below((low * high) ** 0.5) for low, high in zip(sizes, sizes[1:])] + [1.0]
    shares = [high - low for low, high in zip(middles, middles[1:])]
    ranks = sorted(range(count), key=lambda i: (-shares[i], i))
    weights = [0.0] * count
    for rank, i in enumerate(ranks):
        weights[i] = 1 / (rank + 1)
    return weights


def make_files(directory, count=1000, cap_bytes=1_000_000, seed=1):
    """Writes the files and returns their list as text: "path size crc32 weight" a line."""
    rng = random.Random(seed)
    sizes = draw_sizes(count, cap_bytes, rng)
    weights = match_popularity(sizes)
    os.makedirs(directory, exist_ok=True)
    lines = []
    for i, (size, weight) in enumerate(zip(sizes, weights)):
        content = rng.randbytes(size)
        with open(os.path.join(directory, f"f{i}"), "wb") as file:
            file.write(content)
        lines.append(f"/f{i} {size} {zlib.crc32(content):08x} {weight:.9f}\n")
    return "".join(lines)


def add_file(directory, name, size, seed=1):
    """Adds a file for single downloads; returns its line of the list."""
    content = random.Random(seed).randbytes(size)
    with open(os.path.join(directory, name), "wb") as file:
        file.write(content)
    return f"/{name} {size} {zlib.crc32(content):08x} 0\n"


def mean_request_bytes(listing):
    rows = [line.split() for line in listing.splitlines()]
    total = sum(float(row[3]) for row in rows)
    return sum(int(row[1]) * float(row[3]) for row in rows) / total
