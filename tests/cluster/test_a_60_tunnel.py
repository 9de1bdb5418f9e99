# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 60: packets from the tunnel are taken only when they are for this node; none is routed onward.

The host x is on the nodes' network and is not a member. It sends under its own address, or under n2's:

    x --- outer (x or n2 -> n1) | inner (client -> n2's service address) ---> n1
"""
import json
import time

import pytest
from scapy.all import (IPOption_LSRR, IPOption_NOP, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrRouting, UDP,
                       ICMPv6EchoRequest, PadN, fragment)

from traffic import (FAMILIES, ICMP, IP, TCP, Capture, IPv6, Raw, RawClient, counting, forward_to, ip_layer, rules,
                     send, service, tunnel_address)

both = pytest.mark.parametrize("family", FAMILIES)
COPIES = 3
# Not a number of packets, or a second count of them.
OF_TIME = ("batches", "flows_expired", "flows_dead_peer", "decapsulated_bytes", "syns_taken")
LEAK = {"v4": "198.51.100.7", "v6": "2001:db8:dead::7"}
GOOD = {"v4": "198.51.100.8", "v6": "2001:db8:dead::8"}
TUNNEL = {"v4": 4, "v6": 41}
NO_OPTIONS = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")])


def tunnel_link(cluster):
    """The interfaces by which x reaches n1's tunnel: (its own, n1's)."""
    return ("eth1", ("n1", "eth1")) if cluster.layout == "own" else ("eth0", ("n1", "eth0"))


def put(cluster, *packets):
    interface, to = tunnel_link(cluster)
    send(cluster, packets, "x", interface, to)


def syn(family, destination, source=None, port=80, **fields):
    return ip_layer(source or LEAK[family], destination, **fields) / TCP(sport=4000, dport=port, flags="S", seq=1)


def bare_ack(family, destination):
    return ip_layer(LEAK[family], destination) / TCP(sport=4000, dport=80, flags="A", seq=1, ack=1)


def outer(family, source, destination, inner, protocol=None, **fields):
    """A tunnel packet; inner: a packet or bytes."""
    protocol = protocol or TUNNEL[family]
    if family == "v4":
        return IP(src=source, dst=destination, proto=protocol, **fields) / Raw(bytes(inner))
    return IPv6(src=source, dst=destination, nh=protocol, **fields) / Raw(bytes(inner))


def cut(packet, drop):
    return bytes(packet)[:-drop]


def inner_cases(cluster, family):
    """(story, inner packet, the reason that must count it), all sent from n2's address."""
    n1, n2, n3 = cluster.nodes
    to_n2 = service(n2, family)
    foreign = "192.0.2.99" if family == "v4" else "2001:db8:a::99"
    good = syn(family, to_n2)
    cases = [
        ("a tunnel in the tunnel", outer(family, tunnel_address(n2, family), tunnel_address(n1, family), good),
         "inner_nested"),
        ("to nobody of the cluster", syn(family, foreign), "inner_foreign"),
        ("to a port that is no service", syn(family, to_n2, port=22), "inner_foreign"),
        ("to the receiver itself, as if it were sent back", syn(family, service(n1, family)), "returned_late"),
        ("to the receiver itself, no SYN", bare_ack(family, service(n1, family)), "inner_not_senders"),
        ("to another member than the sender", syn(family, service(n3, family)), "inner_not_senders"),
        ("UDP", ip_layer(LEAK[family], to_n2) / UDP(sport=4000, dport=80) / b"hello", "inner_foreign"),
        ("from a member", syn(family, to_n2, source=service(n3, family)), "inner_source"),
        ("cut within the TCP header", cut(good, 8), "inner_bad"),
        ("cut within the IP header", bytes(good)[:12], "inner_bad"),
        ("bytes behind the packet", bytes(good) + b"more", "inner_bad"),
        ("nothing", b"", "inner_bad"),
        ("garbage", b"\xff" * 60, "inner_bad"),
        ("the other family", syn("v6" if family == "v4" else "v4", service(n2, "v6" if family == "v4" else "v4")),
         "inner_bad"),
    ]
    if family == "v4":
        cases += [
            ("IP options", syn(family, to_n2, options=[IPOption_NOP()] * 4), "inner_bad"),
            ("a source route", syn(family, to_n2, options=[IPOption_LSRR(routers=[foreign])]), "inner_bad"),
            ("a TTL of 0", syn(family, to_n2, ttl=0), "inner_bad"),
            # The programs leave that to the stack, which checks the header of all packets from them.
            ("a damaged header", syn(family, to_n2, chksum=0x1234),
             "from_peer" if cluster.plane == "bpf" else "inner_bad"),
            ("a first fragment", syn(family, to_n2, flags="MF"), "inner_bad"),
            ("a last fragment", syn(family, to_n2, frag=3), "inner_bad"),
            ("an echo request", ip_layer(LEAK[family], to_n2) / ICMP(), "inner_foreign"),
            ("from loopback", syn(family, to_n2, source="127.0.0.1"), "inner_source"),
            ("from multicast", syn(family, to_n2, source="224.0.0.1"), "inner_source"),
            ("a longer total length", IP(src=LEAK[family], dst=to_n2, len=200, proto=6) / TCP(dport=80, flags="S"),
             "inner_bad"),
        ]
    else:
        cases += [
            ("destination options", IPv6(src=LEAK[family], dst=to_n2) / NO_OPTIONS / TCP(dport=80, flags="S"),
             "inner_bad"),
            ("a route that goes on", IPv6(src=LEAK[family], dst=to_n2) /
             IPv6ExtHdrRouting(segleft=1, addresses=[foreign]) / TCP(dport=80, flags="S"), "inner_bad"),
            ("a hop limit of 0", syn(family, to_n2, hlim=0), "inner_bad"),
            ("a fragment", IPv6(src=LEAK[family], dst=to_n2) / IPv6ExtHdrFragment(m=1) / TCP(dport=80, flags="S"),
             "inner_bad"),
            ("an echo request", IPv6(src=LEAK[family], dst=to_n2) / ICMPv6EchoRequest(), "inner_foreign"),
            ("from loopback", syn(family, to_n2, source="::1"), "inner_source"),
            ("from a mapped address", syn(family, to_n2, source="::ffff:198.51.100.7"), "inner_source"),
            ("a longer payload length", IPv6(src=LEAK[family], dst=to_n2, plen=200, nh=6) / TCP(dport=80, flags="S"),
             "inner_bad"),
        ]
    return cases


