# SPDX-License-Identifier: GPL-2.0-or-later
"""The base of experiments: each is a module exp_NAME.py with one subclass of Experiment, named EXPERIMENT.

runner.py decides the order of runs, report.py and page.py present the results. An experiment lists its arms,
measures one arm once, and names its tables and plots. Everything that could change a result is in its parameters: a
run is taken over by --resume when they are equal.
"""
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Arm:
    """One thing to measure beside others; settings are for the experiment's own use."""
    name: str
    settings: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """One column of a table: a measure in the unit scale x measure. paper: {arm name: printed value}."""
    title: str
    measure: str
    digits: int = 1
    scale: float = 1.0
    paper: dict = None
    ratio_to: str = None  # the measure divided by that arm's, repetition by repetition


@dataclass(frozen=True)
class Table:
    """One row per arm, in the order of arms."""
    name: str
    title: str
    columns: tuple
    arms: tuple
    note: str = ""


@dataclass(frozen=True)
class Line:
    """The data of a plot: (x, y) pairs; or (x, y, low, high) with error bars."""
    label: str
    points: tuple


@dataclass(frozen=True)
class Plot:
    """One figure. style: lines, points (joined), boxes. Ranges are (low, high); None is free."""
    name: str
    title: str
    x_label: str
    y_label: str
    lines: tuple
    style: str = "lines"
    x_range: tuple = (None, None)
    y_range: tuple = (0, None)
    logarithmic_x: bool = False
    note: str = ""


class Experiment:
    """The defaults of an experiment; see the module's text."""

    name = ""
    title = ""
    # The arms by which others are divided, repetition by repetition, and the measures.
    bases = ()
    ratio_measures = ()
    # Parameters of short and of long runs. "seconds" and "warmup" are of one run.
    quick, long = {}, {}
    # Seconds of a run beside its warm-up and its measured time, to estimate the rest.
    overhead_s = 2

    def arms(self, parameters):
        """All arms, in the order of the tables."""
        raise NotImplementedError

    def caption(self, parameters):
        """One sentence for each table: open or closed loop, N, duration, queue, and other conditions."""
        raise NotImplementedError

    def open(self, parameters, environment):
        """The site that all runs share (a context manager), such as a cluster in namespaces."""
        raise NotImplementedError

    def run(self, site, arm, parameters, repetition, show):
        """Measures once. {"measures": {name: number or None}, "series": {name: list or dict}, "host": ...};
        show(dict) may be called every second with the results so far."""
        raise NotImplementedError

    def tables(self, parameters):
        """[Table]; the numbers come from the measures."""
        raise NotImplementedError

    def plots(self, parameters, runs):
        """[Plot]. runs: {arm name: [record of each repetition, in order]}; arms may be missing."""
        return []

    def findings(self, parameters, runs):
        """{name: value} that only all runs together give, such as a knee."""
        return {}

    def notes(self, parameters):
        """Sentences under the tables: how to read them, and their limits."""
        return []


def middle_run(records, measure):
    """The record whose measure is the (lower) median of all: one real run to draw."""
    known = sorted((record for record in records if record["measures"].get(measure) is not None),
                   key=lambda record: record["measures"][measure])
    return known[(len(known) - 1) // 2] if known else None


def median_lines(arms, runs, x_of, measure, scale=1.0):
    """(x, median, min, max) of a measure, for arms that differ in x; sorted by x."""
    points = []
    for arm in arms:
        values = sorted(record["measures"][measure] * scale for record in runs.get(arm.name, [])
                        if record["measures"].get(measure) is not None)
        if values:
            middle = len(values) // 2
            median = values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
            points.append((x_of(arm), median, values[0], values[-1]))
    return tuple(sorted(points))
