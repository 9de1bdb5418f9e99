# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 40: a SYN has one target and one answer, however often it comes and whatever is lost."""
import errno
import json
import select
import socket
import struct
import time

import pytest

import hiccups
from traffic import (FAMILIES, SYNS, TCP, Capture, RawClient, connect, counting, flow_of, forward_all, forward_to,
                     read_line, rules, run_in, service, tcp_of, url)

both = pytest.mark.parametrize("family", FAMILIES)
COOKIES_SEEN_S = 1.5  # on the nfqueue plane dprd counts cookies each second
SYNACK = "tcp flags & (syn | ack) == (syn | ack)"


def answers_by_syn(seen):
    """{(client, port, service, port, its ISN): {(node's hardware address, ISN) of its SYN-ACKs}}, by the router's
    packets from and to the nodes. A SYN without answer has an empty set."""
    found = {}
    for frame, _ in seen.frames:
        source, destination, source_port, port, sequence, acknowledged, flags = tcp_of(frame)
        if flags & 0x12 == 0x02:
            found.setdefault((source, source_port, destination, port, sequence), set())
        elif flags & 0x12 == 0x12:
            key = (destination, port, source, source_port, (acknowledged - 1) & 0xFFFFFFFF)
            found.setdefault(key, set()).add((frame[6:12].hex(), sequence))
    return found


def two_answers(found):
    return {key: answers for key, answers in found.items() if len(answers) > 1}


@both
def test_a40_a_repeated_syn_keeps_its_target(cluster3, family):
    """n1 drains and takes its peers in turn. The same SYN comes five times: one node answers, others never see it."""
    cluster3.set_policy("rr")
    forward_all(cluster3)
    for port in range(20400, 20405):
        with counting(cluster3) as moved, RawClient(cluster3, service(cluster3.nodes[0], family), 8080, port) as client:
            client.send(*[client.syn()] * 3)
            time.sleep(0.05)
            client.send(*[client.syn()] * 2)
            cluster3.wait_until(lambda: len(client.answers()) >= 1, "a SYN-ACK")
            time.sleep(0.1)
            assert len({answer[TCP].seq for answer in client.answers()}) == 1
            client.sequence = client.isn + 1
            client.reset()
        assert moved["n1"]["draining"] == 1 and moved["n1"]["same_syn"] == 4
        assert sorted("from_peer" in moved[name] for name in ("n2", "n3")) == [False, True]


@both
def test_a41_lost_answers_change_no_target(cluster3, family):
    """Half of all SYN-ACKs are lost on the way to the client. 100 connections at once: one target each, all get
    through."""
    cluster3.set_policy("rr")
    address = service(cluster3.nodes[0], family)
    kind = socket.AF_INET6 if family == "v6" else socket.AF_INET
    waiting, made_all = {}, []
    with Capture(cluster3, "r", "eth0", SYNS) as seen:
        with rules(cluster3, "c1", [f"{SYNACK} numgen random mod 2 0 drop"], hook="prerouting"), \
                cluster3.site.inside("c1"):
            for _ in range(100):
                made = socket.socket(kind, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
                made.connect_ex((address, 8080))
                waiting[made.fileno()] = made
                made_all.append(made)
            first_of_all = wait_all(waiting, 6)
        rest = wait_all(waiting, 12)
    for made in made_all:
        made.close()
    found = answers_by_syn(seen)
    assert len(found) == 100
    assert not two_answers(found)
    assert first_of_all + rest == 100
    assert len(seen.frames) > 210, "nothing was lost"


def wait_all(waiting, seconds):
    """The number of connections made within this many seconds."""
    count, deadline = 0, time.monotonic() + seconds
    while waiting and time.monotonic() < deadline:
        for fd in select.select([], list(waiting), [], 0.2)[1]:
            made = waiting.pop(fd)
            assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            count += 1
    return count


@both
def test_a42_a_local_connection_stays_local(cluster3, family):
    """n1 answers a SYN itself, but the answer is lost; meanwhile n1 drains. The SYN's next copy stays with n1."""
    with RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20420) as client:
        client.send(client.syn())
        cluster3.wait_until(lambda: len(client.answers()) == 1, "a SYN-ACK")
        forward_all(cluster3)
        with counting(cluster3) as moved:
            client.send(client.syn())
            cluster3.wait_until(lambda: len(client.answers()) >= 2, "another SYN-ACK")
        assert len({answer[TCP].seq for answer in client.answers()}) == 1
        assert moved["n1"]["local_socket"] == 1 and "same_syn" not in moved["n1"]
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n1\n")
        assert flow_of(cluster3, "n1", family, 20420) is None
        client.reset()


def last_decision(cluster, node, client):
    """The output of "dprctl why" for this client's last SYN."""
    host = f"[{client.source}]" if ":" in client.source else client.source
    said = json.loads(cluster.dprctl(node, "why", f"{host}:{client.local_port}", "--json"))
    return said["decisions"][0]


@both
def test_a47_what_was_not_forwarded_is_not_told_as_forwarded(cluster3, family):
    """n1 holds a connection, then drains, and a copy of the connection's SYN comes. n1 serves it, and says nothing else."""
    with RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20470) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n1\n")
        forward_all(cluster3)
        before = cluster3.counters("n1")["local_socket"]
        with counting(cluster3) as moved:
            client.send(client.syn())
            cluster3.wait_until(lambda: cluster3.counters("n1")["local_socket"] > before, "n1 has the socket")
        assert "flows_made" not in moved["n1"] and "draining" not in moved["n1"]
        told = last_decision(cluster3, "n1", client)
        assert (told["verdict"], told["reason"]) == ("serve", "local_socket")
        assert flow_of(cluster3, "n1", family, 20470) is None
        client.reset()


