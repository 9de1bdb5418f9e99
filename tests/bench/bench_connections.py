# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of a connection on every path: connections per second, delay, processor time, errors."""
import json
import os
import re
import shlex

from bench_bare import BARE
from bench_dprd import PAIRS
from bench_measure import Rounds, add_ratio, add_values, softirq_pids
from hostinfo import task_seconds
from netns import LabError

IN_FLIGHT = 64
DEALT_PORT = 8081  # bench_peers.NGINX_CONF
CLIENTS = 2  # processes: a single one would be the limit
HTTPERF_RATE = 4000
# Factors on the rounds for connections that stay: in each round the kernel deals them to the workers anew, and rounds
# differ by a tenth. A few paths get many more rounds, because the ratio of a hop to direct is close to the goal.
STAY_ROUNDS, STAY_FEW_ROUNDS = 2, 8

# result, value of Connected, path, compared with
RATIOS = [
    ("conn_rate_of_direct", "rate", "auto", "direct"),
    ("conn_rate_of_kernel_routing", "rate", "auto", "router"),
    ("conn_rate_of_haproxy", "rate", "auto", "haproxy"),
    ("conn_rate_of_nginx_stream", "rate", "auto", "stream"),
    ("conn_rate_of_dnat", "rate", "auto", "dnat"),
    ("cpu_per_conn_of_direct", "cpu_us", "auto", "direct"),
    ("conn_p50_of_direct", "p50_us", "auto", "direct"),
    ("conn_p99_of_direct", "p99_us", "auto", "direct"),
    ("queue_conn_rate_of_direct", "rate", "queue", "direct"),
    ("queue_cpu_per_conn_of_direct", "cpu_us", "queue", "direct"),
    ("queue_conn_p50_of_direct", "p50_us", "queue", "direct"),
    ("queue_conn_p99_of_direct", "p99_us", "queue", "direct"),
    ("half_forwarded_conn_rate_of_direct", "rate", "half", "direct"),
    ("half_forwarded_cpu_of_direct", "cpu_us", "half", "direct"),
    ("local_conn_rate_of_without", "rate", "local", "direct"),
    ("local_cpu_per_conn_of_without", "cpu_us", "local", "direct"),
    ("nfqueue_conn_rate_of_direct", "rate", "nfqueue", "direct"),
    ("nfqueue_cpu_per_conn_of_direct", "cpu_us", "nfqueue", "direct"),
    ("nfqueue_conn_p50_of_direct", "p50_us", "nfqueue", "direct"),
    ("nfqueue_conn_p99_of_direct", "p99_us", "nfqueue", "direct"),
    ("kernel_decision_conn_rate_of_direct", "rate", "kernel", "direct"),
    ("kernel_decision_cpu_of_direct", "cpu_us", "kernel", "direct"),
    ("kernel_decision_conn_p50_of_direct", "p50_us", "kernel", "direct"),
    ("kernel_decision_conn_p99_of_direct", "p99_us", "kernel", "direct"),
    ("form_direct_conn_rate_of_direct", "rate", "form-direct", "direct"),
    ("form_direct_cpu_of_direct", "cpu_us", "form-direct", "direct"),
    ("form_direct_conn_p50_of_direct", "p50_us", "form-direct", "direct"),
    ("form_direct_conn_p99_of_direct", "p99_us", "form-direct", "direct"),
    ("form_direct_conn_rate_of_kernel_routing", "rate", "form-direct", "router"),
    ("queue_conn_rate_of_bare", "rate", "queue", "bare-syns"),
    ("nfqueue_conn_rate_of_bare", "rate", "nfqueue", "bare-all"),
    ("kernel_decision_conn_rate_of_bare", "rate", "kernel", "bare"),
    ("kernel_decision_conn_rate_of_bare_hooks", "rate", "kernel", "bare-hooks"),
    ("kernel_decision_conn_rate_of_bare_flows", "rate", "kernel", "bare-flows"),
    ("bare_conn_rate_of_direct", "rate", "bare-syns", "direct"),
    ("bare_cpu_per_conn_of_direct", "cpu_us", "bare-syns", "direct"),
    ("bare_conn_p50_of_direct", "p50_us", "bare-syns", "direct"),
    ("bare_all_conn_rate_of_direct", "rate", "bare-all", "direct"),
    ("bare_kernel_decision_conn_rate_of_direct", "rate", "bare", "direct"),
    ("bare_kernel_decision_cpu_of_direct", "cpu_us", "bare", "direct"),
    ("bare_hooks_conn_rate_of_direct", "rate", "bare-hooks", "direct"),
    ("bare_hooks_cpu_of_direct", "cpu_us", "bare-hooks", "direct"),
    ("bare_flows_conn_rate_of_direct", "rate", "bare-flows", "direct"),
    ("bare_flows_cpu_of_direct", "cpu_us", "bare-flows", "direct"),
    ("kernel_decision_local_conn_rate_of_without", "rate", "kernel-local", "direct"),
    ("kernel_decision_local_cpu_of_without", "cpu_us", "kernel-local", "direct"),
]