def moved_by(cluster, packets, expected):
    """Puts packets on n1's tunnel link; returns the changes of n1's counters."""
    before = cluster.counters("n1")
    put(cluster, *packets)

    def moved():
        now = cluster.counters("n1")
        return {key: now[key] - before[key] for key in now if now[key] != before[key] and key not in OF_TIME}

    if not expected["seen"]:
        time.sleep(0.3)
    cluster.wait_until(lambda: moved().get("seen", 0) >= expected["seen"], f"n1 sees {expected}", 15)
    return moved()


def strangers(cluster, family):
    """Tunnel packets of strangers that n1 dropped so far: counted by nftables, or by the BPF programs."""
    if cluster.plane == "bpf":
        return cluster.counters("n1")["not_peer"]
    listing = json.loads(cluster.site.execute("n1", ["nft", "-j", "list", "counter", "inet", "dprd",
                                                     f"stranger{family[1]}"]))
    return next(item["counter"]["packets"] for item in listing["nftables"] if "counter" in item)


def seen_inside(family, address):
    return [f"{'ip' if family == 'v4' else 'ip6'} saddr {address} counter"]


class Watch:
    """True when anything of an inner packet comes out: in n1's stack, on its links, or on the clients' link."""

    def __init__(self, cluster, family, address=None):
        self.cluster, self.family, self.address = cluster, family, address or LEAK[family]

    def __enter__(self):
        self.stack = rules(self.cluster, "n1", seen_inside(self.family, self.address), "input", "lab_in")
        self.routed = rules(self.cluster, "n1", seen_inside(self.family, self.address), "forward", "lab_forward")
        self.in_stack, self.in_forward = self.stack.__enter__(), self.routed.__enter__()
        places = [("n1", "eth0"), ("r", "eth1")] + ([("n1", "eth1")] if self.cluster.layout == "own" else [])
        self.captures = [Capture(self.cluster, host, interface, f"host {self.address}").__enter__()
                         for host, interface in places]
        return self

    def came_out(self):
        """(packets in the stack, routed, on links)."""
        return self.in_stack(), self.in_forward(), sum(len(capture.frames) for capture in self.captures)

    def __exit__(self, *_):
        for capture in self.captures:
            capture.stop()
        self.routed.__exit__(None, None, None)
        self.stack.__exit__(None, None, None)


