# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the fault tests: a load that notices every broken connection, and the faults.

Load is two things at once, from the client c1, on both families:

    flows     long connections to the echo servers; byteclient checks every byte (invariants I1, I2)
    connects  short connections, one after the other, that measure the time until a node answers
              (I3, I11); each notes the node
"""
import collections
import contextlib
import copy
import errno
import json
import os
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import threading
import time

import bpf
import hiccups
from netns import Late
from traffic import Capture, flow_of, hardware

ECHO_PORT = 8080
# Limits of time do not count the time in which the host let no process run (tests/lab/hiccups.py). The longest wait for
# an answer. One SYN is lost: its copy comes after 1 s.
FIRST_SYN_S = 2.6
# The longest wait with a fault: a SYN is sent to a node just before it fails, its copy just before the fault is noticed
# (1.2 s), and the next copy comes 3 s after the first.
SECOND_SYN_S = 3.6
# A connection without a delay.
NO_WAIT_MS = 1000
# A dprd has started and its peers know, also when other clusters take both processors.
RESTART_S = 15
# An event whose time does not matter.
PATIENCE_S = 15
TCP_ESTABLISHED = 1  # in the first byte of TCP_INFO

# waited: the seconds that it took, without those in which the host let no process run. port: the client's.
Connect = collections.namedtuple("Connect", "to start took node error waited port", defaults=[0.0, 0])


class Flows:
    """Connections that stay until end()."""

    def __init__(self, cluster, addresses, count, finish_s=6, pause_ms=50, block_bytes=1024, per_second=5000):
        self.cluster = cluster
        self.count = count
        self.json = os.path.join(cluster.directory, f"flows-{time.monotonic_ns()}.json")
        self.child = cluster.site.start("c1", [
            cluster.program("tests/lab/byteclient"), "--to", ",".join(addresses), "--port", str(ECHO_PORT),
            "--flows", str(count), "--per-second", str(per_second), "--seconds", "120", "--pause-ms", str(pause_ms),
            "--block", str(block_bytes), "--finish", str(finish_s), "--json", self.json], os.path.join(cluster.directory, "byteclient.log"),
            stdout=subprocess.PIPE)
        self.each = []

    def wait_ready(self, timeout_s=30):
        """Waits until all flows have received their node's name; returns their number."""
        assert select.select([self.child.stdout], [], [], timeout_s)[0], "the flows were not made in time"
        return int(self.child.stdout.readline().split()[1])

    def end(self):
        self.child.terminate()
        try:
            self.child.wait(60)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(5)
            raise
        finally:
            self.child.stdout.close()
            self.cluster.site.reap()
        with open(self.json, encoding="ascii") as file:
            self.each = json.load(file)["each"]


def too_late(made):
    """The wait of a connection."""
    connected = made.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == TCP_ESTABLISHED
    return f"{'no answer' if connected else 'not connected'} in time"


class Connects:
    """Makes new connections at intervals, until end(). One thread, one loop."""

    port, events = ECHO_PORT, select.EPOLLIN

    def __init__(self, cluster, addresses, per_second, timeout_s=8.0):
        self.cluster, self.addresses = cluster, addresses
        self.interval, self.timeout_s = 1.0 / per_second, timeout_s
        self.made = []
        self.stopped = False
        hiccups.watcher()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _open(self, poll, waiting, to):
        family = socket.AF_INET6 if ":" in to else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        start = time.monotonic()
        error = made.connect_ex((to, self.port))
        if error not in (0, errno.EINPROGRESS):
            self.made.append(Connect(to, start, 0.0, "", os.strerror(error)))
            made.close()
            return
        waiting[made.fileno()] = (made, to, start, bytearray())
        poll.register(made.fileno(), self.events)

    def _over(self, poll, waiting, number, error=""):
        made, to, start, heard = waiting.pop(number)
        port = made.getsockname()[1]
        poll.unregister(number)
        made.close()
        self.made.append(Connect(to, start, time.monotonic() - start, heard.decode("ascii", "replace").strip(), error,
                                 port=port))

    def _hear(self, poll, waiting, number):
        heard = waiting[number][3]
        try:
            part = waiting[number][0].recv(64)
        except OSError as error:
            self._over(poll, waiting, number, os.strerror(error.errno))
            return
        heard += part
        if heard.endswith(b"\n"):
            self._over(poll, waiting, number)
        elif not part:
            self._over(poll, waiting, number, "ended without a name")

    def _run(self):
        with self.cluster.site.inside("c1"):
            poll, waiting, turn, due = select.epoll(), {}, 0, time.monotonic()
            while not self.stopped or waiting:
                now = time.monotonic()
                if not self.stopped and now >= due:
                    self._open(poll, waiting, self.addresses[turn % len(self.addresses)])
                    turn, due = turn + 1, max(due + self.interval, now - 1)
                for number, _ in poll.poll(max(0.0, min(due - now, 0.05))):
                    self._hear(poll, waiting, number)
                for number in [n for n, (_, _, start, _) in waiting.items() if now - start > self.timeout_s]:
                    self._over(poll, waiting, number, too_late(waiting[number][0]))
            poll.close()

    def end(self):
        self.stopped = True
        self.thread.join(self.timeout_s + PATIENCE_S)
        assert not self.thread.is_alive()
        self.made = [made._replace(waited=made.took - hiccups.lost_s(made.start, made.start + made.took))
                     for made in self.made]


