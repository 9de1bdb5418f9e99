# SPDX-License-Identifier: GPL-2.0-or-later
"""Direct 10: Form=direct. Forwarded packets go to the peer's hardware address, unchanged except for one hop."""
import contextlib
import json
import time

import pytest

import test_a_30_icmp
from faultlib import FIRST_SYN_S, RESTART_S, load, members, reload_both, settings, wait_for
from test_a_20_mtu import NO_ICMP, answered_mss, transfer_both_ways, wait_both_lower
from traffic import (FAMILIES, HEADERS, IP, Capture, IPv6, RawClient, TCP, counting, forward_all, forward_to, rules,
                     service, set_mtu)

HOPS = 64
ALL = ["n1", "n2", "n3"]
# Connections that a node serves for its peers stay when its dprd is gone.
QUIET_MS = 500
both = pytest.mark.parametrize("family", FAMILIES)


def forms(cluster, node):
    """{peer: the form of forwarding to it, by family}"""
    return {name: (member["form_v4"], member["form_v6"]) for name, member in members(cluster, node).items()
            if name != node}


@pytest.fixture(name="direct3")
def make_direct3(own3):
    """Three nodes with cluster addresses, none of which uses a tunnel."""
    with settings(own3, "local", Datapath={"Form": "direct"}):
        for node in ALL:
            wait_for(lambda node=node: set(forms(own3, node).values()) == {("direct", "direct")},
                     f"{node} knows its peers' hardware addresses", 15)
        yield own3


def routes_of_peers(cluster, node):
    """The addresses that a node serves for its peers."""
    return {route["dst"] for family in ("-4", "-6") for route in json.loads(cluster.site.execute(
        node, ["ip", family, "-j", "route", "show", "table", "local", "proto", "221"]) or "[]")}


def test_h10_whole_frames(direct3):
    """n1 drains. 10 MB up and down in both families in frames as large as the link's MTU, and no tunnel anywhere, except for
    packets that the standby process sends when the host lets dprd wait for 50 ms."""
    forward_all(direct3)
    with counting(direct3) as moved, Capture(direct3, "n1", "eth1", "proto 4 or ip6 proto 41") as tunnelled:
        transfer_both_ways(direct3)
        for family in FAMILIES:
            assert answered_mss(direct3, service(direct3.nodes[0], family)) == 1500 - HEADERS[family]
    assert len(tunnelled.packets()) <= sum(moved[node].get("standby_forwarded", 0) for node in ALL)
    assert moved["n1"]["flows_made"] == 6
    assert not {"segmented", "too_big_sent", "no_tunnel"} & set(moved["n1"])
    assert sum(moved[node].get("from_peer", 0) for node in ALL) <= len(tunnelled.packets())


def test_h11_narrow_link(direct3):
    """The nodes' link takes 1,400 bytes only, and the router does not report it: the MSS makes it fit."""
    entry, mtu = forward_all(direct3), 1400
    try:
        set_mtu(direct3, "cluster", mtu)
        for family in FAMILIES:
            wait_both_lower(direct3, service(entry, family), mtu - HEADERS[family])
        with rules(direct3, "r", NO_ICMP):
            transfer_both_ways(direct3)
    finally:
        set_mtu(direct3, "cluster", 1500)


@both
def test_h12_a_hop_less(direct3, family):
    """Packets that n2 gets from n1 have one hop less than at n1; packets without hops left are dropped."""
    entry, target = forward_to(direct3, "n2")
    address, layer = service(entry, family), IP if family == "v4" else IPv6
    hops = {"v4": "ttl", "v6": "hlim"}[family]

    def hops_of(capture):
        return {getattr(packet[layer], hops) for packet in capture.packets(outgoing=False)
                if TCP in packet and packet[layer].dst == address}

    with Capture(direct3, "n2", "eth1", "tcp dst port 8080 or ip6") as seen, \
            RawClient(direct3, address, 8080, 20096, **{hops: HOPS}) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == target.name.encode() + b"\n")
        assert hops_of(seen) == {HOPS - 2}  # the router, and n1
        with counting(direct3) as moved:
            client.ip_fields[hops] = 2
            client.say(b"the last hop ends at n1\n")
            direct3.wait_until(lambda: direct3.counters("n1")["no_tunnel"] > 0, "n1 drops it", 15)
        assert moved["n1"]["no_tunnel"] == 1
        assert hops_of(seen) == {HOPS - 2}
        client.reset()


@both
def test_h13_too_big_reaches_the_serving_node(direct3, family):
    """An ICMP error about a forwarded connection goes the same way."""
    test_a_30_icmp.test_a30_too_big_reaches_the_serving_node(direct3, family)


def test_h14_serving_needs_no_dprd(direct3):
    """dprd of n2 is killed, then started and stopped: connections that n1 has forwarded to it go on without a pause,
    also those that n1 forwards until it knows. Only --purge ends that."""
    direct3.set_policy("rr")
    with load(direct3, ["n1"]) as work:
        direct3.kill("n2", "dprd")
        time.sleep(1.5)
        direct3.start("n2", "dprd")
        wait_for(lambda: direct3.sees("n1", ALL), "n2 is back", RESTART_S)
        routes = routes_of_peers(direct3, "n2")
        assert len(routes) == 4
        assert direct3.stop("n2", "dprd") == 0
        time.sleep(1)
        assert routes_of_peers(direct3, "n2") == routes
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert work.forwarded("n1", "n2")
    assert work.longest_ms(work.forwarded("n1", "n2")) < QUIET_MS
    direct3.site.execute("n2", [direct3.program("bin/dprd"), "-c", direct3.config_path("n2"), "--node", "n2",
                                "--purge"])
    assert not routes_of_peers(direct3, "n2")


def test_h15_by_a_router_in_a_tunnel(direct3):
    """n1 reaches n2 by a router: packets to the router's hardware address would come back, so n2 gets a tunnel.
    Connections that n1 serves for others have the smaller MSS meanwhile."""
    network = {"v4": ("-4", direct3.node("n2").cluster_v4 + "/32", direct3.node("n3").cluster_v4),
               "v6": ("-6", direct3.node("n2").cluster_v6 + "/128", direct3.node("n3").cluster_v6)}

    def check(form, overhead):
        wait_for(lambda: forms(direct3, "n1") == {"n2": (form, form), "n3": ("direct", "direct")},
                 f"n1 reaches n2 by {form}", 15)
        for family in FAMILIES:
            wanted = 1500 - HEADERS[family] - overhead[family]
            wait_for(lambda family=family, wanted=wanted: answered_mss(direct3, service(direct3.node("n3"), family))
                     == wanted, f"n1 answers with an MSS of {wanted}", 5)

    forward_to(direct3, "n1", "n3")
    with contextlib.ExitStack() as back:
        for family, destination, router in network.values():
            direct3.site.execute("n1", ["ip", family, "route", "add", destination, "via", router])
            back.callback(direct3.site.execute, "n1", ["ip", family, "route", "del", destination])
        check("tunnel", {"v4": 20, "v6": 40})
    check("direct", {"v4": 0, "v6": 0})


def test_h16_from_one_form_to_the_other(own3):
    """By reload, under load: every connection goes on, present ones and those made meanwhile."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        for form in ("direct", "tunnel", "direct"):
            own3.set_config("Datapath", "Form", form)
            for node in ALL:  # not all at once
                reload_both(own3, node)
                time.sleep(0.3)
            wait_for(lambda form=form: set(forms(own3, "n1").values()) == {(form, form)}, f"n1 goes by {form}", 15)
            time.sleep(0.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert work.forwarded()
