# SPDX-License-Identifier: GPL-2.0-or-later
"""The bi-active experiment's arms, packet budget, time of recovery, gains and tables."""
import pytest

import exp_biactive
from exp_biactive import OFF, ON, BiActive, arm_name, recovery_name, recovery_s

PARAMETERS = {**BiActive.long, "rates_per_pair": [160, 220]}


def evenly(begin, end, rate):
    return [begin + i / rate for i in range(round((end - begin) * rate))]


def record(repetition, replies, errors):
    return {"key": {"repetition": repetition}, "measures": {"replies_per_second": replies, "error_share": errors,
                                                            "former_per_second": 100.0},
            "series": {"replies": {"cluster": [100.0, 50.0]}}}


def test_arms_are_both_ways_of_table_1_at_each_rate_and_the_dying_host():
    names = [arm.name for arm in BiActive().arms(PARAMETERS)]
    assert names == ["1+1 off, 160/s", "1+1 off, 220/s", "1+1 on, 160/s", "1+1 on, 220/s",
                     "2+2 off, 320/s", "2+2 off, 440/s", "2+2 on, 320/s", "2+2 on, 440/s",
                     "2+2 off, a host dies", "2+2 on, a host dies"]


def test_the_plans_fit_their_times():
    for parameters, most_s in ((BiActive.quick, 90), (BiActive.long, 20 * 60)):
        experiment = BiActive()
        planned = sum({**parameters, **arm.settings}["seconds"] + parameters["warmup"] + experiment.overhead_s
                      for arm in experiment.arms(parameters))
        assert 3 * planned < most_s


def test_the_packet_budget():
    assert exp_biactive.budget_knee(PARAMETERS, 1, OFF) == pytest.approx(198)
    assert exp_biactive.budget_knee(PARAMETERS, 1, ON) == pytest.approx(247.5)
    assert exp_biactive.budget_knee(PARAMETERS, 2, ON) == pytest.approx(495)


def test_recovery_is_where_the_replies_are_back_for_good():
    gap = evenly(0, 4, 100) + evenly(5.2, 12, 100)
    assert recovery_s(gap, 4, 12, 100) == pytest.approx(1.2, abs=0.06)
    half = evenly(0, 4, 100) + evenly(4, 5, 50) + evenly(5, 12, 100)
    assert recovery_s(half, 4, 12, 100) == pytest.approx(1.0, abs=0.06)
    twice = evenly(0, 5, 100) + evenly(5.5, 7, 100) + evenly(8, 12, 100)
    assert recovery_s(twice, 4, 12, 100) == pytest.approx(4.0, abs=0.06)


def test_no_gap_needs_no_recovery_and_a_lasting_one_has_none():
    assert recovery_s(evenly(0, 12, 100), 4, 12, 100) == 0
    assert recovery_s(evenly(0, 4, 100), 4, 12, 100) is None
    assert recovery_s(evenly(0, 4, 100) + evenly(4, 12, 50), 4, 12, 100) is None


def test_the_replays_log():
    text = ("# due_s ...\n0.100000 0.101000 0.300 2.500 75 f 200 192.0.2.100 b1 ok\n"
            "0.200000 0.200000 - 2000.000 0 f - 192.0.2.100 - timeout\n0.300000 - - - 0 f - 192.0.2.100 - unsent\n")
    assert exp_biactive.parse_log(text) == [(0.101, pytest.approx(0.1035), "b1", "ok"), (0.2, 2.2, None, "timeout")]


def test_what_a_dying_host_costs():
    rows = [(moment, moment + 0.01, "n1", "ok") for moment in evenly(0, 4, 100)]
    rows += [(3.99, 5.99, None, "timeout"), (4.5, 6.5, None, "timeout")]
    rows += [(4.6, 5.7, "n1", "ok")] + [(moment, moment + 0.01, "n1", "ok") for moment in evenly(5, 12, 100)]
    found = exp_biactive.recovery_measures(rows, 4, 12, 100)
    assert found["former_per_second"] == pytest.approx(100, abs=1)
    assert found["recovery_s"] == pytest.approx(1.0, abs=0.06)
    assert (found["errors"], found["under_way_lost"], found["errors_before"]) == (2, 1, 0)
    assert found["slowest_ms"] == pytest.approx(1100) and found["last_error_s"] == pytest.approx(0.5)


def test_gains_are_rate_by_rate_and_in_pairs():
    runs = {arm_name(1, OFF, 220): [record(1, 100, 0.4), record(2, 120, 0.3)],
            arm_name(1, ON, 220): [record(1, 150, 0.1), record(2, 120, 0.3), record(3, 999, 0.0)]}
    found = BiActive().findings(PARAMETERS, runs)
    assert found["1+1_on_against_off_at_220_per_second"] == \
        "replies +25.0 % [+0.0 - +50.0], errors -15.0 points of a percent [-30.0 - +0.0]"
    assert not any("at_160" in name or name.startswith("2+2_on") for name in found)


def test_the_knee_needs_every_repetition():
    runs = {arm_name(1, OFF, 160): [record(1, 160, 0.0), record(2, 160, 0.009)],
            arm_name(1, OFF, 220): [record(1, 220, 0.0), record(2, 210, 0.02)],
            arm_name(1, ON, 160): [record(1, 160, 0.02)]}
    found = BiActive().findings(PARAMETERS, runs)
    assert found["knee_of_1+1_off_per_second"] == 160 and found["knee_of_1+1_on_per_second"] is None


def test_tables_and_figures_name_the_papers_claim():
    experiment = BiActive()
    assert "+21.6 %" in experiment.title and "-18.9 %" in experiment.title
    assert "Open loop" in experiment.caption(PARAMETERS)
    curves, recovery = experiment.tables(PARAMETERS)
    assert len(curves.arms) == 8 and recovery.arms == (recovery_name(OFF), recovery_name(ON))
    assert "198" in curves.note and "248" in curves.note
    assert any("21.6 %" in note and "18.9 %" in note for note in experiment.notes(PARAMETERS))
    runs = {recovery_name(ON): [record(1, 0, 0)], arm_name(2, ON, 320): [record(1, 300, 0.01)]}
    figures = {figure.name: figure for figure in experiment.plots(PARAMETERS, runs)}
    assert len(figures) == 5 and figures["biactive-recovery"].lines[0].points == ((0, 100.0), (0.25, 50.0))
    assert figures["biactive-replies-per-second-2"].lines[1].points == ((320, 300, 300, 300),)
    assert "Figure 5" in figures["biactive-replies-per-second-2"].note
