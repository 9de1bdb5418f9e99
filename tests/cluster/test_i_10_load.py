# SPDX-License-Identifier: GPL-2.0-or-later
"""Load 10: load is what the service has, on all its ports, on the node and at the real servers behind it. Connections
that a node opens for itself draw no clients away from it."""
import collections
import contextlib
import socket
import time

import pytest

from backendlib import usable
from faultlib import Flows, members, reload_both, wait_for
from netns import Late
from traffic import CLIENT, FAMILIES, clients_at, connect, counting, service

LAYOUTS = ("own", "one")
POOL, DATA_BASE_PORT = 200, 5432
BURST = 60
POINTS = 0.05 + 1e-9  # five points are not more than five
READ_S = 0.2  # dprd has read its load again
PORTS = (80, 8080, 8081)
BEHIND = (("n1", "nat"), ("n2", "nat"), ("n3", "nat"))  # b1 behind n1, ...


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
        time.sleep(READ_S)
        yield


def loads(cluster, viewer):
    return {name: member["load"] for name, member in members(cluster, viewer).items()}


def idle(cluster):
    return all(load <= 2 for viewer in cluster.nodes for load in loads(cluster, viewer).values())


def quiet(cluster):
    return all(member["arrivals_per_second"] < 1 for viewer in cluster.nodes
               for member in members(cluster, viewer).values())


def shares(cluster, entry, count=BURST):
    """The part of a burst of connections to one entry that each server gets; they stay open until all have come."""
    with counting(cluster) as moved:
        burst = Flows(cluster, [entry.service_v4, entry.service_v6], count)
        ready = burst.wait_ready()
        burst.end()
    assert ready == count
    if moved[entry.name]["syns"] < count:
        raise Late("dprd was held up: some connections were served without a decision")
    served = collections.Counter(flow["node"] for flow in burst.each)
    return collections.Counter({name: number / count for name, number in served.items()})


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


def test_i11_all_ports_count(each):
    """The connections are to three ports, one after the other. Those of the pool are none of them."""
    each.set_policy("li")
    wait_for(lambda: idle(each), "all nodes are idle", 20)
    with pool(each, "n1"), contextlib.ExitStack() as stack:
        wait_for(lambda: idle(each), "no node announces the pool as load", 10)
        for number in range(BURST):
            address = service(each.nodes[0], FAMILIES[number % 2])
            stack.enter_context(connect(each, address, PORTS[number % len(PORTS)]))
        got = {node.name: clients_at(each, node.name, *PORTS) for node in each.nodes}
    assert sum(got.values()) == BURST
    assert all(abs(count / BURST - 1 / len(each.nodes)) <= POINTS for count in got.values()), got


@pytest.mark.parametrize("layout", LAYOUTS)
def test_i12_real_servers_count(clusters, layout):
    """Each node has one real server and serves nothing itself. n1 has a data base pool. A burst to one of the nodes is
    shared among the servers: a node knows those that its peers forward to its server, and announces them."""
    cluster = clusters.get(f"load-behind-{layout}", layout=layout, real_servers=BEHIND)
    cluster.set_config("Backends", "ServeHere", "no")
    cluster.set_config("Balance", "Policy", "li")
    reload_both(cluster)
    wait_for(lambda: all(usable(cluster, node.name) for node in cluster.nodes), "the servers are used", 15)
    with pool(cluster, "n1"):
        for entry in cluster.nodes[:2]:
            wait_for(lambda: idle(cluster) and quiet(cluster), "all nodes are idle, and forget the former burst", 30)
            got = shares(cluster, entry)
            assert abs(got["b1"] - 1 / len(cluster.nodes)) <= POINTS, (entry, got)
