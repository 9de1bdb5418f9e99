# SPDX-License-Identifier: GPL-2.0-or-later
"""Storms 10: a flood of SYNs over ten thousand connections, and a dprd that dies all the time.

With STORM=long in the environment both go on for much longer. STORM_DECIDE sets the place where new connections are
decided ("auto queue kernel"; kernel is for the BPF plane only), STORM_FORM the form of forwarding ("tunnel",
"direct"). All figures are in BUILD/storm.json.
"""
import collections
import os
import random
import shutil
import statistics
import time

import pytest

from conftest import law_problem
from faultlib import in_time, memory_kb, wait_for
from rungs import QUICK
from stormlib import LONG, Floods, Held, Steady, bad, quantile, report

ALL = ["n1", "n2", "n3"]
STARVED = 3  # on a host that is slow also without dprd: this many times its delay is added to a limit
DECIDES = os.environ.get("STORM_DECIDE", "auto").split()
FORM = os.environ.get("STORM_FORM", "tunnel")

HELD = 10_000
ROUNDS, FLOOD_WITH_S, FLOOD_WITHOUT_S = (60, 10, 5) if LONG else (5, 4, 2)
REST_S = 0.65  # so that a round is not a multiple of SPEAK_S: floods would always hit the same part of it
SPEAK_S = 4  # held connections that are not idle send once in this time
CLIENTS = 16  # addresses that new connections come from, with ports that none of them used before
RSS_GROWTH_KB = 512
RESENT_SHARE = 0.005  # more than without dprd, as a share
STALLED_SHARE = 0.005  # of new connections, on the nfqueue plane
FEW_DECIDED = 0.004  # of new connections in a flood on the nfqueue plane, and forwarded; a thousandth is expected
P99_MS = 500  # far above measured values: it must hold on a busy host

FAULTS = {"kill": 1000, "freeze": 100, "upgrade": 100} if LONG else \
    {"kill": 6, "freeze": 2, "upgrade": 2} if QUICK else {"kill": 20, "freeze": 5, "upgrade": 5}
SECOND_LOOK_FAULTS = {"kill": 300, "freeze": 60, "upgrade": 30} if LONG else {"kill": 8, "freeze": 3, "upgrade": 2}
FAULT_EVERY_S = 1.3  # at least: a SYN that one fault took is sent again after 1 s, and should meet no other
SLOW_MS = 100
SLOW_SHARE = 0.005
SLOWEST_MS = 1200


def start(clusters, names, decide, policy="rr", period="200ms"):
    """A cluster of these nodes and one more member without dprd."""
    cluster = clusters.fresh(daemons=False, nodes=len(names) + 1, layout="own")
    cluster.set_config("Balance", "Policy", policy)
    cluster.set_config("Announce", "Period", period)
    cluster.set_config("Datapath", "Form", FORM)
    if cluster.plane == "bpf":
        cluster.set_config("Datapath", "Decide", decide)
    for name in names:
        cluster.start_node_daemons(name)
    cluster.wait_ready(names)
    for name in names:
        status = cluster.status(name)
        assert status["datapath"] == cluster.plane, status["datapath_why"]
    for node in cluster.nodes:  # otherwise Linux itself resets or drops one now and then
        cluster.steer(node.name)
    return cluster


# ---- the flood ----

def flooded(steady, spans, node):
    """[p50, p99 of the handshakes, p99 of connect(), p99 of the answers while a node is flooded, in ms].

    Medians of windows of the same length, begin and end left out: a longer one would have more rare events.
    """
    windows = []
    for since, until in spans:
        for number in range(int((until - since) / FLOOD_WITHOUT_S)):
            start = since + number * FLOOD_WITHOUT_S
            made = steady.within(start + 0.3, start + FLOOD_WITHOUT_S - 0.2, node)
            assert len(made) > 100, f"only {len(made)} connections were begun during a flood"
            handshakes = [one.handshake_ms for one in made]
            windows.append((quantile(handshakes, 0.5), quantile(handshakes, 0.99),
                            quantile([one.connect_ms for one in made], 0.99),
                            quantile([one.answer_ms for one in made], 0.99)))
    return [round(statistics.median(column), 3) for column in zip(*windows)]


def check_held(held):
    broken = held.broken()
    assert not broken, f"{len(broken)} of {len(held.each)} connections broke, such as {broken[:4]}"
    kinds = collections.Counter((flow["pause_s"], flow["node"] == held.entry_of(flow)) for flow in held.each)
    # On a busy host the queue overflows now and then; then n1 serves more than half.
    assert len(kinds) == 4 and min(kinds.values()) >= HELD / 8, f"idle and not, local and forwarded: {kinds}"
    assert min(flow["bytes"] for flow in held.each) > 0, "some never said anything"


