# SPDX-License-Identifier: GPL-2.0-or-later
"""The cluster of an experiment: the waits between runs."""
import types

import sitelab


def crowded(monkeypatch, idle_sockets, open_connections):
    """A cluster with a node whose number of connections is given look by look; and how often it slept."""
    cluster = object.__new__(sitelab.SurgeCluster)
    cluster.idle_sockets, cluster.nodes = idle_sockets, [types.SimpleNamespace(name="n1")]
    cluster.open_connections = lambda node: open_connections.pop(0)
    sleeps = []
    monkeypatch.setattr(sitelab.time, "sleep", sleeps.append)
    return cluster, sleeps


def test_a_run_waits_until_the_connections_of_the_one_before_are_gone(monkeypatch):
    cluster, sleeps = crowded(monkeypatch, {"n1": 3}, [7, 2, 0])
    cluster.drain()
    assert len(sleeps) == 2


def test_the_first_run_waits_for_nothing(monkeypatch):
    cluster, sleeps = crowded(monkeypatch, {}, [7] * 1000)
    cluster.drain()
    assert not sleeps
