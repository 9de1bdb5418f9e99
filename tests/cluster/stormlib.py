# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the storm scenarios: many held connections, a steady rate of new ones, and floods of SYNs."""
import bisect
import collections
import json
import math
import os
import select
import subprocess
import time

from capture import Ring, story
from faultlib import Answers, Connects
from traffic import hardware

ECHO_PORT = 8080
SHORT_PAUSE_S = 10
LONG = os.environ.get("STORM") == "long"

# Times are of CLOCK_MONOTONIC: start in seconds, the others in milliseconds since then (None: never). handshake_ms:
# until the client's kernel had the SYN-ACK; connect_ms: until the client's program knew it. port: the client's.
Made = collections.namedtuple("Made", "to start handshake_ms connect_ms answer_ms syns node fate error port")


def children_end(cluster, children, within_s):
    """Waits for children that were told to end; kills those that do not, which is a failure."""
    deadline = time.monotonic() + within_s
    try:
        for child in children:
            child.wait(max(0.1, deadline - time.monotonic()))
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.wait(5)
            if child.stdout:
                child.stdout.close()
        cluster.site.reap()


class Held:
    """Connections of the client c1 that byteclient.c holds until end(), a group for each pause between two blocks.
    Connections with a long pause send nothing before it is over; those with a short pause send in turn, as many
    clients do, and not all at the same moment."""

    def __init__(self, cluster, addresses, counts):
        """counts: {pause in seconds: number of flows}. The groups are made one after the other, so that no queue
        overflows."""
        self.cluster, self.groups, self.each = cluster, [], []
        for pause_s, count in counts.items():
            path = os.path.join(cluster.directory, f"held-{pause_s:g}-{time.monotonic_ns()}.json")
            child = cluster.site.start("c1", [
                cluster.program("tests/lab/byteclient"), "--to", ",".join(addresses), "--port", str(ECHO_PORT),
                "--flows", str(count), "--seconds", "100000", "--pause-ms", str(int(pause_s * 1000)), "--block", "512",
                "--finish", "10", "--json", path] + ["--spread"] * (pause_s <= SHORT_PAUSE_S),
                os.path.join(cluster.directory, "held.log"), stdout=subprocess.PIPE)
            self.groups.append((pause_s, path, child))
            self._wait_ready(child, count)

    def _wait_ready(self, child, count, timeout_s=20):
        """Waits until all are established and know their node."""
        assert select.select([child.stdout], [], [], timeout_s)[0], "the connections were not made in time"
        said = child.stdout.readline().split()
        assert said and int(said[1]) == count, f"only {said} of {count} connections stand"

    def end(self):
        for *_, child in self.groups:
            child.terminate()
        children_end(self.cluster, [child for *_, child in self.groups], 20)
        for pause_s, path, _ in self.groups:
            with open(path, encoding="ascii") as file:
                self.each += [{**flow, "pause_s": pause_s} for flow in json.load(file)["each"]]

    def entry_of(self, flow):
        return self.cluster.node_by_address(flow["to"]).name

    def forwarded(self):
        return [flow for flow in self.each if flow["node"] != self.entry_of(flow)]

    def broken(self):
        return [flow for flow in self.each if flow["fate"] != "good"]


class Steady:
    """New connections of c1 at a steady rate, until end(); steady.c explains the fields."""

    def __init__(self, cluster, addresses, per_second, hold_ms=200, timeout_s=8, clients=0):
        """clients: use this many addresses of each family that no other client uses, instead of c1's own."""
        more = [(f"203.0.113.{100 + i}", f"2001:db8:c::{100 + i}") for i in range(clients)]
        cluster.site.ip("c1", [f"address replace {address} dev eth0" for v4, v6 in more
                               for address in (f"{v4}/24", f"{v6}/64 nodad")])
        self.cluster, self.timeout_s, self.hold_ms = cluster, timeout_s, hold_ms
        self.path = os.path.join(cluster.directory, f"steady-{time.monotonic_ns()}")
        command = [
            cluster.program("tests/lab/steady"), "--to", ",".join(addresses), "--port", str(ECHO_PORT),
            "--per-second", str(per_second), "--hold-ms", str(hold_ms), "--timeout", str(timeout_s),
            "--seconds", "100000", "--out", self.path]
        if more:
            command += ["--from", ",".join(address for both in more for address in both)]
        self.child = cluster.site.start("c1", command, os.path.join(cluster.directory, "steady.log"))
        self.each = []

    def end(self):
        assert self.child.poll() is None, "steady ended before it was told to"
        self.child.terminate()
        children_end(self.cluster, [self.child], 3 * self.timeout_s + self.hold_ms / 500 + 2)
        assert self.child.returncode == 0
        with open(self.path, encoding="ascii") as file:
            for line in file:
                to, start, handshake, connect, answer, syns, *rest, port = line.split()
                self.each.append(Made(to, float(start), *(None if float(ms) < 0 else float(ms)
                                                          for ms in (handshake, connect, answer)), int(syns), *rest, int(port)))
        self.each.sort(key=lambda made: made.start)
        self.starts = [made.start for made in self.each]

    def to(self, node):
        return self.within(0, math.inf, node)

    def within(self, since, until, to=None):
        """The connections (to a node) that began in a span of time."""
        first, end = (bisect.bisect_left(self.starts, at) for at in (since, until))
        return [made for made in self.each[first:end]
                if to in (None, self.cluster.node_by_address(made.to).name)]


