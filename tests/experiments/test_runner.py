# SPDX-License-Identifier: GPL-2.0-or-later
"""Plan, order, resume, repeats of suspect runs and failures, with an experiment that measures nothing."""
import contextlib
import io
import json

import pytest

import runner
from experiment import Arm, Experiment
from netns import LabError
from progress import Progress, clock

GOOD = {"idle_percent": 50.0, "steal_percent": 0.0, "foreign_percent": 0.0}
BUSY = {**GOOD, "idle_percent": 20.0, "foreign_percent": 40.0}


class Fake(Experiment):
    """Answers each run with the next given item: a host, or an exception."""
    name = "fake"
    title = "a fake"

    def __init__(self, answers=()):
        self.answers = list(answers)
        self.calls, self.sites = [], 0

    def arms(self, parameters):
        return tuple(Arm(name) for name in ("a", "b", "c"))

    @contextlib.contextmanager
    def open(self, parameters, environment):
        self.sites += 1
        yield self.sites

    def run(self, site, arm, parameters, repetition, show):
        self.calls.append((arm.name, repetition))
        answer = self.answers.pop(0) if self.answers else GOOD
        if isinstance(answer, BaseException):
            raise answer
        answer = dict(answer)
        late_ms = answer.pop("late_ms", 0.0)
        return {"measures": {"errors": 0, "call": len(self.calls), "generator_lag_max_ms": late_ms}, "host": answer}


PARAMETERS = {"seconds": 10, "warmup": 1}


def make(tmp_path, fake, retries=1, repetitions=3, parameters=None):
    store = runner.Store(str(tmp_path))
    worker = runner.Runner(store, {}, Progress(out=io.StringIO()), retries)
    return store, worker, runner.plan(fake, parameters or PARAMETERS, repetitions, "programs")


def test_every_arm_once_per_repetition():
    for count in range(1, 7):
        arms = [str(i) for i in range(count)]
        for repetition in range(1, 9):
            assert sorted(runner.turned(arms, repetition)) == arms


def test_each_arm_is_first_once_and_neighbours_change():
    arms = ["a", "b", "c", "d", "e"]
    orders = [runner.turned(arms, repetition) for repetition in range(1, 6)]
    assert sorted(order[0] for order in orders) == arms
    assert orders[0] == arms
    assert orders[1] == ["b", "a", "e", "d", "c"]
    before_b = {order[order.index("b") - 1] for order in orders if order.index("b")}
    assert len(before_b) > 1


def test_a_run_is_a_file_with_its_key(tmp_path):
    fake = Fake()
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs)
    assert len(fake.calls) == 9
    assert fake.sites == 1
    record = json.loads((tmp_path / "runs" / "fake" / "b.2.json").read_text())
    assert record["key"]["repetition"] == 2 and record["key"]["parameters"] == PARAMETERS
    assert record["suspect"] == [] and len(record["attempts"]) == 1
    assert not list(tmp_path.rglob("*.new"))


def test_resume_measures_only_what_is_missing(tmp_path):
    fake = Fake()
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:4])
    fake.calls.clear()
    make(tmp_path, fake)[1].execute(runs)
    assert fake.calls == [(run.arm.name, run.repetition) for run in runs[4:]]


@pytest.mark.parametrize("change", [{"seconds": 11}, {"more": "x"}])
def test_other_parameters_are_measured_again(tmp_path, change):
    fake = Fake()
    _, worker, runs = make(tmp_path, fake)
    worker.execute(runs)
    fake.calls.clear()
    _, worker, runs = make(tmp_path, fake, parameters={**PARAMETERS, **change})
    worker.execute(runs)
    assert len(fake.calls) == 9


def test_other_programs_are_measured_again(tmp_path):
    fake = Fake()
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs)
    assert store.load(runner.plan(fake, PARAMETERS, 3, "programs")[0])
    assert store.load(runner.plan(fake, PARAMETERS, 3, "others")[0]) is None


def test_a_damaged_file_counts_as_missing(tmp_path):
    fake = Fake()
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:1])
    for damage in ("", "[1]", '{"key": 1}', '{"key":'):
        with open(store.path(runs[0]), "w", encoding="utf-8") as file:
            file.write(damage)
        assert store.load(runs[0]) is None


def test_an_interrupted_plan_keeps_what_is_finished(tmp_path):
    fake = Fake([GOOD, GOOD, KeyboardInterrupt()])
    store, worker, runs = make(tmp_path, fake)
    with pytest.raises(KeyboardInterrupt):
        worker.execute(runs)
    assert [store.load(run) is not None for run in runs] == [True, True] + [False] * 7
    assert worker.current == "fake"


