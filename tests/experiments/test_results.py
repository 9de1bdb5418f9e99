# SPDX-License-Identifier: GPL-2.0-or-later
"""Results taken over into docs/results, and refused ones: the real command, on summaries made here."""
import json
import os
import subprocess

import pytest

import report
from catalogue import load_experiments

HERE = os.path.dirname(os.path.abspath(__file__))
EXPERIMENT = load_experiments()["rr_wrr"]
HOST = {"idle_percent": 40.0, "steal_percent": 1.0, "foreign_percent": 2.0}


def write_summary(directory, figure, rate=100.0, quick=False, missing=None, left_out=0):
    """A summary of rr_wrr with its files, as "experiments" writes it."""
    runs = {}
    for arm in EXPERIMENT.arms(EXPERIMENT.long):
        runs[arm.name] = [{"key": {"arm": arm.name, "repetition": number}, "suspect": [], "attempts": [1], "host": HOST,
                           "measures": {"requests_per_second": rate, "mean_ms": 2.0, **HOST}} for number in (1, 2, 3)]
    runs["rr"] = runs["rr"][left_out:]
    summary = report.summarize(EXPERIMENT, EXPERIMENT.long, runs, 3, quick, missing,
                               [{"name": figure, "title": "T", "note": "", "file": figure + ".svg"}])
    directory.mkdir(exist_ok=True)
    (directory / "rr_wrr.json").write_text(json.dumps(summary))
    (directory / "rr_wrr.md").write_text(report.markdown(EXPERIMENT, summary))
    (directory / "rr_wrr.csv").write_text(report.csv_text(runs))
    (directory / (figure + ".svg")).write_text("<svg/>")


def take(tmp_path, *names):
    done = subprocess.run([os.path.join(HERE, "results"), "--from", str(tmp_path / "from"), "--to", str(tmp_path / "to"),
                           *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=180)
    return done.returncode, done.stdout


def test_whole_experiments_are_taken_with_their_figures(tmp_path):
    write_summary(tmp_path / "from", "first")
    assert take(tmp_path) == (0, "rr_wrr: taken over\n")
    assert sorted(os.listdir(tmp_path / "to")) == ["README.md", "first.svg", "index.html", "rr_wrr.csv", "rr_wrr.json",
                                                    "rr_wrr.md"]
    text = (tmp_path / "to" / "README.md").read_text()
    assert "(rr_wrr.md)" in text and "40 % idle" in text and "| 15 | 0 |" in text
    assert 'src="first.svg"' in (tmp_path / "to" / "index.html").read_text()


def test_what_was_there_is_replaced_whole(tmp_path):
    write_summary(tmp_path / "from", "first")
    take(tmp_path)
    write_summary(tmp_path / "from", "second", rate=777.0)
    assert take(tmp_path, "rr_wrr")[0] == 0
    assert not (tmp_path / "to" / "first.svg").exists() and (tmp_path / "to" / "second.svg").exists()
    assert "777" in (tmp_path / "to" / "rr_wrr.md").read_text()


@pytest.mark.parametrize("wrong, said", [({"quick": True}, "a short run"), ({"missing": "interrupted"}, "broken off"),
                                         ({"left_out": 1}, "only 14 of 15 runs")])
def test_others_are_refused_and_cost_nothing(tmp_path, wrong, said):
    write_summary(tmp_path / "from", "first")
    take(tmp_path)
    write_summary(tmp_path / "from", "second", rate=777.0, **wrong)
    status, text = take(tmp_path)
    assert status == 1 and said in text
    assert (tmp_path / "to" / "first.svg").exists() and "777" not in (tmp_path / "to" / "rr_wrr.md").read_text()


def test_nothing_there_is_an_error(tmp_path):
    (tmp_path / "from").mkdir()
    status, text = take(tmp_path)
    assert status == 1 and "no finished experiment" in text and not (tmp_path / "to").exists()
    assert take(tmp_path, "other")[0] == 1
