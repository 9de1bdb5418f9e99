# SPDX-License-Identifier: GPL-2.0-or-later
"""Datapath 10: the plane that carries the packets, changes of it, and decisions within the kernel."""
import contextlib
import math
import os
import re
import subprocess
import time

import pytest
from scapy.all import TCP, Raw

import bpf
from cluster import TOP
from faultlib import FIRST_SYN_S, RESTART_S, Flows, load, taken_over, wait_for
from stormlib import Floods
from traffic import FAMILIES, HEADERS, RawClient, counting, forward_to, service

CLASSIFIER = "pref 221 bpf"
NO_COPY_S = 0.6  # the client's kernel sends a copy of its SYN after 1 s


def restart(cluster, node):
    """Stops and starts dprd in good order, with the present configuration."""
    cluster.write_config(node)
    assert cluster.stop(node, "dprd") == 0
    cluster.start(node, "dprd")
    wait_for(lambda: cluster.sees(node, ["n1", "n2", "n3"]), f"{node} is back", RESTART_S)


def filters(cluster, node, interface="eth0"):
    """Classifiers on an interface, both ways."""
    return "".join(cluster.site.execute(node, ["tc", "filter", "show", "dev", interface, way])
                   for way in ("ingress", "egress"))


def test_d10_from_plane_to_plane(clusters):
    """Under load n1's dprd comes back on the other plane, and again: its flows come along, both ways."""
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    first = cluster.status("n1")["datapath"]
    other = {"bpf": "nfqueue", "nfqueue": "bpf"}[first]
    cluster.set_config("Datapath", "Decide", "queue", "n1")
    with load(cluster, ["n1"]) as work:
        for plane in (other, first):
            starts = len(taken_over(cluster, "n1"))
            cluster.set_config("Datapath", "Plane", plane, "n1")
            restart(cluster, "n1")
            assert cluster.status("n1")["datapath"] == plane
            assert max(taken_over(cluster, "n1")[starts:]) >= 30
            attached = [name for name in bpf.attached(cluster.site, "n1") if "dprd" in name]
            assert len(attached) == (4 if plane == "bpf" else 0), attached
            time.sleep(0.5)
    work.check_flows()
    work.check_connects(3.6)


def test_d11_without_tcx(clusters):
    """On a kernel without tcx the programs are classifiers: they outlive dprd, are replaced, and go with it."""
    cluster = clusters.fresh(nodes=3, layout="own", daemons=False, plane="bpf")
    library = os.path.join(cluster.directory, "notcx.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(TOP, "tests/cluster/notcx.c")], check=True)
    cluster.environment = [f"LD_PRELOAD={library}"]
    cluster.site.execute("n1", ["tc", "qdisc", "add", "dev", "eth0", "clsact"])
    cluster.site.execute("n1", ["tc", "filter", "add", "dev", "eth0", "ingress", "pref", "7", "protocol", "ip", "u32",
                                "match", "u32", "0", "0", "classid", "1:1"])
    cluster.start_daemons(policy="rr")
    assert filters(cluster, "n1").count("direct-action") == 2
    with load(cluster, ["n1"]) as work:
        cluster.kill("n1", "dprd")
        time.sleep(1)
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
    work.check_flows()
    work.check_connects(3.6)
    assert work.longest_ms(work.flows.each) < 1000, "the classifiers went on without dprd"
    assert cluster.stop("n1", "dprd") == 0
    cluster.site.execute("n1", [cluster.program("bin/dprd"), "--purge", "-c", cluster.config_path("n1"),
                                "--node", "n1"])
    left = filters(cluster, "n1")
    assert CLASSIFIER not in left and "pref 7" in left, left
    cluster.environment = []


def test_d19_behind_another_program(clusters):
    """Another program on n1 and n2 accepts every packet before dprd starts: dprd's programs come first, so that n1 forwards
    and n2 serves."""
    cluster = clusters.fresh(nodes=2, layout="own", daemons=False, plane="bpf")
    with contextlib.ExitStack() as others:
        for name in ("n1", "n2"):
            for interface in ("eth0", "eth1"):
                with cluster.site.inside(name):
                    others.enter_context(bpf.accepting(interface))
        cluster.start_daemons(policy="rr")
        with load(cluster, ["n1"], flows=10, per_second=20) as work:
            time.sleep(1)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by()) == {"n1", "n2"}


def test_d12_auto_finds_a_plane(clusters):
    """Plane=auto where nothing can be pinned: dprd works, and reports the reason for its plane."""
    cluster = clusters.fresh(nodes=3, layout="one", daemons=False, plane="auto")
    cluster.set_config("Datapath", "Pins", os.path.join(cluster.directory, "no-bpf-here"), "n1")
    cluster.start_daemons(policy="rr")
    status = cluster.status("n1")
    assert status["datapath"] == "nfqueue" and "bpf file system" in status["datapath_why"], status["datapath_why"]
    status = cluster.status("n2")
    assert status["datapath"] == "bpf" and "eth0" in status["datapath_why"], status["datapath_why"]
    with load(cluster, ["n1", "n2"]) as work:
        time.sleep(1)
    work.check_flows()
    work.check_connects(1)
    assert len(work.served_by(to="n1")) == len(work.served_by(to="n2")) == 3


