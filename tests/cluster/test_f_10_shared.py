# SPDX-License-Identifier: GPL-2.0-or-later
"""Bi-active 10: one IPv4 and one IPv6 address that all nodes share, judged by BPF programs (docs/biactive.md).

    c1 -- router -- bridge service --+-- eth0 n1
    192.0.2.100, 2001:db8:a::100     +-- eth0 n2     every frame to them reaches every node
                                     +-- eth0 n3
"""
import collections
import contextlib
import time

import pytest
from faultlib import FIRST_SYN_S, SECOND_SYN_S, Answers, Connects, Flows, died_with, kill_host, wait_for
from netns import LabError
from traffic import Capture, RawClient, rules

SHARED = ("192.0.2.100", "2001:db8:a::100")
HARDWARE = ("01:00:5e:00:02:64", "33:33:00:00:01:00")
SPREAD_FLOWS = 60
# A dead node's part is taken over 1 s after its last announcement; a SYN that was lost comes again after 1 s, or 3 s.
TAKEN_OVER_S = 3.6


def add_addresses(cluster, which):
    node = cluster.node(which)
    cluster.site.ip(node.name, [f"addr add {SHARED[0]}/32 dev eth0", f"addr add {SHARED[1]}/128 dev eth0 nodad"])


def shared(cluster, which):
    return (cluster.status(which) or {}).get("shared") or {}


def has_share(cluster, which, others):
    """True when a node has a lease, and exactly these nodes have a part."""
    status = shared(cluster, which)
    return status.get("lease_ms") is not None and \
        sorted(member["name"] for member in status["members"]) == sorted(others)


@pytest.fixture(name="trio")
def fixture_trio(clusters):
    """Three nodes that share an address of each family."""
    cluster = clusters.fresh(nodes=3, layout="own", daemons=False)
    for node in cluster.nodes:
        add_addresses(cluster, node)
    cluster.set_config("Shared", "Address", " ".join(SHARED))
    cluster.set_config("Shared", "Form", "bpf")
    cluster.start_daemons()
    names = [node.name for node in cluster.nodes]
    for name in names:
        wait_for(lambda name=name: has_share(cluster, name, names), f"{name} has a share", 10)
    return cluster


class Work:
    """Long connections to the shared addresses, and short ones; and every SYN-ACK that leaves."""

    def __init__(self, cluster, per_second=40):
        self.answers = Answers(cluster)
        self.flows = Flows(cluster, list(SHARED), SPREAD_FLOWS)
        ready = self.flows.wait_ready()
        self.connects = Connects(cluster, list(SHARED), per_second)
        if ready != SPREAD_FLOWS:
            self.end()
            raise AssertionError(f"only {ready} of {SPREAD_FLOWS} flows began")

    def end(self):
        self.connects.end()
        self.flows.end()
        self.answers.end()

    def served_by(self, since=0.0):
        return collections.Counter(made.node for made in self.connects.made if made.start >= since and not made.error)

    def check_flows(self, but=()):
        bad = [flow for flow in self.flows.each if flow["fate"] != "good" and flow["node"] not in but]
        assert not bad, f"{len(bad)} of {len(self.flows.each)} flows broke, such as {bad[:4]}"

    def check_connects(self, within_s, dead=None):
        self.answers.check()
        failed = [made for made in self.connects.made if made.error and not died_with(self.answers, made, dead)]
        assert not failed, f"{len(failed)} of {len(self.connects.made)} connects failed, such as {failed[:4]}"
        worst = max((made for made in self.connects.made if not made.error), key=lambda made: made.waited)
        assert worst.waited <= within_s, f"{worst} waited longer than {within_s} s"


@contextlib.contextmanager
def work_on(cluster):
    work = Work(cluster)
    try:
        yield work
    finally:
        work.end()


