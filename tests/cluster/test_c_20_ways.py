# SPDX-License-Identifier: GPL-2.0-or-later
"""Storms 20: faults of ways and of web servers, drawn at random, under many connections.

"make storm ONLY=ways" runs it for ten minutes on the bpf plane; PLANE=nfqueue on the other. STORM_SEED in the environment
repeats a run, STORM_KINDS="server hung,wrong route" names the kinds that it draws from, STORM_LAYOUT=one is the other layout.
"""
import collections
import contextlib
import os
import random
import time

import hiccups
import pytest

import waylib
from faultlib import Answers, in_time
from netns import Late
from stormlib import LONG, Held, Pages, Steady, report

NODES = 5
STORM_S, FAULT_S, REST_S = (600, (4, 8), 60) if LONG else (70, (3, 4), 8)
PER_SECOND, PAGES_PER_SECOND, HELD = 150, 50, 200
TIMEOUT_S = 20  # longer than any fault: a connection that gets no answer by then hangs
SLOW_S = 1.5
# Until ways are probed, a fault is noticed by its victims, whose copies go the same way for 2.5 s.
VICTIM_S = 3.5
SLOW_SHARE = 0.005
DELAYED_S = 0.9  # its first SYN was lost
LEARNT_S = 5  # by then the health checks have found a web server that fails
ENDED_S = 1  # after a fault, connections still meet it for this long
GAP_S = 0.8  # a longer pause between lost SYNs ends the time in which the fault was not known; later ones are trials

# A connection, also one that failed. took_s: until the answer, without the time in which the host let no process run.
One = collections.namedtuple("One", "to port start took_s node error")
Suffered = collections.namedtuple("Suffered", "fault begin healed known_s")


def kinds_of(cluster):
    """The kinds of faults that are possible in the cluster; it prints why others are not."""
    wanted = os.environ.get("STORM_KINDS")
    found = [kind for kind in waylib.KINDS if not wanted or kind.kind in wanted.split(",")]
    for kind in found:
        if kind.why_not(cluster):
            print(f"skipped: {kind.kind}: {kind.why_not(cluster)}")
    return [kind for kind in found if not kind.why_not(cluster)]


def wait_known(cluster, fault):
    """The time until all entries send connections to the node again, as they tell; None: not within REST_S."""
    begin, left = time.monotonic(), fault.entries()
    while left and time.monotonic() < begin + REST_S:
        left = [name for name in left if not waylib.is_choice(cluster, name, fault.node, fault.families, fault.ports)]
        time.sleep(0.3)
    return None if left else time.monotonic() - begin


def suffer(cluster, fault, seconds):
    """One fault. No SYN is answered twice meanwhile."""
    answers, begin = Answers(cluster), time.monotonic()
    try:
        with fault:
            hiccups.wait(seconds)
            assert fault.took_effect(), f"{fault} took no effect"
        healed = time.monotonic()
        known_s = wait_known(cluster, fault)
    finally:
        answers.end()
    answers.check()
    return Suffered(fault, begin, healed, known_s)


def storm(cluster, dice):
    """Faults of all kinds in a random order, then again, until the time is over."""
    kinds, bag, suffered, end = kinds_of(cluster), [], [], time.monotonic() + STORM_S
    assert kinds, "no kind of fault is possible here"
    while time.monotonic() < end:
        bag = bag or dice.sample(kinds, len(kinds))
        kind = bag.pop()
        fault = kind(cluster, dice.choice(kind.places(cluster)), dice)
        suffered.append(suffer(cluster, fault, dice.uniform(*FAULT_S)))
        time.sleep(dice.uniform(0.2, 0.8))
    return suffered


# ---- the connections ----

def one_of_steady(made):
    error = "" if made.fate == "good" else f"{made.fate} {made.error}"
    took_s = None if made.answer_ms is None else made.answer_ms / 1000
    if took_s and took_s > SLOW_S:
        took_s -= hiccups.lost_s(made.start, made.start + took_s)
    return One(made.to, waylib.ECHO_PORTS[0], made.start, took_s, made.node.removesuffix("-box"), error)