def test_d13_a_plane_that_cannot_be(clusters):
    """Plane=bpf where BPF is impossible: dprd does not start, reports the reason, and leaves nothing."""
    cluster = clusters.fresh(nodes=3, layout="own", daemons=False, plane="bpf")
    cluster.set_config("Datapath", "Pins", os.path.join(cluster.directory, "no-bpf-here"), "n1")
    cluster.write_config("n1")
    child = cluster.start("n1", "dprd")
    assert child.wait(15) == 1
    assert re.search("bpf file system.*Plane=auto", cluster.log_text("n1", "dprd")), cluster.log_text("n1", "dprd")
    assert not [name for name in bpf.attached(cluster.site, "n1") if "dprd" in name]


def decide_in_kernel(clusters, policy, decide="kernel", **flows):
    cluster = clusters.fresh(nodes=3, layout="own", daemons=False, plane="bpf")
    cluster.set_config("Datapath", "Decide", decide)
    for key, value in flows.items():
        cluster.set_config("Flows", key, value)
    cluster.start_daemons(policy=policy)
    return cluster


def test_d14_decided_in_the_kernel(clusters):
    """Decide=kernel with rr: thirds, by verdicts that never came to dprd, and dprctl why knows them."""
    cluster = decide_in_kernel(clusters, "rr")
    before = cluster.counters("n1")
    with load(cluster, ["n1"], per_second=100) as work:
        time.sleep(4)
    work.check_flows()
    work.check_connects(1)
    counts = work.served_by()
    assert max(counts.values()) - min(counts.values()) <= 0.1 * sum(counts.values()), counts
    after = cluster.counters("n1")
    assert after["batches"] - before["batches"] < 0.1 * (after["syns"] - before["syns"]), "SYNs came to the queue"
    why = cluster.dprctl("n1", "why", "203.0.113.10")
    assert "rr" in why and ("served here" in why or "forwarded" in why), why


def test_d15_the_guard_in_the_kernel(clusters):
    """Decide=kernel: above MaxNewFlowsPerSecond new connections are served where they arrive."""
    cluster = decide_in_kernel(clusters, "rr", MaxNewFlowsPerSecond=5)
    begin = time.monotonic()
    with load(cluster, ["n1"], flows=0, per_second=60) as work:
        time.sleep(4)
    touched = math.ceil(time.monotonic() - begin) + 1
    counts = work.served_by()
    assert cluster.counters("n1")["rate_guard"] > 50
    forwarded = counts["n2"] + counts["n3"]
    # The limit of a second applies in each second of the load, with one tick more.
    assert 10 <= forwarded <= 5 * (touched + 1), counts


def test_d16_killed_while_the_kernel_decides(clusters):
    """Decide=kernel, dprd killed: new connections are served here at once, forwarded ones go on; then thirds again."""
    cluster = decide_in_kernel(clusters, "rr")
    with load(cluster, ["n1"], per_second=60) as work:
        cluster.kill("n1", "dprd")
        dead = time.monotonic()
        time.sleep(2)
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
        back = time.monotonic()
        time.sleep(1)
    work.check_flows()
    work.check_connects(1)
    assert set(work.served_by(since=dead + 0.6, until=dead + 1.9)) == {"n1"}
    assert {"n2", "n3"} <= set(work.served_by(since=back))
    assert work.longest_ms(work.flows.each) < 1000


def test_d17_the_programs_decide_while_many_come(clusters):
    """Decide=auto: dprd decides few SYNs, the programs decide many, and dprd decides again later."""
    cluster = decide_in_kernel(clusters, "rr", decide="auto")
    cluster.site.sysctl("n1", {"net.ipv4.tcp_syncookies": 1})
    floods = Floods(cluster)

    def moved(before):
        """(batches of dprd's queue, SYNs) since before."""
        after = cluster.counters("n1")
        return after["batches"] - before["batches"], after["syns"] - before["syns"]

    with load(cluster, ["n1"], flows=0, per_second=60) as work:
        before = cluster.counters("n1")
        time.sleep(2)
        batches, syns = moved(before)
        assert cluster.status("n1")["decided_by"] == "dprd"
        assert batches > 0.5 * syns > 40, f"{batches} batches of dprd's queue for {syns} SYNs"
        floods.run("n1", 0.5, rate=3000)
        before = cluster.counters("n1")
        floods.run("n1", 1, rate=3000)
        batches, syns = moved(before)
        assert cluster.status("n1")["decided_by"] == "programs"
        assert batches < 0.1 * syns, f"{batches} batches of dprd's queue for {syns} SYNs"
        wait_for(lambda: cluster.status("n1")["decided_by"] == "dprd", "dprd decides again", 15)
        before = cluster.counters("n1")
        time.sleep(1)
        batches, syns = moved(before)
        assert batches > 0.5 * syns > 20, f"{batches} batches of dprd's queue for {syns} SYNs"
    work.check_connects(FIRST_SYN_S)
    assert {"n1", "n2", "n3"} == set(work.served_by())