def all_serve(work, names, least):
    """Each node served a fair number of the long connections and of the short ones."""
    long_ones = collections.Counter(flow["node"] for flow in work.flows.each)
    short_ones = work.served_by()
    assert sorted(long_ones) == sorted(short_ones) == sorted(names), (long_ones, short_ones)
    assert min(long_ones.values()) >= least and min(short_ones.values()) >= least, (long_ones, short_ones)


def test_f10_everybody_serves(trio):
    """All connections are answered, once each, and spread over the nodes; neighbours know the common hardware
    address."""
    with work_on(trio) as work:
        time.sleep(2)
    work.check_flows()
    work.check_connects(0.9)
    all_serve(work, ["n1", "n2", "n3"], 8)
    assert HARDWARE[0] in trio.site.execute("r", ["ip", "neigh", "show", SHARED[0]])
    assert HARDWARE[1] in trio.site.execute("r", ["ip", "-6", "neigh", "show", SHARED[1]])
    for name in ("n1", "n2", "n3"):
        status = shared(trio, name)
        assert status["form"] == "bpf" and 25 < status["percent"] < 42, status
        counters = status["counters"]
        assert counters["accept_syn"] >= 10 and counters["refuse_syn"] >= 20, counters
        assert counters["accept_socket"] > 100 and counters["refuse_socket"] > 200, counters
        assert HARDWARE[0] in trio.dprctl(name, "status")
        assert f'dprd_shared_frames_total{{verdict="accept_syn"}} {counters["accept_syn"]}' in \
            trio.dprctl(name, "metrics")


def test_f11_forwarding(trio):
    """The node that accepts a connection may still forward it: the SYN leaves by its tunnel, and the fellow takes the
    later frames itself."""
    trio.set_policy("rr")
    with work_on(trio) as work:
        time.sleep(2)
    work.check_flows()
    work.check_connects(0.9)
    all_serve(work, ["n1", "n2", "n3"], 8)
    for name in ("n1", "n2", "n3"):
        counters = trio.counters(name)
        assert counters["flows_made"] >= 10, counters
        # One for each SYN that came by a tunnel, or two.
        made = sum(trio.counters(other)["flows_made"] for other in ("n1", "n2", "n3") if other != name)
        assert 10 <= counters["from_peer"] <= made, (counters, made)
        assert counters["seen_there"] >= 50 > counters["flow"], counters
        assert shared(trio, name)["counters"]["accept_forward"] >= 50


def test_f12_host_dies(trio):
    """A host is gone: the others take its part over; their connections go on."""
    with work_on(trio) as work:
        time.sleep(0.5)
        dead = kill_host(trio, "n3")
        for name in ("n1", "n2"):
            wait_for(lambda name=name: has_share(trio, name, ["n1", "n2"]), f"{name} has n3's part", 3)
        taken_over = time.monotonic()
        time.sleep(2)
    work.check_flows(but=("n3",))
    work.check_connects(TAKEN_OVER_S, dead)
    assert taken_over - dead.at <= 2.0, taken_over - dead.at
    assert set(work.served_by(since=taken_over)) == {"n1", "n2"}


def test_f13_host_returns(trio):
    """A host comes back and gets its part again: no connection breaks."""
    trio.kill_host("n3")
    for name in ("n1", "n2"):
        wait_for(lambda name=name: has_share(trio, name, ["n1", "n2"]), f"{name} has n3's part", 3)
    with work_on(trio) as work:
        trio.restart_host("n3", with_daemons=False)
        add_addresses(trio, "n3")
        trio.start_node_daemons("n3")
        for name in ("n1", "n2", "n3"):
            wait_for(lambda name=name: has_share(trio, name, ["n1", "n2", "n3"]), f"{name} sees n3's part", 15)
        returned = time.monotonic()
        time.sleep(2)
    work.check_flows()
    # A SYN may come just when its bucket has no owner; then its copy may meet an owner that waits for the former one's
    # answer.
    work.check_connects(SECOND_SYN_S)
    assert set(work.served_by(since=returned)) == {"n1", "n2", "n3"}


