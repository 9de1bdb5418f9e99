# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 30: ICMP errors find the node that serves the connection, and nothing else counts as one.

On the plane nfqueue dprd judges, and counts, every error that comes to a service address; on the plane bpf the
programs leave errors that they do not relay to the node's own stack, uncounted.
"""
import json
import socket

import pytest
from scapy.all import ICMPv6EchoReply, ICMPv6EchoRequest

from traffic import (CLIENT, FAMILIES, HEADERS, ICMP, IP, Capture, ICMPv6PacketTooBig, IPv6, Raw, RawClient, TCP,
                     counting, forward_to, ip_layer, ip_payload, rules, send, service)

both = pytest.mark.parametrize("family", FAMILIES)
ROUTER = {"v4": "203.0.113.250", "v6": "2001:db8:c::250"}  # one of many on the way
SMALL = {"v4": 1000, "v6": 1280}


def too_big(family, address, port, client_port, sequence, mtu):
    """The error of a router on the way about a packet of the server: its IP header and 8 bytes of TCP."""
    tcp = bytes(TCP(sport=port, dport=client_port, seq=sequence))[:8]
    if family == "v4":
        quoted = IP(src=address, dst=CLIENT["v4"], len=1500, proto=6, flags="DF") / Raw(tcp)
        return IP(src=ROUTER["v4"], dst=address) / ICMP(type=3, code=4, nexthopmtu=mtu) / Raw(bytes(quoted))
    quoted = IPv6(src=address, dst=CLIENT["v6"], plen=1460, nh=6) / Raw(tcp)
    return IPv6(src=ROUTER["v6"], dst=address) / ICMPv6PacketTooBig(mtu=mtu) / Raw(bytes(quoted))


def learnt_mtu(cluster, node, family):
    """The path MTU that a node's kernel has for the client; None: none learnt."""
    routes = json.loads(cluster.site.execute(node.name, ["ip", "-j", "-4" if family == "v4" else "-6", "route", "get",
                                                         CLIENT[family]]))
    return next((metric["mtu"] for route in routes for metric in route.get("metrics", []) if "mtu" in metric), None)


def errors_in_stack(cluster):
    """n1's own stack counts the errors of that router which reach it."""
    return rules(cluster, "n1", [f"ip saddr {ROUTER['v4']} counter", f"ip6 saddr {ROUTER['v6']} counter"], "input")


def judged(cluster, count):
    """The number of errors that dprd counts, of errors sent."""
    return count if cluster.plane == "nfqueue" else 0


def forget_mtu(cluster, family):
    for node in cluster.nodes:
        cluster.site.execute(node.name, ["ip", "-4" if family == "v4" else "-6", "route", "flush", "cache"])


