# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 70: clients that are nodes, SYNs of an unusual shape, and packets that belong to no flow."""
import json
import socket

import pytest
from scapy.all import IPOption_NOP, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, PadN, fragment

from traffic import (CLIENT, FAMILIES, IP, TCP, Capture, IPv6, Raw, RawClient, counting, flow_of, forward_all, forward_to,
                     ip_layer, rules, send, service, whoami)

NO_OPTIONS = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")])
both = pytest.mark.parametrize("family", FAMILIES)


@both
def test_a70_a_node_asks_its_own_address(cluster3, family):
    """n1 drains; its own request to its own address stays on n1, and so do those of the others to theirs."""
    forward_all(cluster3)
    with counting(cluster3) as moved:
        for node in cluster3.nodes:
            assert whoami(cluster3, service(node, family), host=node.name) == node.name
    assert all("forwarded" not in counters and "draining" not in counters for counters in moved.values())


@both
def test_a71_a_node_asks_another_by_its_service_address(cluster3, family):
    """Layout "one": the asked node serves, even while it drains. Layout "own": a peer's address is local, the asker
    serves. Either way it works, and nothing is forwarded."""
    forward_all(cluster3)
    with counting(cluster3) as moved:
        for asker in cluster3.nodes:
            for asked in cluster3.nodes:
                if asker is not asked:
                    served = whoami(cluster3, service(asked, family), host=asker.name)
                    assert served == (asker if cluster3.layout == "own" else asked).name
    assert all("flows_made" not in counters for counters in moved.values())
    if cluster3.layout == "one":
        assert [moved[name]["cluster_client"] for name in ("n1", "n2", "n3")] == [2, 2, 2]


@both
def test_a72_a_member_asks_another_host(cluster3, family):
    """Web servers are clients as well: a node fetches from the clients' network, also with dprd."""
    forward_all(cluster3)
    with cluster3.site.inside("c1"):
        listener = socket.create_server((CLIENT[family], 9000), family=socket.AF_INET if family == "v4" else
                                        socket.AF_INET6)
    with listener:
        listener.settimeout(15)
        for node in cluster3.nodes:
            with cluster3.site.connect(node.name, CLIENT[family], 9000) as made:
                taken, peer = listener.accept()
                with taken:
                    assert peer[0] == service(node, family)
                    taken.sendall(b"hello")
                    assert made.recv(10) == b"hello"


def strange_syn(client, family, shape):
    """A SYN with options (extension headers), or in two pieces."""
    tcp = client.syn()[TCP]
    if family == "v4" and shape == "options":
        return [IP(src=client.source, dst=client.address, options=[IPOption_NOP()] * 4) / tcp]
    if family == "v4":
        return fragment(IP(src=client.source, dst=client.address, id=7) / bytes_of(tcp, client), 24)
    if shape == "options":
        return [IPv6(src=client.source, dst=client.address) / NO_OPTIONS / tcp]
    whole = bytes(bytes_of(tcp, client))
    head = IPv6(src=client.source, dst=client.address)
    return [head / IPv6ExtHdrFragment(nh=6, m=1, id=7) / Raw(whole[:24]),
            head / IPv6ExtHdrFragment(nh=6, offset=3, id=7) / Raw(whole[24:])]


def bytes_of(tcp, client):
    """The TCP header (of at least 28 bytes, so that it has two pieces) with its checksum."""
    tcp.options = [("MSS", 1400), ("NOP", None), ("NOP", None), ("SAckOK", b"")]
    whole = ip_layer(client.source, client.address) / tcp
    made = Raw(bytes(type(whole)(bytes(whole)).payload))
    return TCP(bytes(made))


@both
@pytest.mark.parametrize("shape", ("options", "fragments"))
def test_a73_a_strange_syn_is_served_here(cluster3, family, shape):
    """n1 drains, but serves a SYN with IP options itself, and the BPF programs do not wake dprd for fragments of no flow. On
    the nfqueue plane the kernel puts the fragments together in front of dprd, which forwards the SYN like any other."""
    entry, target = forward_to(cluster3, "n2")
    whole = shape == "fragments" and cluster3.plane == "nfqueue"
    server = target if whole else entry
    hello = f"{server.name}\n".encode()
    with counting(cluster3) as moved, RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20730) as client:
        client.send(*strange_syn(client, family, shape))
        cluster3.wait_until(lambda: client.answers(), "a SYN-ACK", 15)
        client.sequence = client.isn + 1
        client.first = client.acknowledged = client.answers()[0][TCP].seq + 1
        client.send(client.packet("A"))
        assert client.wait_heard(lambda heard: heard == hello)
        client.say(b"hello\n")
        assert client.wait_heard(lambda heard: heard == hello + b"hello\n")
        assert (flow_of(cluster3, "n1", family, 20730) is not None) == whole
        client.reset()
    assert moved["n1"].get("flows_made", 0) == whole
    if cluster3.plane == "bpf":
        assert "seen" not in moved["n1"]
    elif not whole:
        assert moved["n1"]["options"] >= 1


