# SPDX-License-Identifier: GPL-2.0-or-later
"""Facts of the host for the benchmark and the experiments: its processor, and the time that processes used of it."""
import os


def processor_model():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "processor"


def task_seconds(pids):
    """The processor time of all threads of these processes so far, exact to the last time each slept."""
    total_ns = 0
    for pid in pids:
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                    total_ns += int(file.read().split()[0])
        except OSError:
            continue
    return total_ns / 1e9