Handshake = collections.namedtuple("Handshake", "key answer at port out hardware tunnelled")


def handshake_of(port, at, out, frame):
    """The SYN or SYN-ACK in a frame, in a tunnel or not; key: that of its SYN."""
    head, tunnelled = 14, False
    while True:
        v6 = frame[head] >> 4 == 6
        protocol, addresses = frame[head + (6 if v6 else 9)], frame[head + 8:head + 40] if v6 else frame[head + 12:head + 20]
        head += 40 if v6 else 4 * (frame[head] & 15)
        if protocol == socket.IPPROTO_TCP:
            break
        tunnelled = True
    ports, sequence, acknowledged = struct.unpack("!4sII", frame[head:head + 12])
    half = len(addresses) // 2
    answer = bool(frame[head + 13] & 16)
    key = (addresses[half:], addresses[:half], ports[2:] + ports[:2], (acknowledged - 1) & 0xFFFFFFFF) if answer else \
        (addresses[:half], addresses[half:], ports, sequence)
    return Handshake(key, answer, at, port, out, frame[6:12], tunnelled)


class Answers:
    """Sees every SYN and SYN-ACK at each port of the switch, in tunnels, too. By the hardware address of a SYN-ACK
    on its way to the router it knows the node that sent it: no SYN may be answered by more than one (I3)."""

    ONLY = ("(tcp[13] & 2 != 0) or (ip6[6] = 6 and ip6[53] & 2 != 0) or (ip[9] = 4 and ip[29] = 6 and ip[53] & 2 != 0) or "
            "(ip6[6] = 41 and ip6[46] = 6 and ip6[93] & 2 != 0)")
    SHOWN = 3  # number shown of SYNs answered more than once

    def __init__(self, cluster):
        self.cluster = cluster
        self.capture = Capture(cluster, "sw", None, self.ONLY)
        self.capture.__enter__()

    def end(self):
        self.capture.stop()

    def came_from(self, made, hardware_address):
        """True when the only SYN-ACKs to a connection came from this hardware address."""
        port = struct.pack("!H", made.port)
        seen = [handshake_of(*about, frame) for about, (frame, _) in zip(self.capture.about, self.capture.frames)]
        senders = {packet.hardware for packet in seen if packet.answer and packet.port == "r" and packet.out and
                   packet.key[2][:2] == port}
        return senders == {bytes.fromhex(hardware_address.replace(":", ""))}

    def check(self):
        seen = [handshake_of(*about, frame) for about, (frame, _) in zip(self.capture.about, self.capture.frames)]
        nodes = collections.defaultdict(set)
        for packet in seen:
            if packet.answer and packet.port == "r" and packet.out:
                nodes[packet.key].add(packet.hardware)
        assert nodes, "no SYN-ACK was seen"
        twice = [key for key, answered in nodes.items() if len(answered) > 1]
        assert not twice, f"{len(twice)} of {len(nodes)} SYNs were answered by more than one node\n" + \
            "\n".join(self._story(key, [packet for packet in seen if packet.key == key]) for key in twice[:self.SHOWN])

    def _story(self, key, packets):
        """The time, sender and receiver of each copy of a SYN and each answer, and the decisions of the nodes."""
        family = socket.AF_INET6 if len(key[0]) == 16 else socket.AF_INET
        client, service = (socket.inet_ntop(family, address) for address in key[:2])
        client_port, port = struct.unpack("!HH", key[2])
        start = packets[0].at
        parts = [f"{client} port {client_port} to {service} port {port}, ISN {key[3]}; by the switch's ports, in seconds since "
                 f"{time.strftime('%H:%M:%S', time.localtime(start))}.{int(start % 1 * 1000):03}:"]
        for packet in packets:
            if not packet.out:
                parts.append(f"  {packet.at - start:9.6f} from {packet.port:4} {'SYN-ACK' if packet.answer else 'SYN'}"
                             f"{' in a tunnel' if packet.tunnelled else ''}")
        return "\n".join(parts + self._said(client, client_port))

    def _said(self, client, port):
        parts, tuple_ = [], f"[{client}]:{port}" if ":" in client else f"{client}:{port}"
        for node in self.cluster.nodes:
            if not node.alive or not self.cluster.daemon_alive(node, "dprd"):
                parts.append(f"  {node.name} has no dprd")
                continue
            flow = flow_of(self.cluster, node, "v6" if ":" in client else "v4", port)
            why = self.cluster.dprctl(node, "why", tuple_, "--all", check=False)
            parts.append(f"  {node.name} has the flow {flow}; dprctl why:\n" +
                         "".join(f"    {line}\n" for line in why.splitlines()))
        return parts


