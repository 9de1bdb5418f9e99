# SPDX-License-Identifier: GPL-2.0-or-later
"""Datapath 20: dprd freezes or dies with a SYN in hand. The client's copy of it may be answered meanwhile, by one node."""
import contextlib
import itertools
import os
import socket
import subprocess
import time

import pytest

from cluster import TOP
from faultlib import slow_tools, wait_for

FROZEN_S = 1.5  # the client sends its SYN again after 1 s
# Where it stops: received; each of the next looks at the clock; about to send; about to talk to the kernel.
PLACES = (0, 1, 2, 3, 4, 5, 6, -1, -2)
TOLD_KERNEL = -4  # about to tell it of the flow, after the look for a socket; without BPF
KILLED_AT = (0, 3, -1, -2)
# So long after that another dprd starts: when the client has sent its SYN again, or so that it does when dprd has its
# queues, but its rules are not there yet.
DEAD_S = (FROZEN_S, 0.2)
QUIET_S = 0.3  # the last client's FIN would be taken for the next one's SYN


def start(clusters):
    """A cluster whose n1 forwards (nearly) all to n2, and stops itself when told."""
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    library = os.path.join(cluster.directory, "stopat.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(TOP, "tests/cluster/stopat.c")], check=True)
    cluster.set_config("Datapath", "Decide", "queue")
    cluster.set_config("Balance", "Policy", "random")
    cluster.set_weight("n2", 1000)
    cluster.start_node_daemons("n2")
    cluster.stop_file = os.path.join(cluster.directory, "stopat")
    cluster.environment = [f"LD_PRELOAD={library}", f"STOPAT={cluster.stop_file}",
                           f"PATH={slow_tools(cluster)}:{os.environ['PATH']}"]
    cluster.start_node_daemons("n1")
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
def stopped_at(cluster, place, v6=False):
    """A client that connects, with dprd stopped at this place."""
    node = cluster.node("n1")
    with cluster.site.inside("c1"):
        client = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_STREAM)
    time.sleep(QUIET_S)
    with open(cluster.stop_file, "w", encoding="ascii") as file:
        file.write(str(place))
    with client:
        client.setblocking(False)
        client.connect_ex((node.service_v6 if v6 else node.service_v4, 80))
        wait_for(lambda: is_stopped(cluster.pid("n1", "dprd")), f"dprd has stopped itself at {place}", 15)
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
    """Whoever answers the client's second SYN keeps the connection when dprd goes on with the first."""
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


@pytest.mark.seconds(300)
def test_d21_killed_with_a_syn_in_hand(clusters):
    """Whoever answers the client's second SYN keeps the connection when another dprd comes with what the first one
    left: a flow that the kernel may not have learnt of."""
    cluster = start(clusters)
    answered = {}
    for v6, dead_s, place in itertools.product((False, True), DEAD_S, KILLED_AT):
        try:
            answered[v6, dead_s, place] = outlive(cluster, place, dead_s, v6)
        except OSError as error:
            answered[v6, dead_s, place] = [os.strerror(error.errno) if error.errno else repr(error)]
            if os.path.exists(cluster.slow_file):
                os.unlink(cluster.slow_file)
            wait_for(lambda: cluster.sees("n1", ["n1", "n2"]), "n1 sees all again", 15)
    print(answered)
    assert all(len(nodes) > 1 and len(set(nodes)) == 1 for nodes in answered.values()), answered