@both
def test_a60_what_a_peer_may_not_send(cluster3, family):
    """From n2's address: every inner packet that no dprd sends is counted by its reason and dropped."""
    n1, n2, _ = cluster3.nodes
    source, to = tunnel_address(n2, family), tunnel_address(n1, family)
    with Watch(cluster3, family) as watch:
        for story, inner, reason in inner_cases(cluster3, family):
            expected = {"seen": COPIES, reason: COPIES}
            assert moved_by(cluster3, [outer(family, source, to, inner)] * COPIES, expected) == expected, story
        assert watch.came_out() == (0, 0, 0)


@both
def test_a61_what_a_peer_may_send(cluster3, family):
    """The counter-example to the others: a sound inner packet from n2's address, and n1 answers for n2."""
    n1, n2, _ = cluster3.nodes
    with Watch(cluster3, family, GOOD[family]) as watch:
        packet = outer(family, tunnel_address(n2, family), tunnel_address(n1, family),
                       syn(family, service(n2, family), source=GOOD[family]))
        moved = moved_by(cluster3, [packet], {"seen": 1, "from_peer": 1})
        assert moved["from_peer"] == moved["seen"] == 1
        answer = watch.captures[0].wait(lambda packet: TCP in packet and packet[TCP].flags == "SA")
        assert answer is not None and answer.payload.src == service(n2, family)
        stack, routed, links = watch.came_out()
        assert stack == 1 and routed == 0 and links >= 1


@both
def test_a62_strangers(cluster3, family):
    """Tunnel packets of hosts that are not peers, with any content: the kernel counts and drops them, dprd gets
    none."""
    n1, n2, _ = cluster3.nodes
    to = tunnel_address(n1, family)
    far = "203.0.113.77" if family == "v4" else "2001:db8:c::77"
    own = {"v4": "10.80.0.200", "v6": "fd80::200"} if cluster3.layout == "own" else \
        {"v4": "192.0.2.200", "v6": "2001:db8:a::200"}
    before = strangers(cluster3, family)
    sent = 0
    with counting(cluster3) as moved, Watch(cluster3, family) as watch:
        for source in (own[family], far, to):
            for inner in (syn(family, service(n2, family)), syn(family, service(n1, family)), b"", b"\xff" * 40):
                put(cluster3, *[outer(family, source, to, inner)] * COPIES)
                sent += COPIES
        cluster3.wait_until(lambda: strangers(cluster3, family) == before + sent, "all are counted", 15)
        assert watch.came_out() == (0, 0, 0)
    assert moved["n1"].get("seen", 0) == moved["n1"].get("not_peer", 0) == (sent if cluster3.plane == "bpf" else 0)


@both
def test_a63_other_outer_headers(cluster3, family):
    """Packets from n2's address, but to another address of n1, to all hosts, of another protocol, or cut: no node takes
    them."""
    n1, n2, n3 = cluster3.nodes
    source, to = tunnel_address(n2, family), tunnel_address(n1, family)
    inner = syn(family, service(n2, family))
    other = {"v4": 41, "v6": 4}[family]
    packets = [outer(family, source, to, inner, protocol=other),
               outer(family, source, tunnel_address(n3, family), inner)]
    if cluster3.layout == "own":
        packets.append(outer(family, source, service(n1, family), inner))
    if family == "v4":
        packets += [outer(family, source, to.rsplit(".", 1)[0] + ".255", inner),
                    outer(family, source, "255.255.255.255", inner),
                    outer(family, source, to, inner, len=200)]
    else:
        packets += [outer(family, source, "ff02::1", inner), outer(family, source, to, inner, plen=200)]
    before = strangers(cluster3, family)
    with counting(cluster3) as moved, Watch(cluster3, family) as watch:
        put(cluster3, *packets * COPIES)
        time.sleep(0.3)
        assert watch.came_out() == (0, 0, 0)
    assert "seen" not in moved["n1"]
    assert strangers(cluster3, family) == before


