# SPDX-License-Identifier: GPL-2.0-or-later
"""Datapath 20: dprd freezes or dies with a SYN in hand. The client's copy of it may be answered meanwhile, by one
node."""
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import time

import pytest

import rungs
from cluster import TOP
from faultlib import Answers, slow_tools, standby_pid, wait_for
from traffic import FAMILIES, service

FROZEN_S = 1.5  # the client sends its SYN again after 1 s
# The place of the stop: after receiving; at each of the next reads of the clock; before sending; before a netlink
# message; before reading the own load, when the SYN no longer counts as late and has no flow yet.
PLACES = (0, 1, 2, 3, 4, 5, 6, -1, -2, -5)
TOLD_KERNEL = -4  # before telling the kernel of the flow, after the search for a socket; without BPF
TAKES_OUT = 3  # with a tunnel packet, before the clock shows how long dprd stood still
THIRD_SYN_S = 6  # it comes after 3 s
KILLED_AT = (0, 3, -1, -2)
# The delay before another dprd starts: after the client sent its SYN again, or so that it does while dprd has its
# queues but not its rules.
DEAD_S = (FROZEN_S, 0.2)
QUIET_S = 0.3  # the last client's FIN would count as the next one's packet


def start(clusters, nodes=2, stops="n1"):
    """A cluster whose n1 forwards (nearly) all to n2; dprd of one of them stops itself on request."""
    cluster = clusters.fresh(daemons=False, nodes=nodes, layout="own")
    library = os.path.join(cluster.directory, "stopat.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(TOP, "tests/cluster/stopat.c")], check=True)
    cluster.set_config("Datapath", "Decide", "queue")
    cluster.set_config("Balance", "Policy", "random")
    cluster.set_weight("n2", 1000)
    for node in cluster.nodes:
        if node.name != stops:
            cluster.start_node_daemons(node)
    cluster.stop_file = os.path.join(cluster.directory, "stopat")
    cluster.environment = [f"LD_PRELOAD={library}", f"STOPAT={cluster.stop_file}",
                           f"PATH={slow_tools(cluster)}:{os.environ['PATH']}"]
    cluster.start_node_daemons(stops)
    cluster.wait_ready()
    return cluster


def is_stopped(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] == "T"


def ask(client):
    """The node that answers the next request."""
    client.sendall(b"GET /whoami HTTP/1.1\r\nHost: web\r\n\r\n")
    text = b""
    while b"\r\n\r\n" not in text:
        more = client.recv(4096)
        assert more, "the server closed the connection"
        text += more
    head, body = text.split(b"\r\n\r\n", 1)
    length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")))
    while len(body) < length:
        body += client.recv(4096)
    return body.decode("ascii").strip()


@contextlib.contextmanager
def stopped_at(cluster, place, v6=False, stops="n1"):
    """A client that connects to n1, with dprd stopped at this place."""
    node = cluster.node("n1")
    with cluster.site.inside("c1"):
        client = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM)
    time.sleep(QUIET_S)
    with open(cluster.stop_file, "w", encoding="ascii") as file:
        file.write(str(place))
    with client:
        client.setblocking(False)
        client.connect_ex((node.service_v6 if v6 else node.service_v4, 80))
        wait_for(lambda: is_stopped(cluster.pid(stops, "dprd")), f"dprd has stopped itself at {place}", 15)
        yield client


def converse(cluster, place):
    """Connects, with dprd stopped at this place, and goes on with it awake: the nodes that answered."""
    nodes = []
    with stopped_at(cluster, place) as client:
        time.sleep(FROZEN_S)
        client.settimeout(20)
        if cluster.plane == "bpf":
            nodes.append(ask(client))
        cluster.resume("n1", "dprd")
        time.sleep(0.3)
        nodes += [ask(client), ask(client)]
    wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 15)
    return nodes


def outlive(cluster, place, dead_s, v6):
    """Connects, with dprd killed at this place, and goes on with another: the nodes that answered."""
    with stopped_at(cluster, place, v6) as client:
        cluster.kill("n1", "dprd")
        time.sleep(dead_s)
        with open(cluster.slow_file, "w", encoding="ascii"):
            cluster.start("n1", "dprd")
        client.settimeout(20)
        nodes = [ask(client)]
        os.unlink(cluster.slow_file)
        wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 15)
        nodes += [ask(client), ask(client)]
    return nodes


@pytest.mark.seconds(150)
def test_d20_frozen_with_a_syn_in_hand(clusters):
    """The node that answers the client's second SYN keeps the connection when dprd goes on with the first."""
    cluster = start(clusters)
    answered = {}
    for place in PLACES + ((TOLD_KERNEL,) if cluster.plane == "nfqueue" else ()):
        try:
            answered[place] = converse(cluster, place)
        except OSError as error:
            answered[place] = [os.strerror(error.errno)]
            cluster.resume("n1", "dprd")
            wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 15)
    print(answered)
    assert all(len(nodes) > 1 and len(set(nodes)) == 1 for nodes in answered.values()), answered


