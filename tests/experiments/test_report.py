# SPDX-License-Identifier: GPL-2.0-or-later
"""Summaries, tables, figures and pages; generators' output as measures; the declarations of every experiment."""
import csv
import importlib.machinery
import importlib.util
import io
import os
import re

import pytest

import httperfrun
import page
import plots
import report
import runner
import surgerun
from experiment import Arm, Column, Experiment, Line, Plot, Table, median_lines, middle_run
from netns import LabError

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = {"idle_percent": 40.0, "steal_percent": 1.0, "foreign_percent": 2.0}


def load_command():
    """The program "experiments", whose name has no .py."""
    loader = importlib.machinery.SourceFileLoader("experiments_command", os.path.join(HERE, "experiments"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("experiments_command", loader))
    loader.exec_module(module)
    return module


COMMAND = load_command()
EXPERIMENTS = COMMAND.load_experiments()


class Fake(Experiment):
    name = "fake"
    title = "A fake"
    bases = ("none",)
    ratio_measures = ("rate",)

    def arms(self, parameters):
        return (Arm("none"), Arm("x|<y>"))

    def caption(self, parameters):
        return "Closed loop, N = 5."

    def tables(self, parameters):
        return [Table("t", "A table", (
            Column("rate", "rate", 0, 1, {"none": 496.03}), Column("of none", "rate", 2, ratio_to="none"),
            Column("share, %", "share", 0, 100), Column("lost", "lost")), ("none", "x|<y>", "absent"), "Note & more.")]


def record(arm, repetition, suspect=(), **measures):
    return {"key": {"arm": arm, "repetition": repetition}, "measures": measures, "suspect": list(suspect),
            "attempts": [{}] * (2 if suspect else 1), "host": HOST, "series": {"served": {"n1": [1], "n2": [3, 4]}}}


def make_runs():
    return {"none": [record("none", 1, rate=500.0, share=0.0, lost=None), record("none", 2, rate=400.0, share=0.0),
                     record("none", 3, rate=450.0, share=0.0)],
            "x|<y>": [record("x|<y>", 1, rate=600.0, share=0.5), record("x|<y>", 2, rate=600.0, share=0.4),
                      record("x|<y>", 3, ("steal 9 %",), rate=450.0, share=0.6)]}


def summary(**more):
    return report.summarize(Fake(), {}, more.pop("runs", make_runs()), 3, False, **more)


def test_summary_has_median_range_runs_and_paired_ratios():
    found = summary()
    arm = found["arms"]["x|<y>"]
    assert arm["measures"]["rate"] == {"median": 600.0, "min": 450.0, "max": 600.0}
    assert [run["repetition"] for run in arm["runs"]] == [1, 2, 3]
    assert arm["suspect"] == 1
    assert found["ratios"]["none"]["x|<y>"]["rate"]["values"] == [1.2, 1.5, 1.0]
    assert found["ratios"]["none"]["x|<y>"]["rate"]["median"] == 1.2
    assert found["ratios"]["none"]["none"]["rate"]["median"] == 1.0
    assert (found["runs_done"], found["runs_planned"]) == (6, 6)


def test_a_table_has_paper_beside_here_and_marks_what_is_suspect():
    titles, lines = report.rows(Fake().tables({})[0], summary())
    assert titles == ["arm", "rate: paper", "here", "of none", "share, %", "lost"]
    assert lines == [["none", "496.03", "450 [400 - 500]", "1.00", "0", "-"],
                     ["x|<y> (suspect: 1 of 3)", "-", "600 [450 - 600]", "1.20 [1.00 - 1.50]", "50 [40 - 60]", "-"]]


def test_every_table_says_under_which_conditions():
    text = report.markdown(Fake(), summary())
    for words in ("Closed loop, N = 5.", "3 repetitions, paired by seed", "40 % idle", "1 % stolen",
                  "1 of 6 runs suspect", "1 were repeated", "Note & more."):
        assert words in text
    assert "Incomplete" not in text


def test_what_is_missing_is_said():
    runs = make_runs()
    runs["none"].pop()
    del runs["x|<y>"]
    found = summary(runs=runs, missing="no more memory")
    text = report.markdown(Fake(), found)
    assert "Incomplete: 2 of 6 runs." in text and "**Broken off:** no more memory" in text
    assert found["ratios"]["none"] == {"none": found["ratios"]["none"]["none"]}


def test_csv_has_all_runs():
    lines = list(csv.DictReader(io.StringIO(report.csv_text(make_runs()))))
    assert len(lines) == 6
    assert lines[0] == {"arm": "none", "repetition": "1", "suspect": "0", "rate": "500.0", "share": "0.0", "lost": ""}
    assert lines[5]["suspect"] == "1"


def test_csv_of_series_has_a_line_per_second():
    lines = list(csv.DictReader(io.StringIO(report.series_csv(make_runs()))))
    assert len(lines) == 12
    assert lines[1] == {"arm": "none", "repetition": "1", "second": "1", "served_n1": "", "served_n2": "4"}
    assert report.series_csv({}) is None


def test_what_was_not_found_is_said():
    summary = {"findings": {"knee_of_li_per_second": 700, "knee_of_none_per_second": None}}
    assert report.finding_lines(summary) == ["knee of li per second: 700", "knee of none per second: not found"]


def test_the_page_escapes_and_gathers():
    figures = [{"name": "f", "title": "T<", "note": "", "file": "f.svg"}]
    text = page.page([("fake", "A fake", page.section(Fake(), summary(figures=figures)))])
    assert "x|&lt;y&gt; (suspect: 1 of 3)" in text and "<y>" not in text
    assert '<img src="f.svg" alt="T&lt;">' in text and '<a href="#fake">' in text
    assert text.count("<tr>") == 3 and "<meta name=viewport" in text and "white-space: nowrap" in text


def test_middle_run_is_a_real_one():
    runs = [record("a", 1, rate=5), record("a", 2, rate=1), record("a", 3, rate=3), record("a", 4)]
    assert middle_run(runs, "rate")["key"]["repetition"] == 3
    assert middle_run(runs[:2], "rate")["key"]["repetition"] == 2
    assert middle_run([], "rate") is None


def test_median_lines_are_sorted_with_ranges():
    arms = (Arm("b", {"x": 9}), Arm("a", {"x": 2}), Arm("none", {"x": 5}))
    runs = {"a": [record("a", 1, d=1.0), record("a", 2, d=3.0)], "b": [record("b", 1, d=7.0)]}
    assert median_lines(arms, runs, lambda arm: arm.settings["x"], "d", 10) == ((2, 20, 10, 30), (9, 70, 70, 70))


PLOT = Plot("p", "it's", "x", "y", (Line("one", ((0, 1), (1, 2))), Line("none", ()), Line("two", ((0, 5),))))


def test_plot_script_quotes_and_keeps_ranges():
    script = plots.script_text(PLOT, "p.dat", "p.svg")
    assert "set title 'it''s'" in script
    assert "set yrange [0:*]" in script and "set xrange [*:*]" in script
    assert plots.data_text(PLOT) == "0 1\n1 2\n\n\n\n\n0 5\n"


@pytest.mark.skipif(not plots.available(), reason="gnuplot is not installed")
def test_gnuplot_draws_every_style(tmp_path):
    for style in ("lines", "points", "boxes"):
        drawn = Plot(**{**PLOT.__dict__, "style": style, "name": style})
        assert plots.draw(drawn, str(tmp_path)) == f"{style}.svg"
        text = (tmp_path / f"{style}.svg").read_text()
        assert "<svg" in text and ">two<" in text and ">none<" not in text
    ranges = Plot(**{**PLOT.__dict__, "style": "points", "name": "ranges", "lines": (Line("two", ((1, 2, 1, 3), (2, 4, 3, 5))),)})
    plots.draw(ranges, str(tmp_path))
    text = (tmp_path / "ranges.svg").read_text()
    assert not re.search(r"scale\(0|<use [^>]*#FFFFFF", text), "librsvg refuses the picture, or the points are wiped out"
    assert plots.draw(Plot("empty", "", "", "", (Line("none", ()),)), str(tmp_path)) is None


HTTPERF = """httperf --hog --client=0/1 --server=192.0.2.11
Maximum connect burst length: 2

Total: connections 1000 requests 995 replies 990 test-duration 10.000 s

Connection rate: 100.0 conn/s (10.0 ms/conn, <=8 concurrent connections)
Connection time [ms]: min 3.1 avg 12.5 max 1030.0 median 8.5 stddev 30.0
Connection time [ms]: connect 2.1
Connection length [replies/conn]: 1.000

Request rate: 99.5 req/s (10.1 ms/req)
Request size [B]: 66.0

Reply rate [replies/s]: min 98.0 avg 99.0 max 100.0 stddev 0.9 (2 samples)
Reply time [ms]: response 6.4 transfer 4.0
Reply size [B]: header 180.0 content 10000.0 footer 0.0 (total 10180.0)
Reply status: 1xx=0 2xx=988 3xx=0 4xx=2 5xx=0

CPU time [s]: user 2.6 system 7.2 (user 26.4% system 72.3% total 98.8%)
Net I/O: 8.9 KB/s (0.1*10^6 bps)

Errors: total 10 client-timo 7 socket-timo 0 connrefused 0 connreset 3
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
"""


def test_httperf_output_becomes_measures():
    measures, kinds = httperfrun.parse(HTTPERF, 1000)
    assert measures["replies_per_second"] == 99.0
    assert measures["errors"] == 12 and measures["error_share"] == 0.012
    assert (measures["connection_mean_ms"], measures["connection_median_ms"]) == (12.5, 8.5)
    assert kinds == {"timeout": 7, "reset": 3, "status": 2}


def test_what_httperf_could_not_open_is_an_error_of_all_that_were_offered():
    text = HTTPERF.replace("Errors: total 10", "Errors: total 110").replace("fd-unavail 0", "fd-unavail 100")
    measures, kinds = httperfrun.parse(text, 1100)
    assert measures["error_share"] == pytest.approx(112 / 1100) and kinds["no_descriptor"] == 100


def test_httperf_without_a_reply_has_no_delay():
    measures, _ = httperfrun.parse(HTTPERF.replace("replies 990", "replies 0"), 1000)
    assert measures["connection_mean_ms"] is None and measures["replies_per_second"] == 0


def test_httperf_that_ran_dry_or_said_nothing_is_no_measurement():
    with pytest.raises(LabError, match="cannot carry"):
        httperfrun.parse(HTTPERF.replace("addrunavail 0", "addrunavail 4"), 1000)
    with pytest.raises(LabError, match="no line"):
        httperfrun.parse("httperf: cannot connect", 1000)


SURGE_LOG = """# user step file size_bytes start_s connect_ms first_byte_ms end_ms received_bytes status server
1 0 f1 10 1000.500000 0.1 1.0 1600.000 10 200 192.0.2.11:80 n1 ok
0 0 f1 10 1000.000000 0.1 1.0 500.000 10 200 192.0.2.11:80 n1 ok
2 0 f2 10 1002.900000 0.1 1.0 50.000 10 200 192.0.2.11:80 n2 ok
2 1 f2 10 1003.000000 0.1 1.0 900.000 10 200 192.0.2.12:80 n2 ok
3 1 f2 10 1003.000000 0.1 - 900.000 0 - 192.0.2.12:80 - reset
4 1 f2 10 1003.000000 0.1 1.0 900.000 4 200 192.0.2.12:80 n2 censored
"""


def test_surge_log_is_counted_by_node_and_second_of_the_end():
    assert surgerun.served_by_second(SURGE_LOG.splitlines(), 2, 2, ["n1", "n2", "n3"]) == {
        "n1": [1, 0], "n2": [1, 1], "n3": [0, 0]}


def test_surge_line_of_progress():
    line = "surge run 3/20 s  1500 users  served 664/s  in flight 105  mean 150 ms  errors 2/s"
    assert surgerun.parse_beat(line) == {"requests": 664, "in_flight": 105, "mean_ms": 150, "errors": 2}
    assert surgerun.parse_beat("surge: out of memory") == {}


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("quick", [False, True])
def test_what_an_experiment_declares(name, quick):
    experiment = EXPERIMENTS[name]
    parameters = experiment.quick if quick else experiment.long
    arms = [arm.name for arm in experiment.arms(parameters)]
    assert experiment.name == name and experiment.title
    assert set(experiment.quick) == set(experiment.long)
    assert len(set(arms)) == len(arms) >= 2 and set(experiment.bases) <= set(arms)
    assert len({runner.Store("x").path(runner.Run(experiment, parameters, arm, 1, ""))
                for arm in experiment.arms(parameters)}) == len(arms)
    caption = experiment.caption(parameters)
    assert re.match(r"Closed loop, N = \d|Open loop \(", caption)
    assert caption.startswith("Closed") or "connections/s" in caption
    assert "queue" in caption and f"{parameters['seconds']} s" in caption
    for table in experiment.tables(parameters):
        assert set(table.arms) <= set(arms) and len(table.columns) >= 3
        for column in table.columns:
            assert column.ratio_to is None or column.ratio_to in experiment.bases
            assert column.ratio_to is None or column.measure in experiment.ratio_measures
            assert set(column.paper or ()) <= set(arms)
    assert any(column.measure == "steal_percent" for table in experiment.tables(parameters) for column in table.columns)
    assert experiment.plots(parameters, {}) is not None and experiment.findings(parameters, {}) is not None


def arguments(*settings, quick=False):
    return type("Arguments", (), {"quick": quick, "settings": settings})


def test_set_replaces_a_value_by_one_of_its_type():
    table1 = EXPERIMENTS["table1"]
    assert COMMAND.parameters_of(table1, arguments("users=60", "period=1s")) == {
        **table1.long, "users": 60, "period": "1s"}
    assert COMMAND.parameters_of(table1, arguments("other=1", quick=True)) == table1.quick
    assert table1.long["users"] == 1500
    assert repr(COMMAND.parameters_of(EXPERIMENTS["herd"], arguments("service_ms=500"))["service_ms"]) == "500.0"
    for wrong in ("users=x", "users=1.5", "users=[1]", "users"):
        with pytest.raises(ValueError):
            COMMAND.parameters_of(table1, arguments(wrong))


def test_set_of_what_nobody_has_is_an_error():
    chosen = {"table1": EXPERIMENTS["table1"].long}
    COMMAND.check_settings(arguments("users=60"), chosen)
    with pytest.raises(ValueError, match="rate_mbit"):
        COMMAND.check_settings(arguments("user=60"), chosen)
