# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 80: the procedures of docs/operations.md that change a running cluster, node by node, under load."""
import os
import signal
import time

import pytest

from faultlib import Connects, FIRST_SYN_S, RESTART_S, eligible, freeze_now, in_time, load, reload_both, wait_for
from stormlib import Held, Steady, bad

ALL = ["n1", "n2", "n3", "n4"]
NO_SYN_LOST_S = 0.9
MANY, PER_SECOND, HELD = 10_000, 500, 100
LOST_SHARE = 0.001  # SYNs that a busy host's queues lose
ORDERS = {"up": lambda nodes: nodes, "down": lambda nodes: nodes[::-1]}
# The order of the nodes, and the daemon that has the new file first.
WAYS = [("up", "dprctl"), ("down", "loadcast")] + [
    pytest.param(*way, marks=pytest.mark.long("the quick rung has both values, in two of the four combinations"))
    for way in (("up", "loadcast"), ("down", "dprctl"))]


def check_connects(work):
    """None failed, and none waited for a copy of its SYN."""
    failed = [made for made in work.made if made.error]
    assert not failed, f"{len(failed)} of {len(work.made)} failed, such as {failed[:3]}"
    worst = max(work.made, key=lambda made: made.waited)
    in_time(worst.waited <= NO_SYN_LOST_S, f"{worst} waited longer than {NO_SYN_LOST_S} s")


@pytest.fixture(name="cluster4", params=["own", "one"])
def fixture_cluster4(request, clusters):
    """Four nodes, for this test only: the configuration of a node does not come back."""
    cluster = clusters.fresh(nodes=4, layout=request.param)
    cluster.set_policy("rr")
    return cluster


def without(cluster, name):
    """Writes files from now on that do not have this member."""
    lines, keeps = [], True
    for line in type(cluster).member_lines(cluster):
        if line.startswith("[Member"):
            keeps = line != f'[Member "{name}"]'
        if keeps:
            lines.append(line)
    cluster.member_lines = lambda: lines


@pytest.mark.parametrize("order", ORDERS)
def test_b80_a_member_is_removed_and_comes_back(cluster4, order):
    """"Removing a node": n1, the first of the file, drains, stops and leaves the files. Then "Adding a node", with n1 at
    the end of the file. No connection of the others notices."""
    cluster4.dprctl("n1", "drain")
    wait_for(lambda: not any("n1" in eligible(cluster4, node) for node in ALL[1:]), "n1 is left alone", 1.5)
    with load(cluster4, ALL[1:]) as work:
        cluster4.dprctl("n1", "drain", "--wait", "--timeout", "10")
        cluster4.stop("n1", "dprd")
        cluster4.stop("n1", "loadcast")
        without(cluster4, "n1")
        for node in ORDERS[order](ALL[1:]):
            reload_both(cluster4, node)
            time.sleep(0.7)
        lines = type(cluster4).member_lines(cluster4)
        end = lines.index('[Member "n2"]')
        cluster4.member_lines = lambda: lines[end:] + lines[:end]
        for node in ORDERS[order](ALL[1:]):
            reload_both(cluster4, node)
            time.sleep(0.7)
        cluster4.start_node_daemons("n1")
        wait_for(lambda: cluster4.status("n1")["state"] == "draining", "n1 drains, as before its start", RESTART_S)
        cluster4.dprctl("n1", "undrain")
        wait_for(lambda: all("n1" in eligible(cluster4, node) for node in ALL[1:]), "n1 is back", 5)
        back = time.monotonic()
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert work.forwarded(serving="n2") and work.forwarded(serving="n4")
    assert "n1" in work.served_by(since=back)


def change(cluster, node, first):
    """Gives one node its new file. dprctl: "dprctl reload" alone; loadcast: loadcast gets it a second before dprd does."""
    cluster.write_config(node)
    if first == "loadcast":
        os.kill(cluster.pid(node, "loadcast"), signal.SIGHUP)
        time.sleep(1)
    cluster.dprctl(node, "reload")
    wait_for(lambda: cluster.log_text(node, "loadcast").count("configuration read again"), "loadcast has the file", 3)
    os.truncate(cluster.log_path(node, "loadcast"), 0)
    time.sleep(0.7)


@pytest.mark.parametrize("order,first", WAYS)
def test_b81_a_port_comes_and_goes(cluster4, order, first):
    """"Changing ports": port 8080, which every web server serves already, gets into the files, node by node, and out of
    them again. Each connection is made without a lost SYN, and flows that were forwarded meanwhile go on to their end."""
    nodes = ORDERS[order](ALL)
    cluster4.set_config("Service", "Port", "80 8081")
    reload_both(cluster4)
    time.sleep(1)
    for node in ALL:
        os.truncate(cluster4.log_path(node, "loadcast"), 0)
    with load(cluster4, ALL, flows=0, per_second=100) as coming:
        for node in nodes:
            cluster4.set_config("Service", "Port", "8080 80 8081", node)
            change(cluster4, node, first)
        there = time.monotonic()
        time.sleep(0.5)
    coming.check_connects(NO_SYN_LOST_S)
    assert set(coming.served_by(to="n1", since=there)) == set(ALL), "the new port is balanced"
    with load(cluster4, ALL, per_second=100) as going:
        for node in nodes:
            cluster4.set_config("Service", "Port", "80 8081", node)
            change(cluster4, node, first)
        gone = time.monotonic()
        time.sleep(0.5)
    going.check_flows()
    going.check_connects(NO_SYN_LOST_S)
    assert set(going.served_by(to="n1", since=gone)) == {"n1"}
    cluster4.overrides = {name: keys for name, keys in cluster4.overrides.items() if name not in ALL}