@both
def test_a74_a_packet_of_no_connection_is_reset(cluster3, family):
    """An ACK of a connection that no node has: n1's own stack resets it, as without dprd, and dprd does not see it."""
    with counting(cluster3) as moved, RawClient(cluster3, service(cluster3.nodes[0], family), 8080, 20740) as client:
        client.sequence, client.acknowledged = 5, 5
        client.send(client.packet("A"))
        assert client.capture.wait(lambda packet: client.is_answer(packet) and packet[TCP].flags.R) is not None
    assert "seen" not in moved["n1"]


@both
def test_a75_other_ports_are_not_touched(cluster3, family):
    """n1 drains. A SYN to a port that is not a service stays on n1: refused, and dprd does not see it."""
    forward_all(cluster3)
    with counting(cluster3) as moved, RawClient(cluster3, service(cluster3.nodes[0], family), 9999, 20750) as client:
        client.send(client.syn())
        assert client.capture.wait(lambda packet: client.is_answer(packet) and packet[TCP].flags.R) is not None
    assert "seen" not in moved["n1"]


@both
def test_a76_nothing_is_tunnelled_twice(cluster3, family):
    """All nodes drain except n3. n2's client lands on n3 by one tunnel; no node forwards a packet that came by a
    tunnel."""
    for name in ("n1", "n2"):
        cluster3.dprctl(name, "drain")
    cluster3.wait_until(lambda: cluster3.sees("n1", ["n3"]) and cluster3.sees("n2", ["n3"]), "only n3 is left")
    interface = "eth1" if cluster3.layout == "own" else "eth0"
    with Capture(cluster3, "n3", interface, "proto 4 or ip6 proto 41") as tunnelled:
        for node in cluster3.nodes:
            for _ in range(5):
                assert whoami(cluster3, service(node, family)) == "n3"
    assert tunnelled.packets(outgoing=False)
    assert not tunnelled.packets(outgoing=True)


@both
def test_a77_a_packet_to_an_alias_address_goes_nowhere(one3, family):
    """Layout "one": the private addresses that stand for the peers within a node are dead on the wire."""
    held = [route["dst"] for route in json.loads(one3.site.execute(
        "n1", ["ip", "-j", f"-{family[1]}", "route", "show", "table", "local", "proto", "221"]))]
    assert len(held) == 2
    with Capture(one3, "n1", only=f"host {CLIENT[family]}") as seen:
        for address in held:
            send(one3, [ip_layer(CLIENT[family], address) / TCP(sport=20770, dport=80, flags="S")], "x", "eth0",
                 ("n1", "eth0"))
        assert seen.wait(lambda packet: TCP in packet and packet[TCP].sport == 20770) is not None
        assert seen.wait(lambda packet: TCP in packet and packet[TCP].dport == 20770, 0.5) is None


@both
def test_a78_marks_are_seen_by_nobody(cluster3, family):
    """Packets that came through dprd's queue, or passed it by with dprd killed, have no mark when the next rules see
    them."""
    n1 = cluster3.nodes[0]
    syns = f"meta nfproto ip{family} tcp dport 80 tcp flags & (syn | ack) == syn"
    with rules(cluster3, "n1", [f"{syns} counter"], "prerouting", "lab_syns", -290) as came, \
            rules(cluster3, "n1", ["meta mark & 0x60000000 != 0 counter"], "prerouting", "lab_marks", -290) as marked:
        for _ in range(9):
            whoami(cluster3, service(n1, family))
        assert came() >= 1
        cluster3.kill("n1", "dprd")
        assert whoami(cluster3, service(n1, family)) == "n1"
        assert came() >= 2
        assert marked() == 0
