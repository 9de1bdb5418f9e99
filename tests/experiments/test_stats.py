# SPDX-License-Identifier: GPL-2.0-or-later
"""The statistics of the experiments, against numbers computed by hand and the paper's own."""
import random

import pytest

import hoststate
import stats


def test_quantile_is_nearest_rank():
    values = [30, 10, 20, 40, 50]
    assert stats.quantile(values, 0.5) == 30
    assert stats.quantile(values, 0.9) == 50
    assert stats.quantile(values, 0.2) == 10
    assert stats.quantile(values, 0.21) == 20
    assert stats.quantile(values, 0.0) == 10
    assert stats.quantile([7], 0.99) == 7
    assert stats.quantile([], 0.5) is None


def test_quantile_of_random_values_has_the_share_at_or_below():
    rng = random.Random(5)
    for _ in range(200):
        values = [rng.randrange(20) for _ in range(rng.randrange(1, 60))]
        share = rng.random()
        found = stats.quantile(values, share)
        assert sum(value <= found for value in values) >= share * len(values)
        assert sum(value < found for value in values) < share * len(values) or found == min(values)


def test_spread():
    assert stats.spread([3, 1, 2]) == {"median": 2, "min": 1, "max": 3}
    assert stats.spread([4, 1]) == {"median": 2.5, "min": 1, "max": 4}
    assert stats.spread([None, 5, None]) == {"median": 5, "min": 5, "max": 5}
    assert stats.spread([None]) == {"median": None, "min": None, "max": None}


def test_paired_ratios_pair_by_repetition_not_by_place():
    assert stats.paired_ratios({1: 10.0, 3: 30.0, 4: 1.0}, {3: 10.0, 2: 7.0, 1: 5.0}) == [2.0, 3.0]


def test_paired_ratios_leave_out_what_cannot_be_divided():
    assert stats.paired_ratios({1: 10, 2: None, 3: 6}, {1: 0, 2: 5, 3: 2}) == [3.0]
    assert stats.paired_ratios({}, {1: 1}) == []


def test_median_of_ratios_is_not_ratio_of_medians():
    values, base = {1: 1.0, 2: 8.0, 3: 9.0}, {1: 1.0, 2: 2.0, 3: 9.0}
    assert stats.spread(stats.paired_ratios(values, base))["median"] == 1.0
    assert stats.spread(values.values())["median"] / stats.spread(base.values())["median"] == 4.0


def test_histogram_bins_include_their_lower_edge_only():
    assert stats.histogram([0, 9.99, 10, 19, 20, 30, -1, 29.9], [0, 10, 20, 30]) == ([2, 2, 2], 1, 1)


def test_histogram_of_uneven_bins_counts_everything_once():
    rng = random.Random(6)
    values = [rng.uniform(-5, 120) for _ in range(1000)]
    counts, below, above = stats.histogram(values, [0, 1, 50, 51, 100])
    assert sum(counts) + below + above == 1000
    assert counts[1] == sum(1 <= value < 50 for value in values)


@pytest.mark.parametrize("mean, low, high, index", [(462, 372, 557, 1.20), (643, 573, 722, 1.116),
                                                    (660, 605, 717, 1.08)])
def test_imbalance_formula_gives_the_papers_indices(mean, low, high, index):
    """Ten values with the row's mean and percentiles; the second row's printed 1.16 is an error of the paper."""
    middle = (10 * mean - low - 2 * high) / 7
    found = stats.imbalance([low] + [middle] * 7 + [high] * 2)
    assert found["m"] == pytest.approx(mean)
    assert (found["p10"], found["p90"]) == (low, high)
    assert found["index"] == pytest.approx(index, abs=0.005)


def test_imbalance_of_nothing_and_of_perfect_balance():
    assert stats.imbalance([])["index"] is None
    assert stats.imbalance([0, 0])["index"] is None
    assert stats.imbalance([5, 5, 5])["index"] == 1.0


def test_three_indices_see_different_things():
    served = {"n1": [300, 300, 300], "n2": [100, 100, 100]}
    opened = {"n1": [90, 90, 90], "n2": [0, 0, 0]}
    found = stats.three_indices(served, opened)
    assert found["cluster_served"] == {"m": 400, "p10": 400, "p90": 400, "index": 1.0}
    assert found["node_served"] == {"m": 200, "p10": 100, "p90": 300, "index": 1.5}
    assert found["node_open"] == {"m": 45, "p10": 0, "p90": 90, "index": 2.0}
    assert set(found) == set(stats.INDICES)