@pytest.mark.parametrize("order,first", WAYS)
def test_b82_a_service_address_comes(cluster4, order, first):
    """"Changing service addresses": n1, which has another address already, gets it into the files, node by node. Nodes that
    do not know it get no connections to it."""
    address = "192.0.2.111"
    cluster4.site.ask("n1", ["ip", "address", "add", f"{address}/24", "dev", "eth0"])
    for node in ALL:
        os.truncate(cluster4.log_path(node, "loadcast"), 0)
    lines = [line + f" {address}" if line.startswith("Service=" + cluster4.node("n1").service_v4) else line
             for line in cluster4.member_lines()]
    cluster4.member_lines = lambda: lines
    work = Connects(cluster4, [address], 100)
    try:
        for node in ORDERS[order](ALL):
            change(cluster4, node, first)
        there = time.monotonic()
        time.sleep(0.5)
    finally:
        work.end()
    check_connects(work)
    assert {made.node for made in work.made if made.start > there} == set(ALL), "the new address is balanced"


def with_services(cluster, addresses):
    """Files written from now on give n1 these service addresses, too."""
    own = f"Service={cluster.node('n1').service_v4}"
    lines = [" ".join([line, *addresses]) if line.startswith(own) else line for line in type(cluster).member_lines(cluster)]
    cluster.member_lines = lambda: lines


@pytest.mark.parametrize("order,first", WAYS)
def test_b86_service_addresses_go(cluster4, order, first):
    """"Changing service addresses": two more addresses of n1 leave the files, node by node. Flows to them that are forwarded
    go on to their end, also while the standby processes work; new connections are served, and at the end by n1 alone."""
    v4, v6 = addresses = ["192.0.2.111", "2001:db8:a::111"]
    cluster4.site.ip("n1", [f"address add {v4}/24 dev eth0", f"address add {v6}/64 dev eth0 nodad"])
    with_services(cluster4, addresses)
    for node in ALL:
        change(cluster4, node, first)
    time.sleep(1)
    held = Held(cluster4, addresses, {0.1: 40})
    try:
        work = Connects(cluster4, addresses, 50)
        try:
            with_services(cluster4, [])
            for node in ORDERS[order](ALL):
                change(cluster4, node, first)
            gone = time.monotonic()
            for node in ALL:
                freeze_now(cluster4, node)
            time.sleep(1.5)
            for node in ALL:
                cluster4.resume(node, "dprd")
            time.sleep(0.5)
        finally:
            work.end()
    finally:
        held.end()
    assert not held.broken(), f"{len(held.broken())} of {len(held.each)} broke, such as {held.broken()[:3]}"
    assert {flow["node"] for flow in held.each} == set(ALL), "flows were forwarded"
    failed = [made for made in work.made if made.error]
    assert not failed, f"{len(failed)} of {len(work.made)} failed, such as {failed[:3]}"
    assert {made.node for made in work.made if made.start > gone} == {"n1"}


def test_b87_loadcast_starts_with_another_file(cluster4):
    """Port 8080 gets into the files. n1's loadcast starts anew with its new file, while dprd has the former one: peers send
    no connections to the port until dprd has it, too."""
    cluster4.set_config("Service", "Port", "80 8081")
    reload_both(cluster4)
    for node in ALL[1:]:
        os.truncate(cluster4.log_path(node, "loadcast"), 0)
        cluster4.set_config("Service", "Port", "8080 80 8081", node)
        change(cluster4, node, "dprctl")
    work = Connects(cluster4, addresses_of(cluster4, ALL[1:2]), 100)
    try:
        cluster4.set_config("Service", "Port", "8080 80 8081", "n1")
        cluster4.write_config("n1")
        cluster4.stop("n1", "loadcast")
        cluster4.start("n1", "loadcast")
        wait_for(lambda: "n1" in eligible(cluster4, "n2"), "n2 hears n1", 15)
        time.sleep(0.7)
        reloaded = time.monotonic()
        cluster4.dprctl("n1", "reload")
        wait_for(lambda: any(made.node == "n1" for made in work.made), "n1 serves", 15)
    finally:
        work.end()
    check_connects(work)
    assert {made.node for made in work.made if made.start + made.took < reloaded} == set(ALL[1:])


# ---- ten thousand ----

def addresses_of(cluster, names):
    return [address for name in names for address in (cluster.node(name).service_v4, cluster.node(name).service_v6)]


