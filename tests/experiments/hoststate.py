# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of the host during a run: idle and stolen time, and the time of other programs.

The judgement of a run is here, too. Reading /proc and judging are apart, so that the latter is tested.
"""
import os

from hostinfo import processor_model

STEAL_MOST_PERCENT = 5.0
FOREIGN_MOST_PERCENT = 15.0
SPARE_LEAST_PERCENT = 30.0  # with this idle time the others' use is harmless
IDLE_LEAST_PERCENT = 5.0
LATE_MOST_MS = 500.0
BOUNDS = (f"suspect: more than {STEAL_MOST_PERCENT:.0f} % of the host's processor time stolen or more than "
          f"{FOREIGN_MOST_PERCENT:.0f} % used by others while less than {SPARE_LEAST_PERCENT:.0f} % were idle, or a "
          f"generator that was more than {LATE_MOST_MS:.0f} ms late (measured again, if allowed); or less than "
          f"{IDLE_LEAST_PERCENT:.0f} % idle")
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def parse_cpu(text):
    """{field: ticks} of all processors, from /proc/stat."""
    words = next(line for line in text.splitlines() if line.startswith("cpu ")).split()[1:]
    return dict(zip(FIELDS, map(int, words)))


def parse_task(text):
    """(parent, ticks so far with those of children that were waited for, is a kernel's thread) of one
    /proc/PID/stat."""
    fields = text.rpartition(")")[2].split()
    parent, flags = int(fields[1]), int(fields[6])
    return parent, sum(map(int, fields[11:15])), bool(flags & 0x00200000)


def read_tasks():
    """{pid: parse_task()} of every process of the host that can be seen."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                found[int(pid)] = parse_task(file.read())
        except (OSError, IndexError, ValueError):
            continue  # it ended meanwhile
    return found


def family(tasks, root):
    """The process root and all that descend from it."""
    children = {}
    for pid, (parent, _ticks, _kernel) in tasks.items():
        children.setdefault(parent, []).append(pid)
    found, left = set(), [root]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, [])
    return found


def foreign_ticks(before, after, root):
    """Processor time between two read_tasks() of all processes except root's family and the kernel's threads.

    One that ended was waited for by its parent, which then has all of its time, the part from before
    included: that part is taken off."""
    own = family(before, root) | family(after, root)

    def others(tasks):
        return sum(ticks for pid, (_parent, ticks, kernel) in tasks.items() if pid not in own and not kernel)

    return max(0, others(after) - others(before))


class HostWatch:
    """From its making to stop()."""

    def __init__(self):
        self.cpu, self.tasks = self._read()

    @staticmethod
    def _read():
        with open("/proc/stat", encoding="ascii") as file:
            return parse_cpu(file.read()), read_tasks()

    def stop(self):
        cpu, tasks = self._read()
        return shares(self.cpu, cpu, foreign_ticks(self.tasks, tasks, os.getpid()))


def shares(before, after, foreign):
    """Percent of all processors' time between two parse_cpu()."""
    spent = {name: after[name] - before[name] for name in FIELDS}
    total = max(1, sum(spent.values()))
    return {
        "idle_percent": 100 * (spent["idle"] + spent["iowait"]) / total,
        "steal_percent": 100 * spent["steal"] / total,
        "softirq_percent": 100 * (spent["softirq"] + spent["irq"]) / total,
        "foreign_percent": 100 * foreign / total,
    }


def judge(host, late_ms=None):
    """(reasons to suspect a run, whether to measure again). A host that the experiment itself fills
    would be as full again. late_ms: the largest delay of the load generator, where it reports one."""
    reasons = []
    if host["steal_percent"] > STEAL_MOST_PERCENT:
        reasons.append(f"steal {host['steal_percent']:.0f} %")
    if host["foreign_percent"] > FOREIGN_MOST_PERCENT and host["idle_percent"] < SPARE_LEAST_PERCENT:
        reasons.append(f"others use {host['foreign_percent']:.0f} %")
    if late_ms is not None and late_ms > LATE_MOST_MS:
        reasons.append(f"generator {late_ms:.0f} ms late")
    again = bool(reasons)
    if host["idle_percent"] < IDLE_LEAST_PERCENT:
        reasons.append(f"idle {host['idle_percent']:.0f} %")
    return reasons, again


def starvation(host):
    """To compare two attempts at one run: less is better."""
    return host["steal_percent"] + host["foreign_percent"]


def describe():
    """The machine, for the reports."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory_mb = int(file.readline().split()[1]) // 1024
    return {"processors": os.cpu_count(), "model": processor_model(), "memory_mb": memory_mb,
            "kernel": f"{os.uname().sysname} {os.uname().release}"}