def one_of_pages(made):
    if made.error:
        return One(made.to, waylib.WEB_PORT, made.start, None, "", made.error)
    return One(made.to, waylib.WEB_PORT, made.start, made.waited, made.node, "")


def is_slow(one, limit_s=SLOW_S):
    """True when a client waited for long. One that was refused at once did not wait."""
    return hangs(one) or (one.took_s is not None and one.took_s > limit_s)


def hangs(one):
    """True when the client had no answer at all, and would wait for ever."""
    return one.error.startswith("stalled") or "in time" in one.error or "timed out" in one.error.lower() or \
        "ETIMEDOUT" in one.error


def meets(suffered, one, cluster):
    """True when the entry node of a connection might choose the node of the fault for it."""
    fault = suffered.fault
    return one.port in fault.ports and ("v6" if ":" in one.to else "v4") in fault.families and \
        (cluster.node_by_address(one.to).name in fault.entries() or fault.own_server)


def excused(suffered, one, cluster):
    """True when a connection failed with its own server, which failed just then."""
    return suffered.fault.own_server and meets(suffered, one, cluster) and not hangs(one) and \
        one.node in ("", "-", suffered.fault.node.name) and \
        suffered.begin - TIMEOUT_S <= one.start <= min(suffered.begin + LEARNT_S, suffered.healed + ENDED_S)


def broken_with_server(suffered, flow):
    """True when a held connection ended with its own server."""
    return suffered.fault.own_server and flow["node"].removesuffix("-box") == suffered.fault.node.name and \
        suffered.begin <= flow["over"] <= suffered.healed + ENDED_S


def unnoticed_s(suffered, ones):
    """The time until the last of the connections that lost a SYN to the fault, or failed, before it was known."""
    lost = [one.start for one in ones if suffered.begin <= one.start <= suffered.healed and
            (one.took_s is None or one.took_s > DELAYED_S)]
    last = suffered.begin
    for start in lost:
        if last > suffered.begin and start - last > GAP_S:
            break
        last = start
    return last - suffered.begin


def back_s(suffered, ones, until):
    """The time from the end of the fault until another node sent it a connection; None: the next fault came first."""
    starts = [one.start for one in ones if suffered.healed <= one.start < until and not one.error and
              one.node == suffered.fault.node.name and suffered.fault.cluster.node_by_address(one.to) is not suffered.fault.node]
    return starts[0] - suffered.healed if starts else None


def worst(name, values):
    """The largest; "never" is larger than any number, and a number that is not known counts for nothing."""
    if name == "known_again_s" and None in values:
        return "never"
    known = [value for value in values if value is not None]
    return round(max(known), 2) if known else "-"


def table_of(cluster, suffered, ones):
    """{kind: the figures of its faults}: connections begun from a fault's beginning to the next one's."""
    rows = {}
    for number, each in enumerate(suffered):
        until = suffered[number + 1].begin if number + 1 < len(suffered) else each.healed + REST_S
        during = [one for one in ones if each.begin <= one.start < until]
        met = [one for one in during if meets(each, one, cluster)]
        row = rows.setdefault(each.fault.kind, collections.defaultdict(list))
        row["connections"].append(len(during))
        row["slow"].append(sum(map(is_slow, during)))
        row["hung"].append(sum(map(hangs, during)))
        row["failed"].append(sum(bool(one.error) for one in during))
        row["unnoticed_s"].append(unnoticed_s(each, met))
        row["known_again_s"].append(each.known_s)
        row["used_again_s"].append(back_s(each, met, until))
    return {kind: {"faults": len(row["slow"]), **{name: sum(values) for name, values in row.items() if not name.endswith("_s")},
                   **{name: worst(name, values) for name, values in row.items() if name.endswith("_s")}}
            for kind, row in sorted(rows.items())}


