# SPDX-License-Identifier: GPL-2.0-or-later
"""The pure parts: decide(), the flow table, announcements (micro.c)."""
import json
import os

from bench_measure import idle_percent
from bench_site import run as run_command


def run(build, results, arguments):
    rounds = arguments.rounds or (7 if arguments.quick else 15)
    wanted_ms = 5 if arguments.quick else 20
    print(f"\npure code, ns per call: {rounds} rounds of {wanted_ms} ms each (host {idle_percent():.0f} % idle)")
    output = run_command([os.path.join(build, "tests/bench/micro"), str(min(rounds, 50)), str(wanted_ms)])
    for line in output.splitlines():
        case = json.loads(line)
        results.add(case["name"] + "_ns", "ns", case["ns"])
