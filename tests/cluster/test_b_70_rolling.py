# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 70: the procedures of docs/operations.md that change a running cluster, node by node, under load."""
import time

import pytest

from faultlib import FIRST_SYN_S, RESTART_S, eligible, load, reload_both, wait_for

ALL = ["n1", "n2", "n3", "n4"]
ORDERS = {"up": lambda nodes: nodes, "down": lambda nodes: nodes[::-1]}


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
def test_b70_a_member_is_removed_and_comes_back(cluster4, order):
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
