# SPDX-License-Identifier: GPL-2.0-or-later
"""SYNs through dprd and through the accept-all program: the rate of a flood, and the processor time."""
import json
import os
import statistics
import time

from bench_measure import Rounds, pin, task_seconds
from bench_site import QUEUE, LabError, queue_state

CHUNK = 1000  # SYNs that wait while the program is stopped: just below the queue's length
ALL = os.sched_getaffinity(0)
# The first processor makes SYNs, the last one runs the program; the same one when there is only one.
GENERATOR, PROGRAM = min(ALL), max(ALL)


class Flooded:
    """What one flood showed of one program."""

    def __init__(self, sent, seconds, decided, cpu_s, forwarded):
        self.forwarded = forwarded / decided
        self.rate = decided / seconds
        self.missed = 1 - decided / sent
        self.cpu_ns = cpu_s * 1e9 / decided

    def __str__(self):
        return f"{self.rate / 1e3:.0f} k/s {self.cpu_ns:.0f} ns {self.missed * 100:.1f}% fwd {self.forwarded * 100:.0f}%"


def generate(site, arm, processor, words):
    """Runs the SYN generator towards one arm; what it printed."""
    return json.loads(site.site.execute("g", ["taskset", "-c", str(processor), site.program("synflood"), arm.link,
                                              arm.mac, arm.address] + [str(word) for word in words]))


def flood(site, arm, seconds):
    """SYNs as fast as the generator can for a while. Counted is what the queue took and the program
    answered; with a full queue the rest passes by it (fail-open) and does not count."""
    pin(arm.pid, {PROGRAM})
    _, before = queue_state(arm.pid)
    made_before = site.flows_made(arm)
    cpu_before = task_seconds([arm.pid])
    output = generate(site, arm, GENERATOR, ["flood", seconds])
    deadline = time.monotonic() + 5
    while True:
        waiting, after = queue_state(arm.pid)
        if not waiting:
            break
        if time.monotonic() > deadline:
            raise LabError(f"{arm.name}: {waiting} packets are still in the queue")
        time.sleep(0.001)
    time.sleep(0.005)  # so that it sleeps, and its processor time is complete
    if after - before <= 0:
        raise LabError(f"{arm.name}: no SYN came to the queue")
    cpu_s = task_seconds([arm.pid]) - cpu_before
    return Flooded(output["sent"], output["seconds"], after - before, cpu_s, site.flows_made(arm) - made_before)


def drain(site, arm, chunks):
    """ns of the program's processor time per SYN of a waiting backlog. On one processor, since from
    another's cache every packet costs half as much again, and the scheduler would pick at random."""
    pin(arm.pid, {PROGRAM})
    output = generate(site, arm, PROGRAM, ["drain", arm.pid, QUEUE, CHUNK, chunks])
    return statistics.median(output["ns_per_syn"])


def add_flood(results, values):
    rates = {name: [one.rate for one in found] for name, found in values.items()}
    base = rates["accept_all"]
    results.add_ratio("syn_rate_of_accept_all", rates["dprd_local"], base)
    results.add_ratio("syn_rate_of_accept_all_same_rules", rates["dprd_local"], rates["accept_all_same_rules"])
    results.add_ratio("syn_rate_half_forwarded_of_accept_all", rates["dprd_half_forwarded"], base)
    results.add_ratio("syn_rate_all_forwarded_of_accept_all", rates["dprd_all_forwarded"], base)
    for name, found in rates.items():
        results.add(f"syn_rate_{name}", "1/s", found)
    for name in ("dprd_half_forwarded", "dprd_all_forwarded"):
        results.add(f"syn_share_forwarded_{name}", "ratio", [one.forwarded for one in values[name]])


def add_drain(results, ns):
    base = ns["accept_all"]
    results.add_ratio("syn_cpu_of_accept_all", ns["dprd_local"], base)
    results.add_ratio("syn_cpu_of_accept_all_same_rules", ns["dprd_local"], ns["accept_all_same_rules"])
    results.add_ratio("syn_cpu_half_forwarded_of_accept_all", ns["dprd_half_forwarded"], base)
    results.add_ratio("syn_cpu_all_forwarded_of_accept_all", ns["dprd_all_forwarded"], base)
    for name, found in ns.items():
        results.add(f"syn_cpu_{name}", "ns", found)


def run(site, results, arguments):
    # On a real cluster the peer spends its own processors on what it gets; here it would take ours.
    site.sink_tunnels(True)
    rounds = arguments.rounds or (7 if arguments.quick else 15)
    seconds = 0.5 if arguments.quick else 1.0
    found = Rounds(f"SYN flood, {seconds} s each: decided SYNs/s, the program's CPU per SYN, share that passed by "
                   "a full queue, share forwarded", site.arms, rounds).run(lambda arm: flood(site, arm, seconds), str)
    add_flood(results, found)
    chunks = 30 if arguments.quick else 100
    found = Rounds(f"waiting backlog of {CHUNK} SYNs, median of {chunks}: the program's CPU per SYN", site.arms,
                   rounds).run(lambda arm: drain(site, arm, chunks), lambda ns: f"{ns:.0f} ns")
    add_drain(results, found)
    site.sink_tunnels(False)
    for arm in site.arms:
        pin(arm.pid, ALL)
