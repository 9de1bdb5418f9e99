# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 70: a node announces that it is well, but connections that are forwarded to it do not come about."""
import time

import pytest

from faultlib import ECHO_PORT, FIRST_SYN_S, NO_WAIT_MS, SECOND_SYN_S, load, members, wait_for
from stormlib import Floods
from traffic import counting

NOTICED_S = 1.6  # after this time no connection goes there any more, except one now and then that tries
# Tunnel packets of connections to the echo servers: probes of the way still arrive.
TUNNEL = {"v4": f"ip protocol 4 @nh,336,16 {ECHO_PORT}", "v6": f"ip6 nexthdr 41 @nh,656,16 {ECHO_PORT}"}
OTHER = {"v4": "v6", "v6": "v4"}


def of_family(connects, family):
    return [connect for connect in connects if (":" in connect.to) == (family == "v6")]


def slow(connects):
    return [connect for connect in connects if connect.error or connect.waited * 1000 > NO_WAIT_MS]


def warned(cluster, family):
    return [warning["text"] for warning in cluster.status("n1")["warnings"]
            if f"to n2 over IP{family} get no answer" in warning["text"]]


@pytest.mark.parametrize("family", ["v4", "v6"])
def test_b70_tunnel_filtered(cluster3, family):
    """A filter before n2 drops what is tunnelled to its web server over one family, and lets probes pass. n1 notices it by
    its connections: they go to n3 and to n1 itself, without a wait; those of the other family go on to n2. After the
    fault n2 gets connections again."""
    cluster3.set_policy("rr")
    with load(cluster3, ["n1"], flows=0, per_second=80) as work:
        time.sleep(1)
        start = time.monotonic()
        cluster3.lose("n2", TUNNEL[family])
        wait_for(lambda: members(cluster3, "n1")["n2"][f"answers_{family}"] is False, "n1 notices it", NOTICED_S)
        assert members(cluster3, "n1")["n2"]["eligible"], "the other family goes there"
        assert warned(cluster3, family) and not warned(cluster3, OTHER[family])
        time.sleep(2.5)
        end = time.monotonic()
        cluster3.heal("n2")
        wait_for(lambda: members(cluster3, "n1")["n2"][f"answers_{family}"], "n1 notices that it is over", 5)
        assert not warned(cluster3, family)
        healed = time.monotonic()
        time.sleep(1)
    work.check_connects(SECOND_SYN_S)
    during = work.made(since=start + NOTICED_S, until=end)
    assert len(slow(of_family(during, family))) <= 2, "no more than one trial each time"
    assert not slow(of_family(during, OTHER[family]))
    assert {connect.node for connect in of_family(during, family)} >= {"n1", "n3"}
    assert "n2" in {connect.node for connect in of_family(during, OTHER[family])}
    assert "n2" in {connect.node for connect in of_family(work.made(since=healed), family)}
    assert not slow(work.made(since=healed))


def test_b7f_a_flood_loses_no_way(clusters):
    """SYNs of clients that do not exist, many more than before and nothing beside them, get no connection anywhere. That is
    no fault of the ways to n2 and n3: clients that come later are spread at once."""
    cluster = clusters.fresh(nodes=3, layout="own")  # no former test's burst makes the flood a usual one
    cluster.set_policy("rr")
    with load(cluster, ["n1"], flows=0, per_second=12) as before:
        time.sleep(1.5)
    with counting(cluster) as moved:
        Floods(cluster).run("n1", 2, rate=1000)
        with load(cluster, ["n1"], flows=0, per_second=40) as work:
            time.sleep(1)
    assert moved["n1"]["flows_made"] > 300
    assert not moved["n1"].get("ways_lost")
    before.check_connects(FIRST_SYN_S)
    work.check_connects(FIRST_SYN_S)
    assert set(before.served_by()) == set(work.served_by()) == {"n1", "n2", "n3"}