# Its hardware address, and the span of time in which it died.
Dead = collections.namedtuple("Dead", "hardware at over")


def kill_host(cluster, name):
    address, at = hardware(cluster, name, "eth0"), time.monotonic()
    cluster.kill_host(name)
    return Dead(address, at, time.monotonic())


def died_with(answers, connect, dead):
    """True when the host that died had accepted the connection, and nobody else: no node can go on with it."""
    return dead is not None and connect.start <= dead.over and answers.came_from(connect, dead.hardware)


class Load:
    """Flows and connects to all service addresses of some nodes; with new_to the short ones go only there."""

    def __init__(self, cluster, entries, flows=60, per_second=40, new_to=None, finish_s=6):
        self.cluster = cluster
        self.entries = [cluster.node(entry) for entry in entries]
        addresses = [address for node in self.entries for address in (node.service_v4, node.service_v6)]
        self.answers = Answers(cluster)
        self.flows = self.connects = None
        hiccups.watcher()
        try:
            self._start(addresses, [cluster.node(entry) for entry in new_to or entries], flows, per_second, finish_s)
        except BaseException:
            self.end()
            raise

    def _start(self, addresses, new_to, flows, per_second, finish_s):
        self.flows = Flows(self.cluster, addresses, flows, finish_s) if flows else None
        if self.flows:
            ready = self.flows.wait_ready()
            assert ready == flows, f"only {ready} of {flows} flows began"
        if per_second:
            self.connects = Connects(self.cluster, [address for node in new_to
                                                    for address in (node.service_v4, node.service_v6)], per_second)
            time.sleep(0.3)

    def end(self):
        if self.connects:
            self.connects.end()
        if self.flows:
            self.flows.end()
        self.answers.end()

    # ---- the flows ----

    def entry_of(self, flow):
        return self.cluster.node_by_address(flow["to"]).name

    def forwarded(self, entry=None, serving=None):
        """The flows that a node other than their entry node serves."""
        return [flow for flow in self.flows.each if flow["node"] != self.entry_of(flow) and
                entry in (None, self.entry_of(flow)) and serving in (None, flow["node"])]

    def local(self, node=None):
        return [flow for flow in self.flows.each if flow["node"] == self.entry_of(flow) and
                node in (None, flow["node"])]

    def check_flows(self, unless=lambda flow: False):
        """Nothing broke, except flows that unless() allows; and there were local and forwarded flows."""
        bad = [flow for flow in self.flows.each if flow["fate"] != "good" and not unless(flow)]
        assert not bad, f"{len(bad)} of {len(self.flows.each)} flows broke, such as {bad[:4]}"
        assert self.local() and self.forwarded(), "the load was not mixed"
        assert all(flow["bytes"] > 0 for flow in self.flows.each if flow["fate"] == "good")

    def check_waits(self, flows):
        """BPF programs go on without dprd: no flow has to wait for it."""
        if self.cluster.plane == "bpf":
            in_time(self.longest_ms(flows) < NO_WAIT_MS, f"a flow waited {self.longest_ms(flows):.0f} ms")

    def longest_ms(self, flows):
        """The longest wait of a flow, without the time in which the host let no process run."""
        return max((flow["longest_ms"] - 1000 * hiccups.lost_s(flow["longest_since"], flow["longest_since"] +
                                                               flow["longest_ms"] / 1000)
                    for flow in flows), default=0)

    # ---- the connects ----

    def made(self, to=None, since=0.0, until=float("inf")):
        """New connections to a node's addresses, begun in a span of time."""
        return [connect for connect in self.connects.made if since <= connect.start < until and
                to in (None, self.cluster.node_by_address(connect.to).name)]

    def check_connects(self, within_s, dead=None, **which):
        """All connections were answered, once and in time; except those that a host had when it died."""
        self.answers.check()
        made = self.made(**which)
        assert made, "nothing connected"
        failed = [connect for connect in made if connect.error and not died_with(self.answers, connect, dead)]
        assert not failed, f"{len(failed)} of {len(made)} connects failed, such as {failed[:4]}"
        worst = max((connect for connect in made if not connect.error), key=lambda connect: connect.waited)
        in_time(worst.waited <= within_s, f"{worst} waited longer than {within_s} s")
        return made

    def served_by(self, until=float("inf"), **which):
        """The number of new connections that each node served; with a span, only those begun and answered within it."""
        return collections.Counter(connect.node for connect in self.made(until=until, **which)
                                   if not connect.error and connect.start + connect.took <= until)

    def summary(self):
        parts = []
        if self.flows:
            parts.append(f"{len(self.flows.each)} flows, {len(self.forwarded())} forwarded, longest wait "
                         f"{self.longest_ms(self.flows.each):.0f} ms")
        if self.connects and self.connects.made:
            took = [connect.took * 1000 for connect in self.connects.made]
            waited = max(connect.waited for connect in self.connects.made) * 1000
            parts.append(f"{len(took)} connects, median {statistics.median(took):.1f} ms, worst {max(took):.0f} ms, "
                         f"without what the host held up {waited:.0f} ms")
        return "; ".join(parts)


