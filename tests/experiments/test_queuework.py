# SPDX-License-Identifier: GPL-2.0-or-later
"""The queues of the herd, against queueing theory and themselves; and its schedule."""
import heapq
import random
import statistics

import pytest

import exp_herd
import exp_maxload
import queuework

SERVERS = [("a", 3.0), ("b", 1.0)]


def test_one_worker_is_first_come_first_served():
    server = queuework.QueueServer("n", 1)
    assert server.end_of(10.0, 2.0) == 12.0
    assert server.end_of(10.5, 1.0) == 13.0
    assert server.end_of(20.0, 0.5) == 20.5


def test_two_workers_take_the_first_that_is_free():
    server = queuework.QueueServer("n", 2)
    assert [server.end_of(0.0, work) for work in (5.0, 1.0, 1.0, 1.0)] == [5.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_the_queue_with_its_schedule_is_m_m_1(load):
    planned = queuework.schedule(3, load, 100000, 1000, [("a", 1.0)])
    server = queuework.QueueServer("n", 1)
    times = [server.end_of(at, work / 1000) - at for at, _, work in planned]
    assert statistics.fmean(times) == pytest.approx(1 / (1 - load), rel=0.1)


def test_the_schedule_follows_the_seed_alone():
    first = queuework.schedule(1, 50, 100, 20, SERVERS)
    assert first == queuework.schedule(1, 50, 100, 20, SERVERS)
    assert first != queuework.schedule(2, 50, 100, 20, SERVERS)
    assert len(first) == pytest.approx(5000, rel=0.1)
    assert statistics.fmean(work for _, _, work in first) == pytest.approx(20, rel=0.1)
    assert sum(address == "a" for _, address, _ in first) / len(first) == pytest.approx(0.75, abs=0.03)
    assert all(0 <= at < 100 for at, _, _ in first)


def test_servers_with_and_without_share():
    assert queuework.parse_servers("192.0.2.1*4,192.0.2.2") == [("192.0.2.1", 4.0), ("192.0.2.2", 1.0)]


def test_entry_shares_are_all_of_it():
    shares = exp_herd.entry_shares(16)
    assert sum(shares) == pytest.approx(1) and len(shares) == 16
    assert shares[:2] == [0.30, 0.15] and len(set(shares[2:])) == 1


def test_periods():
    assert [exp_maxload.period_ms(text) for text in ("50ms", "1s", "0.5s")] == [50, 1000, 500]


def test_measures_of_a_herd_are_in_service_times():
    result = {"response_s": [0.1, 0.3], "errors": {"timeout": 2}, "lag_max_ms": 1.0}
    found = exp_herd.measures_of(result, 100.0, 2, {"forwarded_share": 0.5, "host": {"idle_percent": 9}},
                                 {"n1": [0, 4], "n2": [0, 0]})
    assert found["mean_service_times"] == pytest.approx(2)
    assert found["requests_per_second"] == 1 and found["errors"] == 2
    assert found["node_open_m"] == 1 and found["idle_percent"] == 9


def test_a_queue_against_a_plain_model():
    rng = random.Random(4)
    for workers in (1, 2, 5):
        server, busy, now = queuework.QueueServer("n", workers), [], 0.0
        for _ in range(300):
            now += rng.expovariate(1.0)
            work = rng.expovariate(0.5)
            while busy and busy[0] <= now:
                heapq.heappop(busy)
            start = now if len(busy) < workers else heapq.nsmallest(len(busy) - workers + 1, busy)[-1]
            heapq.heappush(busy, start + work)
            assert server.end_of(now, work) == pytest.approx(start + work)
