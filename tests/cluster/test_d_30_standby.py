# SPDX-License-Identifier: GPL-2.0-or-later
"""Datapath 30: the standby process, which serves while dprd stands still and for a moment after its end; and an end in
good order."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest
from scapy.all import TCP

import hiccups
from faultlib import (FIRST_SYN_S, NO_WAIT_MS, RESTART_S, SECOND_SYN_S, Answers, computing, find_standby, freeze_now,
                      frozen_whole, goes_on_s, in_time, load, standby_pid, wait_for)
from netns import start_time
from traffic import FAMILIES, RawClient, flow_of, forward_to, kernel_knows, rules, send, service

FROZEN_S = 1.5


def has_ended(pid):
    """Waits until the process has ended, or only its exit status is left for its parent."""
    return start_time(pid) is None


def test_d30_ends_with_dprd(clusters):
    """The standby process ends with dprd, killed or stopped, and the next dprd has a new one."""
    cluster = clusters.fresh(nodes=2, layout="own")
    seen = set()
    for end in (cluster.kill, cluster.stop, cluster.stop):
        pid = standby_pid(cluster, "n1")
        assert pid not in seen
        seen.add(pid)
        end("n1", "dprd")
        wait_for(lambda pid=pid: has_ended(pid), "its standby process has ended", 15)
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 is back", RESTART_S)
    assert "standby process ended" not in cluster.log_text("n1", "dprd")


def test_d31_is_replaced(own3):
    """A killed standby process is replaced: the new one also serves at once while dprd stands still, and notices when
    that is over."""
    own3.set_policy("rr")
    first = standby_pid(own3, "n1")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: find_standby(own3, "n1") not in (None, first), "n1 has another", 5)
    assert "standby process ended" in own3.log_text("n1", "dprd")
    before = own3.counters("n1")["standby_served"]
    with load(own3, ["n1"]) as work:
        for _ in range(2):
            own3.freeze("n1", "dprd")
            start = time.monotonic()
            time.sleep(FROZEN_S)
            own3.resume("n1", "dprd")
            end = time.monotonic()
            time.sleep(1)
        wait_for(lambda: own3.sees("n1", ["n1", "n2", "n3"]), "n1 sees all again", 5)
        back = time.monotonic()
        time.sleep(1)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    late = work.made(since=start + goes_on_s(own3) + 0.2, until=end)
    assert {connect.node for connect in late} == {"n1"}
    assert sorted(connect.took for connect in late)[len(late) * 9 // 10] < 0.2
    assert {"n1", "n2", "n3"} == set(work.served_by(since=back)), "n1 forwards again"
    if own3.decide.get("Decide") != "kernel":  # otherwise none comes to a queue
        wait_for(lambda: own3.counters("n1")["standby_served"] > before, "it is counted", 3)


def test_d32_does_nothing_else(own3):
    """While dprd works, its standby process serves nothing, however many packets come."""
    own3.set_policy("rr")
    before = own3.counters("n1")["standby_served"]
    with hiccups.Span() as span, load(own3, ["n1"], flows=0, per_second=300) as work:
        time.sleep(3)
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by()) == {"n1", "n2", "n3"}
    # The standby process may serve some while the host gives dprd no time.
    assert own3.counters("n1")["standby_served"] - before <= len(work.made()) // 20 + 300 * span.lost_s


def test_d33_both_frozen(own3):
    """dprd of n1 and its standby process stand still. Without BPF the SYNs of n1's clients wait in the queue, and are
    then too old to be forwarded: n1 serves them. With BPF the programs notice that dprd takes nothing from the
    queue: later SYNs are served at once."""
    own3.set_policy("rr")
    before = own3.counters("n1")
    with load(own3, ["n1"]) as work:
        time.sleep(goes_on_s(own3))
        with frozen_whole(own3, "n1"):
            start = time.monotonic()
            time.sleep(2)
            end = time.monotonic()
        time.sleep(1)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    after = own3.counters("n1")
    if own3.plane == "bpf":
        late = work.made(since=start + goes_on_s(own3) + 0.2, until=end)
        assert {connect.node for connect in late} == {"n1"}
        assert sorted(connect.waited for connect in late)[len(late) * 9 // 10] < 0.2
    else:
        assert after["stale_syn"] - before["stale_syn"] > 10
        assert {made.node for made in work.made(since=start + 0.05, until=end - 0.6)} == {"n1"}


@pytest.mark.parametrize("form", ["one3", "own3"])
def test_d34_serving_goes_on(clusters, form):
    """dprd of n2 stands still: packets that others forward to it, of both families, still come out of the tunnel."""
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    before = cluster.counters("n2")
    with load(cluster, ["n1", "n3"]) as work:
        cluster.freeze("n2", "dprd")
        time.sleep(2)
        cluster.resume("n2", "dprd")
        wait_for(lambda: cluster.sees("n2", ["n1", "n2", "n3"]), "n2 is back", RESTART_S)
    work.check_flows()
    longest_ms = work.longest_ms(work.forwarded(serving="n2"))
    in_time(longest_ms < NO_WAIT_MS, f"a flow waited {longest_ms:.0f} ms")
    assert {flow["to"].count(":") > 0 for flow in work.forwarded(serving="n2")} == {True, False}
    work.check_connects(FIRST_SYN_S)
    if cluster.plane != "bpf":
        wait_for(lambda: cluster.counters("n2")["standby_tunnelled"] - before["standby_tunnelled"] > 30,
                 "it is counted", 15)


def test_d35_serving_frozen_whole(own3):
    """dprd of n2 and its standby process stand still. Without BPF a SYN that n1 sent to n2 is too old when they go on:
    no node answers it, and its client's next one is decided anew. With BPF no packet waits."""
    own3.set_policy("rr")
    before = own3.counters("n2")
    with load(own3, ["n1"]) as work:
        with frozen_whole(own3, "n2"):
            time.sleep(2)
        time.sleep(1)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    stale = own3.counters("n2")["stale_tunnel_syn"] - before["stale_tunnel_syn"]
    assert stale == 0 if own3.plane == "bpf" else stale > 3


