#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Compares dpr-sim with real nodes: the same connections for both, and the tolerance between them.

    agree.py load PLAN.json RESULT.json

makes the connections of a plan to the queues of queuework.py: [[moment in s, address, port, service ms], ...].

The noise of a mean delay at a load of 0.8 is mostly that of the arrivals: with a thousand connections it is 10 % and
more. So both get the same arrivals. dpr-sim draws moments, service times and entry nodes from streams that depend
only on the seed; arrivals() draws the same. Only chance within the cluster remains: the times of announcements, and
the choice between two equal nodes. reference() measures it: runs of dpr-sim with these arrivals and jitters from 10
to 90 %, which only shift the announcements. Only a node's first announcement is the same in all of them, so that a
warm-up must be two periods and more.
"""
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

import queuework

MASK = 2**64 - 1
STREAM_ARRIVALS, STREAM_WORKS, STREAM_ENTRIES = 1, 2, 3  # dprd/sim/run.c
REFERENCE_RUNS = 40
JITTER_LEAST, JITTER_MOST = 0.1, 0.9  # around dprd's 50 %; the value hardly affects the means
TICK = "50ms"  # of dprd
HOP = "0.2ms"
PATIENCE_S = 20

# The tolerance: chance, as a number of standard deviations of the reference, and effects that the model leaves out.
DEVIATIONS = 3
MODEL_MEAN = 0.05  # of the mean delay
MODEL_SHARE = 0.02  # of all connections

COST_MOST = 0.2  # service times; a host that adds more is starved
LATE_MOST_MS = 100


@dataclass(frozen=True)
class Arm:
    """A policy with a period, a cluster of queues with one worker each, and the connections to it."""

    policy: str
    period: str
    warmup_s: float
    seconds: float  # measured, after the warm-up
    seed: int = 1
    nodes: int = 8
    service_ms: float = 50.0
    load: float = 0.8

    @property
    def rate(self):
        return self.load * self.nodes * 1000 / self.service_ms

    @property
    def connections(self):
        return round(self.rate * (self.warmup_s + self.seconds))

    def __str__(self):
        return f"{self.policy}, {self.period}"


# ---- the streams of dprd/sim/random.c ----

def mix(seed):
    seed = (seed + 0x9E3779B97F4A7C15) & MASK
    seed = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & MASK
    seed = (seed ^ seed >> 27) * 0x94D049BB133111EB & MASK
    return seed ^ seed >> 31


def rotate_left(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK


def uniforms(seed, purpose):
    """xoshiro256**, as numbers within (0, 1)."""
    start = mix(mix(seed) ^ mix(~purpose & MASK))
    a, b, c, d = (mix((start + i) & MASK) for i in range(4))
    while True:
        bits = rotate_left(b * 5 & MASK, 7) * 9 & MASK
        shifted = b << 17 & MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = rotate_left(d, 45)
        yield (bits >> 11) * 2.0**-53 + 2.0**-54


def arrivals(arm):
    """[(moment in s, entry node from 0, service time in s)] of dpr-sim with this seed, entries uniform."""
    moments, works, entries = (uniforms(arm.seed, purpose)
                               for purpose in (STREAM_ARRIVALS, STREAM_WORKS, STREAM_ENTRIES))
    found, at = [], 0.0
    for _ in range(arm.connections):
        at += -math.log(next(moments)) / arm.rate
        found.append((at, int(next(entries) * arm.nodes), -math.log(next(works)) * arm.service_ms / 1000))
    return found


def queue_delays(connections, served):
    """The time of each connection at its serving node, in s: first come, first served, and nothing else."""
    free_at, delays = {}, []
    for (at, _entry, work), node in zip(connections, served):
        free_at[node] = max(at, free_at.get(node, 0.0)) + work
        delays.append(free_at[node] - at)
    return delays


# ---- dpr-sim ----

def simulate(program, arm, directory, *more):
    """One run of dpr-sim with these connections: {measure: value}."""
    path = os.path.join(directory, "sim.json")
    words = [program, "--nodes", str(arm.nodes), "--service-mean", f"{arm.service_ms}ms", "--load", str(arm.load),
             "--connections", str(arm.connections), "--warmup", f"{arm.warmup_s}s", "--seed", str(arm.seed),
             "--policy", arm.policy, "--period", arm.period, "--tick", TICK, "--hop", HOP, "--json", path, *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"dpr-sim: {done.stderr.strip()}")
    with open(path, encoding="utf-8") as file:
        measures = json.load(file)["arms"][0]["measures"]
    return {"mean": measures["mean_delay_ms"]["median"] / arm.service_ms,
            "forwarded": measures["forwarded_percent"]["median"] / 100,
            "sent_back": measures["sent_back_percent"]["median"] / 100}


def reference(program, arm, directory, *more):
    """{measure: (mean, standard deviation)} of many runs with the same connections."""
    jitters = (JITTER_LEAST + i * (JITTER_MOST - JITTER_LEAST) / (REFERENCE_RUNS - 1) for i in range(REFERENCE_RUNS))
    runs = [simulate(program, arm, directory, "--jitter", f"{jitter:.4f}", *more) for jitter in jitters]
    return {name: (statistics.fmean(run[name] for run in runs), statistics.stdev(run[name] for run in runs))
            for name in runs[0]}


# ---- what was measured, and whether it agrees ----

def measures_of(arm, connections, results):
    """({mean, forwarded}, cost) of the connections after the warm-up; mean and cost in service times.

    results: (seconds, serving node from 0, error or None) of each connection. cost: the time beyond the queue of
    connections that their entry node served. dprd did nothing to them: TCP, the client, the server and a busy
    host add this time, which the model leaves out. mean is without it."""
    queued = queue_delays(connections, [node for _, node, _ in results])
    counted = [(seconds, seconds - delay, node == entry)
               for (at, entry, _), (seconds, node, _), delay in zip(connections, results, queued)
               if at >= arm.warmup_s]
    service_s = arm.service_ms / 1000
    own = [beyond for _, beyond, here in counted if here]
    cost = statistics.fmean(own) / service_s if own else 0.0
    return {"mean": statistics.fmean(seconds for seconds, _, _ in counted) / service_s - cost,
            "forwarded": 1 - len(own) / len(counted)}, cost


def sent_back_share(before, after):
    """The shares of forwarded and returned connections among the new ones between two {reason: (kind, count)} of all
    dprd."""
    counts = {reason: count - before.get(reason, (kind, 0))[1] for reason, (kind, count) in after.items()}
    served = sum(counts[reason] for reason, (kind, _) in after.items() if kind == "serve")
    back, again = counts.get("sent_back", 0), counts.get("chosen_again", 0)
    # A connection that came back and then stayed was decided twice.
    new = served + counts.get("chosen", 0) - (back - again)
    return back / new if new else 0.0


@dataclass(frozen=True)
class Comparison:
    arm: Arm
    measure: str
    measured: float
    simulated: float
    tolerance: float

    @property
    def agrees(self):
        return abs(self.measured - self.simulated) <= self.tolerance

    def __str__(self):
        return (f"{self.arm}: {self.measure} {self.measured:.3f}, simulated {self.simulated:.3f} "
                f"(+-{self.tolerance:.3f})")


def chance(deviation):
    """The spread by chance of one value that is compared with the mean of the reference."""
    return DEVIATIONS * deviation * math.sqrt(1 + 1 / REFERENCE_RUNS)


def compare(runs):
    """The comparisons of all arms. runs: [(arm, measured, reference())]; ratios are to the first of them."""
    found = []
    _, first, first_expected = runs[0]
    for arm, measured, expected in runs:
        for measure, (mean, deviation) in expected.items():
            off = chance(deviation) + (MODEL_MEAN * mean if measure == "mean" else MODEL_SHARE)
            found.append(Comparison(arm, measure, measured[measure], mean, off))
        if measured is not first:
            (mean, deviation), (base, base_deviation) = expected["mean"], first_expected["mean"]
            share = math.hypot(chance(deviation) / mean, chance(base_deviation) / base) + MODEL_MEAN
            ratio = mean / base
            found.append(Comparison(arm, f"mean / that of {runs[0][0]}", measured["mean"] / first["mean"], ratio,
                                    share * ratio))
    return found


def starvation(arm, cost, late_ms):
    """The reason to suspect the host instead of dprd; empty when it had time enough."""
    reasons = []
    if cost > COST_MOST:
        reasons.append(f"{arm}: connections took {cost:.2f} service times beyond their queues")
    if late_ms > LATE_MOST_MS:
        reasons.append(f"{arm}: the client was {late_ms:.0f} ms late")
    return reasons


def table(comparisons, costs):
    """The comparison as Markdown. costs: [(arm, cost)]."""
    lines = ["| arm | measure | namespaces | simulated | tolerance |", "|---|---|---|---|---|"]
    lines += [f"| {c.arm} | {c.measure} | {c.measured:.3f} | {c.simulated:.3f} | {c.tolerance:.3f} |"
              for c in comparisons]
    lines += ["", "Beyond the queues, in service times, and taken off the means: "
              + "; ".join(f"`{arm}` {cost:.3f}" for arm, cost in costs) + "."]
    return "\n".join(lines) + "\n"


# ---- the connections, for real ----

async def load(planned):
    loop = asyncio.get_running_loop()
    begin, late_s, tasks = loop.time(), 0.0, []
    for at, address, port, service_ms in planned:
        await asyncio.sleep(max(0, begin + at - loop.time()))
        late_s = max(late_s, loop.time() - begin - at)
        tasks.append(asyncio.create_task(queuework.ask(address, port, service_ms, PATIENCE_S)))
    return {"results": await asyncio.gather(*tasks), "late_ms": late_s * 1000}


def main():
    if len(sys.argv) != 4 or sys.argv[1] != "load":
        sys.exit("usage: agree.py load PLAN.json RESULT.json")
    with open(sys.argv[2], encoding="ascii") as file:
        planned = json.load(file)
    result = asyncio.run(load(planned))
    with open(sys.argv[3], "w", encoding="ascii") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
