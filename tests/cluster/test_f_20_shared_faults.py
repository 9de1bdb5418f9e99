# SPDX-License-Identifier: GPL-2.0-or-later
"""Bi-active 20: shared addresses while daemons die, stand still and do not hear each other, and on a host that is
always busy. With STORM=long in the environment both go on for much longer; figures are in BUILD/storm.json.
"""
import os
import random
import time

import pytest
from faultlib import reload_both, wait_for
from stormlib import LONG, Watched, bad, report
from scapy.all import TCP
from test_f_10_shared import SHARED, fixture_trio, has_share, shared  # pylint: disable=unused-import
from traffic import CLIENT, Capture, ip_layer, nft, send

NAMES = ["n1", "n2", "n3"]
BUSY_PER_PROCESSOR, LOSS_PERCENT = 8, 30
BUSY_S = 3600 if LONG else 120
HELD, PER_SECOND = 60, 300
SYNS = 100_000 if LONG else 10_000
# The length of a fault, and the time before the next one: they vary, as SYNs are sent again after 1, 3 and 7 s, and
# would meet every second fault.
FAULT_S, REST_S, REST_MORE_S = 1.6, 2.4, 1.7
SYN_TIMEOUT_S = 40
SLOW_S = (1.5, 3.5, 7.5)
# A node that was lost again and again within a minute is held down, twice as long each time, up to a minute.
BACK_S = 75


def since_change_ms(cluster):
    """The age of each node's share."""
    return {name: shared(cluster, name)["changed_ms"] for name in NAMES}


@pytest.fixture(name="busy_host")
def fixture_busy_host(trio):
    """Busy loops, more than there are processors; they also end by themselves."""
    count = BUSY_PER_PROCESSOR * os.cpu_count()
    loops = [trio.site.start("c1", ["timeout", str(BUSY_S + 60), "/bin/sh", "-c", "while :; do :; done"],
                             os.path.join(trio.directory, "busy.log")) for _ in range(count)]
    yield trio
    for loop in loops:
        loop.terminate()
    for loop in loops:
        loop.wait(10)


@pytest.mark.alone
@pytest.mark.long("two minutes of a host without a moment's rest")
@pytest.mark.seconds(BUSY_S + 120)
def test_f20_no_false_take_over(busy_host):
    """A third of the announcements to each node is lost, and every processor has eight others to serve: no node counts
    as dead, and no lease ends."""
    for name in NAMES:
        busy_host.lose_announcements(name, LOSS_PERCENT)
    time.sleep(1)
    before, start = since_change_ms(busy_host), time.monotonic()
    leases = []
    while time.monotonic() - start < BUSY_S:
        leases += [shared(busy_host, name).get("lease_ms") for name in NAMES]
        time.sleep(2)
    elapsed_ms = 1000 * (time.monotonic() - start)
    after = since_change_ms(busy_host)
    lost = {name: sum(busy_host.lost(name)) for name in NAMES}
    report(busy_host, "busy", {"seconds": round(elapsed_ms / 1000), "announcements_lost": sum(lost.values()),
                               "leases_seen": len(leases), "without_lease": leases.count(None)})
    assert min(lost.values()) > BUSY_S, lost
    changed = {name: after[name] for name in NAMES if after[name] < before[name] + elapsed_ms - 2000}
    assert not changed, f"a share changed: {changed} ms ago, {before} ms before it began {elapsed_ms:.0f} ms ago"
    assert leases.count(None) == 0, f"{leases.count(None)} of {len(leases)} times there was no lease"


def kill(cluster, name, daemon):
    cluster.kill(name, daemon)
    time.sleep(FAULT_S)
    cluster.start(name, daemon)


def freeze(cluster, name, daemon):
    cluster.freeze(name, daemon)
    time.sleep(FAULT_S)
    cluster.resume(name, daemon)


def deaf(cluster, name, _):
    """The node hears nothing, but is heard."""
    cluster.lose_announcements(name)
    time.sleep(FAULT_S)
    cluster.heal(name)


def mute(cluster, name, _):
    cluster.lose_announcements(name, hook="output")
    time.sleep(FAULT_S)
    cluster.heal(name)


FAULTS = ((kill, "loadcast"), (freeze, "loadcast"), (deaf, ""), (mute, ""), (kill, "dprd"), (freeze, "dprd"))


