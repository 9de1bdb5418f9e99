# SPDX-License-Identifier: GPL-2.0-or-later
"""Direct 20: clients in a VLAN, whose frames pass by two interfaces of a node: eth0, and eth0.100."""
import collections

import pytest

from faultlib import wait_for
from traffic import FAMILIES, counting, download, file_sha256, service
from vlan import add_vlan

VLAN = 100
CONNECTIONS = 12
FILE_BYTES = 2_000_000


@pytest.fixture(name="vlan3")
def make_vlan3(clusters):
    """The stranger x reaches n1's service addresses by the VLAN, and their servers reach x the same way."""
    cluster = clusters.fresh(daemons=False, layout="own")
    for host, number in [("x", 200)] + [(node.name, 10 + node.number) for node in cluster.nodes]:
        add_vlan(cluster, host, "eth0", VLAN, [f"10.100.0.{number}/24", f"fd64::{number}/64"])
    entry = cluster.node("n1")
    cluster.site.ip("x", [f"route add {entry.service_v4}/32 via 10.100.0.11",
                          f"route add {entry.service_v6}/128 via fd64::11"])
    # Where the kernel has no VLAN devices, the lab's is one of a kind that containers have.
    cluster.set_config("Datapath", "Interfaces", f"eth0\nInterfaces=eth1\nInterfaces=eth0.{VLAN}")
    cluster.start_daemons(policy="rr")
    wait_for(lambda: cluster.plane != "bpf" or f"eth0.{VLAN}" in cluster.dprctl("n1", "status"),
             "the programs are on the VLAN's device", 15)
    return cluster


def test_h20_tagged_frames(vlan3):
    """Whole downloads from all nodes, and each connection is one decision."""
    path = vlan3.add_file("vlan.bin", FILE_BYTES)
    wanted = file_sha256(vlan3.file_root + path)
    served = collections.Counter()
    with counting(vlan3) as moved:
        before = decided(vlan3)
        for family in FAMILIES:
            for _ in range(CONNECTIONS):
                node, digest, size, _ = download(vlan3, service(vlan3.node("n1"), family), path, host="x")
                assert (digest, size) == (wanted, FILE_BYTES)
                served[node] += 1
        after = decided(vlan3)
    assert set(served) == {"n1", "n2", "n3"}
    assert after - before == {"local_policy": served["n1"], "chosen": served["n2"] + served["n3"]}
    assert moved["n1"]["flows_made"] == served["n2"] + served["n3"]


def decided(cluster):
    """The number of n1's decisions on new connections."""
    decisions = cluster.status("n1")["decisions"]
    return collections.Counter({reason: decisions[reason]["count"] for reason in
                                ("local_policy", "chosen", "same_syn", "same_flow", "no_peer", "local_socket")})
