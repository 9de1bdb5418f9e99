# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 20: no black hole, whatever the MTU of the links."""
import hashlib

import pytest

import hiccups
from traffic import (FAMILIES, HEADERS, ICMP, OVERHEAD, ICMP_TOO_BIG, Capture, ICMPv6PacketTooBig, IP, IPv6, Raw, RawClient,
                     TCP, counting, download, file_sha256, forward_all, forward_to, random_bytes, route_mtu, rules, send,
                     service, set_mtu, tcp_option, too_big_mtu, tunnel_address, upload, whoami)

SIZE = 10_000_000
STALL_S = 2.0
mtus = pytest.mark.parametrize("mtu", (1400, 1280))
both = pytest.mark.parametrize("family", FAMILIES)
NO_ICMP = ["icmp type destination-unreachable drop", "icmpv6 type packet-too-big drop"]


def transfer_both_ways(cluster):
    """10 MB up and down in both families, all forwarded, none of them with a long stall."""
    path = cluster.add_file("ten", SIZE)
    expected = file_sha256(cluster.file_root + path)
    data = random_bytes(SIZE)
    for family in FAMILIES:
        address = service(cluster.nodes[0], family)
        with hiccups.Span() as span:
            node, digest, count, stall_s = download(cluster, address, path)
        assert (digest, count) == (expected, SIZE) and node != "n1"
        assert stall_s < STALL_S + span.lost_s, f"download {family}"
        with hiccups.Span() as span:
            node, count, digest, stall_s = upload(cluster, address, data)
        assert (digest, count) == (hashlib.sha256(data).hexdigest(), SIZE) and node != "n1"
        assert stall_s < STALL_S + span.lost_s, f"upload {family}"


def answered_mss(cluster, address):
    """The MSS that a SYN-ACK offers."""
    with Capture(cluster, "c1", only="tcp src port 80 or ip6") as seen:
        whoami(cluster, address)
    return tcp_option(next(packet for packet in seen.packets(outgoing=False)
                           if TCP in packet and packet[TCP].flags == "SA"), "MSS")


def wait_both_lower(cluster, address, mss):
    """Waits until n2 and n3, which take turns to serve for n1, offer this MSS."""
    cluster.wait_until(lambda: {answered_mss(cluster, address) for _ in ("n2", "n3")} == {mss},
                       f"both others lower the MSS at {address} to {mss}")


@mtus
def test_a20_narrow_tunnel(cluster3, mtu):
    """The nodes' link takes 1,400 (1,280) bytes only, and the router does not report it: the MSS makes it fit."""
    network = "cluster" if cluster3.layout == "own" else "service"
    cluster3.set_policy("rr")
    entry = forward_all(cluster3)
    try:
        set_mtu(cluster3, network, mtu)
        cluster3.wait_until(lambda: all(m["self"] or m["tunnel_mtu_v4"] == m["tunnel_mtu_v6"] == mtu
                                        for m in cluster3.status(entry)["members"]), "dprd knows the MTU")
        for family in FAMILIES:
            lowered = mtu - HEADERS[family] - OVERHEAD[family]
            wait_both_lower(cluster3, service(entry, family), lowered)
        with rules(cluster3, "r", NO_ICMP):
            transfer_both_ways(cluster3)
    finally:
        set_mtu(cluster3, network, 1500)


@mtus
def test_a21_narrow_client_link(cluster3, mtu):
    """The clients' link is narrow and the router silent: the client's own MSS makes it fit."""
    forward_all(cluster3)
    try:
        set_mtu(cluster3, "client", mtu)
        with rules(cluster3, "r", NO_ICMP):
            transfer_both_ways(cluster3)
    finally:
        set_mtu(cluster3, "client", 1500)


@mtus
def test_a22_narrow_path_behind_the_router(cluster3, mtu):
    """Neither end knows that the path is narrow; the router reports it to n1's address, and the serving node learns
    it."""
    forward_all(cluster3)
    with counting(cluster3) as moved, route_mtu(cluster3, mtu):
        transfer_both_ways(cluster3)
    assert moved["n1"]["icmp_relay"] >= 1