def test_d36_killed_and_nobody_knows(own3):
    """dprd of n2 is killed, and n2's loadcast stands still, so that n1 does not hear of it: packets from the tunnel in
    the moment after that are served as before."""
    own3.set_policy("rr")
    with load(own3, ["n1"], flows=0, per_second=300) as work:
        time.sleep(1)
        own3.freeze("n2", "loadcast")
        own3.kill("n2", "dprd")
        killed = time.monotonic()
        time.sleep(1)
        own3.start("n2", "dprd")
        own3.resume("n2", "loadcast")
        wait_for(lambda: own3.sees("n1", ["n1", "n2", "n3"]), "n1 sees n2 again", 15)
    work.check_connects(SECOND_SYN_S)
    # The kernel needs 20 to 30 ms to end a process: until then it is as if it stood still.
    after = [connect for connect in work.made(since=killed + 0.04, until=killed + 0.09) if connect.node == "n2"]
    assert any(connect.waited < 0.5 for connect in after), work.made(since=killed, until=killed + 0.3)


def test_d37_standby_goes_on_first(own3):
    """dprd of n2 and its standby process stand still until clients have sent their third SYN, which another node has
    answered; then the standby process goes on first. It does not take the first one out of the tunnel: no client
    gets two answers."""
    own3.set_policy("rr")
    with load(own3, ["n1"]) as work:
        with frozen_whole(own3, "n2", standby_first_s=0.3):
            start = time.monotonic()
            time.sleep(4)
        time.sleep(0.5)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S, since=start)
    # One whose SYN-ACK n2 had sent by then is a flow of n2's, and hears of its server when n2 goes on.
    work.check_connects(6, until=start)