@both
def test_a48_a_copy_of_a_syn_answered_by_a_cookie(cluster3, family):
    """n1 answers SYNs by cookies, so that no socket shows it. After an answer it drains, and a copy of the SYN comes: n1
    answers that, too, and has the whole connection."""
    cluster3.site.sysctl("n1", {"net.ipv4.tcp_syncookies": 2})
    try:
        with RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20480) as client:
            client.send(client.syn())
            cluster3.wait_until(lambda: len(client.answers()) == 1, "a SYN-ACK")
            forward_all(cluster3)
            time.sleep(COOKIES_SEEN_S)
            before = cluster3.counters("n1")["local_socket"]
            with counting(cluster3) as moved:
                client.send(client.syn())
                cluster3.wait_until(lambda: cluster3.counters("n1")["local_socket"] > before, "n1 knows the SYN")
            assert "flows_made" not in moved["n1"]
            assert last_decision(cluster3, "n1", client)["reason"] == "local_socket"
            client.open()
            assert client.wait_heard(lambda heard: heard == b"n1\n")
            client.reset()
    finally:
        cluster3.site.sysctl("n1", {"net.ipv4.tcp_syncookies": 1})


def connect_again(cluster, address, port, local_port):
    """Waits until the client's own kernel has ended the last connection; that counts as well."""
    while True:
        try:
            return connect(cluster, address, port, local_port=local_port, timeout_s=5)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            time.sleep(0.002)


@both
@pytest.mark.parametrize("close", ("reset", "fin"))
def test_a43_a_port_used_again_and_again(cluster3, family, close):
    """One client port, 200 connections one after the other, each to another node: none waits for a retransmit, none
    fails."""
    cluster3.set_policy("rr")
    address = service(cluster3.nodes[0], family)
    worst_s, nodes = 0, set()
    with counting(cluster3) as moved:
        for _ in range(200):
            span = hiccups.Span()
            made = connect_again(cluster3, address, 80 if close == "fin" else 8080, 20430)
            if close == "fin":  # the server closes first, so that the client's port is free at once
                made.sendall(b"GET /whoami HTTP/1.0\r\n\r\n")
                answer = b""
                while part := made.recv(4096):
                    answer += part
                nodes.add(answer.split()[-1])
            else:
                nodes.add(read_line(made))
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
            worst_s = max(worst_s, span.end())
    assert worst_s < 0.5
    assert len(nodes) == 3
    assert moved["n1"]["syns"] == 200
    assert moved["n1"]["flows_made"] == moved["n1"]["chosen"] > 90


@both
def test_a44_no_syn_has_two_answers(cluster3, family):
    """More than 2,000 connections as fast as possible: on the nodes' link each SYN has exactly one answer."""
    cluster3.set_policy("rr")
    with Capture(cluster3, "r", "eth0", SYNS) as seen:
        for _ in range(20):
            status, said = run_in(cluster3, "c1", ["wrk", "-t1", "-c20", "-d1s", "-H", "Connection: close",
                                                   url(service(cluster3.nodes[0], family), "/whoami")])
            assert status == 0 and "Socket errors" not in said and "Non-2xx" not in said, said
            if len(seen.frames) > 4400:
                break
        # The last SYNs of a client that has ended are still on their way.
        cluster3.wait_until(lambda: all(answers_by_syn(seen).values()), "every SYN is answered", 15)
    found = answers_by_syn(seen)
    assert len(found) > 2000
    assert not two_answers(found)


@both
def test_a45_one_syn_many_times_is_one_flow(cluster3, family):
    """The same SYN 500 times at full speed: one flow, one receiving node, one answer."""
    entry, target = forward_to(cluster3, "n2")
    before = cluster3.counters("n1")["same_syn"]
    with counting(cluster3) as moved, RawClient(cluster3, service(entry, family), 8080, 20450) as client:
        client.send(*[client.syn()] * 500)
        cluster3.wait_until(lambda: len(client.answers()) > 0, "a SYN-ACK")
        time.sleep(0.5)
        assert len({answer[TCP].seq for answer in client.answers()}) == 1
        cluster3.wait_until(lambda: cluster3.counters("n1")["same_syn"] > before + 400, "the copies are seen", 15)
        client.sequence = client.isn + 1
        client.reset()
    assert moved["n1"]["flows_made"] == moved["n1"]["draining"] == 1
    assert moved["n1"]["same_syn"] > 400
    assert 400 < moved[target.name]["from_peer"] <= 501


@both
def test_a46_a_new_syn_on_a_living_flow_does_not_move_it(cluster3, family):
    """A forged SYN with another sequence number hits a connection that n2 serves: it goes on with n2."""
    cluster3.set_policy("rr")
    forward_all(cluster3)
    with counting(cluster3) as moved, RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20460) as client:
        client.open()
        assert client.wait_heard(lambda heard: len(heard) == 3)
        name = client.heard()
        for step in range(1, 4):
            client.send(client.packet("S", sequence=client.isn + 77_777 * step))
        client.say(b"still here\n")
        assert client.wait_heard(lambda heard: heard == name + b"still here\n")
        client.reset()
    assert moved["n1"]["same_flow"] == 3 and moved["n1"]["flows_made"] == 1
