# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 95: a way between two nodes is lost while both announce themselves. Probes notice it, also while no connection
uses the way, and notice when it is well again."""
import contextlib
import hashlib
import time

import pytest

import bpf
from faultlib import ECHO_PORT, NO_WAIT_MS, SECOND_SYN_S, load, members, wait_for
from traffic import FAMILIES, forward_to, hardware, random_bytes, service, tunnel_address, upload

NOTICED_S = 1.6
HEALED_S = 5
CLIENT_KNOWN_S = 8  # dprd looks for a client each 3 s
TUNNEL = {"v4": "ip protocol 4", "v6": "ip6 nexthdr 41"}
OTHER = {"v4": "v6", "v6": "v4"}


def works(cluster, family, to="n2", entry="n1"):
    return members(cluster, entry).get(to, {}).get(f"answers_{family}")


def wait_lost(cluster, families, within_s=NOTICED_S, to="n2"):
    for family in families:
        wait_for(lambda family=family: works(cluster, family, to) is False, f"n1 notices it, IP{family}", within_s)


def wait_well(cluster, families=FAMILIES, within_s=HEALED_S, to="n2"):
    for family in families:
        wait_for(lambda family=family: works(cluster, family, to), f"n1 notices that it is over, IP{family}", within_s)


def warnings(cluster, which):
    return " ".join(f"{warning['text']} ({warning['advice']})" for warning in cluster.status(which)["warnings"])


def warned_at_both_ends(cluster, family, to="n2"):
    """Each end has a warning, and "dprctl status" an exit status that an alarm sees."""
    at_entry, at_serving = warnings(cluster, "n1"), warnings(cluster, to)
    assert f"forwards to {to} over IP{family} do not arrive" in at_entry, at_entry
    assert f"packets that n1 forwards to this node over IP{family}" in at_serving, at_serving
    assert cluster.status("n1")["state"] == "active"
    return at_serving


def connect(cluster, family, count=12, entry="n1"):
    """Connections to a node's address, one after the other; the nodes that served them. None waits."""
    served = set()
    for _ in range(count):
        start = time.monotonic()
        with cluster.site.connect("c1", service(cluster.node(entry), family), ECHO_PORT) as made:
            made.settimeout(5)
            served.add(made.recv(64).decode().strip())
        assert time.monotonic() - start < 1 + NO_WAIT_MS / 1000
    return served


@pytest.mark.parametrize("family", FAMILIES)
def test_b100_filter_without_traffic(cluster3, family):
    """A filter before n2 drops the tunnel's protocol of one family, and nothing is forwarded at that time. n1 forwards no
    connection of this family to n2 from then on, those of the other family as before; and after the fault again."""
    cluster3.set_policy("rr")
    cluster3.lose("n2", TUNNEL[family])
    wait_lost(cluster3, [family])
    assert members(cluster3, "n1")["n2"]["eligible"] and works(cluster3, OTHER[family])
    assert connect(cluster3, family) == {"n1", "n3"}
    assert "n2" in connect(cluster3, OTHER[family])
    warned_at_both_ends(cluster3, family)
    assert "not over IP" in cluster3.dprctl("n1", "peers")
    cluster3.heal("n2")
    wait_well(cluster3)
    assert "n2" in connect(cluster3, family)
    wait_for(lambda: "do not arrive" not in warnings(cluster3, "n1") + warnings(cluster3, "n2"), "no warning", HEALED_S)


@pytest.mark.parametrize("family", FAMILIES)
def test_b101_a_long_fault_under_load(cluster3, family):
    """Connections that begin later than 1.6 s after the loss of a way never wait, and soon after the fault n2 serves again,
    though nothing was answered for long."""
    cluster3.set_policy("rr")
    with load(cluster3, ["n1"], flows=0, per_second=60) as work:
        time.sleep(1)
        start = time.monotonic()
        cluster3.lose("n2", TUNNEL[family])
        time.sleep(9)
        end = time.monotonic()
        cluster3.heal("n2")
        wait_well(cluster3)
        healed = time.monotonic()
        time.sleep(1)
    work.check_connects(SECOND_SYN_S)
    late = [made for made in work.made(since=start + NOTICED_S, until=end) if made.error or made.waited * 1000 > NO_WAIT_MS]
    assert not late, late
    again = [made for made in work.made(since=healed) if (":" in made.to) == (family == "v6")]
    assert "n2" in {made.node for made in again}