@both
def test_a64_outer_options_and_fragments(cluster3, family):
    """A tunnel packet with options, or in two pieces: dprd does not send such packets. It does not take them, except that
    on the nfqueue plane the kernel puts the pieces together first."""
    n1, n2, _ = cluster3.nodes
    source, to = tunnel_address(n2, family), tunnel_address(n1, family)
    inner, whole = syn(family, service(n2, family)), syn(family, service(n2, family), source=GOOD[family])
    if family == "v4":
        options = outer(family, source, to, inner, options=[IPOption_NOP()] * 4)
        pieces = fragment(outer(family, source, to, whole), 24)
    else:
        # nftables finds the tunnel behind these headers, while dprd's parser stops before them; so do the BPF programs,
        # which leave the packets to the stack.
        options = IPv6(src=source, dst=to) / IPv6ExtHdrDestOpt(nh=41, options=NO_OPTIONS.options) / bytes(inner)
        pieces = [IPv6(src=source, dst=to) / IPv6ExtHdrFragment(nh=41, m=1, id=7) / bytes(whole)[:56],
                  IPv6(src=source, dst=to) / IPv6ExtHdrFragment(nh=41, offset=7, id=7) / bytes(whole)[56:]]
    left = family == "v6" and cluster3.plane == "bpf"
    with Watch(cluster3, family) as watch:
        expected = {"seen": 0} if left else {"seen": 1, "inner_bad": 1}
        assert moved_by(cluster3, [options], expected) == {key: count for key, count in expected.items() if count}
        assert watch.came_out() == (0, 0, 0)
    if cluster3.plane == "nfqueue":
        moved = moved_by(cluster3, pieces, {"seen": 1, "from_peer": 1})
        assert moved["seen"] == moved["from_peer"] == 1
    else:
        expected = {"seen": 0} if left else {"seen": len(pieces), "inner_bad": len(pieces)}
        assert moved_by(cluster3, pieces, expected) == {key: count for key, count in expected.items() if count}


@both
def test_a65_congestion_marks_come_through(cluster3, family):
    """A switch within the tunnel marks "congestion experienced": the serving node's stack sees the mark, on packets
    that may carry it; one that may not is dropped."""
    entry, target = forward_to(cluster3, "n3")
    ip = "ip" if family == "v4" else "ip6"
    port = "n1" if cluster3.layout == "one" else "n1c"
    # Port 8080 in the packet within: no probe.
    mark = f"iifname {port} " + ("ip protocol 4 @nh,336,16 8080 ip ecn set ce" if family == "v4" else
                                 "meta l4proto 41 @nh,656,16 8080 ip6 ecn set ce")
    fields = {"tos": 2} if family == "v4" else {"tc": 2}
    with RawClient(cluster3, service(entry, family), 8080, 20650, **fields) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n3\n")
        wanted = f"{ip} saddr {client.source} tcp flags & psh != 0 {ip} ecn ce counter"
        with rules(cluster3, "n3", [wanted], "input") as marked:
            client.say(b"unmarked\n")
            assert client.wait_heard(lambda heard: heard.endswith(b"unmarked\n"))
            assert marked() == 0
            with rules(cluster3, "sw", [mark], "prerouting", "lab_mark", family="bridge"):
                client.say(b"marked\n")
                assert client.wait_heard(lambda heard: heard.endswith(b"marked\n") and b"unmarked" in heard[:20])
                assert client.wait_heard(lambda heard: heard == b"n3\nunmarked\nmarked\n")
                assert marked() == 1
                client.ip_fields = {}
                with counting(cluster3) as moved:
                    client.say(b"lost\n")
                    cluster3.wait_until(lambda: cluster3.counters("n3")["inner_bad"] > 0, "n3 drops it", 15)
            assert marked() == 1
        assert moved[target.name]["inner_bad"] == 1
        client.sequence -= len(b"lost\n")
        client.say(b"found\n")
        assert client.wait_heard(lambda heard: heard.endswith(b"found\n"))
        client.reset()
