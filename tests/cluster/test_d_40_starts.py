# SPDX-License-Identifier: GPL-2.0-or-later
"""Datapath 40: starts that fail, half or whole, and interfaces that come and go."""
import json
import os
import re
import shutil
import time

import pytest

import bpf
from faultlib import (FIRST_SYN_S, NO_WAIT_MS, RESTART_S, SECOND_SYN_S, load, slow_tools, standby_pid, state_of_kernel,
                      wait_for)
from traffic import run_in

ALL = ["n1", "n2", "n3"]
FROZEN_S = 2.5
FLOW_OF_SET = re.compile(r" \. 8080 : 0x[0-9a-f]+")


@pytest.mark.parametrize("interfaces, why", [("nothing0", "no Ethernet interface"), ("eth0", "reached by eth1")],
                         ids=["none", "not-the-clusters"])
def test_d40_no_place_for_programs(clusters, interfaces, why):
    """Plane=auto, and the programs find no interface, or none where tunnel packets arrive: n1 works without them. It
    answers every command, serves for others, and forwards what comes by an interface of the list."""
    cluster = clusters.fresh(nodes=3, layout="own", daemons=False, plane="auto")
    cluster.set_config("Datapath", "Interfaces", interfaces, "n1")
    cluster.start_daemons(policy="rr")
    status = cluster.status("n1")
    assert status["datapath"] == "nfqueue" and why in status["datapath_why"], status["datapath_why"]
    assert not [name for name in bpf.attached(cluster.site, "n1") if "dprd" in name]
    with load(cluster, ["n1", "n2"]) as work:
        for words in (["why", cluster.clients[0]], ["drain"], ["undrain"], ["reload"]):
            cluster.dprctl("n1", *words, check=False)
        time.sleep(1)
        assert cluster.daemon_alive("n1", "dprd"), cluster.log_text("n1", "dprd")
        wait_for(lambda: cluster.sees("n2", ALL), "n2 sees n1 again", 15)
        since = time.monotonic()
        time.sleep(1)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(to="n1", since=since)) == set(ALL if interfaces == "eth0" else ["n1"])
    assert set(work.served_by(to="n2", since=since)) == set(ALL)


def onto_a_bridge(cluster, name):
    """The node's eth0 becomes the port of a bridge, which gets its addresses; netfilter sees packets at the port."""
    node, held = cluster.node(name), json.loads(cluster.site.execute(name, ["ip", "-j", "link", "show", "eth0"]))[0]
    cluster.site.ip(name, ["link add br0 type bridge forward_delay 0", "addr flush dev eth0", "link set eth0 master br0",
                           f"link set br0 address {held['address']} up", f"addr add {node.service_v4}/24 dev br0",
                           f"addr add {node.service_v6}/64 dev br0 nodad", "route replace default via 192.0.2.1",
                           "route replace ::/0 via 2001:db8:a::1 dev br0"])
    cluster.site.sysctl(name, {"net.bridge.bridge-nf-call-iptables": 1, "net.bridge.bridge-nf-call-ip6tables": 1})


def test_d46_the_service_address_on_a_bridge(clusters):
    """br_netfilter runs the rules of the queues at the bridge's port, in front of the programs. With Plane=auto n1 does
    without programs, and forwards; with Plane=bpf it warns. Without br_netfilter the programs work."""
    cluster = clusters.fresh(nodes=3, layout="one", daemons=False, plane="auto")
    onto_a_bridge(cluster, "n1")
    cluster.start_daemons(policy="rr")
    status = cluster.status("n1")
    assert status["datapath"] == "nfqueue" and "bridge br0" in status["datapath_why"], status["datapath_why"]
    with load(cluster, ["n1", "n2"]) as work:
        time.sleep(1)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(to="n1")) == set(ALL)
    cluster.stop("n1", "dprd")
    cluster.set_config("Datapath", "Plane", "bpf", "n1")
    cluster.write_config("n1")
    _, said = run_in(cluster, "n1", [cluster.program("bin/dprd"), "--check", "-c", cluster.config_path("n1"), "--node",
                                     "n1"])
    assert "ports of the bridge br0" in said and "bridge-nf-call-iptables=0" in said, said
    cluster.start("n1", "dprd")
    wait_for(lambda: (cluster.status("n1") or {}).get("datapath") == "bpf", "n1 uses the programs", RESTART_S)
    assert any("ports of the bridge br0" in one["text"] for one in cluster.status("n1")["warnings"])
    cluster.site.sysctl("n1", {"net.bridge.bridge-nf-call-iptables": 0, "net.bridge.bridge-nf-call-ip6tables": 0})
    assert not any("bridge br0" in one["text"] for one in cluster.status("n1")["warnings"])
    wait_for(lambda: cluster.sees("n1", ALL), "n1 sees all", RESTART_S)
    since = time.monotonic()
    with load(cluster, ["n1"]) as work:
        time.sleep(1)
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(to="n1", since=since)) == set(ALL)


