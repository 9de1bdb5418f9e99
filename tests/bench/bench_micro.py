# SPDX-License-Identifier: GPL-2.0-or-later
"""The pure parts: decide(), the flow table, announcements (micro.c)."""
import json
import os

from bench_measure import idle_percent
from netns import run as run_command


NO_MORE_MEMBERS = ("an announcement echoes every member in one datagram of at most 1,400 bytes, so that a cluster has "
                   "at most 64")


def run(build, results, arguments):
    rounds = arguments.rounds or (7 if arguments.quick else 15)
    wanted_ms = 5 if arguments.short else 20
    print(f"\npure code, ns per call: {rounds} rounds of {wanted_ms} ms each (host {idle_percent():.0f} % idle)")
    output = run_command([os.path.join(build, "tests/bench/micro"), str(min(rounds, 50)), str(wanted_ms)])
    for line in output.splitlines():
        case = json.loads(line)
        results.add(case["name"] + "_ns", "ns", case["ns"])
        if case["name"].endswith("_64_nodes") and case["name"].startswith("announce_"):
            results.add_missing(case["name"].replace("_64_", "_1000_") + "_ns", NO_MORE_MEMBERS)