def test_closed_loop_laws_give_the_papers_numbers():
    assert stats.think_time_s(1500, 496.03, 918.775) == pytest.approx(2.105, abs=0.001)
    assert stats.think_time_s(1500, 662.96, 263.267) == pytest.approx(1.999, abs=0.001)
    assert stats.little_ms(456, 496.03) == pytest.approx(919, abs=1)
    assert stats.little_ms(5, 0) is None
    assert stats.think_time_s(10, 0, 5) is None


def test_knee_is_the_last_rate_before_the_first_bad_one():
    assert stats.knee([(300, 0.2), (100, 0.0), (200, 0.01), (400, 0.0)]) == 200
    assert stats.knee([(100, 0.02)]) is None
    assert stats.knee([(100, 0.0), (200, None)]) == 100


def test_per_second_counts_whole_seconds_of_the_window_only():
    assert stats.per_second([-0.1, 0.0, 0.99, 1.0, 2.5, 3.0], 3) == [2, 1, 1]


CPU = "cpu  100 0 50 800 20 5 25 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"


def test_host_shares():
    later = CPU.replace("cpu  100 0 50 800 20 5 25 0", "cpu  160 0 70 860 30 10 45 20")
    found = hoststate.shares(hoststate.parse_cpu(CPU), hoststate.parse_cpu(later), 39)
    assert found["idle_percent"] == pytest.approx(100 * 70 / 195)
    assert found["steal_percent"] == pytest.approx(100 * 20 / 195)
    assert found["softirq_percent"] == pytest.approx(100 * 25 / 195)
    assert found["foreign_percent"] == pytest.approx(20)


def test_task_line_with_a_name_full_of_brackets():
    text = "42 (a) b (c) S 7 42 42 0 -1 2129984 0 0 0 0 11 22 33 44 20 0 1 0 987654 1 2"
    assert hoststate.parse_task(text) == (7, 110, True)
    assert hoststate.parse_task(text.replace("2129984", "4194304"))[2] is False


def task(parent, ticks, kernel=False):
    return (parent, ticks, kernel)


def test_foreign_time_leaves_out_the_family_and_the_kernels_threads():
    before = {1: task(0, 100), 2: task(0, 5, True), 10: task(1, 50), 11: task(10, 7), 20: task(1, 1000)}
    after = {1: task(0, 101), 2: task(0, 500, True), 10: task(1, 90), 11: task(10, 70), 12: task(11, 9),
             20: task(1, 1030)}
    assert hoststate.foreign_ticks(before, after, 10) == 31


def test_foreign_time_of_processes_that_came_and_went():
    # 30 ended: its parent 20 has its 400 ticks now, of which 390 are from before. 31 is new. The pid 40 is used again.
    before = {20: task(1, 1000), 30: task(20, 390), 40: task(1, 80)}
    after = {20: task(1, 1400), 31: task(20, 5), 40: task(1, 3), 1: task(0, 80)}
    assert hoststate.foreign_ticks(before, after, 10) == 10 + 5 + 3


HOST = {"idle_percent": 29.0, "steal_percent": 0.0, "foreign_percent": 2.0}


@pytest.mark.parametrize("change, reasons, again", [
    ({}, 0, False), ({"steal_percent": 6}, 1, True), ({"foreign_percent": 16}, 1, True),
    ({"idle_percent": 4}, 1, False),
    ({"idle_percent": 0, "foreign_percent": 60, "steal_percent": 9}, 3, True), ({"steal_percent": 5}, 0, False),
    ({"foreign_percent": 50, "idle_percent": 31}, 0, False)])
def test_judgement_of_a_host(change, reasons, again):
    found, repeat = hoststate.judge({**HOST, **change})
    assert (len(found), repeat) == (reasons, again)


def test_a_late_generator_spoils_a_run():
    assert hoststate.judge(HOST, 501.0) == (["generator 501 ms late"], True)
    assert hoststate.judge(HOST, 499.0) == ([], False)