def test_f14_dprd_dies(trio):
    """Without dprd on one node the share goes on; also when dprd is back, and when it stops and starts."""
    with work_on(trio) as work:
        trio.kill("n2", "dprd")
        killed = time.monotonic()
        time.sleep(2.5)
        while_dead = work.served_by(since=killed + 0.5)
        trio.start("n2", "dprd")
        wait_for(lambda: has_share(trio, "n2", ["n1", "n2", "n3"]), "n2 has its share", 15)
        time.sleep(0.5)
        assert trio.stop("n2", "dprd") == 0
        stopped = time.monotonic()
        time.sleep(1.5)
        while_stopped = work.served_by(since=stopped + 0.5)
        trio.start("n2", "dprd")
        wait_for(lambda: has_share(trio, "n2", ["n1", "n2", "n3"]), "n2 has its share again", 15)
    work.check_flows()
    # The SYNs that were in dprd's queue are lost.
    work.check_connects(FIRST_SYN_S)
    assert set(while_dead) == set(while_stopped) == {"n1", "n2", "n3"}, (while_dead, while_stopped)


def test_f15_announcer_dies(trio):
    """Without loadcast the lease runs out: the node keeps its connections, and others take new ones."""
    with work_on(trio) as work:
        trio.kill("n1", "loadcast")
        wait_for(lambda: shared(trio, "n1").get("lease_ms") is None, "n1's lease ended", 2)
        for name in ("n2", "n3"):
            wait_for(lambda name=name: has_share(trio, name, ["n2", "n3"]), f"{name} has n1's part", 3)
        taken_over = time.monotonic()
        time.sleep(2)
    work.check_flows()
    work.check_connects(TAKEN_OVER_S)
    assert set(work.served_by(since=taken_over)) == {"n2", "n3"}
    assert shared(trio, "n1")["counters"]["refuse_no_lease"] > 0


def hardware_address(cluster, name):
    return cluster.site.execute(name, ["cat", "/sys/class/net/eth0/address"]).strip()


def test_f19_hand_over(trio):
    """A fellow without a part of the share gets the packets of its connections: to its own hardware address,
    one hop further."""
    trio.set_policy("rr")
    one, two = hardware_address(trio, "n1"), hardware_address(trio, "n2")
    with work_on(trio) as work:
        trio.dprctl("n2", "drain")
        for name in ("n1", "n3"):
            wait_for(lambda name=name: has_share(trio, name, ["n1", "n3"]), f"{name} has n2's part", 3)
        time.sleep(1.5)
        with Capture(trio, "n2", "eth0", f"ether src {one} and ether dst {two}") as handed:
            time.sleep(1)
    packets = [packet.payload for packet in handed.packets(outgoing=False) if packet.haslayer("TCP")]
    assert len(packets) >= 50 and {packet.dst for packet in packets} == set(SHARED)
    assert {packet.hlim if packet.version == 6 else packet.ttl for packet in packets} == {62}
    work.check_flows()
    work.check_connects(FIRST_SYN_S)


def test_f16_messages_and_purge(trio):
    """A node reports what is missing; neighbours are told at the start; --purge leaves nothing."""
    multicast = "ip", "maddress", "show", "dev", "eth0"
    assert HARDWARE[0] in trio.site.execute("n1", list(multicast))
    with Capture(trio, "sw", "r", "arp or icmp6 or igmp") as seen:
        trio.kill("n1", "dprd")
        trio.start("n1", "dprd")
        own = trio.site.execute("n1", ["cat", "/sys/class/net/eth0/address"]).strip()
        assert seen.wait(lambda frame: frame.src == own and frame.haslayer("ARP") and
                         frame["ARP"].psrc == SHARED[0] and frame["ARP"].hwsrc == HARDWARE[0])
        assert seen.wait(lambda frame: frame.src == own and frame.dst == "33:33:00:00:00:01" and
                         bytes(frame)[54] == 136 and bytes(frame)[80:86].hex(":") == HARDWARE[1])
        assert seen.wait(lambda frame: frame.src == own and frame.dst == "01:00:5e:00:00:6a" and
                         bytes(frame)[38] == 0x30)
    trio.kill("n1", "dprd")
    trio.site.ip("n1", [f"addr del {SHARED[0]}/32 dev eth0"])
    path = trio.config_path("n1")
    check = trio.site.execute("n1", [trio.program("bin/dprd"), "-c", path, "--check"], check=False)
    assert f"shared address {SHARED[0]} is on no interface" in check and \
        f"ip address add {SHARED[0]}/32 dev eth0" in check, check
    trio.site.execute("n1", [trio.program("bin/dprd"), "-c", path, "--purge"])
    assert HARDWARE[0] not in trio.site.execute("n1", list(multicast))
    with pytest.raises(LabError):
        trio.site.execute("n1", ["ls", f"{trio.node('n1').pins}/v1/lease"])