class Path:
    """A way to a web server, and the hosts whose processor time it takes."""

    def __init__(self, name, host, hosts):
        self.name, self.host, self.hosts = name, host, hosts


def all_paths(bench, names=None):
    """The paths in this order; names: only these."""
    paths = [Path("direct", "plain", ["plain"]), Path("router", "router", ["plain"])]
    paths += [Path(pair.name, pair.name, [pair.name, pair.name + "-b"]) for pair in PAIRS if pair.name in bench.pairs]
    paths += [Path(name, name, [name, name + "-b"]) for name in BARE]
    paths += [Path(name, name, [name, "plain"]) for name in ("dnat", "haproxy", "stream")]
    return [path for path in paths if names is None or path.name in names]


def names_without_bare(bench):
    return [path.name for path in all_paths(bench) if path.name not in BARE]


class Connected:
    """One run of connclient."""

    def __init__(self, output, cpu_s):
        self.errors, self.resets, self.connections = output["errors"], output["resets"], output["connections"]
        self.rate, self.p50_us, self.p99_us = output["rate"], output["p50_us"], output["p99_us"]
        self.cpu_us = (output["cpu_seconds"] + cpu_s) * 1e6 / max(1, self.connections)

    def show_delay(self):
        return f"{self.p50_us:.0f}/{self.p99_us:.0f}{self._trouble()}"

    def show_rate(self):
        return f"{self.rate / 1000:.1f}k {self.cpu_us:.0f}us{self._trouble()}"

    def _trouble(self):
        return f" {self.errors}!" if self.errors else ""


def connect(bench, path, mode, in_flight, seconds):
    pids = bench.pids(path.hosts) + softirq_pids()
    before = task_seconds(pids)
    output = json.loads(bench.client([
        bench.program("tests/bench/connclient"), bench.address(path.host), "80", mode, str(in_flight), str(seconds),
        str(min(CLIENTS, in_flight))]))
    if not output["connections"]:
        raise LabError(f"{path.name}: no connection to {bench.address(path.host)} came about")
    return Connected(output, task_seconds(pids) - before)


class Requested:
    """One run of wrk or httperf."""

    def __init__(self, rate, errors, time_ms=0.0):
        self.rate, self.errors, self.time_ms = rate, errors, time_ms

    def show(self):
        return f"{self.rate / 1000:.1f}k" + (f" {self.time_ms:.2f}ms" if self.time_ms else "") + (
            f" {self.errors}!" if self.errors else "")


def find_number(pattern, text, otherwise=None):
    """The sum of the numbers that the groups of a pattern match."""
    found = re.search(pattern, text)
    if found is None:
        if otherwise is None:
            raise LabError(f"no \"{pattern}\" in: {text[-500:]}")
        return otherwise
    return sum(float(group) for group in found.groups())


