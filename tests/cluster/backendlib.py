# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the tests of real servers: choosing the servers that take connections, and the view of clients and
kernels."""
import collections
import contextlib
import copy
import hashlib
import json
import threading
import time

from faultlib import reload_both, wait_for
from traffic import connect, file_sha256, read_line, service

ECHO_PORT = 8080
# b1, b2, ... behind n1.
PLAN = (("n1", "nat"), ("n1", "nat"), ("n1", "direct"), ("n1", "tunnel"))
ALL = ("b1", "b2", "b3", "b4")
BY_FORM = {"nat": "b1", "direct": "b3", "tunnel": "b4"}
# dprd counts connections that a failing server refuses or resets as half-open or open until then: it does not see the
# answers.
SHORT = {f"{what}Timeout": "2s" for what in ("Syn", "Fin", "Rst", "Idle")}
# A busy host may let a check wait for more than a second.
HEALTH = {"Interval": "200ms", "Timeout": "2s", "Fall": "3", "Rise": "1"}
FAILS_SOON = {"Interval": "200ms", "Timeout": "200ms", "Fall": "2", "Rise": "1"}
# With FAILS_SOON: Interval x Fall, and 1 s; a silent server costs Timeout more.
GONE_S, SILENT_S = 1.4, 1.8
BACK_S = 1.4
UNDER_WAY_S = 0.05
READ_BYTES, READ_PAUSE_S = 65536, 0.1


# ---- settings ----

def heal(cluster):
    """All real servers run and can be reached, whatever a test did to them."""
    for backend in cluster.backends:
        backend.weight, backend.port = 1, 0
        cluster.cut_backend(backend, up=True)
        if any(child.poll() is not None for child in cluster.webs.get(backend.name, [])):
            cluster.stop_web(backend)
        if backend.name not in cluster.webs:
            cluster.start_web(backend)


def reported(cluster, node="n1"):
    """{name: the row of dprctl backends}"""
    said = json.loads(cluster.dprctl(node, "backends", "--json", check=False) or "{}")
    return {backend["name"]: backend for backend in said.get("backends", [])}


def usable(cluster, node="n1"):
    """The names of the servers that get new connections."""
    return {name for name, backend in reported(cluster, node).items() if not backend["why_not"]}


@contextlib.contextmanager
def using(cluster, *names, policy="rr", weights=(), serve_here=False, entry="n1", **sections):
    """Lets only these real servers of a node take connections, with weight 1 or the given weights; by reload."""
    overrides, given = copy.deepcopy(cluster.overrides), dict(zip(names, weights or [1] * len(names)))
    for backend in cluster.backends:
        backend.weight = given.get(backend.name, 0)
    cluster.set_config("Backends", "Policy", policy, entry)
    cluster.set_config("Backends", "ServeHere", "yes" if serve_here else "no", entry)
    for section, keys in {"Health": HEALTH, **sections}.items():
        for key, value in keys.items():
            cluster.set_config(section, key, value)
    if not serve_here and not any(cluster.node(name).form == "nat" for name in names):
        cluster.set_weight(entry, 0)  # connections that peers forward would find no server
    try:
        reload_both(cluster)
        wait_for(lambda: usable(cluster, entry) == set(names), f"{entry} uses {', '.join(names)} only", 15)
        yield
    finally:
        heal(cluster)
        cluster.overrides = overrides
        reload_both(cluster)


# ---- what is held ----

def open_held(cluster, addresses, count):
    """[(connection, name of its server)] to the echo servers."""
    found = []
    for number in range(count):
        made = connect(cluster, addresses[number % len(addresses)], ECHO_PORT)
        found.append((made, read_line(made)))
    return found


@contextlib.contextmanager
def holding(cluster, addresses, count):
    """The number of connections that each server gets, of connections that stay open until the end. Then each is asked
    once more."""
    held = open_held(cluster, addresses, count)
    try:
        yield collections.Counter(name for _, name in held)
        for made, name in held:
            made.sendall(b"still here\n")
            assert read_line(made) == "still here", name
    finally:
        for made, _ in held:
            made.close()


def addresses_of(node):
    return [node.service_v4, node.service_v6]


def sockets(cluster, name):
    """Connections to the echo server that a host's own kernel has."""
    return len(cluster.site.execute(name, ["ss", "-Htn", "state", "established", "sport", "=", f":{ECHO_PORT}"])
               .splitlines())


