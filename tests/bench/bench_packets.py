# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets of established flows, from one namespace through another into a third, all on one processor."""
import json
import os
import time

from bench_connections import all_paths
from bench_measure import Rounds, add_ratio, add_values
from netns import LabError

PROCESSOR = max(os.sched_getaffinity(0))
FLOWS = 1000

# The sink is the first thing behind the BPF programs: no stack takes part.
DROP_RULES = """\
add table ip bench
add counter ip bench arrived
add chain ip bench arriving { type filter hook prerouting priority -500 ; }
add rule ip bench arriving ip saddr 198.18.0.0/16 counter name arrived drop
"""


class Arrived:
    """The result of one run."""

    def __init__(self, sent, arrived, seconds):
        self.rate = arrived / seconds
        self.ns = seconds * 1e9 / arrived
        self.lost = 1 - arrived / sent

    def show(self):
        return f"{self.rate / 1e6:.2f}M {self.ns:.0f}ns" + (f" -{self.lost * 100:.0f}%" if self.lost > 0.005 else "")


def target(path):
    """The host at which the packets arrive."""
    return path.name + "-b" if path.name == "queue" else "plain"


def arrived_at(bench, host):
    listing = json.loads(bench.site.execute(host, ["nft", "-j", "list", "counter", "ip", "bench", "arrived"]))
    return listing["nftables"][-1]["counter"]["packets"]


def generate(bench, path, kind, seconds):
    return json.loads(bench.client([
        "taskset", "-c", str(PROCESSOR), bench.program("tests/bench/livegen"), path.host,
        bench.hardware_address(path.host), bench.address(path.host), str(FLOWS), kind, str(seconds)]))


def send(bench, path, seconds):
    before = arrived_at(bench, target(path))
    output = generate(bench, path, "ack", seconds)
    time.sleep(0.05)
    arrived = arrived_at(bench, target(path)) - before
    if arrived < output["sent"] / 100:
        raise LabError(f"{path.name}: of {output['sent']} packets {arrived} arrived")
    return Arrived(output["sent"], arrived, output["seconds"])


def run(bench, results, arguments):
    paths = all_paths(bench, ("direct", "router", "queue"))
    rounds = arguments.rounds or (5 if arguments.quick else 11)
    seconds = 0.4
    hosts = {target(path) for path in paths}
    for path in paths:
        # Frames of XDP come in only by NAPI.
        bench.site.execute(path.host, ["ethtool", "-K", "eth0", "gro", "on"])
    for host in hosts:
        bench.site.execute(host, ["nft", "-f", "-"], text_in=DROP_RULES)
    try:
        for path in paths:
            if path.name == "queue":
                generate(bench, path, "syn", 1)
        found = Rounds(f"packets of {FLOWS} established flows on one processor, {seconds} s each: packets/s, ns each",
                       paths, rounds).run(lambda path: send(bench, path, seconds), Arrived.show)
    finally:
        for host in hosts:
            bench.site.execute(host, ["nft", "delete", "table", "ip", "bench"])
        for path in paths:
            bench.site.execute(path.host, ["ethtool", "-K", "eth0", "gro", "off"])
    add_ratio(bench, results, found, ("packet_rate_of_kernel_routing", "rate", "queue", "router"))
    add_ratio(bench, results, found, ("packet_rate_of_direct", "rate", "queue", "direct"))
    add_values(results, found, "packet_rate", "1/s", "rate")