@pytest.mark.parametrize("form", ["one3", "own3"])
def test_d3a_flows_go_on(clusters, form):
    """dprd of n1 stands still: packets of its forwarded flows, of both families, still go on."""
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    before = cluster.counters("n1")["standby_forwarded"]
    with load(cluster, ["n1"]) as work:
        cluster.freeze("n1", "dprd")
        time.sleep(2.5)
        cluster.resume("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
    work.check_flows()
    assert {flow["to"].count(":") > 0 for flow in work.forwarded()} == {True, False}
    longest_ms = work.longest_ms(work.forwarded())
    in_time(longest_ms < NO_WAIT_MS, f"a flow waited {longest_ms:.0f} ms")
    work.check_connects(FIRST_SYN_S)
    if cluster.plane != "bpf":
        wait_for(lambda: cluster.counters("n1")["standby_forwarded"] > before + 30, "it is counted", 15)


def check_kills(cluster):
    """dprd of n2 is killed, and the next one starts a second later, as systemd does it. Meanwhile packets that n2
    forwards go on, and packets forwarded to n2 come out of the tunnel."""
    cluster.set_policy("rr")
    with load(cluster, ["n1", "n2"]) as work:
        for _ in range(2):
            cluster.kill("n2", "dprd")
            time.sleep(1.2)
            cluster.start("n2", "dprd")
            wait_for(lambda: cluster.sees("n2", ["n1", "n2", "n3"]), "n2 is back", RESTART_S)
            time.sleep(0.3)
    work.check_flows()
    for flows in (work.forwarded(serving="n2"), [flow for flow in work.forwarded() if flow["node"] != "n2"]):
        assert {flow["to"].count(":") > 0 for flow in flows} == {True, False}
        longest_ms = work.longest_ms(flows)
        in_time(longest_ms < NO_WAIT_MS, f"a flow waited {longest_ms:.0f} ms")
    work.check_connects(FIRST_SYN_S)


@pytest.mark.parametrize("form", ["one3", "own3"])
def test_d3c_flows_go_on_after_a_kill(clusters, form):
    check_kills(clusters.get(form))


@pytest.mark.alone
@pytest.mark.long("it takes all processors")
def test_d3e_flows_go_on_after_a_kill_on_a_busy_host(own3):
    """The killed dprd needs a moment to end, in which it has its lock, but reads no queue."""
    with computing():
        check_kills(own3)


@pytest.mark.parametrize("family", FAMILIES)
def test_d3b_a_port_is_used_again(own3, family):
    """While dprd of n1 stands still, a client uses a port again whose last connection n1 forwarded. n1 serves it at
    once, and still does when dprd goes on."""
    n1, _ = forward_to(own3, "n2")
    with RawClient(own3, service(n1, family), 8080, 20841) as first:
        first.open()
        assert first.wait_heard(lambda heard: heard == b"n2\n")
        first.say(b"", flags="FA")
        wait_for(lambda: (flow_of(own3, "n1", family, 20841) or {}).get("state") == "closing", "its flow is closing", 15)
        first.sequence += 1
        first.reset()
    with RawClient(own3, service(n1, family), 8080, 20841) as client:
        client.isn += 1_000_000
        own3.freeze("n1", "dprd")
        try:
            time.sleep(goes_on_s(own3) + 0.3)
            client.open()
            assert client.wait_heard(lambda heard: heard == b"n1\n")
        finally:
            own3.resume("n1", "dprd")
        wait_for(lambda: own3.sees("n1", ["n2"]), "n1 is back", RESTART_S)
        client.say(b"still there\n")
        assert client.wait_heard(lambda heard: heard == b"n1\nstill there\n")
        assert own3.plane == "bpf" or not kernel_knows(own3, n1, family, 20841)
        client.reset()


@pytest.mark.alone  # it measures how soon others hear
@pytest.mark.parametrize("form", ["one3", "own3"])
def test_d38_stopped_while_peers_forward(clusters, form):
    """dprd of n2, to which others forward, is stopped again and again. They know before it ends: no client waits."""
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    moments = []
    with load(cluster, ["n1"], flows=0, per_second=300) as work:
        for _ in range(3):
            start = time.monotonic()
            assert cluster.stop("n2", "dprd") == 0
            moments.append((start, time.monotonic()))
            time.sleep(0.5)
            cluster.start("n2", "dprd")
            wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 sees n2 again", RESTART_S)
            time.sleep(0.3)
    for start, end in moments:
        near = work.check_connects(0.5, since=start - 0.1, until=end + 0.5)
        assert "n2" in {connect.node for connect in near}, "it served until then"
        assert "n2" not in {connect.node for connect in near if connect.start > end}


@contextlib.contextmanager
def slow_verdicts(pid, each_s):
    """Makes a process stand still for this long with each packet that it has read, before its verdict."""
    tracer = subprocess.Popen(["strace", "-qq", "-p", str(pid), "-e", "trace=sendto", "-o", "/dev/null",
                               "-e", f"inject=sendto:delay_enter={int(each_s * 1_000_000)}"])
    try:
        wait_for(lambda: f"TracerPid:\t{tracer.pid}\n" in read_of(pid, "status"), "it is traced", 15)
        yield
    finally:
        tracer.terminate()
        tracer.wait(15)


def read_of(pid, name):
    with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
        return file.read()


def stands_still(pid):
    """Waits until it is held in a system call, for more than a moment."""
    for _ in range(10):
        if read_of(pid, "stat").rsplit(")", 1)[1].split()[0] != "t":
            return False
        time.sleep(0.005)
    return True


@pytest.mark.seconds(150)
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_d39_a_packet_in_hand(own3):
    """n1's standby process has read a SYN when dprd goes on. dprd then forwards many others, but not this one: n1
    answers it."""
    if own3.decide.get("Decide") == "kernel":
        pytest.skip("no SYN comes to a queue")
    forward_to(own3, "n2")
    for attempt, held_s in enumerate((2, 6, 18)):  # a busy host may need longer for the others
        if packet_in_hand(own3, held_s, 20001 + attempt):
            return
    raise AssertionError("it has answered before dprd decided about the others")


def packet_in_hand(own3, held_s, port):
    """Makes the standby process hold a SYN from this port for this long. False when that ended before dprd had decided
    the others: then nothing was tested."""
    n1, standby = own3.node("n1"), standby_pid(own3, "n1")
    with RawClient(own3, n1.service_v4, 80, port) as client, slow_verdicts(standby, held_s):
        syn = client.syn()
        many = [syn.copy() for _ in range(100)]
        for number, packet in enumerate(many):
            packet[TCP].sport = 20100 + 100 * (port - 20001) + number
        freeze_now(own3, "n1")
        try:
            client.send(syn)
            wait_for(lambda: stands_still(standby), "it has the SYN", 15)
        finally:
            own3.resume("n1", "dprd")
        before = own3.counters("n1")["syns"]
        send(own3, many)
        wait_for(lambda: own3.counters("n1")["syns"] >= before + len(many), "dprd has decided about the others", 15)
        is_in_hand = stands_still(standby)
        assert client.capture.wait(client.is_answer, held_s + 15), "nobody answers"
        return is_in_hand


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("family", FAMILIES)
def test_d3d_a_copy_of_what_is_in_hand(own3, family):
    """n1's standby process has read a SYN when dprd goes on, and stands still with it until the client sends a copy.
    dprd does not forward the copy: n1 serves the first SYN."""
    if own3.decide.get("Decide") == "kernel":
        pytest.skip("no SYN comes to a queue")
    n1, _ = forward_to(own3, "n2")
    standby, answers = standby_pid(own3, "n1"), Answers(own3)
    try:
        with RawClient(own3, service(n1, family), 80, 20010 + FAMILIES.index(family)) as client, slow_verdicts(standby, 3):
            freeze_now(own3, "n1")
            try:
                client.send(client.syn())
                wait_for(lambda: stands_still(standby), "it has the SYN", 15)
            finally:
                own3.resume("n1", "dprd")
            time.sleep(1)
            in_time(not client.answers(), "the copy comes before the first one is answered")
            client.send(client.syn())
            assert client.capture.wait(client.is_answer, 15), "nobody answers"
            wait_for(lambda: not stands_still(standby), "it has answered, too", 15)
            time.sleep(0.5)
            client.reset()
    finally:
        answers.end()
    answers.check()


def test_d29_no_marks_behind_the_queues(own3):
    """Rules behind dprd's see none of its marks: neither on SYNs that are served here nor on packets from a tunnel,
    whether dprd let them pass or, while dprd stands still, the standby process."""
    own3.set_policy("rr")
    behind = {"hook": "prerouting", "priority": -290}
    with rules(own3, "n2", ["meta mark & 0x60000000 != 0 counter"], name="lab_marked", **behind) as marked, \
            rules(own3, "n2", ["meta l4proto tcp counter"], name="lab_all", **behind) as seen:
        with load(own3, ["n1", "n2", "n3"]) as work:
            time.sleep(0.5)
            own3.freeze("n2", "dprd")
            time.sleep(1)
            own3.resume("n2", "dprd")
            wait_for(lambda: own3.sees("n2", ["n1", "n2", "n3"]), "n2 is back", RESTART_S)
        assert seen() > 1000
        assert marked() == 0
    work.check_flows()
