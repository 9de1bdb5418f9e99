# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the arms of experiments in turn, keeps each finished run in a file of its own, and repeats
those that a starved host spoiled.

A run's file holds its key: everything that could change the result. --resume measures only runs that have no file
with an equal key, so that an interrupted evening is continued, and a changed parameter measured.
"""
import hashlib
import json
import os
import shutil
import time
from dataclasses import dataclass

import hoststate
from netns import LabError

# These may differ between two measurements that are otherwise the same.
PROGRAMS = ("bin/dprd", "bin/loadcast", "tests/experiments/surge/surge")


@dataclass(frozen=True)
class Run:
    """One arm, once. key() is what --resume compares."""
    experiment: object
    parameters: dict
    arm: object
    repetition: int
    programs: str

    def key(self):
        key = {"experiment": self.experiment.name, "arm": self.arm.name, "settings": self.arm.settings,
               "repetition": self.repetition, "parameters": self.parameters, "programs": self.programs}
        return json.loads(json.dumps(key))

    def planned_s(self):
        settings = {**self.parameters, **self.arm.settings}
        return settings["seconds"] + settings["warmup"] + self.experiment.overhead_s


def turned(arms, repetition):
    """The arms in the order of one repetition (from 1): each comes first once in as many repetitions as
    there are arms, and each second time round the order is backwards, so that no arm always has the
    same neighbour before it."""
    shift = (repetition - 1) % len(arms)
    order = list(arms[shift:]) + list(arms[:shift])
    return order if repetition % 2 else [order[0]] + order[:0:-1]


def plan(experiment, parameters, repetitions, programs):
    """All runs of an experiment, in the order in which they are measured."""
    arms = tuple(experiment.arms(parameters))
    return [Run(experiment, parameters, arm, repetition, programs)
            for repetition in range(1, repetitions + 1) for arm in turned(arms, repetition)]


def fingerprint(build):
    """Tells the programs of one build from those of another."""
    total = hashlib.sha256()
    for name in PROGRAMS:
        with open(os.path.join(build, name), "rb") as file:
            total.update(hashlib.sha256(file.read()).digest())
    return total.hexdigest()[:16]


def write_json(path, value):
    """Writes the whole file or, when interrupted, leaves the old one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
    os.rename(path + ".new", path)


class Store:
    """The files of finished runs: OUTPUT/runs/EXPERIMENT/ARM.REPETITION.json."""

    def __init__(self, output):
        self.output = output

    def directory(self, experiment):
        return os.path.join(self.output, "runs", experiment.name)

    def path(self, run):
        arm = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in run.arm.name)
        return os.path.join(self.directory(run.experiment), f"{arm}.{run.repetition}.json")

    def forget(self, experiment):
        """Begins anew; the runs of last time are kept once more, as EXPERIMENT.before."""
        directory = self.directory(experiment)
        if os.path.isdir(directory):
            shutil.rmtree(directory + ".before", ignore_errors=True)
            os.rename(directory, directory + ".before")

    def load(self, run):
        """The record of this very run, or None."""
        try:
            with open(self.path(run), encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("key") == run.key() else None

    def save(self, run, record):
        write_json(self.path(run), {"key": run.key(), **record})


def best_attempt(attempts):
    """The attempt to keep: one without suspicion, else the one on the least starved host."""
    good = [attempt for attempt in attempts if not attempt["suspect"]]
    return good[0] if good else min(attempts, key=lambda attempt: hoststate.starvation(attempt["host"]))


class Runner:
    """Measures planned runs that are missing."""

    def __init__(self, store, environment, progress, retries=1, broken=None, done=lambda experiment: None, most_s=None):
        """environment goes to Experiment.open(); broken gets {experiment name: why it was broken off};
        done(experiment) is called when one has ended, or was broken off. When all will probably take longer than
        most_s, suspect runs are not measured again."""
        self.store, self.environment, self.progress, self.retries = store, environment, progress, retries
        self.broken, self.done = broken if broken is not None else {}, done
        self.most_s, self.begin_s = most_s, time.monotonic()
        self.current = None
        self.done_s = self.planned_s = 0.0
        self.count = 0
        self.left = []

    def execute(self, runs):
        """Measures those of these runs that are not there yet."""
        self.left = [run for run in runs if self.store.load(run) is None]
        self.count = len(runs)
        if len(self.left) < self.count:
            self.progress.say(f"{self.count - len(self.left)} of {self.count} runs are there already")
        for experiment in dict.fromkeys(run.experiment for run in self.left):
            self.current = experiment.name
            mine = [run for run in self.left if run.experiment is experiment]
            try:
                self._experiment(experiment, mine)
            except (LabError, OSError) as error:
                self.broken[experiment.name] = str(error)
                self.progress.say(f"{experiment.name} was broken off: {error}")
            self.left = [run for run in self.left if run.experiment is not experiment]
            self.done(experiment)

    def _experiment(self, experiment, runs):
        """All runs of one experiment on one site; the first failure leads to a new site, the next one ends the
        experiment."""
        failures, rest = 0, list(runs)
        while rest:
            try:
                with experiment.open(rest[0].parameters, self.environment) as site:
                    while rest:
                        self._run(site, rest[0])
                        rest.pop(0)
            except LabError as error:
                failures += 1
                if failures > self.retries:
                    raise
                self.progress.say(f"  failed: {error}\n  once more, on a new site")

    def _run(self, site, run):
        number = self.count - len(self.left) + 1
        attempts = []
        begin = time.monotonic()
        for attempt in range(1, self.retries + 2):
            self.progress.begin(number, self.count, {
                "experiment": run.experiment.name, "arm": run.arm.name, "repetition": run.repetition,
                "attempt": attempt}, self.left_s())
            record = run.experiment.run(site, run.arm, run.parameters, run.repetition, self.progress.show)
            record["suspect"], again = hoststate.judge(
                record["host"], record["measures"].get("generator_lag_max_ms"))
            attempts.append(record)
            self.progress.end(self._result_text(record), suspect=record["suspect"])
            if not again or not self._has_time():
                break
        kept = best_attempt(attempts)
        kept["attempts"] = [{"host": one["host"], "suspect": one["suspect"], "kept": one is kept} for one in attempts]
        self.store.save(run, kept)
        self.left.remove(run)
        self.done_s += time.monotonic() - begin
        self.planned_s += run.planned_s()

    def _has_time(self):
        return self.most_s is None or time.monotonic() - self.begin_s + self.left_s() < self.most_s

    def left_s(self):
        """The planned time, times the ratio of real to planned time so far."""
        slower = self.done_s / self.planned_s if self.planned_s else 1.0
        return slower * sum(run.planned_s() for run in self.left)

    @staticmethod
    def _result_text(record):
        measures, host = record["measures"], record["host"]
        parts = [f"{measures[name]:.{digits}f} {unit}" for name, digits, unit in
                 (("requests_per_second", 0, "requests/s"), ("mean_ms", 0, "ms mean"), ("p99_ms", 0, "ms p99"),
                  ("replies_per_second", 0, "replies/s"), ("mean_service_times", 2, "service times mean"),
                  ("errors", 0, "errors")) if measures.get(name) is not None]
        if measures.get("forwarded_share") is not None:
            parts.append(f"{measures['forwarded_share']:.0%} forwarded")
        parts.append(f"host {host['idle_percent']:.0f} % idle, {host['steal_percent']:.0f} % stolen, "
                     f"{host['foreign_percent']:.0f} % used by others")
        return ", ".join(parts) + ("   SUSPECT: " + ", ".join(record["suspect"]) if record["suspect"] else "")