class Many:
    """A hundred held connections to some nodes, and ten thousand new ones meanwhile."""

    def __init__(self, cluster, addresses, held_by=ALL):
        self.held = Held(cluster, addresses_of(cluster, held_by), {0.2: HELD})
        try:
            self.steady = Steady(cluster, addresses, PER_SECOND, clients=16)
        except BaseException:
            self.held.end()
            raise
        self.begun = time.monotonic()

    def is_over(self):
        return time.monotonic() - self.begun > MANY / PER_SECOND

    def end(self):
        try:
            self.steady.end()
        finally:
            self.held.end()

    def check(self):
        made, failed, broken = self.steady.each, bad(self.steady.each), self.held.broken()
        assert len(made) >= 0.9 * MANY, f"only {len(made)} connections were made"
        assert not failed, f"{len(failed)} of {len(made)} connections failed, such as {failed[:4]}"
        assert not broken, f"{len(broken)} of {len(self.held.each)} held connections broke, such as {broken[:4]}"
        assert self.held.forwarded(), "no held connection was forwarded"
        again = [one for one in made if one.syns > 1]
        in_time(len(again) <= LOST_SHARE * len(made), f"{len(again)} of {len(made)} SYNs were lost, such as {again[:4]}")


def roll(cluster, names, steps):
    """Goes through the steps of a change again and again until these nodes have had ten thousand connections."""
    many = Many(cluster, addresses_of(cluster, names), names)
    try:
        while not many.is_over():
            for step in steps:
                step()
    finally:
        many.end()
    many.check()


def with_ports(cluster, node, ports, first):
    cluster.set_config("Service", "Port", ports, node)
    change(cluster, node, first)


MANY_WAYS = [("up", "dprctl"), ("down", "loadcast")]
ten_thousand = pytest.mark.long("ten thousand connections; b80, b81 and b82 are short ones of its kind")


@ten_thousand
@pytest.mark.alone
@pytest.mark.seconds(180)
@pytest.mark.parametrize("order,first", MANY_WAYS)
def test_b83_a_port_comes_and_goes_under_ten_thousand(cluster4, order, first):
    """b81 again and again: no connection to the port fails, and none that was forwarded breaks."""
    for node in ALL:
        os.truncate(cluster4.log_path(node, "loadcast"), 0)
    roll(cluster4, ALL, [
        lambda node=node, ports=ports: with_ports(cluster4, node, ports, first)
        for ports in ("80 8081", "8080 80 8081") for node in ORDERS[order](ALL)])


@ten_thousand
@pytest.mark.alone
@pytest.mark.seconds(180)
@pytest.mark.parametrize("order,first", MANY_WAYS)
def test_b84_service_addresses_come_under_ten_thousand(cluster4, order, first):
    """b82 with one address after the other: no connection to them fails, also while only some nodes know it."""
    addresses = [f"192.0.2.{number}" for number in range(111, 114)]
    cluster4.site.ip("n1", [f"address add {address}/24 dev eth0" for address in addresses])
    for node in ALL:
        os.truncate(cluster4.log_path(node, "loadcast"), 0)
    many = Many(cluster4, addresses)
    try:
        for address in addresses:
            lines = [line + f" {address}" if line.startswith("Service=" + cluster4.node("n1").service_v4) else line
                     for line in cluster4.member_lines()]
            cluster4.member_lines = lambda lines=lines: lines
            for node in ORDERS[order](ALL):
                change(cluster4, node, first)
        while not many.is_over():
            time.sleep(0.1)
    finally:
        many.end()
    many.check()
    assert {made.node for made in many.steady.each[-PER_SECOND:]} == set(ALL), "the new addresses are balanced"


@ten_thousand
@pytest.mark.alone
@pytest.mark.seconds(180)
@pytest.mark.parametrize("order", ORDERS)
def test_b85_a_member_leaves_and_comes_back_under_ten_thousand(cluster4, order):
    """b80 again and again: n1, which has no clients of its own, drains and leaves the files; then it gets into them again, at
    their end, and serves."""
    member_lines = type(cluster4).member_lines
    others = ORDERS[order](ALL[1:])

    def leave():
        cluster4.dprctl("n1", "drain")
        wait_for(lambda: not any("n1" in eligible(cluster4, node) for node in ALL[1:]), "n1 is left alone", 5)
        cluster4.dprctl("n1", "drain", "--wait", "--timeout", "10")
        without(cluster4, "n1")

    def come():
        lines = member_lines(cluster4)
        end = lines.index('[Member "n2"]')
        cluster4.member_lines = lambda: lines[end:] + lines[:end]

    def reload_one(node):
        reload_both(cluster4, node)
        time.sleep(0.7)

    def serve():
        cluster4.dprctl("n1", "undrain")
        wait_for(lambda: all("n1" in eligible(cluster4, node) for node in ALL[1:]), "n1 is back", RESTART_S)
        time.sleep(1)

    steps = [leave, *(lambda node=node: reload_one(node) for node in others), come,
             *(lambda node=node: reload_one(node) for node in others), serve]
    leave()  # it must not have any of the held connections
    come()
    roll(cluster4, others, steps)