@pytest.fixture(scope="module")
def plain(session_clusters):
    """Clusters without any offload: a packet on a link is a packet of the stack."""
    return lambda layout: session_clusters.get(f"plain-{layout}", layout=layout, offload=False)


@pytest.mark.parametrize("layout", ("own", "one"))
@pytest.mark.parametrize("family, dont_fragment", (("v4", True), ("v4", False), ("v6", True)),
                         ids=("v4-df", "v4-nodf", "v6"))
def test_a23_a_full_segment_is_cut_and_the_client_told(plain, law, layout, family, dont_fragment):
    """A client ignores the MSS and fills 1,500 bytes: they arrive in two segments, and ICMP names the tunnel's MTU."""
    cluster = plain(layout)
    entry, target = forward_to(cluster, "n2")
    fields = {"flags": "DF" if dont_fragment else 0} if family == "v4" else {}
    data = random_bytes(3 * (1500 - HEADERS[family]))
    with counting(cluster) as moved, Capture(cluster, "n2", "eth1" if layout == "own" else "eth0",
                                             "proto 4 or ip6 proto 41") as tunnelled, \
            RawClient(cluster, service(entry, family), 8080, 20001, **fields) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n2\n")
        for part in range(3):
            client.say(data[part * len(data) // 3:(part + 1) * len(data) // 3])
        assert client.wait_heard(lambda heard: heard == b"n2\n" + data)
        told = client.capture.wait(lambda packet: ICMP_TOO_BIG[family](packet))
        client.reset()
    assert told is not None, "the client was not told"
    assert too_big_mtu(told) == 1500 - OVERHEAD[family]
    assert told.payload.src == service(entry, family)
    assert moved["n1"]["segmented"] == 3 and moved["n1"]["too_big_sent"] >= 1
    assert target.name == "n2" and max(len(packet) for packet in tunnelled.packets(outgoing=False)) == 14 + 1500


@both
def test_a24_a_damaged_full_segment_stays_damaged(plain, law, family):
    """A full segment with a wrong checksum is cut, too: no fresh checksum may make its bytes look sound."""
    cluster = plain("own")
    entry, _ = forward_to(cluster, "n2")
    good = random_bytes(1500 - HEADERS[family])
    with RawClient(cluster, service(entry, family), 8080, 20002) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n2\n")
        damaged = bytearray(bytes(client.packet("PA", good)))
        damaged[-1] ^= 0xFF
        client.send(IP(bytes(damaged)) if family == "v4" else type(client.packet("A"))(bytes(damaged)))
        assert not client.wait_heard(lambda heard: len(heard) > 3, timeout_s=0.5), "damaged bytes were delivered"
        client.say(good)
        assert client.wait_heard(lambda heard: heard == b"n2\n" + good)
        client.reset()


@both
def test_a25_a_router_between_the_nodes_tells_the_mtu(own3, family):
    """A router between n1 and n2 takes 1,400 bytes, and says so when a tunnel packet is longer: n1 learns it, for clients
    without DF as well, and lowers the MSS that n2 offers."""
    entry, target = forward_to(own3, "n2")
    source, destination = tunnel_address(entry, family), tunnel_address(target, family)
    if family == "v4":
        outer = IP(src=source, dst=destination, flags="DF", len=1500, proto=4)
        told = IP(src=destination, dst=source) / ICMP(type=3, code=4, nexthopmtu=1400)
    else:
        outer = IPv6(src=source, dst=destination, plen=1460, nh=41)
        told = IPv6(src=destination, dst=source) / ICMPv6PacketTooBig(mtu=1400)
    told /= Raw(bytes(outer / Raw(random_bytes(100))))
    key = f"tunnel_mtu_{family}"
    try:
        send(own3, [told], "x", "eth1", ("n1", "eth1"))
        own3.wait_until(lambda: {m["name"]: m[key] for m in own3.status(entry)["members"]}["n2"] == 1400,
                        "n1 knows the MTU")
        data = random_bytes(1_000_000)
        node, count, digest, _ = upload(own3, service(entry, family), data)
        assert (node, count, digest) == ("n2", len(data), hashlib.sha256(data).hexdigest())
    finally:
        for version in ("-4", "-6"):
            own3.site.execute("n1", ["ip", version, "route", "flush", "cache"])