def test_b102_wrong_route(cluster3):
    """A route of n1 leads the packets for n2 to another host. n2 still hears n1, by multicast."""
    cluster3.set_policy("rr")
    target, link = cluster3.node("n2"), "eth1" if cluster3.layout == "own" else "eth0"
    stranger = "10.80.0.200" if cluster3.layout == "own" else "192.0.2.200"
    route = f"route add {tunnel_address(target, 'v4')}/32 via {stranger} dev {link}"
    cluster3.site.ip("n1", [route])
    try:
        wait_lost(cluster3, ["v4"], NOTICED_S + 1)  # routes are asked for once a second
        assert connect(cluster3, "v4") == {"n1", "n3"}
        warned_at_both_ends(cluster3, "v4")
    finally:
        cluster3.site.ip("n1", [route.replace("add", "del")])
    wait_well(cluster3)
    assert "n2" in connect(cluster3, "v4")


def test_b103_one_family_lost(own3):
    """n2 gets nothing of one family on the cluster's network, ARP included."""
    own3.set_policy("rr")
    own3.lose("n2", "ether type { ip, arp }", interface="eth1")
    wait_lost(own3, ["v4"])
    assert connect(own3, "v4") == {"n1", "n3"}
    assert "n2" in connect(own3, "v6")
    own3.heal("n2")
    wait_well(own3)


def test_b104_address_replaced(own3):
    """n2's cluster address is replaced by another one, as by DHCP, and comes back."""
    own3.set_policy("rr")
    address = own3.node("n2").cluster_v4
    own3.site.ip("n2", [f"addr del {address}/24 dev eth1", "addr add 10.80.0.99/24 dev eth1"])
    own3.site.ip("n1", ["neigh flush dev eth1"])
    wait_lost(own3, ["v4"])
    assert connect(own3, "v4") == {"n1", "n3"}
    own3.site.ip("n2", ["addr del 10.80.0.99/24 dev eth1", f"addr add {address}/24 dev eth1"])
    wait_well(own3)
    assert "n2" in connect(own3, "v4")


@contextlib.contextmanager
def client_of(cluster, entry, family):
    """A client that n1's or another node's dprd finds: probes then have its address."""
    with cluster.site.connect("c1", service(cluster.node(entry), family), ECHO_PORT):
        time.sleep(CLIENT_KNOWN_S)
        yield


def test_b105_strict_ipv6(own3):
    """A rule of n2, as firewalld has it, drops IPv6 packets of clients that do not come by the interface that leads to
    them: all that comes out of the tunnel."""
    rule = ("add table ip6 strict\n"
            "add chain ip6 strict sources { type filter hook prerouting priority 10 ; }\n"
            "add rule ip6 strict sources fib saddr . iif oif missing drop\n")
    with client_of(own3, "n1", "v6"):
        own3.site.execute("n2", ["nft", "-f", "-"], text_in=rule)
        try:
            wait_lost(own3, ["v6"])
            own3.set_policy("rr")
            assert connect(own3, "v6") == {"n1", "n3"}
            assert "n2" in connect(own3, "v4")
            assert "dprd --check" in warned_at_both_ends(own3, "v6")
        finally:
            own3.site.execute("n2", ["nft", "delete", "table", "ip6", "strict"])
        wait_well(own3)


def test_b106_strict_ipv4(own3):
    """The same for IPv4 by the kernel's own filter; the warning has the command that mends it."""
    with client_of(own3, "n1", "v4"):
        own3.site.sysctl("n2", {"net.ipv4.conf.all.rp_filter": 1, "net.ipv4.conf.eth1.rp_filter": 1})
        try:
            wait_lost(own3, ["v4"])
            assert "net.ipv4.conf.all.rp_filter=2" in warned_at_both_ends(own3, "v4")
        finally:
            own3.site.sysctl("n2", {"net.ipv4.conf.all.rp_filter": 2, "net.ipv4.conf.eth1.rp_filter": 2})
        wait_well(own3)


def test_b107_program_in_front(own3):
    """Another BPF program comes before dprd's on n2, and accepts what peers forward there."""
    own3.set_policy("rr")
    with contextlib.ExitStack() as other:
        with own3.site.inside("n2"):
            other.enter_context(bpf.accepting("eth1", first=True))
        wait_lost(own3, FAMILIES)
        assert connect(own3, "v4") == {"n1", "n3"}
        assert "gets the packets of eth1 first" in warned_at_both_ends(own3, "v4")
        assert any("gets the packets of eth1 before" in note for note in own3.status("n2")["notes"])
    wait_well(own3)


def test_b108_local_routes_go_away(cluster3):
    """The interface lo of n2 goes down and comes up, and takes local routes with it: dprd sets them up again."""
    cluster3.set_policy("rr")
    before = cluster3.counters("n2")["routes_restored"]
    cluster3.site.ip("n2", ["link set lo down", "link set lo up"])
    wait_for(lambda: cluster3.counters("n2")["routes_restored"] > before, "the routes are back", 3)
    wait_well(cluster3)
    # A probe of the time without routes may still be missed.
    for family in FAMILIES:
        wait_for(lambda family=family: "n2" in connect(cluster3, family), f"n2 gets connections again, {family}", HEALED_S)


