# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 40: the cluster's network loses announcements, or falls apart."""
import random
import time

import pytest

import waylib
from faultlib import FIRST_SYN_S, NO_WAIT_MS, SECOND_SYN_S, eligible, load, members, settings, steady, wait_for
from traffic import FAMILIES, forward_all, run_in, service, tunnel_address, url

ALL = ["n1", "n2", "n3"]
NOTICED_S = 1.6  # after this time connections do not go where they get no answer


def test_b40_one_way_partition(own3):
    """n2 no longer hears n1's announcements. Both stop to forward to each other, and n3 goes on with both. It heals."""
    own3.set_policy("rr")
    n1 = own3.node("n1")
    cut = {"n1": ["n3"], "n2": ["n3"], "n3": ["n1", "n2"]}
    with load(own3, ["n1", "n2"]) as work:
        own3.lose("n2", f"ip saddr {n1.cluster_v4} udp dport {own3.announce_port}")
        own3.lose("n2", f"ip6 saddr {n1.cluster_v6} udp dport {own3.announce_port}")
        wait_for(lambda: eligible(own3, "n1") == eligible(own3, "n2") == {"n3"}, "both directions are off", 1.7)
        start = time.monotonic()
        steady(own3, cut, 2)
        end = time.monotonic()
        assert members(own3, "n1")["n2"]["why_not"] == "does not hear this node"
        assert members(own3, "n2")["n1"]["why_not"] == "not heard"
        own3.heal("n2")
        wait_for(lambda: all(own3.sees(node, ALL) for node in ALL), "all agree again", 3)
        steady(own3, {"n1": ["n2", "n3"], "n2": ["n1", "n3"], "n3": ["n1", "n2"]}, 0.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(to="n1", since=start + 0.1, until=end)) == {"n1", "n3"}
    assert set(work.served_by(to="n2", since=start + 0.1, until=end)) == {"n2", "n3"}


def test_b41_full_partition(own3):
    """n2 is cut off from the cluster's network, not from clients: it serves alone, the others without it. It heals."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        own3.lose("n2", interface="eth1")
        own3.lose("n2", hook="output", interface="eth1")
        wait_for(lambda: not eligible(own3, "n2") and (eligible(own3, "n1"), eligible(own3, "n3")) == ({"n3"}, {"n1"}),
                 "both sides know it", 1.7)
        start = time.monotonic()
        wait_for(lambda: own3.status("n2")["minority"] and not own3.status("n1")["minority"], "n2 trusts itself", 1)
        steady(own3, {"n1": ["n3"], "n2": [], "n3": ["n1"]}, 1.3)
        end = time.monotonic()
        own3.heal("n2")
        wait_for(lambda: all(own3.sees(node, ALL) for node in ALL), "all agree again", 3)
        healed = time.monotonic()
        time.sleep(0.5)
    work.check_flows()  # also those across the cut: it was shorter than DeadPeerTimeout
    assert work.longest_ms(work.local()) < 300, "local ones did not even wait"
    work.check_connects(SECOND_SYN_S)
    assert set(work.served_by(to="n2", since=start + 0.1, until=end)) == {"n2"}
    assert set(work.served_by(to="n1", since=start + 0.1, until=end)) == {"n1", "n3"}
    assert set(work.served_by(to="n2", since=healed)) == set(ALL)


def test_b42_multicast_is_lost(one3):
    """No node gets a multicast packet any more: unicast announcements suffice, and nothing changes."""
    one3.set_policy("rr")
    others = {node: [name for name in ALL if name != node] for node in ALL}
    with load(one3, ["n1", "n2"], flows=30) as work:
        for node in ALL:
            one3.lose_announcements(node, multicast=True)
        steady(one3, others, 2)
        for node in ALL:  # proves that the rule works: without unicast, too, all is silent
            one3.lose_announcements(node, multicast=False)
        wait_for(lambda: not eligible(one3, "n1"), "nothing is heard", 2)
        one3.heal()
        wait_for(lambda: all(one3.sees(node, ALL) for node in ALL), "all agree again", 3)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)


def test_b43_multicast_only_and_lossy(own3):
    """Unicast=no. Multicast alone carries the cluster; and a loss of 30 % for a while has no effect."""
    own3.set_policy("rr")
    with settings(own3, Announce={"Unicast": "no"}):
        for node in ALL:
            own3.lose_announcements(node, multicast=False)
        others = {node: [name for name in ALL if name != node] for node in ALL}
        steady(own3, others, 1.5)
        with load(own3, ALL) as work:
            for node in ALL:
                own3.lose(node, "ip6 daddr ff00::/8 udp dport 7980")
                own3.lose_announcements(node, percent=30)
            time.sleep(7)
            lost = own3.lost("n1")
            own3.heal()
            wait_for(lambda: all(own3.sees(node, ALL) for node in ALL), "all agree", 3)
    assert lost[-1], lost
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    spread = work.served_by()
    assert min(spread[node] for node in ALL) > sum(spread.values()) / 6, spread


def test_b44_the_cable_is_pulled(own3):
    """n2's interface on the cluster's network goes down, and with it its IPv6 address; then all is put back."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        own3.site.ip("n2", ["link set eth1 down"])
        wait_for(lambda: not eligible(own3, "n2") and eligible(own3, "n1") == {"n3"}, "both sides know it", 1.7)
        start = time.monotonic()
        time.sleep(1)
        end = time.monotonic()
        own3.site.ip("n2", ["link set eth1 up", f"addr replace {own3.node('n2').cluster_v6}/64 dev eth1 nodad"])
        wait_for(lambda: all(own3.sees(node, ALL) for node in ALL), "all agree again", 3)
        time.sleep(1.2)  # path MTUs are looked at each second
        back = time.monotonic()
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    assert set(work.served_by(to="n2", since=start + 0.1, until=end)) == {"n2"}
    for node in (own3.node("n1"), own3.node("n2")):
        for address in (node.service_v4, node.service_v6):
            served = {connect.node for connect in work.made(since=back) if connect.to == address}
            assert "n3" in served and len(served) > 1, (address, served)