def show(rows):
    """A table: the kinds with the most slow connections first."""
    names = ("faults", "connections", "slow", "hung", "failed", "unnoticed_s", "known_again_s", "used_again_s")
    lines = [f"{'kind':22}" + "".join(f"{name:>15}" for name in names)]
    for kind, row in sorted(rows.items(), key=lambda item: -item[1]["slow"]):
        lines.append(f"{kind:22}" + "".join(f"{row[name]:>15}" for name in names))
    print("\n".join(lines))


def judge(cluster, suffered, ones, held):
    slow, failed = [one for one in ones if is_slow(one, VICTIM_S)], [one for one in ones if one.error]
    hung = [one for one in ones if hangs(one)]
    broken = [flow for flow in held.broken() if not any(broken_with_server(each, flow) for each in suffered)]
    told = "; ".join(f"{each.begin - suffered[0].begin:.1f} s: {each.fault}" for each in suffered)
    assert not hung, f"{len(hung)} connections hang, such as {hung[:4]}; {told}"
    assert not broken, f"{len(broken)} of {len(held.each)} held connections broke, such as {broken[:4]}; {told}"
    failed = [one for one in failed if not any(excused(each, one, cluster) for each in suffered)]
    assert not failed, f"{len(failed)} of {len(ones)} failed, such as {failed[:4]}; {told}"
    in_time(len(slow) <= SLOW_SHARE * len(ones), f"{len(slow)} of {len(ones)} took more than {VICTIM_S} s, such as {slow[:4]}")


@pytest.fixture(name="cluster")
def fixture_cluster(clusters, law):
    """Five nodes with policy li. n4 has its echo server in a container, n5 its service addresses on a bridge."""
    cluster = clusters.fresh(daemons=False, nodes=NODES, layout=os.environ.get("STORM_LAYOUT", "own"))
    cluster.set_config("Balance", "Policy", "li")
    if os.path.isdir(waylib.BRIDGE_FILTERS):
        waylib.bridged(cluster, "n5")
    with waylib.boxed(cluster, "n4"):
        cluster.start_daemons()
        yield cluster


@pytest.mark.alone
@pytest.mark.long("a minute of faults; b70 has a short one of its kind")
@pytest.mark.seconds(1500 if LONG else 240)
def test_c20_storm_of_ways(cluster):
    """Connections to all nodes, to nginx and to the echo server, while one fault after the other is drawn at random. Not
    one hangs, few wait for longer than a copy of their SYN takes, and no held connection breaks except with its own
    server. A table tells which kinds of faults were noticed late."""
    seed = int(os.environ.get("STORM_SEED") or random.randrange(10 ** 6))
    print(f"STORM_SEED={seed}")
    addresses = [address for node in cluster.nodes for address in (node.service_v4, node.service_v6)]
    hiccups.watcher()
    with contextlib.ExitStack() as ends:
        held = Held(cluster, addresses, {0.2: HELD // 2, 3: HELD // 2})
        ends.callback(held.end)
        steady = Steady(cluster, addresses, PER_SECOND, timeout_s=TIMEOUT_S, clients=16)
        ends.callback(steady.end)
        pages = Pages(cluster, addresses, PAGES_PER_SECOND, timeout_s=TIMEOUT_S)
        ends.callback(pages.end)
        time.sleep(1)
        suffered = storm(cluster, random.Random(seed))
    ones = sorted([*map(one_of_steady, steady.each), *map(one_of_pages, pages.made)], key=lambda one: one.start)
    rows = table_of(cluster, suffered, ones)
    show(rows)
    slow = sum(map(is_slow, ones))
    report(cluster, "ways", {"seed": seed, "connections": len(ones), "slow": slow, "slow_share": round(slow / len(ones), 5),
                             "hung": sum(map(hangs, ones)), "failed": sum(bool(one.error) for one in ones),
                             "held_broken": len(held.broken()), "kinds": rows})
    judge(cluster, suffered, ones, held)
    if not LONG and len(suffered) < 4:
        raise Late(f"only {len(suffered)} faults in {STORM_S} s")
