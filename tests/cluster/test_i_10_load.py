# SPDX-License-Identifier: GPL-2.0-or-later
"""Load 10: load is what the service has. Connections that a node opens for itself draw no clients away from it."""
import collections
import contextlib
import socket

import pytest

from faultlib import Flows, members, wait_for
from traffic import CLIENT

LAYOUTS = ("own", "one")
POOL, DATA_BASE_PORT = 200, 5432
BURST = 60
POINTS = 0.05


@pytest.fixture(name="each", params=LAYOUTS)
def fixture_each(clusters, request, law):
    return clusters.get(f"load-{request.param}", layout=request.param)


@contextlib.contextmanager
def pool(cluster, which, count=POOL):
    """Idle connections of a node to a data base elsewhere."""
    with contextlib.ExitStack() as stack:
        with cluster.site.inside("c1"):
            listener = stack.enter_context(socket.create_server(("", DATA_BASE_PORT), backlog=count))
        for _ in range(count):
            stack.enter_context(cluster.site.connect(which, CLIENT["v4"], DATA_BASE_PORT))
            stack.enter_context(listener.accept()[0])
        yield


def loads(cluster, viewer):
    return {name: member["load"] for name, member in members(cluster, viewer).items()}


def idle(cluster):
    return all(load <= 2 for viewer in cluster.nodes for load in loads(cluster, viewer).values())


def shares(cluster, entry, count=BURST):
    """The part of a burst of connections to one entry that each node gets; they stay open until all have come."""
    burst = Flows(cluster, [entry.service_v4, entry.service_v6], count)
    ready = burst.wait_ready()
    burst.end()
    assert ready == count
    served = collections.Counter(flow["node"] for flow in burst.each)
    return {node.name: served[node.name] / count for node in cluster.nodes}


@pytest.mark.parametrize("policy", ("li", "least"))
def test_i10_a_pool_is_no_load(each, policy):
    """n1 has a data base pool: it serves its part of its own clients and of its peers' clients, as before."""
    each.set_policy(policy)
    wait_for(lambda: idle(each), "all nodes are idle", 20)
    with pool(each, "n1"):
        wait_for(lambda: idle(each), "no node announces the pool as load", 20)
        for entry in each.nodes[:2]:
            wait_for(lambda: idle(each), "all nodes are idle", 20)
            got = shares(each, entry)
            assert abs(got["n1"] - 1 / len(each.nodes)) <= POINTS, (entry, got)