class Watched:
    """Held and steady connections to addresses until end(), with each SYN and SYN-ACK of the switch and all packets of
    the router's port: check() tells what happened to a connection that broke."""

    SHOWN = 3  # connections

    def __init__(self, cluster, addresses, held, per_second, timeout_s):
        self.cluster, self.answers = cluster, Answers(cluster)
        self.ring = Ring(cluster, "sw", "r", f"tcp port {ECHO_PORT} or arp or icmp or icmp6")
        self.held = Held(cluster, addresses, {0.1: held})
        self.steady = Steady(cluster, addresses, per_second, 50, timeout_s)

    def end(self):
        self.steady.end()
        self.held.end()
        self.answers.end()
        self.ring.end()

    def check(self, name):
        """No SYN was answered twice, and no connection broke. name: of the files that are kept when one did."""
        failed, broken = bad(self.steady.each), self.held.broken()
        told = self._told(name, [(flow["to"], flow["port"]) for flow in broken] + [(made.to, made.port) for made in failed])
        self.answers.check()
        assert not broken, f"{len(broken)} of {len(self.held.each)} held connections broke, such as {broken[:3]}\n{told}"
        assert not failed, f"{len(failed)} of {len(self.steady.each)} connections failed, such as {failed[:3]}\n{told}"

    def _told(self, name, ends):
        """The packets at the router's port of the first of these connections; hardware addresses become names of nodes."""
        if not ends:
            return ""
        paths, lines = self.ring.keep(name), []
        for to, port in ends[:self.SHOWN]:
            lines += [f"port {port} to {to}, at the router's port:"] + story(paths, f"host {to} and tcp port {port}")
        text = "\n".join(lines + [f"all packets: {' '.join(paths)}"])
        for node in self.cluster.nodes:
            text = text.replace(hardware(self.cluster, node.name, "eth0"), node.name)
        return text


class Pages(Connects):
    """New connections of c1 to nginx at a steady rate, until end(). Each asks for the name of its node by HTTP."""

    port, events = 80, select.EPOLLIN | select.EPOLLOUT
    REQUEST, GOOD = b"GET /whoami HTTP/1.0\r\n\r\n", b"HTTP/1.1 200 "

    def __init__(self, *about, **options):
        self.asked = set()
        super().__init__(*about, **options)

    def _hear(self, poll, waiting, number):
        made, _, _, heard = waiting[number]
        try:
            if number not in self.asked:
                made.send(self.REQUEST)
                self.asked.add(number)
                poll.modify(number, select.EPOLLIN)
                return
            part = made.recv(4096)
        except OSError as error:
            self._over(poll, waiting, number, os.strerror(error.errno))
            return
        heard += part
        if not part:
            head, _, heard[:] = bytes(heard).partition(b"\r\n\r\n")
            status = head[9:12].decode("ascii", "replace") or "ended without an answer"
            self._over(poll, waiting, number, "" if head.startswith(self.GOOD) else status)

    def _over(self, poll, waiting, number, error=""):
        self.asked.discard(number)
        super()._over(poll, waiting, number, error)


def bad(made):
    return [one for one in made if one.fate != "good"]


def quantile(values, q):
    """A quantile by the nearest rank; a missing answer counts as slower than all."""
    ordered = sorted(math.inf if value is None else value for value in values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)]


class Floods:
    """SYNs of clients that do not exist, from the stranger x directly to a node's echo port."""

    def __init__(self, cluster):
        self.cluster = cluster
        # Answers to them go nowhere, and no host reports that.
        cluster.site.ip("r", ["route add blackhole 198.19.0.0/16"])

    def run(self, node, seconds, rate=0):
        """Sends as fast as possible, or at a rate; (SYNs sent, from, until)."""
        start = time.monotonic()
        said = json.loads(self.cluster.site.execute("x", [
            self.cluster.program("tests/bench/synflood"), "-p", str(ECHO_PORT), "-r", str(rate), "eth0",
            hardware(self.cluster, node, "eth0"), self.cluster.node(node).service_v4, "flood", str(seconds)]))
        return said["sent"], start, time.monotonic()


def report(cluster, name, values):
    """Adds a result to BUILD/storm.json and shows it."""
    path = os.path.join(cluster.build, "storm.json")
    try:
        with open(path, encoding="ascii") as file:
            known = json.load(file)
    except (OSError, ValueError):
        known = {}
    known.setdefault(cluster.plane, {})[name] = {"long": LONG, **values}
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(known, file, indent=1)
    os.rename(path + ".new", path)
    print(f"{name}, plane {cluster.plane}: " + ", ".join(f"{key}={value}" for key, value in values.items()))
