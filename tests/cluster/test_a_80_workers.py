# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 80: several workers. The kernel spreads clients over their queues by address."""
from traffic import counting, service

WORKERS = 4
FIRST_QUEUE = 8000
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
        assert sorted(seen) == list(range(FIRST_QUEUE, FIRST_QUEUE + 2 * WORKERS))
        used = [number for number, packets in seen.items() if packets]
        if cluster.decide:
            assert sum(seen.values()) < moved[node.name]["syns"] / 10, "SYNs came to dprd"
        else:
            assert len([number for number in used if number < FIRST_QUEUE + WORKERS]) >= 2, "one queue for all SYNs"
        later = [number for number in used if number >= FIRST_QUEUE + WORKERS]
        if cluster.plane == "bpf":
            assert not later, "packets of flows came to dprd"
        else:
            assert len(later) >= 2, "one queue for all flows"
