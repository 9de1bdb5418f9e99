# SPDX-License-Identifier: GPL-2.0-or-later
"""SYNs through dprd and through the accept-all program: the rate of a flood, and the processor time."""
import json
import os
import statistics
import time

from bench_connections import find_number
from bench_dprd import QUEUE, QUEUE_LENGTH, queue_state
from bench_measure import Rounds, pin
from hostinfo import task_seconds
from netns import LabError

CHUNK = 500  # SYNs that wait while the program is stopped: just below the queue's length
ALL = os.sched_getaffinity(0)
# The first processor makes SYNs, the last one runs the program; the same one when there is only one.
GENERATOR, PROGRAM = min(ALL), max(ALL)

# Right behind the queues and in front of the routing: no TCP stack takes part in the comparison.
DROP_RULES = """\
add table inet bench
add counter inet bench behind
add chain inet bench prerouting { type filter hook prerouting priority -150 ; }
add rule inet bench prerouting ip saddr 198.19.0.0/16 counter name behind drop
"""

# result, arm, compared with. In a flood Decide=auto, the default, behaves as Decide=kernel.
FLOOD_RATIOS = [
    ("flood_rate_of_accept_all", "kernel-local", "accept_all"),
    ("flood_rate_forwarded_of_accept_all", "kernel", "accept_all"),
    ("queue_flood_rate_of_accept_all", "local", "accept_all"),
    ("queue_flood_rate_half_forwarded_of_accept_all", "half", "accept_all"),
    ("queue_flood_rate_forwarded_of_accept_all", "queue", "accept_all"),
    ("nfqueue_flood_rate_forwarded_of_accept_all", "nfqueue", "accept_all"),
    ("kernel_decision_flood_rate_of_without", "kernel-local", "no_queue"),
    ("kernel_decision_flood_rate_forwarded_of_without", "kernel", "no_queue"),
    ("bare_hooks_flood_rate_of_without", "hooks", "no_queue"),
]
ANSWERED_RATIOS = [
    ("kernel_decision_flood_answered_of_without", "kernel-local", "no_queue"),
    ("bare_hooks_flood_answered_of_without", "hooks", "no_queue"),
]
DRAIN_RATIOS = [
    ("syn_cpu_of_accept_all", "local", "accept_all"),
    ("syn_cpu_half_forwarded_of_accept_all", "half", "accept_all"),
    ("syn_cpu_forwarded_of_accept_all", "queue", "accept_all"),
    ("nfqueue_syn_cpu_forwarded_of_accept_all", "nfqueue", "accept_all"),
]


class Arm:
    """One side of a comparison: a host that gets SYNs, and the program that judges them; none (pid 0) where they pass
    by all queues."""

    def __init__(self, bench, name, host, pid):
        self.name, self.host, self.pid = name, host, pid
        self.address, self.mac = bench.address(host), bench.hardware_address(host)


def make_arms(bench):
    arms = [Arm(bench, "accept_all", "accept", start_accept_all(bench)), Arm(bench, "no_queue", "plain", 0),
            Arm(bench, "hooks", "hooks", 0)]
    for name, pair in bench.pairs.items():
        arms.append(Arm(bench, name, name, 0 if pair.plan.decide == "kernel" else pair.pid(pair.entry, "dprd")))
    return arms


def start_accept_all(bench):
    """One plain rule, the queue with dprd's settings, and a program that accepts."""
    bench.site.execute("accept", ["iptables-nft", "-t", "raw", "-A", "PREROUTING", "-p", "tcp", "--syn", "--dport",
                                  "80", "-j", "NFQUEUE", "--queue-num", str(QUEUE), "--queue-bypass"])
    pid = bench.start_tool("accept", "acceptall", [str(QUEUE), str(QUEUE_LENGTH)]).pid
    bench.raise_priorities()
    return pid


