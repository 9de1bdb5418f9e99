# SPDX-License-Identifier: GPL-2.0-or-later
"""The comparison of the simulator with the namespaces: it has the simulator's arrivals, and its tolerance finds
differences."""
import os
import statistics
from dataclasses import replace

import pytest

import agree

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(TOP, os.environ.get("BUILD", "build"), "bin", "dpr-sim")
LI, OLD_LEAST, RR = (agree.Arm("li", "200ms", 3, 7), agree.Arm("least", "2s", 5, 11), agree.Arm("rr", "200ms", 1, 4))
needs_simulator = pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason=f"{PROGRAM} is not built: make sim")


def mean_of(arm, connections, delays):
    return statistics.fmean(delay for delay, (at, _, _) in zip(delays, connections)
                            if at >= arm.warmup_s) * 1000 / arm.service_ms


def mix(seed):
    """policy_mix(): the finalizer of splitmix64."""
    mask = 2**64 - 1
    seed = (seed + 0x9e3779b97f4a7c15) & mask
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9 & mask
    seed = (seed ^ seed >> 27) * 0x94d049bb133111eb & mask
    return seed ^ seed >> 31


def round_robin(connections, arm):
    """The serving nodes: each entry node begins behind a random node. A decision, and a second look, draws a number."""
    numbers = [mix(mix(arm.seed) + 1000 + node) for node in range(arm.nodes)]
    last, served = [None] * arm.nodes, []
    for _, entry, _ in connections:
        if last[entry] is None:
            view = [entry] + [node for node in range(arm.nodes) if node != entry]
            last[entry] = view[mix(numbers[entry]) % arm.nodes]
        numbers[entry] += 1
        last[entry] = (last[entry] + 1) % arm.nodes
        if last[entry] != entry:
            numbers[last[entry]] += 1
        served.append(last[entry])
    return served


@needs_simulator
@pytest.mark.parametrize("seed", [1, 12, 2**63 + 5])
def test_the_connections_are_those_of_the_simulator(tmp_path, seed):
    """Each connection is served where it arrives, only by a queue: the mean is the same, up to rounding."""
    arm = agree.Arm("local", "200ms", 2, 10, seed)
    connections = agree.arrivals(arm)
    delays = agree.queue_delays(connections, [entry for _, entry, _ in connections])
    simulated = agree.simulate(PROGRAM, arm, str(tmp_path))
    assert simulated["mean"] == pytest.approx(mean_of(arm, connections, delays), rel=1e-9)
    assert simulated["forwarded"] == 0


@needs_simulator
def test_round_robin_leaves_nothing_to_chance(tmp_path):
    connections = agree.arrivals(RR)
    delays = agree.queue_delays(connections, round_robin(connections, RR))
    simulated = agree.simulate(PROGRAM, RR, str(tmp_path), "--hop", "0us")
    assert simulated["mean"] == pytest.approx(mean_of(RR, connections, delays), rel=1e-9)


def measured_like(expected):
    return {name: mean for name, (mean, _) in expected.items()}


def problems(arm, measured, expected, first):
    runs = [(LI, measured_like(first), first), (arm, measured, expected)]
    return [str(comparison) for comparison in agree.compare(runs) if not comparison.agrees]


@needs_simulator
@pytest.mark.parametrize("arm, other, more, differs", [
    (LI, {"policy": "random"}, (), "mean"),
    (LI, {"policy": "wlc"}, (), "forwarded"),
    (LI, {}, ("--second-look", "no"), "sent_back"),
    (LI, {}, ("--max-load", "5"), "forwarded"),
    (OLD_LEAST, {"period": "200ms"}, (), "mean"),
    (OLD_LEAST, {"policy": "li"}, (), "sent_back"),
    (RR, {"policy": "random"}, (), "mean"),
    (RR, {}, ("--hop", "20ms"), "mean"),
    (RR, {"load": 0.85}, (), "mean"),
    (RR, {"seed": 2}, (), "mean"),
], ids=str)
def test_what_is_otherwise_does_not_agree(tmp_path, arm, other, more, differs):
    """The nodes do one thing, the simulator simulates another."""
    first, expected = (agree.reference(PROGRAM, each, str(tmp_path)) for each in (LI, arm))
    assert not problems(arm, measured_like(expected), expected, first)
    wrong = agree.simulate(PROGRAM, replace(arm, **other), str(tmp_path), *more)
    assert any(f"{arm}: {differs} " in problem for problem in problems(arm, wrong, expected, first))


def test_tolerance_on_both_sides():
    expected = {"mean": (2.0, 0.1), "forwarded": (0.4, 0.0), "sent_back": (0.2, 0.0)}
    edge = agree.chance(0.1) + 0.1
    assert edge == pytest.approx(0.1 + 0.3 * (1 + 1 / agree.REFERENCE_RUNS) ** 0.5)

    def found(**other):
        return problems(RR, {**measured_like(expected), **other}, expected, expected)

    assert not found()
    for mean in (2.0 - 0.99 * edge, 2.0 + 0.99 * edge):
        assert not found(mean=mean)
    for mean in (2.0 - 1.01 * edge, 2.0 + 1.01 * edge):
        assert found(mean=mean)
    assert found(forwarded=0.421) and found(forwarded=0.379) and not found(forwarded=0.419)
    assert found(sent_back=0.17) and found(sent_back=0.23) and not found(sent_back=0.19)


def test_queues_are_first_come_first_served():
    connections = [(0.0, 0, 2.0), (0.5, 1, 1.0), (1.0, 0, 1.0), (9.0, 0, 0.5)]
    assert agree.queue_delays(connections, [0, 0, 1, 0]) == [2.0, 2.5, 1.0, 0.5]


def test_the_cost_is_what_unforwarded_connections_took_beyond_the_queue():
    arm = agree.Arm("li", "200ms", 1, 9, nodes=2, service_ms=1000)
    connections = [(0.0, 0, 0.1), (2.0, 0, 1.0), (4.0, 1, 1.0), (6.0, 1, 1.0)]
    results = [(7.0, 0, None), (1.1, 0, None), (1.3, 1, None), (1.6, 0, None)]
    measured, cost = agree.measures_of(arm, connections, results)
    assert cost == pytest.approx(0.2)
    assert measured["mean"] == pytest.approx((1.1 + 1.3 + 1.6) / 3 - 0.2)
    assert measured["forwarded"] == pytest.approx(1 / 3)


def test_the_share_sent_back_counts_each_connection_once():
    before = {"below_max_load": ("serve", 10), "chosen": ("forward", 5), "sent_back": ("forward", 1)}
    after = {"below_max_load": ("serve", 62), "chosen": ("forward", 55), "sent_back": ("forward", 11),
             "chosen_again": ("forward", 8), "flow": ("forward", 900), "from_peer": ("decapsulate", 900)}
    assert agree.sent_back_share(before, after) == pytest.approx(10 / 100)
    assert agree.sent_back_share(after, after) == 0


def test_starved_is_said_with_its_reason():
    assert not agree.starvation(LI, 0.19, 99)
    assert "beyond their queues" in agree.starvation(LI, 0.21, 0)[0]
    assert "ms late" in agree.starvation(LI, 0.0, 101)[0]