def wrk(bench, path, seconds, close):
    """One process on each processor, as the servers' workers have it: the scheduler's placing of threads is not
    measured."""
    processors = sorted(os.sched_getaffinity(0))[:CLIENTS]
    words = ["wrk", "-t1", f"-c{IN_FLIGHT // len(processors)}", f"-d{seconds}s"]
    address = bench.address(path.host)
    words += ["-H", "Connection: close", f"http://{address}/whoami"] if close else [f"http://{address}:{DEALT_PORT}/whoami"]
    text = bench.client(["sh", "-c", "".join(f"taskset -c {processor} {shlex.join(words)} & "
                                             for processor in processors) + "wait"])
    rates = re.findall(r"Requests/sec:\s+([\d.]+)", text)
    if len(rates) != len(processors):
        raise LabError(f"{path.name}: wrk did not say how many requests it made: {text[-500:]}")
    errors = re.findall(r"(?:connect|read|write|timeout|responses:) (\d+)", text)
    return Requested(sum(map(float, rates)), sum(map(int, errors)))


def httperf(bench, path, seconds):
    text = bench.client(["httperf", "--server", bench.address(path.host), "--uri", "/whoami",
                                         "--rate", str(HTTPERF_RATE), "--num-conns", str(int(HTTPERF_RATE * seconds)),
                                         "--http-version", "1.0", "--timeout", "5"])
    replies = find_number(r"Total: connections \d+ requests \d+ replies (\d+)", text)
    return Requested(replies / find_number(r"test-duration ([\d.]+)", text),
                     int(find_number(r"Errors: total (\d+)", text)),
                     find_number(r"Connection time \[ms\]: min [\d.]+ avg ([\d.]+)", text))


def add_errors(results, found):
    """Counts over all connections of a path: a single one is too rare for a ratio of rounds."""
    for path, series in found.items():
        suffix = "" if path == "auto" else "_" + path.replace("-", "_")
        total = sum(one.connections + one.errors for one in series) / 1e6
        for kind in ("errors", "resets"):
            results.add(f"conn_{kind}_per_million{suffix}", "count",
                        [sum(getattr(one, kind) for one in series) / total])


def run_delays(bench, results, rounds, seconds):
    paths = all_paths(bench, ("direct", "local", "auto", "queue", "kernel", "kernel-local", "nfqueue"))
    found = Rounds(f"connecting, one at a time, {seconds} s each: p50/p99 us", paths, rounds).run(
        lambda path: connect(bench, path, "connect", 1, seconds), Connected.show_delay)
    for path in paths[1:]:
        for quantile in ("p50_us", "p99_us"):
            results.add(f"connect_{path.name}_{quantile[:3]}_added_us".replace("-", "_"), "us",
                        [getattr(one, quantile) - getattr(base, quantile)
                         for one, base in zip(found[path.name], found["direct"])])
    results.add("connect_p50_direct_us", "us", [one.p50_us for one in found["direct"]])


def run_requests(bench, results, rounds, seconds, quick):
    # A short run leaves out measurements of the host's limits.
    most = names_without_bare(bench) if quick else None
    queued = bench.pairs["auto"].queued() if "auto" in bench.pairs else 0
    found = Rounds(f"requests of a connection each, {IN_FLIGHT} in flight, {seconds} s each: connections/s, processor "
                   "time of client, daemons and servers per connection", all_paths(bench, most), rounds).run(
        lambda path: connect(bench, path, "request", IN_FLIGHT, seconds), Connected.show_rate)
    for result in RATIOS:
        add_ratio(bench, results, found, result)
    for name, unit, value in (("conn_rate", "1/s", "rate"), ("cpu_per_conn", "us", "cpu_us"),
                              ("conn_p50", "us", "p50_us"), ("conn_p99", "us", "p99_us")):
        add_values(results, found, name, unit, value)
    add_errors(results, found)
    if "auto" in found:
        results.add("conn_queued_share", "ratio", [(bench.pairs["auto"].queued() - queued)
                                                   / sum(one.connections for one in found["auto"])])
    for pair in bench.pairs.values():
        pair.check_forwarded()


