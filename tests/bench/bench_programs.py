# SPDX-License-Identifier: GPL-2.0-or-later
"""The BPF programs, one run at a time (progbench.c); memory of a flow."""
import json
import os

from bench_measure import idle_percent
from netns import LabError, run as run_command

SIZES = {1_000: "1k", 100_000: "100k", 1_000_000: "1m", 4_000_000: "4m"}


def difference(values, base):
    return [value - other for value, other in zip(values, base)]


def add_results(results, ns, tables):
    """ns: {(case, flows): [per pass]}. Without the time of an empty program, except where noted."""
    first = min(SIZES)
    empty = ns["empty", first]

    def add(name, values):
        results.add(name, "ns", values)

    add("program_empty_ns", empty)
    add("encap_tc_ns", difference(ns["encapsulate", first], empty))
    add("encap_above_mutate_ns", difference(ns["encapsulate", first], ns["mutate", first]))
    add("encap_above_undo_ns", difference(ns["encapsulate", first], ns["undo", first]))
    add("mutate_redirect_ns", difference(ns["mutate", first], empty))
    add("undo_ns", difference(ns["undo", first], empty))
    # The wrapper puts an outer header on and the program takes it off: both do so in "undo", too.
    add("decap_ns", difference(ns["decapsulate", first], ns["undo", first]))
    add("decap_with_undo_ns", difference(ns["decapsulate", first], empty))
    add("miss_ns", difference(ns["miss", first], empty))
    add("foreign_ns", difference(ns["foreign", first], empty))
    add("answer_ns", difference(ns["answer", first], empty))
    for flows, name in SIZES.items():
        if ("lookup", flows) not in ns:
            continue
        add(f"lookup_{name}_ns", difference(ns["lookup", flows], ns["key", first]))
        add(f"line_{name}_ns", difference(ns["line", flows], ns["key", first]))
        if flows != first:
            add(f"encap_tc_{name}_ns", difference(ns["encapsulate", flows], empty))
            add(f"miss_{name}_ns", difference(ns["miss", flows], empty))
    large = max(flows for flows in tables if flows <= 1_000_000)
    results.add("bytes_per_flow", "bytes", [tables[large]["bytes"] / large])
    results.add("flows_1m_memory", "bytes", [tables[large]["bytes"] * 1_000_000 / large])
    results.add("flows_without_room", "count", [sum(table["lost"] for table in tables.values())])


def run(build, results, arguments):
    passes = arguments.rounds or 5
    rounds, runs = (15, 40_000) if arguments.short else (15, 200_000)
    print(f"\nBPF programs, ns per run: {passes} passes, each the least of {rounds} rounds of {runs:,} runs, of all "
          f"programs and table sizes in turn (host {idle_percent():.0f} % idle)", flush=True)
    try:
        output = run_command([os.path.join(build, "tests/bench/progbench"), str(passes), str(rounds), str(runs)]
                             + [str(flows) for flows in SIZES])
    except LabError as error:
        for name in ("encap_tc_ns", "decap_ns", "miss_ns", "lookup_1m_ns", "bytes_per_flow"):
            results.add_missing(name, str(error))
        return
    ns, tables = {}, {}
    for line in output.splitlines():
        case = json.loads(line)
        if case["name"] == "table":
            tables[case["flows"]] = case
        else:
            ns[case["name"], case["flows"]] = case["ns"]
            print(f"  {case['name']:12} {case['flows']:>9,} flows  " + " ".join(f"{value:5}" for value in case["ns"]))
    add_results(results, ns, tables)
