# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers 10: clients and web servers in containers on the nodes themselves."""
import contextlib
import fcntl
import hashlib
import json
import os
import select
import struct
import time

import pytest

from containers import BOX, box_of, containers, publish
from faultlib import ECHO_PORT, members, wait_for
from traffic import (FAMILIES, IP, OVERHEAD, TCP, IPv6, RawClient, clients_at, connect, counting, forward_all, forward_to,
                     ip_layer, random_bytes, read_line, service, tcp_option, upload, whoami)

SEEN_S = 2.5  # dprd looks at the host's interfaces each second
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
ROAD_GATEWAY = {"v4": "10.77.0.1", "v6": "fd77::1"}
ROAD = {"v4": "10.77.0.2", "v6": "fd77::2"}
HELD, PAUSE_S, UNEVEN = 40, 0.02, 0.25
FEW, OFF = 3, 1  # the node's other sockets are counted each 8 s: one that comes or goes counts until then

both = pytest.mark.parametrize("family", FAMILIES)


@both
def test_k10_a_container_asks_its_own_node(cluster3, family):
    """n1 forwards every connection; its container's connections to n1's service address are served by n1, while other
    clients' are forwarded as before. With layout "own" n1 also has its peers' addresses, and serves these connections."""
    entry, target = forward_to(cluster3, "n2")
    asked = cluster3.node("n3")
    with containers(cluster3, [entry]):
        time.sleep(SEEN_S)
        with counting(cluster3) as moved:
            for _ in range(4):
                assert whoami(cluster3, service(entry, family), host=box_of(entry)) == entry.name
            told = json.loads(cluster3.dprctl(entry, "why", BOX[family], "--json"))["decisions"]
            assert told[0]["reason"] == "inside_client"
            other = entry if cluster3.layout == "own" else asked
            assert whoami(cluster3, service(asked, family), host=box_of(entry)) == other.name
            assert whoami(cluster3, service(entry, family)) == target.name
    assert moved["n1"]["inside_client"] == 4
    assert moved["n1"]["flows_made"] == 1


@both
def test_k12_a_copy_of_a_syn_that_a_container_answered(cluster3, family, tmp_path):
    """n1's server is in a container, where dprd finds no socket. After its answer n1 drains, and a copy of the SYN comes:
    it stays, and the connection with it."""
    n1 = cluster3.nodes[0]
    with containers(cluster3, [n1]):
        server = publish(cluster3, n1, (8080, 8081), str(tmp_path / "box.log"))
        time.sleep(SEEN_S)
        with RawClient(cluster3, service(n1, family), 8080, 20120) as client:
            client.send(client.syn())
            cluster3.wait_until(lambda: len(client.answers()) == 1, "a SYN-ACK", 15)
            forward_all(cluster3)
            time.sleep(0.5)  # longer than a copy of the network's takes
            before = cluster3.counters("n1")["local_socket"]
            with counting(cluster3) as moved:
                client.send(client.syn())
                cluster3.wait_until(lambda: cluster3.counters("n1")["local_socket"] > before, "n1 knows the SYN")
            assert "flows_made" not in moved["n1"]
            client.open()
            assert client.wait_heard(lambda heard: heard == f"{box_of(n1)}\n".encode())
            client.reset()
        server.terminate()


@both
def test_k11_a_web_server_with_a_published_port(cluster3, family, tmp_path):
    """n2's server is in a container, its ports published by DNAT as docker does: n1 forwards to it. Both ways are exact to
    the byte, and the SYN-ACK has the MSS that fits the tunnel."""
    entry, target = forward_to(cluster3, "n2")
    address, data = service(entry, family), random_bytes(2_000_000)
    with containers(cluster3, [target]):
        server = publish(cluster3, target, (8080, 8081), str(tmp_path / "box.log"))
        time.sleep(SEEN_S)
        with connect(cluster3, address, 8080) as made:
            assert read_line(made) == box_of(target)
            made.sendall(b"and back\n")
            assert read_line(made) == "and back"
        name, count, digest, _ = upload(cluster3, address, data)
        assert (name, count, digest) == (box_of(target), len(data), hashlib.sha256(data).hexdigest())
        with RawClient(cluster3, address, 8080, 20110) as client:
            answer = client.open()
            assert tcp_option(answer, "MSS") == 1460 - (20 if family == "v6" else 0) - OVERHEAD[family]
            client.reset()
        server.terminate()