def test_a_suspect_run_is_measured_again_and_the_good_one_kept(tmp_path):
    fake = Fake([BUSY, GOOD])
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:1])
    record = store.load(runs[0])
    assert record["measures"]["call"] == 2 and record["suspect"] == []
    assert [attempt["kept"] for attempt in record["attempts"]] == [False, True]


def test_what_stays_suspect_is_kept_as_suspect_the_least_starved_of_all(tmp_path):
    fake = Fake([BUSY, {**BUSY, "foreign_percent": 20.0}, {**BUSY, "foreign_percent": 30.0}])
    store, worker, runs = make(tmp_path, fake, retries=2)
    worker.execute(runs[:1])
    record = store.load(runs[0])
    assert record["measures"]["call"] == 2 and record["suspect"] == ["others use 20 %"]
    assert len(fake.calls) == 3


def test_what_is_suspect_is_not_measured_again_when_time_runs_out(tmp_path):
    fake = Fake([BUSY])
    store, worker, runs = make(tmp_path, fake)
    worker.most_s = 8.5 * (PARAMETERS["seconds"] + PARAMETERS["warmup"] + fake.overhead_s)
    worker.execute(runs)
    assert len(fake.calls) == 9 and store.load(runs[0])["suspect"]


def test_what_is_suspect_is_measured_again_when_there_is_time(tmp_path):
    fake = Fake([BUSY])
    _, worker, runs = make(tmp_path, fake)
    worker.most_s = 3600
    worker.execute(runs)
    assert len(fake.calls) == 10


def test_a_late_generator_is_asked_again(tmp_path):
    fake = Fake([{**GOOD, "late_ms": 3000.0}])
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:1])
    assert store.load(runs[0])["measures"]["call"] == 2 and store.load(runs[0])["suspect"] == []


def test_a_host_that_the_run_itself_fills_is_not_asked_again(tmp_path):
    fake = Fake([{**GOOD, "idle_percent": 1.0}])
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:1])
    assert store.load(runs[0])["suspect"] == ["idle 1 %"] and len(fake.calls) == 1


def test_a_failure_costs_a_new_site_and_a_second_one_ends_the_experiment(tmp_path):
    fake = Fake([GOOD, LabError("first"), GOOD, LabError("second")])
    done = []
    store, worker, runs = make(tmp_path, fake)
    worker.done = lambda experiment: done.append(experiment.name)
    worker.execute(runs)
    assert fake.sites == 2
    assert [store.load(run) is not None for run in runs[:3]] == [True, True, False]
    assert worker.broken == {"fake": "second"} and done == ["fake"]


def test_to_begin_anew_keeps_the_last_results_once(tmp_path):
    fake = Fake()
    store, worker, runs = make(tmp_path, fake)
    worker.execute(runs[:1])
    store.forget(fake)
    assert store.load(runs[0]) is None
    assert (tmp_path / "runs" / "fake.before" / "a.1.json").exists()


def test_the_rest_is_estimated_from_what_runs_really_took(tmp_path):
    fake = Fake()
    _, worker, runs = make(tmp_path, fake)
    worker.left = list(runs)
    assert worker.left_s() == 9 * (10 + 1 + fake.overhead_s)
    worker.planned_s, worker.done_s = 100.0, 150.0
    assert worker.left_s() == pytest.approx(1.5 * 9 * (11 + fake.overhead_s))


def test_progress_without_a_terminal_is_a_line_now_and_then():
    out = io.StringIO()
    progress = Progress(out=out)
    run = {"experiment": "fake", "arm": "a", "repetition": 2, "attempt": 1}
    progress.begin(3, 9, run, 75)
    for second in range(1, 4):
        progress.show({"second": second, "of": 10, "measured": True})
    assert out.getvalue().count("\n") == 1
    assert "run 3 of 9   a, repetition 2" in out.getvalue() and "left about 1:15" in out.getvalue()
    progress.said_at -= 60
    progress.show({"second": 4, "of": 10, "measured": True, "served": {"n1": 7}, "open": {"n1": 2}})
    assert "4/10 s; n1 7/s, 2 open" in out.getvalue()


def test_progress_for_a_program_is_json():
    out = io.StringIO()
    progress = Progress(json_lines=True, out=out)
    progress.begin(1, 2, {"experiment": "fake", "arm": "a", "repetition": 1, "attempt": 1}, 5)
    progress.show({"second": 1, "of": 2})
    progress.say("words")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["begin", "beat", "text"]


def test_clock():
    assert [clock(s) for s in (0, 59.6, 61, 3600, -5)] == ["0:00", "1:00", "1:01", "1:00:00", "0:00"]
