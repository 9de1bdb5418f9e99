# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 85: packets of a forwarded connection that come in fragments or with IP options arrive as they do locally."""
import hashlib
import socket
import struct

import pytest
from scapy.all import IPOption_NOP, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, PadN, fragment

from traffic import (FAMILIES, IP, TCP, Ether, IPv6, Raw, RawClient, counting, forward_to, hardware, random_bytes,
                     route_mtu, service, send, upload, whoami)

both = pytest.mark.parametrize("family", FAMILIES)
FRAGMENTS_BYTES_MOST = 4 * 1024 * 1024 + 65536  # net.ipv4.ipfrag_high_thresh, and the last one
NO_OPTIONS = IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")])
UPLOADS = 12
FLOOD = 3000  # more than fit the memory
FRAGMENT_BYTES = {False: 64, True: 1240}  # a host sends no smaller IPv6 fragments
LINE_BYTES = {False: 200, True: 1390}


def test_a85_uploads_cut_by_a_router(cluster3):
    """The client sets no DF, and the router takes 1,000 bytes: each upload to the node that n1 forwards to arrives whole,
    and so do those to n1 itself."""
    entry, target = forward_to(cluster3, "n2")
    data = random_bytes(20_000)
    wanted = (len(data), hashlib.sha256(data).hexdigest())
    cluster3.site.sysctl("c1", {"net.ipv4.ip_no_pmtu_disc": 1})
    try:
        with route_mtu(cluster3, 1000):
            for _ in range(UPLOADS):
                name, *got, _ = upload(cluster3, service(entry, "v4"), data)
                assert (name, tuple(got)) == (target.name, wanted)
            cluster3.dprctl(entry, "undrain")
            name, *got, _ = upload(cluster3, service(entry, "v4"), data)
            assert (name, tuple(got)) == (entry.name, wanted)
    finally:
        cluster3.site.sysctl("c1", {"net.ipv4.ip_no_pmtu_disc": 0})


