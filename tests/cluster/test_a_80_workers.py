# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 80: several workers. The kernel spreads clients over their queues by address."""
import collections
import os

import pytest

from faultlib import computing
from stormlib import Floods
from traffic import counting, service

WORKERS = 4
FIRST_QUEUE = 8000
DECIDE, FORWARD, TUNNEL = range(3)  # each has as many queues as workers
SOURCES = {"v4": [f"203.0.113.{host}" for host in range(60, 76)],
           "v6": [f"2001:db8:c::{host}" for host in range(60, 76)]}


def queues(cluster, node):
    """{queue number: packets it has seen} of a node's dprd."""
    rows = cluster.site.execute(node, ["cat", "/proc/net/netfilter/nfnetlink_queue"]).splitlines()
    return {int(row.split()[0]): int(row.split()[7]) for row in rows}


def test_a80_four_workers(clusters):
    """n1 to n3 have four workers each. 16 clients of each family ask every node ten times: all are answered, by all
    nodes. SYNs went through several queues, unless BPF programs decided; so did packets of forwarded flows, unless BPF
    programs carried them."""
    cluster = clusters.fresh(daemons=False)
    cluster.set_config("Balance", "Policy", "rr")
    cluster.set_config("Queue", "Workers", WORKERS)
    cluster.start_daemons()
    for family, length in (("v4", 24), ("v6", 64)):
        cluster.site.ip("c1", [f"addr add {source}/{length} dev eth0" for source in SOURCES[family]])
    with counting(cluster) as moved:
        for family, sources in SOURCES.items():
            for source in sources:
                host = "[{}]" if family == "v6" else "{}"
                urls = [f"http://{host.format(service(node, family))}/whoami" for node in cluster.nodes] * 10
                # A connection for each request, so that each is a decision.
                said = cluster.site.execute("c1", ["curl", "-sgf", "-m", "10", "-H", "Connection: close", "--interface",
                                                   source] + urls).split()
                assert len(said) == len(urls) and set(said) == {"n1", "n2", "n3"}
    for node in cluster.nodes:
        assert moved[node.name]["syns"] == 2 * len(SOURCES["v4"]) * 10
        seen = queues(cluster, node.name)
        assert sorted(seen) == list(range(FIRST_QUEUE, FIRST_QUEUE + 3 * WORKERS))
        used = collections.Counter((number - FIRST_QUEUE) // WORKERS for number, packets in seen.items() if packets)
        if cluster.decide:
            assert sum(seen.values()) < moved[node.name]["syns"] / 10, "SYNs came to dprd"
        else:
            assert used[DECIDE] >= 2, "one queue for all SYNs"
        if cluster.plane == "bpf":
            assert not used[FORWARD] and not used[TUNNEL], "packets of flows came to dprd"
        else:
            assert used[FORWARD] >= 2, "one queue for all flows"
            assert used[TUNNEL] >= 1  # one for each peer and family; by chance both may be the same


def waiting_threads(cluster, node):
    """The number of threads of a node's dprd that do not preempt the running program."""
    pid = cluster.pid(node, "dprd")
    return sum(os.sched_getscheduler(int(thread)) == os.SCHED_BATCH for thread in os.listdir(f"/proc/{pid}/task"))


@pytest.mark.alone
@pytest.mark.long("it takes all processors, for half a minute")
def test_a81_a_busy_worker_waits_for_its_turn(clusters):
    """SYNs for n1, which serves all of them. 20,000 per second: both workers do without wake-up preemption. With
    programs that compute on every processor they preempt again, for some seconds at least; also without SYNs. A dprd
    whose scheduling was chosen from outside leaves it as it is."""
    cluster = clusters.fresh(daemons=False, nodes=1)
    cluster.set_config("Queue", "Workers", 2)
    if cluster.plane == "bpf":
        cluster.set_config("Datapath", "Decide", "queue")
    cluster.start_daemons()
    floods = Floods(cluster)

    def flood_until(condition, what):
        for _ in range(20):
            floods.run("n1", 0.5, 20_000)
            if condition():
                return
        raise AssertionError(f"not after 20 floods: {what}")

    assert waiting_threads(cluster, "n1") == 0
    flood_until(lambda: waiting_threads(cluster, "n1") == 2, "both workers wait")
    cluster.wait_until(lambda: waiting_threads(cluster, "n1") == 0, "without packets they preempt")
    flood_until(lambda: waiting_threads(cluster, "n1") == 2, "both workers wait again")
    with computing():
        flood_until(lambda: waiting_threads(cluster, "n1") == 0, "late workers preempt")
    pid = cluster.pid("n1", "dprd")
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setscheduler(int(thread), os.SCHED_IDLE, os.sched_param(0))
    for _ in range(14):  # longer than they give it up by themselves
        floods.run("n1", 0.5, 20_000)
        assert waiting_threads(cluster, "n1") == 0