@pytest.mark.parametrize("layout", ["one", "own"])
def test_d41_interfaces_come_back(clusters, layout):
    """All interfaces of n2 are gone for two seconds, as when its network is set up again. Then n2 is as before."""
    cluster = clusters.fresh(nodes=3, layout=layout)
    cluster.set_policy("rr")
    cluster.unplug("n2")
    time.sleep(2)
    status = cluster.status("n2")
    assert status["datapath"] == cluster.plane
    cluster.plug("n2")
    wait_for(lambda: all(cluster.sees(node, ALL) for node in ALL), "all see all", RESTART_S)
    since = time.monotonic()
    with load(cluster, ["n1", "n2"]) as work:
        time.sleep(1)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    for entry in ("n1", "n2"):
        assert set(work.served_by(to=entry, since=since)) == set(ALL)


def test_d42_a_start_that_fails(clusters):
    """dprd of n2 is killed, while others forward to it, and the next one cannot start, because a tool fails: it leaves
    everything as it found it. So the connections go on, at the latest with a dprd that starts."""
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    tools = os.path.join(cluster.directory, "tools")
    os.mkdir(tools)
    os.symlink(shutil.which("false"), os.path.join(tools, "ip"))
    with load(cluster, ["n1"]) as work:
        cluster.kill("n2", "dprd")
        before = state_of_kernel(cluster, "n2")
        cluster.environment = [f"PATH={tools}:{os.environ['PATH']}:/usr/sbin"]
        assert cluster.start("n2", "dprd").wait(RESTART_S) == 1
        cluster.environment = []
        assert "ip failed" in cluster.log_text("n2", "dprd")
        assert state_of_kernel(cluster, "n2") == before
        cluster.start("n2", "dprd")
        wait_for(lambda: cluster.sees("n1", ALL), "n1 sees n2 again", RESTART_S)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)


def rules_of(cluster, which):
    """Everything that dprd set up in the kernel, except the flows, which come and go."""
    return [line for line in state_of_kernel(cluster, which) if not FLOW_OF_SET.search(line)]


def test_d43_two_of_them(clusters):
    """Another dprd on the same node, with a run directory of its own, does not start and takes nothing from the
    first."""
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    other, directory = os.path.join(cluster.directory, "other.conf"), os.path.join(cluster.node("n1").directory, "run")
    with open(cluster.config_path("n1"), encoding="utf-8") as first, open(other, "w", encoding="utf-8") as file:
        file.write(first.read().replace(f"Directory={directory}\n", f"Directory={directory}-other\n"))
    with load(cluster, ["n1"]) as work:
        time.sleep(0.3)
        before = rules_of(cluster, "n1")
        log = os.path.join(cluster.directory, "other.log")
        child = cluster.site.start("n1", [cluster.program("bin/dprd"), "-c", other, "--node", "n1"], log)
        assert child.wait(RESTART_S) == 1
        with open(log, encoding="utf-8") as file:
            assert "another dprd may hold it" in file.read()
        assert rules_of(cluster, "n1") == before
        since = time.monotonic()
        time.sleep(1.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(since=since)) == set(ALL)


def test_d44_fewer_interfaces(clusters):
    """dprd of n1 comes back with fewer Interfaces=, and flows to take over: interfaces without programs keep none of
    the former dprd's."""
    cluster = clusters.fresh(nodes=3, layout="one")
    cluster.site.ip("n1", ["link add spare0 type veth peer name spare1", "addr add 198.18.0.1/24 dev spare0", "link set spare0 up"])

    def on_spare():
        return [name for name in bpf.attached(cluster.site, "n1") if "dprd" in name and "spare0" in name]

    if cluster.plane == "bpf":
        wait_for(on_spare, "programs on the other interface", 15)
    cluster.set_policy("rr")
    cluster.set_config("Datapath", "Interfaces", "eth0", "n1")
    with load(cluster, ["n1"]) as work:
        cluster.kill("n1", "dprd")
        cluster.write_config("n1")
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ALL), "n1 is back", RESTART_S)
        assert cluster.status("n1")["datapath"] == cluster.plane
        assert not on_spare()
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)


def test_d45_stands_still_as_it_starts(clusters):
    """dprd of n1 is killed, and the next one stands still while it has its queues but not its rules: packets that n1
    forwards go on, and packets forwarded to n1 come out of the tunnel; also when it stands still again later."""
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    cluster.environment = [f"PATH={slow_tools(cluster)}:{os.environ['PATH']}"]
    with load(cluster, ["n1", "n2"]) as work:
        cluster.kill("n1", "dprd")
        with open(cluster.slow_file, "w", encoding="ascii"):
            cluster.start("n1", "dprd")
        standby_pid(cluster, "n1")
        os.unlink(cluster.slow_file)
        for _ in range(2):
            cluster.freeze("n1", "dprd")
            time.sleep(FROZEN_S)
            cluster.resume("n1", "dprd")
            wait_for(lambda: cluster.sees("n1", ALL), "n1 is back", RESTART_S)
    work.check_flows()
    for flows in (work.forwarded(entry="n1"), work.forwarded(serving="n1")):
        assert {flow["to"].count(":") > 0 for flow in flows} == {True, False}
        assert work.longest_ms(flows) < NO_WAIT_MS
    work.check_connects(SECOND_SYN_S)