def cut(payload, protocol, number):
    """IPv6 fragment headers with their parts of the payload, which begins with a header of this protocol."""
    size = FRAGMENT_BYTES[True]
    return [IPv6ExtHdrFragment(nh=protocol, m=int(at + size < len(payload)), offset=at // 8, id=number) /
            Raw(payload[at:at + size]) for at in range(0, len(payload), size)]


def pieces(client, packet, number):
    """The packet in fragments."""
    whole = bytes(packet.payload)
    if client.is_v6:
        return [IPv6(src=client.source, dst=client.address) / piece for piece in cut(whole, 6, number)]
    return fragment(IP(src=client.source, dst=client.address, id=number, proto=6) / Raw(whole), FRAGMENT_BYTES[False])


def with_options(client, packet):
    tcp = packet[TCP].copy()
    tcp.chksum = None
    if client.is_v6:
        return IPv6(src=client.source, dst=client.address) / NO_OPTIONS / tcp
    return IP(src=client.source, dst=client.address, options=[IPOption_NOP()] * 8) / tcp


def both_shapes(client, packet, number):
    """Fragments with options, in each order that a host may send; for IPv6 also the one fragment of RFC 6946."""
    tcp = bytes(packet.payload)
    if not client.is_v6:
        return [fragment(IP(src=client.source, dst=client.address, id=number, proto=6, options=[IPOption_NOP()] * 4) /
                         Raw(tcp), FRAGMENT_BYTES[False])]
    head, options = IPv6(src=client.source, dst=client.address), NO_OPTIONS.options
    after = bytes(IPv6ExtHdrDestOpt(nh=6, options=options)) + tcp
    return [[head / IPv6ExtHdrFragment(nh=6, m=0, id=number) / Raw(tcp)],
            [head / IPv6ExtHdrDestOpt(nh=44, options=options) / piece for piece in cut(tcp, 6, number + 10)],
            [head / piece for piece in cut(after, 60, number + 20)]]


def built(packet):
    """The same with lengths and checksums filled in."""
    return type(packet)(bytes(packet))


class Client(RawClient):
    """Sends its next segments in any shape; the server sends them back."""

    @property
    def is_v6(self):
        return ":" in self.address

    def next(self, payload):
        self.acknowledged = (self.first + len(self.heard())) & 0xFFFFFFFF
        packet = built(self.packet("PA", payload))
        self.sequence += len(payload)
        return packet


@both
def test_a86_any_order_of_fragments_and_options(cluster3, family):
    """Segments in fragments, in order, in reverse order and twice; with options; and with both: the server gets each
    byte."""
    entry, target = forward_to(cluster3, "n2")
    with Client(cluster3, service(entry, family), 8080, 20860) as client:
        client.open()
        said = f"{target.name}\n".encode()
        assert client.wait_heard(lambda heard: heard == said)
        for number, arrange in enumerate((list, lambda p: p[::-1], lambda p: p + p, lambda p: [p[1], p[0], *p[2:]])):
            line = b"%d" % number * (LINE_BYTES[client.is_v6] - 1) + b"\n"
            send(cluster3, arrange(pieces(client, client.next(line), 700 + number)))
            said += line
            assert client.wait_heard(lambda heard: heard == said), f"arrangement {number}"
        for number in range(1 + 2 * client.is_v6):
            line = b"%d" % number * (LINE_BYTES[client.is_v6] - 1) + b"\n"
            send(cluster3, both_shapes(client, client.next(line), 750 + number)[number])
            said += line
            assert client.wait_heard(lambda heard: heard == said), f"fragments and options {number}"
        with counting(cluster3) as moved:
            line = b"options\n"
            send(cluster3, [with_options(client, client.next(line))])
            said += line
            came = client.wait_heard(lambda heard: heard == said)
        assert came, f"options; counters: {moved}"
        assert moved["n1"]["flow"] >= 1 and moved[target.name]["from_peer"] >= 1
        client.reset()


def first_pieces(client, whole, numbers):
    """The first fragments of packets, of which no other will come."""
    at = 40 if client.is_v6 else 20
    payload = Raw(whole[at:][:FRAGMENT_BYTES[True]])
    if client.is_v6:
        made = bytes(IPv6(src=client.source, dst=client.address) / IPv6ExtHdrFragment(nh=6, m=1) / payload)
        return [made[:44] + struct.pack("!I", number) + made[48:] for number in numbers]
    made = bytes(IP(src=client.source, dst=client.address, id=0, proto=6, flags="MF") / payload)
    found = ~struct.unpack("!H", made[10:12])[0] & 0xFFFF  # the sum of the header without an identification
    sums = ((number, (found + number) % 0xFFFF) for number in numbers)
    return [made[:4] + struct.pack("!H", number) + made[6:10] + struct.pack("!H", ~total & 0xFFFF) + made[12:]
            for number, total in sums]


def flood(cluster, datagrams):
    """Sends them as fast as the link takes them."""
    head = bytes(Ether(dst=hardware(cluster, "r", "eth1"), src=hardware(cluster, "c1", "eth0"),
                       type=0x86DD if datagrams[0][0] >> 4 == 6 else 0x0800))
    with cluster.site.inside("c1"):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with out:
        out.bind(("eth0", 0))
        for datagram in datagrams:
            out.send(head + datagram)


def fragment_memory(cluster, node):
    """Bytes that a host's kernel holds for IPv4 fragments; it does not tell those of IPv6 in front of the rules."""
    words = next(line.split() for line in cluster.site.execute(node.name, ["cat", "/proc/net/sockstat"]).splitlines()
                 if line.startswith("FRAG"))
    return int(words[words.index("memory") + 1])


@both
def test_a87_a_flood_of_fragments(cluster3, family):
    """Beginnings of packets whose ends never come, of a forwarded connection and of none: they take the memory that the
    kernel allows, and dprd goes on to forward."""
    entry, target = forward_to(cluster3, "n2")
    with Client(cluster3, service(entry, family), 8080, 20870) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == f"{target.name}\n".encode())
        first = bytes(built(client.packet("PA", b"x" * 1300)))
        at = 40 if client.is_v6 else 20
        of_none = first[:at] + struct.pack("!H", 20871) + first[at + 2:]
        for turn, whole in enumerate((first, of_none), 1):
            flood(cluster3, first_pieces(client, whole, range(turn * FLOOD, turn * FLOOD + FLOOD)))
            assert whoami(cluster3, service(entry, family)) == target.name
        held = fragment_memory(cluster3, entry)
        assert held <= FRAGMENTS_BYTES_MOST and (client.is_v6 or held > FRAGMENTS_BYTES_MOST / 2)
        client.say(b"still here\n")
        assert client.wait_heard(lambda heard: heard.endswith(b"still here\n"))
        client.reset()