def open_at(cluster, names=ALL):
    """The number of connections that dprd counts at these servers."""
    said = reported(cluster)
    return sum(said[name]["connections"] for name in names)


def forget_ended(cluster):
    """Waits until no connection of an earlier test counts any more, not even one whose end dprd could not see."""
    deadline = time.monotonic() + 1.2
    while open_at(cluster) and time.monotonic() < deadline:
        time.sleep(0.1)
    if open_at(cluster):
        overrides = copy.deepcopy(cluster.overrides)
        for key, value in SHORT.items():
            cluster.set_config("Flows", key, value)
        reload_both(cluster)
        wait_for(lambda: not open_at(cluster), "nothing is open", 6)
        cluster.overrides = overrides
        reload_both(cluster)


def counts_agree(cluster, names):
    """True when dprd counts the same connections as the servers' kernels."""
    said = reported(cluster)
    return all(said[name]["connections"] == sockets(cluster, name) for name in names)


# ---- what the client saw ----

def failures(cluster, host="c1"):
    """(connections of a host that failed, connections that a reset ended)"""
    lines = [line.split() for line in cluster.site.execute(host, ["cat", "/proc/net/snmp"]).splitlines()]
    names, values = [line[1:] for line in lines if line[0] == "Tcp:"]
    found = dict(zip(names, map(int, values)))
    return found["AttemptFails"], found["EstabResets"]


@contextlib.contextmanager
def nothing_fails(cluster):
    """The client's kernel counts neither a refusal nor a reset."""
    before = failures(cluster)
    yield
    after = failures(cluster)
    assert after == before, f"refused {after[0] - before[0]}, reset {after[1] - before[1]}"


def check_errors(work, first, last):
    """No connection failed, except those that were under way then or began in this span."""
    bad = [(round(made.start - first, 3), made) for made in work.connects.made
           if made.error and not first - UNDER_WAY_S <= made.start <= last]
    assert not bad, f"{len(bad)} of {len(work.connects.made)} connects failed, such as {bad[:4]}"


def check_flows(flows, unless=()):
    """{server: number of connections}; none broke, except those of some servers."""
    bad = [flow for flow in flows.each if flow["fate"] != "good" and flow["node"] not in unless]
    assert not bad, f"{len(bad)} of {len(flows.each)} flows broke, such as {bad[:4]}"
    return collections.Counter(flow["node"] for flow in flows.each)


class Downloads:
    """Several slow downloads at once, until join()."""

    def __init__(self, cluster, count, size_bytes=3_000_000, entry="n1"):
        self.cluster, self.nodes, self.failed = cluster, [], []
        self.path = cluster.add_file(f"slow-{size_bytes}", size_bytes)
        self.expected = file_sha256(cluster.file_root + self.path)
        families = ("v4", "v6")
        self.threads = [threading.Thread(target=self._run, args=(service(cluster.node(entry), families[i % 2]),),
                                         daemon=True) for i in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, address):
        try:
            node = self._fetch(address)
        except (OSError, AssertionError) as error:
            self.failed.append(f"{address}: {error!r}")
        else:
            self.nodes.append(node)

    def _fetch(self, address):
        digest, head = hashlib.sha256(), b""
        with connect(self.cluster, address, 80, timeout_s=20) as made:
            made.sendall(f"GET {self.path} HTTP/1.0\r\nHost: lab\r\n\r\n".encode())
            while b"\r\n\r\n" not in head:
                part = made.recv(4096)
                assert part, f"the connection ended within the head: {head!r}"
                head += part
            head, _, body = head.partition(b"\r\n\r\n")
            while body:
                digest.update(body)
                time.sleep(READ_PAUSE_S * len(body) / READ_BYTES)
                body = made.recv(READ_BYTES)
        assert digest.hexdigest() == self.expected, "other bytes than the file's"
        return next(line[8:].decode() for line in head.split(b"\r\n") if line.startswith(b"X-Node: "))

    def join(self, timeout_s=30):
        """The servers that they came from."""
        deadline = time.monotonic() + timeout_s
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        assert not any(thread.is_alive() for thread in self.threads), "downloads did not end"
        assert not self.failed, self.failed
        return collections.Counter(self.nodes)