def start_sinks(bench):
    """Forwarded SYNs are lost where they come off the wire: on a real cluster the peer spends its own processors
    on what it gets, here it would take ours. The processes."""
    return [bench.start_tool(pair.serving.name, "tcsink", ["eth1"]) for pair in bench.pairs.values()]


def set_rules(bench, arms, wanted):
    """Sets the counting rules only while they are needed: every packet pays for them."""
    for arm in arms:
        bench.site.execute(arm.host, ["nft", "-f", "-"], text_in=DROP_RULES if wanted else "delete table inet bench\n")


def passed_by(bench, host):
    """SYNs that came to the rule behind the queues."""
    listing = json.loads(bench.site.execute(host, ["nft", "-j", "list", "counter", "inet", "bench", "behind"]))
    return listing["nftables"][-1]["counter"]["packets"]


def forwarded_by(bench, arm):
    """SYNs that the arm's dprd has forwarded so far."""
    if arm.name not in bench.pairs:
        return 0
    return (bench.pairs[arm.name].status(arm.host) or {})["decisions"].get("chosen", {"count": 0})["count"]


class Flooded:
    """The result of one flood with one program."""

    def __init__(self, sent, seconds, decided, cpu_s, forwarded):
        self.forwarded = forwarded / decided
        self.rate = decided / seconds
        self.missed = 1 - decided / sent
        self.cpu_ns = cpu_s * 1e9 / decided

    def __str__(self):
        return f"{self.rate / 1e3:.0f}k" + (f" {self.cpu_ns:.0f}ns" if self.cpu_ns else "") + (
            f" -{self.missed * 100:.0f}%" if self.missed >= 0.005 else "")


def generate(bench, arm, processor, words):
    """Runs the SYN generator towards one arm; returns its output."""
    return json.loads(bench.client([
        "taskset", "-c", str(processor), bench.program("tests/bench/synflood"), arm.host, arm.mac, arm.address]
        + [str(word) for word in words]))


def wait_for_queue(arm):
    deadline = time.monotonic() + 5
    while True:
        waiting, taken = queue_state(arm.pid)
        if not waiting:
            break
        if time.monotonic() > deadline:
            raise LabError(f"{arm.name}: {waiting} packets are still in the queue")
        time.sleep(0.001)
    time.sleep(0.005)  # so that it sleeps, and its processor time is complete
    return taken


def flood(bench, arm, seconds):
    """Sends SYNs as fast as the generator can for a while. It counts SYNs that the queue took and the program answered;
    with a full queue the others pass by it (fail-open) and do not count. Without a queue it counts SYNs that were
    forwarded, or came to the rule behind."""
    forwarded_before = forwarded_by(bench, arm)
    if arm.pid:
        pin(arm.pid, {PROGRAM})
        _, before = queue_state(arm.pid)
        cpu_before = task_seconds([arm.pid])
        output = generate(bench, arm, GENERATOR, ["flood", seconds])
        decided = wait_for_queue(arm) - before
        cpu_s = task_seconds([arm.pid]) - cpu_before
        forwarded = forwarded_by(bench, arm) - forwarded_before
    else:
        before = passed_by(bench, arm.host)
        output, cpu_s = generate(bench, arm, GENERATOR, ["flood", seconds]), 0.0
        time.sleep(0.1)  # until dprd has read the programs' counters
        forwarded = forwarded_by(bench, arm) - forwarded_before
        decided = passed_by(bench, arm.host) - before + forwarded
    if decided <= 0:
        raise LabError(f"{arm.name}: no SYN came to the queue")
    return Flooded(output["sent"], output["seconds"], decided, cpu_s, forwarded)


def segments_sent(bench, host):
    """SYN-ACKs sent by the TCP of a host so far."""
    names, values = [line.split() for line in bench.site.execute(host, ["cat", "/proc/net/snmp"]).splitlines()
                     if line.startswith("Tcp:")]
    return int(values[names.index("OutSegs")])