def total(cluster, name):
    return sum(shared(cluster, node)["counters"][name] for node in ("n1", "n2", "n3"))


def test_f17_half_open(trio):
    """An answer to another node's SYN-ACK is ignored: a reset would end a connection that lives there."""
    for number, address in enumerate(SHARED):
        with RawClient(trio, address, 8080, 20700 + number) as client:
            client.send(client.syn())
            answer = client.capture.wait(lambda frame, client=client: client.is_answer(frame))
            assert answer is not None and answer.sprintf("%TCP.flags%") == "SA"
            right = answer["TCP"].seq + 1
            client.sequence += 1
            client.acknowledged = right + 7777
            before = total(trio, "refuse_half_open")
            client.send(client.packet("A"), client.packet("PA", b"nobody\n"))
            wait_for(lambda before=before: total(trio, "refuse_half_open") == before + 2, "both are refused", 15)
            assert client.capture.wait(lambda frame, client=client: client.is_answer(frame) and
                                       frame["TCP"].flags & 0x04, 0.3) is None, "a reset"
            client.acknowledged = client.first = right
            client.send(client.packet("A"))
            assert client.wait_heard(lambda heard: heard.endswith(b"\n")), "the right one is not taken"
            client.reset()


def test_f25_found_socket(trio):
    """The segment that ends a handshake goes to the half-open connection that the programs found, also when the stack
    does not find it: here a rule changes the segment's port meanwhile."""
    for number, address in enumerate(SHARED):
        with RawClient(trio, address, 8080, 20710 + number) as client, contextlib.ExitStack() as changed:
            client.send(client.syn())
            answer = client.capture.wait(lambda frame, client=client: client.is_answer(frame))
            assert answer is not None and answer.sprintf("%TCP.flags%") == "SA"
            client.sequence += 1
            client.acknowledged = client.first = answer["TCP"].seq + 1
            met = [changed.enter_context(rules(
                trio, name, [f"tcp sport {client.local_port} tcp ackseq {client.first} counter tcp dport set 1"],
                hook="prerouting")) for name in ("n1", "n2", "n3")]
            client.send(client.packet("PA", b"f25\n"))
            client.sequence += 4
            assert client.wait_heard(lambda heard: heard.endswith(b"\nf25\n")), "the stack looked for another socket"
            assert sum(count() for count in met) >= 1
            client.reset()


def test_f18_cookies(trio):
    """With SYN cookies there is no half-open socket: the kernel's own check shows whether the answer is this node's.

    Only n1 makes cookies: here all nodes have one kernel, and with it one secret."""
    trio.site.sysctl("n1", {"net.ipv4.tcp_syncookies": 2})
    with work_on(trio) as work:
        time.sleep(1.5)
    work.check_flows()
    work.check_connects(0.9)
    all_serve(work, ["n1", "n2", "n3"], 6)
    assert shared(trio, "n1")["counters"]["accept_cookie"] >= 12
    assert total(trio, "accept_cookie") == shared(trio, "n1")["counters"]["accept_cookie"]
