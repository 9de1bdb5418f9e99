# SPDX-License-Identifier: GPL-2.0-or-later
"""One connection with much data: upload through the entry node, download directly from the server."""
import json

from bench_connections import all_paths
from bench_measure import Rounds, add_ratio, add_values
from netns import LabError

PORT = "8080"


class Carried:
    """One run of bulk."""

    def __init__(self, output):
        self.rate = output["bytes"] * 8 / output["seconds"] / 1e9

    def show(self):
        return f"{self.rate:.2f}"


def carry(bench, path, direction, seconds):
    output = json.loads(bench.client([bench.program("tests/bench/bulk"), direction,
                                                      bench.address(path.host), PORT, str(seconds)]))
    if not output["bytes"]:
        raise LabError(f"{path.name}: nothing was carried {direction}")
    return Carried(output)


def run_kind(bench, results, arguments, kind):
    """kind: "gso", packets as big as the sender makes them, or "plain", packets of the wire."""
    few = ("direct", "router", "queue", "form-direct", "nfqueue")
    paths = all_paths(bench, few if arguments.quick else few + ("dnat", "haproxy", "stream"))
    rounds = arguments.rounds or (5 if arguments.quick else 15)
    seconds = 0.25
    for direction, name in (("up", "upload"), ("down", "download")):
        found = Rounds(f"{name}, one connection, offloads {'on' if kind == 'gso' else 'off'}, {seconds} s each: Gbit/s",
                       paths, rounds).run(lambda path, d=direction: carry(bench, path, d, seconds), Carried.show)
        infix = "" if name == "download" and kind == "gso" else f"_{kind}"
        for prefix, path, base in (("", "queue", "direct"), ("", "queue", "router"), ("nfqueue_", "nfqueue", "direct"),
                                   ("form_direct_", "form-direct", "direct")):
            against = {"router": "kernel_routing"}.get(base, base)
            add_ratio(bench, results, found, (f"{prefix}{name}{infix}_of_{against}", "rate", path, base))
        add_values(results, found, f"{name}_{kind}", "Gbit/s", "rate")


def run(bench, results, arguments):
    run_kind(bench, results, arguments, "gso")
    bench.set_offloads(False)
    try:
        run_kind(bench, results, arguments, "plain")
    finally:
        bench.set_offloads(True)