@contextlib.contextmanager
def load(cluster, entries=("n1", "n2"), **options):
    """A load during the block, checked afterwards."""
    work = Load(cluster, entries, **options)
    try:
        yield work
    finally:
        work.end()
    print(work.summary())


# ---- settings of both daemons ----

def reload_both(cluster, which=None):
    """Writes the configuration files anew and reloads both daemons."""
    for node in cluster.nodes if which is None else [cluster.node(which)]:
        cluster.write_config(node)
        if cluster.daemon_alive(node, "loadcast"):
            os.kill(cluster.pid(node, "loadcast"), signal.SIGHUP)
        if cluster.daemon_alive(node, "dprd"):
            cluster.dprctl(node, "reload")


@contextlib.contextmanager
def settings(cluster, policy="rr", which=None, **sections):
    """Settings such as Health={"Interval": "200ms"} during the block, by reload."""
    name = cluster.node(which).name if which else ""
    before = copy.deepcopy(cluster.overrides)
    cluster.set_config("Balance", "Policy", policy)
    for section, keys in sections.items():
        for key, value in keys.items():
            cluster.overrides.setdefault(name, {}).setdefault(section, {})[key] = value
    reload_both(cluster)
    cluster.wait_ready()
    try:
        yield
    finally:
        cluster.overrides = before
        reload_both(cluster)


# ---- what was seen ----

def taken_over(cluster, which):
    """The number of flows that each start of a node's dprd took over from the former one."""
    return [int(count) for count in re.findall(r"(\d+) forwarded flows taken over", cluster.log_text(which, "dprd"))]


def goes_on_s(cluster):
    """The time for which a node forwards new connections after its dprd ended: while the programs decide, until the
    heartbeat is late. With Decide=auto they decide for a second after a burst, such as the flows at the beginning of
    a test."""
    return 0.6 if cluster.plane == "bpf" and cluster.decide.get("Decide") != "queue" else 0.0


def find_standby(cluster, which):
    """The process that serves while a node's dprd stands still; None: there is none."""
    pid = cluster.pid(which, "dprd")
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        for child in file.read().split():
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{child}/cmdline", encoding="utf-8") as words:
                if words.read().split("\0")[1:2] == ["--standby"]:
                    return int(child)
    return None


def standby_pid(cluster, which, timeout_s=5):
    """The same process; waits until it exists."""
    wait_for(lambda: find_standby(cluster, which), f"{which} has a standby process", timeout_s)
    return find_standby(cluster, which)