def test_b45_hardware_address_is_another(clusters):
    """n1 has a wrong hardware address for n2, and only forwarded packets go there (Unicast=no): n1 finds out."""
    cluster = clusters.fresh(nodes=2, layout="own", daemons=False)
    cluster.set_config("Announce", "Unicast", "no")
    for ip in ("ipv4", "ipv6"):  # an address counts as stale after a second, instead of half a minute
        cluster.site.sysctl("n1", {f"net.{ip}.neigh.eth1.base_reachable_time_ms": 1000,
                                   f"net.{ip}.neigh.eth1.delay_first_probe_time": 1})
    cluster.start_daemons(policy="rr")
    n1, n2 = forward_all(cluster), cluster.node("n2")

    def is_served_by_n2(family):
        command = ["curl", "-s", "-m", "0.5", "--noproxy", "*", url(service(n1, family), "/whoami")]
        return run_in(cluster, "c1", command) == (0, "n2\n")
    for family in ("v4", "v6"):
        assert is_served_by_n2(family)
        time.sleep(2.5)  # dprd has read the address that this SYN needed first
        cluster.site.ip("n1", [f"neigh replace {tunnel_address(n2, family)} lladdr 02:00:00:00:00:99 dev eth1 nud stale"])
        wait_for(lambda: not is_served_by_n2(family), f"{family}: nothing arrives there", 15)
        wait_for(lambda: is_served_by_n2(family), f"{family}: the right address is found", 30)


@pytest.mark.parametrize("family", FAMILIES)
def test_b46_an_address_is_lost_and_comes_back(cluster3, family):
    """n2 loses its address of one family on the cluster's network for some seconds, as when DHCP fails: n1 notices it by its
    connections, and n2 gets some again soon after it has the address. Nothing breaks that was forwarded to it before."""
    cluster3.set_policy("rr")
    fault = waylib.AddressLost(cluster3, "n2", random)
    fault.families = (family,)
    with load(cluster3, ["n1"], per_second=80) as work:
        start = time.monotonic()
        with fault:
            time.sleep(4)
            assert fault.took_effect()
            end = time.monotonic()
        wait_for(lambda: waylib.is_choice(cluster3, "n1", fault.node, FAMILIES), "n1 knows that n2 is back", 5)
        back = time.monotonic()
        time.sleep(1)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    slow = [connect for connect in work.made() if connect.waited * 1000 > NO_WAIT_MS]
    print(f"slow: {[round(connect.start - start, 2) for connect in slow]} s after the loss")
    assert len([connect for connect in slow if connect.start > start + NOTICED_S]) <= 2, "no more than one trial each time"
    assert {connect.node for connect in work.made(since=start + NOTICED_S, until=end)} >= {"n1", "n3"}
    assert not [connect for connect in slow if connect.start > back]
    served = {connect.node for connect in work.made(since=back) if (":" in connect.to) == (family == "v6")}
    assert "n2" in served, served


@pytest.mark.parametrize("family", FAMILIES)
def test_b47_nothing_waits_for_a_lost_address(own3, family):
    """n2 has another address for 3.4 s, and n1 has forgotten its hardware address. SYNs that n1 forwards to it meanwhile do not
    wait in n1's kernel: when n2 is back, other nodes have answered their copies."""
    own3.set_policy("rr")
    fault = waylib.AddressReplaced(own3, "n2", random)
    fault.families = (family,)
    with load(own3, ["n1"], flows=0, per_second=60) as work:
        with fault:
            time.sleep(3.4)
            assert fault.took_effect()
        time.sleep(2)
    work.check_connects(SECOND_SYN_S)