@pytest.mark.alone
@pytest.mark.long("half a minute of floods; b51 and b60 are short ones")
@pytest.mark.seconds(1800 if LONG else 180)
@pytest.mark.parametrize("decide", DECIDES)
def test_c11_syn_flood(clusters, decide):
    """10,000 connections to n1, half of them forwarded to n2, half of all idle until after the flood. Then SYNs of
    clients that do not exist go to the same port of n1, as fast as possible, and in turn to n3, which has no dprd.

    No connection is lost. New ones are made all the time to both, from many addresses: every one succeeds. The
    client's kernel measures the handshake, since the client's program shares the processors with the flood's sender.
    Compared between n1 and n3: the median of the 99th percentiles. dprd does not grow.
    """
    cluster = start(clusters, ["n1", "n2"], decide)
    for node in cluster.nodes:
        cluster.site.sysctl(node.name, {"net.ipv4.tcp_syncookies": 1})
    floods, n1, n3 = Floods(cluster), cluster.node("n1"), cluster.node("n3")
    flood_s = ROUNDS * (FLOOD_WITH_S + FLOOD_WITHOUT_S + 2 * (REST_S + 0.1))
    # Both families to both choices of policy rr, which takes turns, too.
    idle_s = flood_s + 7
    held = Held(cluster, [n1.service_v4, n1.service_v6, n1.service_v6, n1.service_v4],
                {idle_s: HELD // 2, SPEAK_S: HELD // 2})
    idle_until = time.monotonic() + idle_s
    floods.run("n1", 2)  # after this every slot for half-open flows was in use once
    before = {name: memory_kb(cluster.pid(name, "dprd")) for name in ("n1", "n2")}
    steady = Steady(cluster, [n1.service_v4, n3.service_v4, n1.service_v6, n3.service_v6], 400, clients=CLIENTS)
    time.sleep(0.5)
    sent, spans = collections.Counter(), collections.defaultdict(list)
    for _ in range(ROUNDS):
        for node, seconds in (("n1", FLOOD_WITH_S), ("n3", FLOOD_WITHOUT_S)):
            count, *span = floods.run(node, seconds)
            sent[node] += count
            spans[node].append(span)
            time.sleep(REST_S)
        for name in ("n1", "n2"):
            status = cluster.wait_until(lambda name=name: cluster.status(name), f"dprd of {name} answers")
            assert law_problem(status) is None
    steady.end()
    after = {name: memory_kb(cluster.pid(name, "dprd")) for name in ("n1", "n2")}
    decided = cluster.counters("n1")
    time.sleep(max(0.0, idle_until + 1.5 - time.monotonic()))  # then the idle ones have sent
    held.end()

    with_dprd, without = (flooded(steady, spans[node], node) for node in ("n1", "n3"))
    resent = {node: [one for one in steady.to(node) if one.syns > 1] for node in ("n1", "n3")}
    report(cluster, f"flood {decide}", {
        "held": len(held.each), "held_forwarded": len(held.forwarded()), "held_broken": len(held.broken()),
        "held_longest_ms": max(flow["longest_ms"] for flow in held.each),
        "flood_seconds": ROUNDS * FLOOD_WITH_S, "flood_per_second": round(sent["n1"] / ROUNDS / FLOOD_WITH_S),
        "flood_per_second_without": round(sent["n3"] / ROUNDS / FLOOD_WITHOUT_S),
        "flows_made": decided["flows_made"], "connects": len(steady.each), "failed": len(bad(steady.each)),
        "resent": len(resent["n1"]), "resent_without": len(resent["n3"]),
        "p50_ms": with_dprd[0], "p50_ms_without": without[0],
        "p99_ms": with_dprd[1], "p99_ms_without": without[1],
        "p99_of_without": round(with_dprd[1] / without[1], 2),
        "connect_p99_ms": with_dprd[2], "connect_p99_ms_without": without[2],
        "answer_p99_ms": with_dprd[3], "answer_p99_ms_without": without[3],
        "rss_kb": before, "rss_after_kb": after,
    })
    check_held(held)
    failed = bad(steady.each)
    # Without BPF the data of all forwarded connections waits in one queue of dprd's, which overflows when dprd has no
    # processor for a while: some new connections may then wait longer than their clients do.
    bearable = STALLED_SHARE * len(steady.each) if cluster.plane == "nfqueue" else 0
    assert len(failed) <= bearable and {one.fate for one in failed} <= {"stalled"}, \
        f"{len(failed)} of {len(steady.each)} connects failed, such as {failed[:4]}"
    assert {one.node for one in steady.each} == set(ALL)
    more = (len(resent["n1"]) - len(resent["n3"])) / len(steady.to("n1"))
    assert more <= RESENT_SHARE, f"{more:.2%} of the SYNs were lost"
    assert with_dprd[1] <= P99_MS + STARVED * without[1], f"99 % of the handshakes took up to {with_dprd[1]:.0f} ms"
    assert all(after[name] - before[name] <= RSS_GROWTH_KB for name in after), (before, after)
    if cluster.plane == "bpf":
        assert decided["flows_made"] > 16384, "the flood was not forwarded"
    else:
        # Until the flood was noticed, three quarters of 16,384 were forwarded. From then on half of one in 1,024 SYNs,
        # and half of the 100 per second that are decided, is forwarded.
        assert 12288 < decided["flows_made"] < 32768 + sent["n1"] / 1024 + 150 * flood_s, "a flood came to dprd"
        real = [one for since, until in spans["n1"] for one in steady.within(since + 0.3, until - 0.2, "n1")]
        # A host that is starved takes longer until the flood is noticed.
        in_time(sum(one.node == "n2" for one in real) < FEW_DECIDED * len(real), "real ones came to dprd")
        assert "a flood of SYNs" in cluster.log_text("n1", "dprd")
        status = cluster.status("n1")
        assert any("flood" in one["text"] for one in status["warnings"])
        assert status["served_undecided"] > sent["n1"] / 2, "who served the flood is not said"


# ---- dprd dies ----

class Victim:
    """dprd of a node, and the faults done to it."""

    def __init__(self, cluster, node, dice):
        self.cluster, self.node, self.dice = cluster, node, dice
        self.programs = [cluster.program("bin/dprd"), f"{cluster.directory}/dprd-{node}"]
        shutil.copy(*self.programs)

    def _start(self):
        cluster, node = self.cluster, self.node
        cluster.daemons[node, "dprd"] = cluster.site.start(node, [
            self.programs[0], "-c", cluster.config_path(node), "--node", node], cluster.log_path(node, "dprd"))

    def kill(self):
        self.cluster.kill(self.node, "dprd")
        time.sleep(self.dice.choice((0, 0, 0.1, 0.3)))
        self._start()

    def freeze(self):
        self.cluster.freeze(self.node, "dprd")
        time.sleep(self.dice.uniform(0.2, 2))
        self.cluster.resume(self.node, "dprd")

    def upgrade(self):
        """Stops dprd in good order; then starts the other program file."""
        status = self.cluster.stop(self.node, "dprd")
        assert status == 0, f"dprd ended with status {status}"
        self.programs.reverse()
        self._start()

    def wait_back(self):
        for name in ALL:
            wait_for(lambda name=name: self.cluster.sees(name, ALL), f"{name} sees all", 30)


def all_faults(dice, counts):
    """(fault, victim): a random order, half of each fault for n1 and half for n2."""
    faults = [(fault, number % 2) for fault, count in counts.items() for number in range(count)]
    dice.shuffle(faults)
    return faults


def slow(made):
    return [one for one in made if one.connect_ms is None or one.connect_ms > SLOW_MS]


def slow_share(made):
    return len(slow(made)) / len(made)


def ends(made, since):
    """The ends of connections that failed, and when they were made: seconds since then, the first and the last."""
    times = collections.defaultdict(list)
    for one in bad(made):
        times[f"{one.fate} {one.error} by {one.node}"].append(round(one.start - since, 1))
    return {kind: {"count": len(starts), "first_s": min(starts), "last_s": max(starts)}
            for kind, starts in sorted(times.items())}


def longest_waits(held, spans, count=5):
    """The held connections that waited longest for a byte: the wait, the node, and the events meanwhile."""
    waits = sorted(held.each, key=lambda flow: -flow["longest_ms"])[:count]
    return [{"ms": round(flow["longest_ms"]), "node": flow["node"], "faults": [
        f"{fault} {node} {begin - flow['longest_since']:+.2f} s, for {end - begin:.2f} s" for fault, node, begin, end in spans
        if begin < flow["longest_since"] + flow["longest_ms"] / 1000 and end > flow["longest_since"]]} for flow in waits]


def figures(made):
    return {"connects": len(made), "slow": len(slow(made)), "slowest_ms": quantile([one.connect_ms for one in made], 1)}


def storm(cluster, name, counts, seed):
    """All enter at n1, while dprd of n1 and n2 suffers these faults: (connections made at n1, at n4). No connection may
    break."""
    dice = random.Random(seed)
    n1, n4 = cluster.node("n1"), cluster.node("n4")
    victims = [Victim(cluster, node, dice) for node in ("n1", "n2")]
    held = Held(cluster, [n1.service_v4, n1.service_v6], {0.2: 200, 3: 200})
    steady = Steady(cluster, [n1.service_v4, n1.service_v6, n4.service_v4], 300, hold_ms=500, clients=CLIENTS)
    time.sleep(1)
    spans = []
    for fault, which in all_faults(dice, counts):
        begin, victim = time.monotonic(), victims[which]
        getattr(victim, fault)()
        victim.wait_back()
        spans.append((fault, victim.node, begin, time.monotonic()))
        time.sleep(max(dice.uniform(0.1, 0.4), begin + FAULT_EVERY_S - time.monotonic()))
    steady.end()
    held.end()

    meanwhile = collections.defaultdict(list)
    for fault, node, begin, end in spans:
        meanwhile[f"{fault} {node}"] += steady.within(begin - 0.02, end, "n1")
    made, without = steady.to("n1"), steady.to("n4")
    broken = held.broken() + [one._asdict() for one in bad(made)]
    broken_local = [one for one in broken if one["node"] == "n1"]
    report(cluster, name, {
        "seed": seed, **counts, "held": len(held.each), "held_forwarded": len(held.forwarded()),
        "held_longest_ms": max(flow["longest_ms"] for flow in held.each), "held_longest": longest_waits(held, spans),
        "broken_local": len(broken_local), "broken_forwarded": len(broken) - len(broken_local), **figures(made),
        "slow_share": round(slow_share(made), 5), "slow_share_without": round(slow_share(without), 5),
        "slowest_ms_without": figures(without)["slowest_ms"],
        "ends": ends(made, spans[0][2]), "ends_without": ends(without, spans[0][2]),
        "longest_fault_s": round(max(end - begin for _, _, begin, end in spans), 3),
        "sent_back_by_n3": cluster.counters("n3")["sent_back"],
        "meanwhile": {name: figures(some) for name, some in sorted(meanwhile.items())},
    })
    assert not broken, f"{len(broken)} connections broke, such as {broken[:4]}"
    served = collections.Counter(one.node for one in made)
    assert set(served) == set(ALL) and min(served.values()) > len(made) / 25, served
    assert held.forwarded() and len(held.forwarded()) < len(held.each)
    return made, without


@pytest.mark.alone
@pytest.mark.seconds(2 * 3600 if LONG else 180)
@pytest.mark.parametrize("decide", DECIDES)
def test_c12_dprd_dies_all_the_time(clusters, decide):
    """All enter at n1. dprd of n1 or n2 is killed, frozen for 0.2 to 2 s, or stopped and another program file started.

    No connection breaks: neither held ones, nor short ones made meanwhile. Few SYNs wait for long: a plane in the
    kernel outlives dprd, and without one the standby process helps. Connections to n4, which has no dprd, show how
    slow the host itself is.
    """
    cluster = start(clusters, ALL, decide)
    check_slow(*storm(cluster, f"faults {decide}", FAULTS, random.randrange(10 ** 6)))


@pytest.mark.alone
@pytest.mark.long("c12 is a short one of its kind, a90 to a95 are of SYNs on their way back")
@pytest.mark.seconds(3600 if LONG else 180)
@pytest.mark.parametrize("decide", DECIDES)
def test_c13_dprd_dies_with_syns_on_their_way_back(clusters, decide):
    """The same with policy li and loads that are a second old: SYNs go from node to node and back all the time."""
    cluster = start(clusters, ALL, decide, "li", "1s")
    made, _ = storm(cluster, f"second look {decide}", SECOND_LOOK_FAULTS, random.randrange(10 ** 6))
    assert cluster.counters("n3")["sent_back"] > len(made) / 200


def check_slow(made, without):
    """On a slow host, connections that need more processes are slower still. Estimating a share takes many faults."""
    worst = figures(made)["slowest_ms"]
    in_time(worst <= SLOWEST_MS + figures(without)["slowest_ms"], f"one SYN took {worst:.0f} ms")
    share = slow_share(made)
    limit = SLOW_SHARE + STARVED * slow_share(without)
    in_time(QUICK or share <= limit, f"{share:.2%} of the SYNs took more than {SLOW_MS} ms")