def ask_for_file(client, path):
    """A request whose answer is not acknowledged: the server has packets on the way."""
    client.acknowledges = False
    client.say(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    assert client.wait_heard(lambda heard: len(heard) > 2000)


@both
def test_a30_too_big_reaches_the_serving_node(cluster3, family):
    """n3 serves for n1. A router tells n1's address that a packet was too big: n3 sends smaller ones, n1 changes
    nothing."""
    entry, target = forward_to(cluster3, "n3")
    path = cluster3.add_file("pmtu", 200_000)
    address = service(entry, family)
    forget_mtu(cluster3, family)
    with counting(cluster3) as moved, RawClient(cluster3, address, 80, 20030) as client:
        client.open()
        ask_for_file(client, path)
        before = len(client.capture.frames)
        send(cluster3, [too_big(family, address, 80, 20030, client.acknowledged, SMALL[family])])

        def is_smaller(packet):
            return client.is_answer(packet) and ip_payload(packet) and \
                packet[TCP].seq == client.acknowledged and len(ip_payload(packet)) + HEADERS[family] <= SMALL[family]

        assert client.capture.wait(is_smaller), "the server goes on with large packets"
        assert len(client.capture.frames) > before
        assert learnt_mtu(cluster3, target, family) == SMALL[family]
        assert learnt_mtu(cluster3, entry, family) is None
        client.reset()
    assert moved["n1"]["icmp_relay"] == 1
    forget_mtu(cluster3, family)


@both
def test_a31_unknown_errors_go_nowhere(cluster3, family):
    """An ICMP error about a connection that no node forwarded stays on n1, and changes nothing there."""
    entry = cluster3.nodes[0]
    address = service(entry, family)
    forget_mtu(cluster3, family)
    with counting(cluster3) as moved, errors_in_stack(cluster3) as heard, \
            Capture(cluster3, "n1", "eth1" if cluster3.layout == "own" else "eth0",
                    "proto 4 or ip6 proto 41") as tunnelled:
        for port in range(20040, 20050):
            send(cluster3, [too_big(family, address, 80, port, 1, SMALL[family])])
        cluster3.wait_until(lambda: heard() == 10, "n1's stack has them")
    assert moved["n1"].get("no_flow", 0) == moved["n1"].get("seen", 0) == judged(cluster3, 10)
    assert not tunnelled.packets()
    assert all(learnt_mtu(cluster3, node, family) is None for node in cluster3.nodes)


@both
def test_a32_too_big_of_a_local_connection_stays_local(cluster3, family):
    """n1 serves itself; the ICMP error about that connection is n1's own, and it sends smaller packets."""
    entry = cluster3.nodes[0]
    path = cluster3.add_file("pmtu", 200_000)
    address = service(entry, family)
    forget_mtu(cluster3, family)
    with counting(cluster3) as moved, RawClient(cluster3, address, 80, 20032) as client:
        client.open()
        ask_for_file(client, path)
        send(cluster3, [too_big(family, address, 80, 20032, client.acknowledged, SMALL[family])])
        cluster3.wait_until(lambda: learnt_mtu(cluster3, entry, family) == SMALL[family], "n1 learnt it", 15)
        client.reset()
    assert "icmp_relay" not in moved["n1"] and moved["n1"].get("no_flow", 0) == judged(cluster3, 1)
    forget_mtu(cluster3, family)


@both
def test_a33_an_error_with_a_wrong_reporter_is_not_relayed(cluster3, family):
    """The quoted packet was not sent from the address that the error goes to: such an error is dropped."""
    entry, target = forward_to(cluster3, "n3")
    with counting(cluster3) as moved, errors_in_stack(cluster3) as heard, \
            RawClient(cluster3, service(entry, family), 8080, 20033) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n3\n")
        forged = too_big(family, service(cluster3.nodes[1], family), 8080, 20033, 1, SMALL[family])
        send(cluster3, [ip_layer(ROUTER[family], service(entry, family)) / forged.payload])
        cluster3.wait_until(lambda: heard() == 1, "n1's stack has it")
        client.reset()
    assert moved["n1"].get("other", 0) == judged(cluster3, 1) and "icmp_relay" not in moved["n1"]
    assert target.name == "n3"


@both
def test_a34_ping_is_not_touched(cluster3, family):
    """Echo requests to a service address are answered by its own node, drain or not; dprd does not see them."""
    cluster3.dprctl("n1", "drain")
    address = service(cluster3.nodes[0], family)
    echo = ICMP(type=8, id=34) if family == "v4" else ICMPv6EchoRequest(id=34)
    reply = (lambda packet: ICMP in packet and packet[ICMP].type == 0) if family == "v4" else \
        (lambda packet: ICMPv6EchoReply in packet)
    with counting(cluster3) as moved, Capture(cluster3, "c1", only="icmp or icmp6") as seen:
        send(cluster3, [ip_layer(CLIENT[family], address) / echo])
        answer = seen.wait(reply)
    assert answer is not None and answer.payload.src == address
    assert "seen" not in moved["n1"]


def test_a35_udp_is_not_touched(cluster3):
    """A datagram to the service port: the node itself reports the closed port."""
    cluster3.dprctl("n1", "drain")
    for family in FAMILIES:
        with cluster3.site.inside("c1"):
            asked = socket.socket(socket.AF_INET if family == "v4" else socket.AF_INET6, socket.SOCK_DGRAM)
        with asked, counting(cluster3) as moved:
            asked.settimeout(15)
            asked.connect((service(cluster3.nodes[0], family), 80))
            asked.send(b"?")
            with pytest.raises(ConnectionRefusedError):
                asked.recv(100)
        assert "seen" not in moved["n1"]