@pytest.mark.alone
@pytest.mark.seconds(6 * SYNS // PER_SECOND + 120)
def test_f21_one_answer(trio):
    """Fault after fault, for as many SYNs: none is answered twice, no connection breaks, every share comes back."""
    chance, faults = random.Random(21), []
    load = Watched(trio, list(SHARED), HELD, PER_SECOND, SYN_TIMEOUT_S)
    try:
        end = time.monotonic() + SYNS / PER_SECOND
        while time.monotonic() < end:
            fault, daemon = FAULTS[len(faults) % len(FAULTS)]
            name = chance.choice(NAMES)
            faults.append(f"{fault.__name__} {daemon} {name}")
            fault(trio, name, daemon)
            time.sleep(REST_S + chance.uniform(0, REST_MORE_S))
            for each in NAMES:
                wait_for(lambda each=each: has_share(trio, each, NAMES), f"{each} has its share after {faults[-1]}",
                         BACK_S)
    finally:
        load.end()
    steady, held = load.steady, load.held
    report(trio, "one_answer", {"faults": len(faults), "connections": len(steady.each), "failed": len(bad(steady.each)),
                                "held": len(held.each), "broken": len(held.broken()),
                                **{f"over_{limit_s}_s": sum((made.connect_ms or 0) > 1000 * limit_s for made in steady.each)
                                   for limit_s in SLOW_S},
                                "slowest_ms": max(made.connect_ms or 0 for made in steady.each)})
    load.check("f21")
    assert len(steady.each) > 0.8 * SYNS and len(held.each) == HELD


def test_f23_successor_without_lease(trio):
    """loadcast is killed and starts at once while dprd stands still, so that it cannot reach the lease that lives on in
    the kernel: no SYN is answered twice, no connection breaks, and the node has its share again."""
    load = Watched(trio, list(SHARED), HELD, PER_SECOND, SYN_TIMEOUT_S)
    try:
        for name in ("n1", "n2"):
            trio.freeze(name, "dprd")
            trio.kill(name, "loadcast")
            trio.start(name, "loadcast")
            time.sleep(FAULT_S)
            trio.resume(name, "dprd")
            for each in NAMES:
                wait_for(lambda each=each: has_share(trio, each, NAMES), f"{each} has its share", 15)
    finally:
        load.end()
    load.check("f23")
    assert len(load.steady.each) > 500 and len(load.held.each) == HELD


@pytest.mark.seconds(150)
def test_f22_other_period(trio):
    """Period= gets longer on node after node: that is logged, no connection breaks, and when the slow announcer stands
    still no SYN is answered twice."""
    load = Watched(trio, list(SHARED), HELD, 50, SYN_TIMEOUT_S)
    try:
        trio.set_config("Announce", "Period", "1s", which="n1")
        reload_both(trio, "n1")
        for name in ("n2", "n3"):
            wait_for(lambda name=name: any("n1 has Period=1000ms" in one["text"]
                                           for one in trio.status(name)["warnings"]), f"{name} says so", 5)
        time.sleep(2)
        trio.freeze("n1", "loadcast")
        time.sleep(4)  # the longest lease that n1's own period allows
        for name in ("n2", "n3"):
            wait_for(lambda name=name: has_share(trio, name, ["n2", "n3"]), f"{name} takes over", 4)
        trio.resume("n1", "loadcast")
        for name in NAMES:
            wait_for(lambda name=name: has_share(trio, name, NAMES), f"{name} has its share again", 15)
        trio.set_config("Announce", "Period", "1s")
        for name in ("n2", "n3"):
            reload_both(trio, name)
            time.sleep(3)
        for name in NAMES:
            wait_for(lambda name=name: has_share(trio, name, NAMES), f"{name} has its share", 10)
            assert not any("Period=" in one["text"] for one in trio.status(name)["warnings"])
    finally:
        load.end()
    load.check("f22")
    assert len(load.steady.each) > 500 and len(load.held.each) == HELD


# The first of them, their number for each address, and the time for which a copy of a SYN belongs to the node that got
# the first one.
PORT, PORTS, COPY_PATIENCE_S = 21400, 24, 2.5


def test_f24_copy_after_changes(trio):
    """n2 refused SYNs as another node's, which did not answer, and then got their buckets. From the first copy on, the
    client waits until the other node's answer cannot come any more, and not until other nodes have stopped coming and
    going."""
    syns = [ip_layer(CLIENT["v6" if ":" in address else "v4"], address) /
            TCP(sport=PORT + number, dport=8080, flags="S", seq=1_000_000 + number)
            for address in SHARED for number in range(PORTS)]
    trio.dprctl("n2", "drain")
    for name in NAMES:
        wait_for(lambda name=name: [member["name"] for member in shared(trio, name)["members"]] == ["n1", "n3"],
                 f"{name} knows that n2 has no share", 10)
    for name in ("n1", "n3"):
        trio.lose(name, f"tcp dport 8080 tcp sport {PORT}-{PORT + PORTS - 1}")
    nft(trio, "c1", "add table inet lab_raw\nadd chain inet lab_raw out { type filter hook output priority -400; }\n"
        "add rule inet lab_raw out tcp flags & rst != 0 drop\n")
    with Capture(trio, "c1", only=f"src port 8080 and dst portrange {PORT}-{PORT + PORTS - 1}") as seen:
        send(trio, syns)
        trio.dprctl("n2", "undrain")
        for name in NAMES:
            wait_for(lambda name=name: has_share(trio, name, NAMES), f"{name} has its share", 10)
        before = shared(trio, "n2")
        send(trio, syns)
        wait_for(lambda: shared(trio, "n2")["counters"]["refuse_copy"] >= before["counters"]["refuse_copy"] + PORTS // 2,
                 "n2 leaves the copies to the other nodes", 2)
        time.sleep(COPY_PATIENCE_S + 0.2)
        trio.dprctl("n3", "drain")
        for name in ("n1", "n2"):
            wait_for(lambda name=name: has_share(trio, name, ["n1", "n2"]), f"{name} has n3's part", 10)
        before = shared(trio, "n2")
        send(trio, syns)
        wait_for(lambda: sum(shared(trio, "n2")["counters"][name] - before["counters"][name]
                             for name in ("accept_syn", "refuse_syn", "refuse_copy")) >= len(syns), "n2 judged all", 5)
        after = shared(trio, "n2")
        assert after["changed_ms"] < 1000 * COPY_PATIENCE_S, after
        answered = {(packet.type, packet[TCP].dport) for packet in seen.packets(outgoing=False)}
    accepted, refused = (after["counters"][name] - before["counters"][name] for name in ("accept_syn", "refuse_copy"))
    assert refused == 0 and len(answered) == accepted >= PORTS // 2, (refused, accepted, len(answered))