@contextlib.contextmanager
def tunnel_to_client(cluster, node):
    """A tun interface as of a VPN server, with the address of a client at its other end. Yields its descriptor: packets
    of the client are written to it."""
    with cluster.site.inside(node.name):
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", b"vpn0", IFF_TUN | IFF_NO_PI))
    try:
        cluster.site.ip(node.name, ["link set vpn0 up"] +
                        [f"addr add {own} peer {ROAD[family]} dev vpn0" for family, own in ROAD_GATEWAY.items()])
        yield end
    finally:
        os.close(end)


def synack_from(end, port):
    """The next SYN-ACK that comes to a port of the client; None: nothing comes."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        if not select.select([end], [], [], 0.1)[0]:
            continue
        datagram = os.read(end, 65536)
        packet = (IPv6 if datagram[0] >> 4 == 6 else IP)(datagram)
        if TCP in packet and packet[TCP].dport == port and packet[TCP].flags == "SA":
            return packet
    return None


@both
def test_k13_a_client_at_the_other_end_of_a_tunnel(cluster3, family):
    """n1 forwards every connection, and is a VPN server: the address of its client is on the other end of a tunnel, and no
    network of an interface has it. n1 serves the client itself, since its peers cannot answer."""
    entry, target = forward_to(cluster3, "n2")
    with tunnel_to_client(cluster3, entry) as end:
        time.sleep(SEEN_S)
        with counting(cluster3) as moved:
            os.write(end, bytes(ip_layer(ROAD[family], service(entry, family)) /
                                TCP(sport=20130, dport=8080, flags="S", seq=1000)))
            answer = synack_from(end, 20130)
            assert answer is not None and answer[TCP].ack == 1001, f"no answer; counters: {moved}"
            os.write(end, bytes(ip_layer(ROAD[family], service(entry, family)) /
                                TCP(sport=20130, dport=8080, flags="R", seq=1001)))
            assert whoami(cluster3, service(entry, family)) == target.name
    assert moved["n1"]["flows_made"] == 1
    # The programs are not attached to such an interface: the SYN comes to the stack as it is.
    assert moved["n1"].get("inside_client", 0) == (cluster3.plane == "nfqueue")


def loads(cluster, viewer):
    return {name: member["load"] for name, member in members(cluster, viewer).items()}


def in_containers(cluster):
    """{node: connections of clients to the echo server in its container}"""
    return {node.name: clients_at(cluster, box_of(node), ECHO_PORT) for node in cluster.nodes}


def all_know(cluster, expected):
    """True when every node knows these loads."""
    return all(abs(load - expected[name]) <= OFF for viewer in cluster.nodes
               for name, load in loads(cluster, viewer).items())


def listens(cluster, node):
    return cluster.site.execute(box_of(node), ["ss", "-Htln", "sport", "=", f":{ECHO_PORT}"])


@contextlib.contextmanager
def all_in_containers(cluster, directory):
    """On every node the servers are in a container, and dprd has found connections to it."""
    with containers(cluster, cluster.nodes):
        servers = [publish(cluster, node, (ECHO_PORT, 8081), f"{directory}/{node.name}.log") for node in cluster.nodes]
        wait_for(lambda: all(listens(cluster, node) for node in cluster.nodes), "the servers listen", 10)
        with contextlib.ExitStack() as stack:
            for node in cluster.nodes * FEW:
                stack.enter_context(connect(cluster, node.service_v4, ECHO_PORT))
            wait_for(lambda: all_know(cluster, in_containers(cluster)), "each connection is known", 30)
        wait_for(lambda: all_know(cluster, dict.fromkeys(loads(cluster, "n1"), 0)), "they are over", 20)
        try:
            yield
        finally:
            for server in servers:
                server.terminate()
                server.wait(5)


def test_k14_containers_share(cluster3, tmp_path):
    """The web servers are containers with published ports: 40 connections to n1 that stay are shared among the nodes,
    and each node announces those of its container."""
    cluster3.set_policy("li")
    with all_in_containers(cluster3, tmp_path), contextlib.ExitStack() as stack:
        for number in range(HELD):
            stack.enter_context(connect(cluster3, service(cluster3.node("n1"), FAMILIES[number % 2]), ECHO_PORT))
            time.sleep(PAUSE_S)
        held = in_containers(cluster3)
        wait_for(lambda: all_know(cluster3, held), f"all nodes know {held}", 10)
    even = HELD / len(cluster3.nodes)
    assert sum(held.values()) == HELD
    assert all(abs(count - even) <= UNEVEN * even for count in held.values()), held