def each_of(cluster, *axes):
    """All combinations of a family (True: IPv6) with values of these axes. In the quick rung half of them: each combination
    of the other values with one family, on one plane with the other family than on the other plane."""
    axes = ((False, True), *axes)
    return [combination for combination in itertools.product(*axes)
            if not rungs.QUICK or (sum(axis.index(value) for axis, value in zip(axes, combination)) +
                                   (cluster.plane == "bpf")) % 2 == 0]


@pytest.mark.seconds(300)
def test_d21_killed_with_a_syn_in_hand(clusters):
    """The node that answers the client's second SYN keeps the connection when another dprd comes with a flow that the
    first one left, and that the kernel may not know."""
    cluster = start(clusters)
    answered = {}
    for v6, dead_s, place in each_of(cluster, DEAD_S, KILLED_AT):
        try:
            answered[v6, dead_s, place] = outlive(cluster, place, dead_s, v6)
        except OSError as error:
            answered[v6, dead_s, place] = [os.strerror(error.errno) if error.errno else repr(error)]
            if os.path.exists(cluster.slow_file):
                os.unlink(cluster.slow_file)
            wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 15)
    print(answered)
    assert all(len(nodes) > 1 and len(set(nodes)) == 1 for nodes in answered.values()), answered


def over_meanwhile(cluster, place, v6):
    """Connects, with dprd stopped at this place; the connection is over before dprd goes on. The node that answered."""
    answers = Answers(cluster)
    try:
        with stopped_at(cluster, place, v6) as client:
            time.sleep(FROZEN_S)
            client.settimeout(5)
            node = ask(client)
        time.sleep(0.2)
        cluster.resume("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 5)
        time.sleep(0.3)
    finally:
        answers.end()
    answers.check()
    return node


@pytest.mark.seconds(150)
def test_d22_over_when_dprd_goes_on(clusters):
    """The client's second SYN was answered, and that connection is over, when dprd goes on with the first: no socket
    shows it any more, and yet no other node answers the same SYN."""
    cluster = start(clusters)
    answered = {}
    for v6, place in each_of(cluster, PLACES + ((TOLD_KERNEL,) if cluster.plane == "nfqueue" else ())):
        try:
            answered[v6, place] = over_meanwhile(cluster, place, v6)
        except (AssertionError, OSError) as error:
            answered[v6, place] = error
            cluster.resume("n1", "dprd")
            wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 5)
    bad = [f"IPv{6 if v6 else 4}, stopped at {place}: {result}" for (v6, place), result in answered.items()
           if isinstance(result, Exception)]
    assert not bad, "\n".join(bad)


def answered_elsewhere(cluster, v6):
    """Connects to n1, which forwards to n2, whose dprd has stopped itself with the SYN in hand and stays so, with its
    standby process and loadcast, until the client's third SYN was answered elsewhere. The node that did."""
    standby = standby_pid(cluster, "n2")
    answers = Answers(cluster)
    os.kill(standby, signal.SIGSTOP)
    try:
        with stopped_at(cluster, TAKES_OUT, v6, stops="n2") as client:
            cluster.freeze("n2", "loadcast")
            client.settimeout(THIRD_SYN_S)
            node = ask(client)
    finally:
        cluster.resume("n2", "dprd")
        cluster.resume("n2", "loadcast")
        os.kill(standby, signal.SIGCONT)
        time.sleep(0.5)
        answers.end()
    answers.check()
    return node


@pytest.mark.parametrize("family", FAMILIES)
def test_d23_serving_frozen_with_a_syn_in_hand(clusters, family):
    """dprd of n2 freezes with a SYN in hand that n1 sent by the tunnel; the client's third SYN goes to another node. n2
    does not deliver the first one when it goes on. With BPF dprd never holds it: n2 answers at once."""
    cluster = start(clusters, nodes=3, stops="n2")
    if cluster.plane == "bpf":
        cluster.freeze("n2", "dprd")
        with cluster.site.inside("c1"):
            client = socket.socket(socket.AF_INET if family == "v4" else socket.AF_INET6)
        with client:
            client.settimeout(1)
            client.connect((service(cluster.node("n1"), family), 80))
            assert ask(client) == "n2"
        cluster.resume("n2", "dprd")
        return
    before = cluster.counters("n2")["stale_tunnel_syn"]
    assert answered_elsewhere(cluster, family == "v6") in ("n1", "n3")
    wait_for(lambda: cluster.counters("n2").get("stale_tunnel_syn", 0) >= before + 2, "both copies are dropped", 5)
