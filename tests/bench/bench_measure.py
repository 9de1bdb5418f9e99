# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by all parts of the benchmark: the host's state, processor time, results."""
import atexit
import json
import os
import statistics
import time

from hostinfo import processor_model

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAUSE_S = 0.12
LEFT_OUT = "not in a short run"


def build_directory():
    """DPRD_BUILD, or make's BUILD, or build/."""
    named = os.environ.get("DPRD_BUILD") or os.environ.get("BUILD") or "build"
    return os.path.join(TOP, named)


def _set_autogroup(path, nice):
    with open(path, "w", encoding="ascii") as file:
        file.write(nice)


def raise_priority(pid="self"):
    """Puts the session of a process before the others of the host. Where the scheduler groups sessions
    (autogroup), the niceness of a process only counts within its own session. Tells what worked."""
    path = f"/proc/{pid}/autogroup"
    try:
        with open(path, encoding="ascii") as file:
            before = file.read().split()
        # Empty: outside of all sessions' groups, as for children of the first process. There niceness counts.
        if before:
            _set_autogroup(path, "-20")
            if pid == "self":
                # The session is not only ours: our caller goes on in it.
                atexit.register(_set_autogroup, path, before[-1])
            return "autogroup -20"
    except OSError:
        pass
    try:
        os.setpriority(os.PRIO_PROCESS, 0 if pid == "self" else pid, -20)
        return "nice -20"
    except OSError:
        return "normal"


def describe_host(priority):
    return f"host: {os.cpu_count()} x {processor_model()}, Linux {os.uname().release}, priority {priority}"


def _cpu_ticks():
    with open("/proc/stat", encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def idle_percent(pause_s=PAUSE_S):
    """The idle share of the host while the benchmark does nothing: the neighbours leave this much."""
    idle_before, all_before = _cpu_ticks()
    time.sleep(pause_s)
    idle_after, all_after = _cpu_ticks()
    return 100.0 * (idle_after - idle_before) / max(1, all_after - all_before)


def softirq_pids():
    """The kernel's threads that take packets over when there are too many for their senders."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
                if file.read().startswith("ksoftirqd/"):
                    found.append(int(pid))
        except OSError:
            continue
    return found


def pin(pid, processors):
    """Puts all threads of a process on these processors; threads that it starts later follow."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), processors)


def pin_node(pid, serving):
    """Two nodes share this host: the daemon of each gets one processor."""
    processors = os.sched_getaffinity(0)
    pin(pid, {max(processors) if serving else min(processors)})


class Results:
    """Named series, one value per round."""

    def __init__(self, quick):
        self.quick = quick
        self.results = []
        self.missing = []

    def add(self, name, unit, values):
        self.results.append({"name": name, "unit": unit, "median": _short(statistics.median(values)),
                             "min": _short(min(values)), "max": _short(max(values)), "rounds": len(values)})

    def add_ratio(self, name, values, base):
        """The ratio round by round, so that a slow host slows both sides of a round; and the ratio of the medians. base
        may have more rounds, after these."""
        base = base[:len(values)]
        self.add(name, "ratio", [value / other for value, other in zip(values, base)])
        self.results[-1]["of_medians"] = _short(statistics.median(values) / statistics.median(base))

    def add_missing(self, name, reason):
        """A result that this host or this dprd cannot give."""
        self.missing.append({"name": name, "reason": reason})

    def print_table(self):
        if not self.results:
            return
        print(f"\n{'result':48} {'median':>12} {'min':>12} {'max':>12}  {'unit':7} rounds  ratio of medians")
        for result in self.results:
            print(f"{result['name']:48} {result['median']:12,.6g} {result['min']:12,.6g} {result['max']:12,.6g}  "
                  f"{result['unit']:7} {result['rounds']:6}  {result.get('of_medians', '')}")
        for missing in self.missing:
            print(f"{missing['name']:48} not measured: {missing['reason']}")

    def print_markdown(self):
        """The same for a document."""
        print("\n| result | median | range | of medians | unit | rounds |\n|---|---:|---:|---:|---|---:|")
        for result in self.results:
            of_medians = f"{result['of_medians']:.3g}" if "of_medians" in result else ""
            print(f"| `{result['name']}` | {result['median']:.3g} | {result['min']:.3g} to {result['max']:.3g} | "
                  f"{of_medians} | {result['unit']} | {result['rounds']} |")

    def write(self, path):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump({"schema": "bench/1", "quick": self.quick, "results": self.results,
                       "missing": self.missing}, file, indent=1)
            file.write("\n")
        os.rename(path + ".new", path)


def _short(value):
    """Five digits are more than the precision of these measurements."""
    return float(f"{value:.5g}")


class Rounds:
    """Runs all arms once per round, in an order that turns from round to round, and prints each round."""

    WIDTH_MIN = 13

    def __init__(self, title, arms, count):
        self.title, self.arms, self.count = title, arms, count

    def run(self, measure, show):
        """measure(arm) gives one value per arm and round; show(value) is its text.
        Returns {arm name: [value per round]}."""
        values = {arm.name: [] for arm in self.arms}
        print(f"\n{self.title}")
        width = max([self.WIDTH_MIN] + [len(arm.name) for arm in self.arms])
        print("round idle% " + " ".join(f"{arm.name:>{width}}" for arm in self.arms))
        for number in range(self.count):
            idle = idle_percent()
            turn = number % len(self.arms)
            for arm in self.arms[turn:] + self.arms[:turn]:
                values[arm.name].append(measure(arm))
            shown = " ".join(f"{show(values[arm.name][-1]):>{width}}" for arm in self.arms)
            print(f"{number + 1:5} {idle:5.0f} {shown}", flush=True)
        return values


def add_ratio(bench, results, found, result):
    """result: its name, the attribute that counts, the arm, and the one to compare it with; the reason when there is
    none."""
    name, value, path, base = result
    absent = [one for one in (path, base) if one not in found]
    if absent:
        results.add_missing(name, bench.missing.get(absent[0], LEFT_OUT))
        return
    results.add_ratio(name, [getattr(one, value) for one in found[path]], [getattr(one, value) for one in found[base]])


def add_values(results, found, name, unit, value):
    for path, series in found.items():
        results.add(f"{name}_{path}".replace("-", "_"), unit, [getattr(one, value) for one in series])