def flood_answered(bench, arm, seconds):
    """SYNs per second to which the kernel sent a SYN-ACK, while the generator sends as fast as it can."""
    before = segments_sent(bench, arm.host)
    output = generate(bench, arm, GENERATOR, ["flood", seconds])
    answered = segments_sent(bench, arm.host) - before
    if answered <= 0:
        raise LabError(f"{arm.name}: no SYN was answered")
    return answered / output["seconds"]


def drain(bench, arm, chunks):
    """ns of the program's processor time per SYN of a waiting backlog. On one processor, since from
    another's cache every packet costs half as much again, and the scheduler would pick at random."""
    pin(arm.pid, {PROGRAM})
    output = generate(bench, arm, PROGRAM, ["drain", arm.pid, QUEUE, CHUNK, chunks])
    return statistics.median(output["ns_per_syn"])


def add_ratios(bench, results, ratios, values):
    for name, arm, base in ratios:
        if arm in values:
            results.add_ratio(name, values[arm], values[base])
        else:
            results.add_missing(name, bench.missing[arm])


def run_flood(bench, results, arms, rounds, seconds):
    found = Rounds(f"SYN flood, {seconds} s each: decided SYNs/s, the program's processor time per SYN, share that "
                   "passed by a full queue", arms, rounds).run(lambda arm: flood(bench, arm, seconds), str)
    rates = {name: [one.rate for one in series] for name, series in found.items()}
    add_ratios(bench, results, FLOOD_RATIOS, rates)
    for name, series in rates.items():
        results.add(f"flood_rate_{name}".replace("-", "_"), "1/s", series)
    for name in ("half", "queue", "kernel", "nfqueue"):
        if name in found:
            results.add(f"flood_share_forwarded_{name}", "ratio", [one.forwarded for one in found[name]])


def run_answered(bench, results, arms, rounds, seconds):
    wanted = {name for ratio in ANSWERED_RATIOS for name in ratio[1:]}
    found = Rounds(f"a flood of {seconds} s that the web server's kernel answers: SYN-ACKs per second",
                   [arm for arm in arms if arm.name in wanted], rounds).run(
                       lambda arm: flood_answered(bench, arm, seconds), lambda rate: f"{rate / 1e3:.0f}k")
    add_ratios(bench, results, ANSWERED_RATIOS, found)


def run_drain(bench, results, arms, rounds, chunks):
    queued = [arm for arm in arms if arm.pid]
    found = Rounds(f"waiting backlog of {CHUNK} SYNs, median of {chunks}: the program's processor time per SYN", queued,
                   rounds).run(lambda arm: drain(bench, arm, chunks), lambda ns: f"{ns:.0f}ns")
    add_ratios(bench, results, DRAIN_RATIOS, found)
    for name, series in found.items():
        results.add(f"syn_cpu_{name}", "ns", series)


def add_memory(bench, results):
    """The own memory of a dprd with room for 1 M flows; the flow table is the kernel's (bytes_per_flow)."""
    if "queue" not in bench.pairs:
        return
    pair = bench.pairs["queue"]
    with open(f"/proc/{pair.pid(pair.entry, 'dprd')}/status", encoding="ascii", errors="replace") as file:
        results.add("dprd_own_memory", "bytes", [find_number(r"RssAnon:\s+(\d+) kB", file.read()) * 1024])


def run(bench, results, arguments):
    rounds = arguments.rounds or (5 if arguments.quick else 9)
    arms = make_arms(bench)
    sinks = start_sinks(bench)
    set_rules(bench, arms, True)
    try:
        run_flood(bench, results, arms, rounds, 0.4 if arguments.short else 1.0)
        run_drain(bench, results, arms, rounds, 20 if arguments.short else 60)
        set_rules(bench, arms, False)
        run_answered(bench, results, arms, rounds, 0.4 if arguments.short else 1.0)
    finally:
        for sink in sinks:
            sink.terminate()
            sink.wait(5)
        for arm in arms:
            if arm.pid:
                pin(arm.pid, ALL)
    add_memory(bench, results)