def slow_tools(cluster, slow_s=1.5):
    """A directory with an nft that reads rules slowly while the cluster's slow_file exists."""
    directory = os.path.join(cluster.directory, "tools")
    os.mkdir(directory)
    cluster.slow_file = os.path.join(cluster.directory, "slow")
    path = os.path.join(directory, "nft")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nunset LD_PRELOAD\n[ ! -e {cluster.slow_file} ] || [ \"$1\" != -f ] || sleep {slow_s}\n"
                   f'exec {shutil.which("nft", path=os.environ["PATH"] + ":/usr/sbin")} "$@"\n')
    os.chmod(path, 0o755)
    return directory


def freeze_now(cluster, which, daemon="dprd"):
    """Freezes a process and waits until its last thread stands still: after the signal a thread may go on for a
    moment."""
    pid = cluster.pid(which, daemon)

    def stopped(thread):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"

    cluster.freeze(which, daemon)
    wait_for(lambda: all(stopped(thread) for thread in os.listdir(f"/proc/{pid}/task")), f"{daemon} stands still", 2)


@contextlib.contextmanager
def frozen_whole(cluster, which, standby_first_s=0):
    """dprd of a node and its standby process stand still; the standby process may go on earlier."""
    standby = standby_pid(cluster, which)
    os.kill(standby, signal.SIGSTOP)
    cluster.freeze(which, "dprd")
    try:
        yield
    finally:
        if standby_first_s:
            os.kill(standby, signal.SIGCONT)
            time.sleep(standby_first_s)
        cluster.resume(which, "dprd")
        os.kill(standby, signal.SIGCONT)


@contextlib.contextmanager
def emptying(cluster, seconds=20):
    """Empties n1's tables raw again and again."""
    script = f"for i in $(seq {seconds * 50}); do iptables -t raw -F; ip6tables -t raw -F; sleep 0.01; done"
    child = cluster.site.start("n1", ["sh", "-c", script], os.path.join(cluster.directory, "emptying.log"))
    try:
        time.sleep(0.1)
        yield
    finally:
        child.terminate()
        child.wait(5)


def members(cluster, which):
    """{name: member} as a node's dprd sees them."""
    status = cluster.status(which)
    return {member["name"]: member for member in status["members"]} if status else {}


def eligible(cluster, which):
    """The names of the nodes to which a node may forward."""
    return {name for name, member in members(cluster, which).items() if member["eligible"] and not member["self"]}


def steady(cluster, wanted, seconds):
    """Checks for some time the eligible nodes at each node: no others than the wanted ones, ever, and these without
    flapping.

    On a starved machine a node may blink: nine of ten checks must find it.
    """
    looks = found = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for node, names in wanted.items():
            seen = eligible(cluster, node)
            assert seen <= set(names), f"{node} may forward to {seen}, not only to {names}"
            looks += 1
            found += seen == set(names)
        time.sleep(0.05)
    assert looks - found <= 1 + looks // 10, f"{looks - found} of {looks} looks did not find all of {wanted}"


@contextlib.contextmanager
def computing():
    """Two programs per processor that compute all the time, each with its own session: the kernel may give every
    session the same part (sched(7), autogroup), and dprd's would have half of a processor and no need to wait."""
    programs = [subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True)
                for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def in_time(condition, otherwise):
    """Makes an assertion that may only fail because something took too long."""
    if not condition:
        raise Late(otherwise)


def wait_for(condition, what, within_s):
    """The time until condition() held, without the time in which the host let no process run."""
    hiccups.watcher()
    start = time.monotonic()
    while not condition():
        now = time.monotonic()
        if now - start - hiccups.lost_s(start, now) > within_s:
            raise Late(f"not within {within_s} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - start


# The members whose probes came lately: they come and go.
PROBED = re.compile(r"(\tset probed[^}]*?)\t\telements = \{[^}]*\}\n")


def state_of_kernel(cluster, which):
    """All rules, local routes, BPF programs on interfaces and pins of a host; equal before and after when nothing was
    left."""
    commands = [["nft", "-s", "list", "ruleset"], ["iptables-save", "-t", "raw"], ["ip6tables-save", "-t", "raw"],
                ["ip", "route", "show", "table", "local"], ["ip", "-6", "route", "show", "table", "local"],
                ["ip", "rule"]]
    lines = []
    for command in commands:
        said = cluster.site.execute(cluster.node(which).name, command, check=False)
        said = PROBED.sub(r"\1", said)
        lines += [line for line in said.splitlines() if line and not line.startswith("#")]
    lines += bpf.attached(cluster.site, cluster.node(which).name)
    return lines + [f"pinned: {pin}" for pin in bpf.pins(cluster.node(which).pins)]


def memory_kb(pid, field="VmRSS"):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))