def run_tools(bench, results, rounds, quick, short):
    """The same with other people's clients: closed loops of wrk, an open loop of httperf."""
    few = ("direct", "auto", "haproxy") if quick else None
    seconds = 1
    found = Rounds(f"wrk, a connection for each request, {IN_FLIGHT} in flight, {seconds} s each: requests/s",
                   all_paths(bench, few or names_without_bare(bench)), rounds).run(
        lambda path: wrk(bench, path, seconds, True), Requested.show)
    for path in ("auto", "queue", "kernel", "nfqueue", "haproxy"):
        name = {"auto": "", "kernel": "kernel_decision_"}.get(path, path + "_")
        add_ratio(bench, results, found, (f"wrk_{name}conn_rate_of_direct", "rate", path, "direct"))
    add_values(results, found, "wrk_conn_rate", "1/s", "rate")
    results.add("wrk_errors", "count", [sum(one.errors for series in found.values() for one in series)])
    run_stay(bench, results, rounds, few)
    seconds = 0.5 if short else 1
    found = Rounds(f"httperf, {HTTPERF_RATE} connections per second, {seconds} s each: connections/s, mean time of one",
                   all_paths(bench, few or ("direct", "router", "auto", "queue", "kernel", "nfqueue", "dnat",
                                            "haproxy")),
                   rounds).run(lambda path: httperf(bench, path, seconds), Requested.show)
    add_ratio(bench, results, found, ("httperf_conn_rate_of_direct", "rate", "auto", "direct"))
    add_values(results, found, "httperf_conn_time", "ms", "time_ms")
    results.add("httperf_errors", "count", [sum(one.errors for series in found.values() for one in series)])


def run_stay(bench, results, rounds, few):
    """Requests over connections that stay."""
    def measure(names, times):
        return Rounds(f"wrk, {IN_FLIGHT} connections that stay, 1 s each: requests/s", all_paths(bench, names),
                      rounds if rounds == 1 or few else times * rounds).run(
            lambda path: wrk(bench, path, 1, False), Requested.show)

    found = measure(few or ("direct", "router", "auto", "form-direct", "nfqueue", "bare", "bare-hooks", "dnat",
                            "haproxy", "stream"), STAY_ROUNDS)
    if not few:
        for name, series in measure(("direct", "router", "auto"), STAY_FEW_ROUNDS).items():
            found[name] += series
    for name, path, base in (("keepalive_of_direct", "auto", "direct"), ("keepalive_of_haproxy", "auto", "haproxy"),
                             ("keepalive_of_kernel_routing", "auto", "router"),
                             ("form_direct_keepalive_of_direct", "form-direct", "direct"),
                             ("nfqueue_keepalive_of_direct", "nfqueue", "direct"),
                             ("bare_keepalive_of_direct", "bare", "direct"),
                             ("bare_hooks_keepalive_of_direct", "bare-hooks", "direct")):
        add_ratio(bench, results, found, (name, "rate", path, base))
    add_values(results, found, "keepalive_rate", "1/s", "rate")


def run(bench, results, arguments):
    # Many short rounds: the host's speed changes within seconds, and compared paths must see the same speed.
    rounds = arguments.rounds or (5 if arguments.quick else 25)
    some = max(min(5, rounds), rounds // 3)
    run_delays(bench, results, some, 0.2 if arguments.short else 0.5)
    run_requests(bench, results, rounds, 0.2 if arguments.quick else 0.4 if arguments.short else 0.5,
                 arguments.quick)
    run_tools(bench, results, some, arguments.quick, arguments.short)