def test_b109_many_interfaces(own3):
    """n2 has more interfaces than the programs have room for, and those of the cluster come last: they get the programs,
    and a warning says what is left out."""
    own3.set_policy("rr")
    spare = [f"spare{i}" for i in range(40)]
    own3.site.ip("n2", [line for i, name in enumerate(spare) for line in
                        (f"link add {name} type veth peer name {name}x", f"addr add 198.18.{i}.1/24 dev {name}", f"link set {name} up")])
    try:
        wait_for(lambda: "interfaces have addresses" in warnings(own3, "n2"), "n2 warns", HEALED_S)
        own3.unplug("n2")
        time.sleep(2)
        own3.plug("n2")
        wait_for(lambda: members(own3, "n1")["n2"]["eligible"], "n2 is back", 15)
        wait_well(own3)
        for family in FAMILIES:
            assert "n2" in connect(own3, family)
    finally:
        own3.site.ip("n2", [f"link delete {name}" for name in spare])
    wait_for(lambda: "interfaces have addresses" not in warnings(own3, "n2"), "n2 warns no more", HEALED_S)


def test_b110_answers_have_no_route(cluster3):
    """n2 routes by source address, and has a default route for its own address only: it could not answer clients of
    peers."""
    own = cluster3.node("n2").service_v4
    with client_of(cluster3, "n2", "v4"):
        cluster3.site.ip("n2", ["route add default via 192.0.2.1 table 100", f"rule add from {own} lookup 100",
                                "route del default via 192.0.2.1"])
        try:
            wait_lost(cluster3, ["v4"], 4)  # n2 asks each 2 s
            cluster3.set_policy("rr")
            assert connect(cluster3, "v4") == {"n1", "n3"}
            assert "No route for answers" in warnings(cluster3, "n2")
        finally:
            cluster3.site.ip("n2", ["route add default via 192.0.2.1", f"rule del from {own} lookup 100",
                                    "route del default via 192.0.2.1 table 100"])
        wait_well(cluster3)


def test_b112_no_programs_where_peers_come(own3):
    """Packets of n1 come to n2 by an interface that has no address, and so no programs: nothing takes them out of the
    tunnel. n2 is no choice for n1, and is one for n3."""
    own3.set_policy("rr")
    target = own3.node("n2")
    own3.site.ip("n1", [f"link add spare type veth peer name spare netns {own3.site.name('n2')}"])
    own3.site.ip("n2", ["link set spare addrgenmode none", "link set spare up"])
    own3.site.ip("n1", ["link set spare up", "addr add 198.18.0.1/24 dev spare",
                        f"neigh add {target.cluster_v4} lladdr {hardware(own3, 'n2', 'spare')} dev spare nud permanent",
                        f"route add {target.cluster_v4}/32 dev spare src {own3.node('n1').cluster_v4}"])
    try:
        wait_lost(own3, ["v4"], NOTICED_S + 1)  # routes are asked for once a second
        assert connect(own3, "v4") == {"n1", "n3"}
        assert "n2" in connect(own3, "v6")
        assert "n2" in connect(own3, "v4", entry="n3")
        warned_at_both_ends(own3, "v4")
    finally:
        own3.site.ip("n1", ["link delete spare"])
    wait_well(own3)
    assert "n2" in connect(own3, "v4")


@pytest.mark.long("full-size probes are rare: it takes a quarter of a minute")
def test_b111_a_path_is_narrower_than_known(own3):
    """Large tunnel packets to n2 are lost, and no ICMP error says so: n1 learns the size that arrives, and an upload does."""
    entry, target = forward_to(own3, "n2")
    try:
        own3.lose("n2", "ip protocol 4 ip length > 1440")
        wait_for(lambda: members(own3, "n1")["n2"]["tunnel_mtu_v4"] == 1420, "n1 learns a size that arrives", 40)
        assert "packets of 1500 bytes do not arrive at n2 over IPv4" in warnings(own3, "n1")
        data = random_bytes(300_000)
        node, count, digest, _ = upload(own3, service(entry, "v4"), data)
        assert (node, count, digest) == (target.name, len(data), hashlib.sha256(data).hexdigest())
        assert members(own3, "n1")["n2"]["tunnel_mtu_v6"] == 1500
    finally:
        own3.heal("n2")
        own3.reload()  # with it, a node forgets what it learnt of paths
