# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulator 10: dpr-sim predicts the behaviour of eight real nodes.

    c1 --- r --- n1 .. n8      each node: one worker, exponential service times with a mean of 50 ms (it sleeps),
                               a queue of any length; Poisson arrivals at a load of 0.8, entry nodes even

The same connections, to the moment and the service time, come to the simulator and to real dprd, with

    li, 200ms     the default
    least, 2s     a herd: loads 40 service times old
    rr, 200ms     ignores loads; nothing in it is random

and compared are the mean delay in service times, the ratio of each arm's to the first one's, the share of
connections that a node other than the entry node served, and the share that the second look sent back.

The tolerance of each is 3 standard deviations of a run of this length, measured with 40 runs of the simulator
(agree.py), plus effects that the model leaves out: 5 % of the mean delay, 2 % of the connections. That is:

 - TCP, the client and the server take time. It is measured, on connections that were not forwarded, and taken off
   the mean delay; but open connections last longer by it, so that the nodes see loads that are higher.
 - dprd looks at its own load at most once in a millisecond, and forwarding takes as long as it takes.
 - Rates of arrivals, which li uses, are true in the simulator from the beginning, and learnt within seconds here.

A disagreement while the host was starved is skipped, with a message: when connections that were not forwarded took
more than 0.2 service times beyond their queue on average, or the client was late by more than 100 ms.
"""
import json
import os
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "experiments"))

import agree
import exp_herd
from netns import LabError

NODES = 8
ARMS = (agree.Arm("li", "200ms", warmup_s=3, seconds=7), agree.Arm("least", "2s", warmup_s=5, seconds=11),
        agree.Arm("rr", "200ms", warmup_s=1, seconds=4))
CLIENT_START_S = 0.3
PATIENCE_S = 30


def raise_cluster(clusters):
    cluster = exp_herd.HerdCluster(1, nodes=NODES, ipv6=False)
    cluster.up()
    clusters.made_for_one.append(cluster)
    clusters.used.append(cluster)
    return cluster


def decisions(cluster):
    """{reason: (kind, count)} of all nodes."""
    found = {}
    for node in cluster.nodes:
        for reason, made in cluster.status(node)["decisions"].items():
            found[reason] = (made["kind"], made["count"] + found.get(reason, (None, 0))[1])
    return found


def run_arm(cluster, arm):
    """({measure: value}, cost in service times, how late the client was in ms)"""
    connections = agree.arrivals(arm)
    cluster.fresh_daemons(arm.policy, arm.period)
    paths = [os.path.join(cluster.directory, name) for name in ("plan.json", "result.json")]
    with open(paths[0], "w", encoding="ascii") as file:
        json.dump([(at, cluster.nodes[entry].service_v4, exp_herd.PORT, work * 1000)
                   for at, entry, work in connections], file)
    errors = os.path.join(cluster.directory, "agree.err")
    client = cluster.site.start(cluster.clients[0], ["/usr/bin/python3", agree.__file__, "load", *paths], errors)
    time.sleep(CLIENT_START_S + arm.warmup_s)
    before = decisions(cluster)
    try:
        status = client.wait(arm.seconds + PATIENCE_S)
    except subprocess.TimeoutExpired:
        client.kill()
        raise
    if status:
        with open(errors, encoding="utf-8", errors="replace") as file:
            raise LabError(f"agree.py ended with status {status}: {file.read()[-500:]}")
    back = agree.sent_back_share(before, decisions(cluster))
    cluster.site.reap()
    with open(paths[1], encoding="ascii") as file:
        found = json.load(file)
    failed = [error for _, _, error in found["results"] if error]
    assert not failed, f"{arm}: {len(failed)} of {len(connections)} connections failed: {set(failed)}"
    numbers = {node.name: i for i, node in enumerate(cluster.nodes)}
    results = [(seconds, numbers[name], None) for seconds, name, _ in found["results"]]
    measured, cost = agree.measures_of(arm, connections, results)
    return {**measured, "sent_back": back}, cost, found["late_ms"]


@pytest.mark.alone
@pytest.mark.long("compares statistics with the simulator's: it takes a host with nothing else to do")
@pytest.mark.seconds(150)
def test_e10_simulator_and_namespaces_agree(clusters, tmp_path):
    """Delay, forwarded and sent back connections of three policies are as simulated."""
    cluster = raise_cluster(clusters)
    program = cluster.program("bin/dpr-sim")
    runs, costs, starved = [], [], []
    for arm in ARMS:
        measured, cost, late_ms = run_arm(cluster, arm)
        runs.append((arm, measured, agree.reference(program, arm, str(tmp_path))))
        costs.append((arm, cost))
        starved += agree.starvation(arm, cost, late_ms)
    comparisons = agree.compare(runs)
    text = agree.table(comparisons, costs)
    print(text)
    with open(os.path.join(cluster.build, f"agree-{cluster.plane}.md"), "w", encoding="ascii") as file:
        file.write(text)
    problems = [str(comparison) for comparison in comparisons if not comparison.agrees]
    if problems and starved:
        pytest.skip(f"the host is starved ({'; '.join(starved)}): not comparable: {'; '.join(problems)}")
    assert not problems, "\n".join(problems)
