# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers 20: behind nodes that share an address; see test_g_10_backends.py."""
import time

import pytest

from backendlib import check_flows, holding, nothing_fails, usable
from faultlib import RESTART_S, SECOND_SYN_S, kill_host, wait_for
from test_f_10_shared import SHARED, add_addresses, has_share, work_on

BURST = 20


@pytest.fixture(name="sharing")
def fixture_sharing(clusters):
    """Two nodes that share an address of each family; b1 behind n1, b2 behind n2 by NAT, b3 of n1 direct."""
    cluster = clusters.fresh(nodes=2, layout="own", daemons=False,
                             real_servers=(("n1", "nat"), ("n2", "nat"), ("n1", "direct")))
    for node in cluster.nodes:
        add_addresses(cluster, node)
    for address in SHARED:
        cluster.serve_address(cluster.node("b3"), address)
    for section, key, value in (("Shared", "Address", " ".join(SHARED)), ("Shared", "Form", "bpf"),
                                ("Backends", "Policy", "rr"), ("Health", "Interval", "200ms")):
        cluster.set_config(section, key, value)
    cluster.start_daemons()
    for name in ("n1", "n2"):
        wait_for(lambda name=name: has_share(cluster, name, ["n1", "n2"]), f"{name} has a share", 10)
    wait_for(lambda: usable(cluster) == {"b1", "b3"} and usable(cluster, "n2") == {"b2"}, "all servers work", 15)
    return cluster


def test_g25_shared(sharing):
    """Each node takes its part of the clients and hands it to its real servers; dprd of n1 is away for a while."""
    with nothing_fails(sharing):
        with work_on(sharing) as work:
            time.sleep(1.5)
            sharing.kill("n1", "dprd")
            away = time.monotonic()
            # The programs do not know yet that dprd is gone.
            with holding(sharing, SHARED, BURST):
                time.sleep(1.5)
                end = time.monotonic()
                sharing.start("n1", "dprd")
                wait_for(lambda: has_share(sharing, "n1", ["n1", "n2"]), "n1 has its share", 15)
                wait_for(lambda: usable(sharing) == {"b1", "b3"}, "n1 knows its real servers again", RESTART_S)
                time.sleep(0.5)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    assert min(check_flows(work.flows)[name] for name in ("n1", "n2", "b1", "b2", "b3")) >= 3
    assert set(work.served_by()) == {"n1", "n2", "b1", "b2", "b3"}
    while_away = {made.node for made in work.connects.made if away + 0.3 <= made.start < end}
    assert {"n1", "b1", "n2", "b2"} <= while_away, while_away


def test_g26_shared_host_dies(sharing):
    """n2's host dies, and with it b2's connections. n1 and its real servers take all new connections, and keep their
    own."""
    with work_on(sharing) as work:
        time.sleep(0.5)
        dead = kill_host(sharing, "n2")
        wait_for(lambda: has_share(sharing, "n1", ["n1"]), "n1 has n2's part", 3)
        taken_over = time.monotonic()
        time.sleep(2)
    work.check_flows(but=("n2", "b2"))
    work.check_connects(SECOND_SYN_S, dead)
    assert set(work.served_by(since=taken_over)) == {"n1", "b1", "b3"}