def test_d1a_bursts_are_answered(clusters):
    """Decide=kernel: connections that come and are confirmed between two ticks of dprd, before a pause, are no evidence
    that their way is lost."""
    cluster = decide_in_kernel(clusters, "rr")
    address = cluster.node("n1").service_v4
    for _ in range(4):
        burst = Flows(cluster, [address], 15)  # more might pass for a flood
        assert burst.wait_ready() == 15
        burst.end()
        time.sleep(1.3)  # by then the connections of the last tick are ripe
    assert cluster.counters("n1")["ways_lost"] == 0


def test_d18_addresses_come_later(clusters):
    """n1's dprd starts before its interface has an address, with Plane=auto. It says that it has the slower plane, and
    takes the faster one by itself as soon as the address is there.
    """
    cluster = clusters.fresh(nodes=3, layout="one", daemons=False, plane="auto")
    n1 = cluster.node("n1")
    addresses = [line.split()[3] for line in cluster.site.ask(
        "n1", ["ip", "-o", "addr", "show", "dev", "eth0"]).splitlines()]
    routes = {v6: cluster.site.ask("n1", ["ip", v6, "route", "show", "default"]).strip() for v6 in ("-4", "-6")}
    cluster.site.ask("n1", ["ip", "addr", "flush", "dev", "eth0"])
    cluster.start_daemons(policy="rr", wait=False)
    wait_for(lambda: "datapath" in (cluster.status("n1") or {}), "n1 answers", 15)
    status = cluster.status("n1")
    assert status["datapath"] == "nfqueue", status
    assert any("slower plane nfqueue" in warning["text"] for warning in status["warnings"]), status["warnings"]
    for address in addresses:
        cluster.site.ip("n1", [f"addr add {address} dev eth0{' nodad' if ':' in address else ''}"])
    for v6, route in routes.items():
        if route:
            cluster.site.ask("n1", ["ip", v6, "route", "replace", *route.split()])
    assert cluster.daemons["n1", "loadcast"].wait(15) == 1, "loadcast cannot announce; its unit starts it again"
    cluster.start("n1", "loadcast")
    process = cluster.pid("n1", "dprd")
    wait_for(lambda: cluster.daemon_alive("n1", "dprd") and cluster.sees("n1", ["n1", "n2", "n3"])
             and (cluster.status("n1") or {}).get("datapath") == "bpf", "n1 has the plane bpf", 15)
    assert cluster.pid("n1", "dprd") == process, "the same process for the service manager"
    cluster.wait_ready(timeout_s=15)
    assert not [w for w in cluster.status("n1")["warnings"] if "plane" in w["text"]]
    with load(cluster, ["n1", "n2"]) as work:
        time.sleep(1)
    work.check_flows()
    work.check_connects(1)
    assert len(work.served_by(to="n1")) == len(work.served_by(to="n2")) == 3


@pytest.mark.parametrize("family", FAMILIES)
def test_d1b_a_syn_with_data(cluster3, family):
    """A SYN with data, as of TCP fast open: one that fits the tunnel is forwarded, one that does not is served at once where
    it arrives; no time passes until its copy. Each gets one answer, and its connection goes on."""
    entry, target = forward_to(cluster3, "n2")
    for number, (payload, server) in enumerate(((100, target), (1456 - HEADERS[family] + 40, entry))):
        with RawClient(cluster3, service(entry, family), 8080, 20180 + number) as client:
            syn = client.syn() / Raw(b"x" * payload)
            with counting(cluster3) as moved:
                client.send(syn)
                cluster3.wait_until(client.answers, "an answer before the client's copy", NO_COPY_S)
            assert moved["n1"].get("flows_made", 0) == (server is target)
            assert moved["n1"].get("forward_failed", 0) == (server is entry)
            # The server has no key for fast open: the data comes again.
            client.sequence = client.isn + 1
            client.acknowledged = client.first = client.answers()[0][TCP].seq + 1
            client.send(client.packet("A"))
            assert client.wait_heard(lambda heard: heard == f"{server.name}\n".encode())
            client.say(b"hello\n")
            assert client.wait_heard(lambda heard: heard == f"{server.name}\nhello\n".encode())
            assert len({answer[TCP].seq for answer in client.answers()}) == 1
            client.reset()
