# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers 10: clients and web servers in containers on the nodes themselves."""
import time

import pytest

from containers import box_of, containers
from traffic import FAMILIES, counting, forward_to, service, whoami

SEEN_S = 2.5  # dprd looks at the host's interfaces each second

both = pytest.mark.parametrize("family", FAMILIES)


@both
def test_i10_a_container_asks_its_own_node(cluster3, family):
    """n1 forwards every connection; its container's connections to n1's service address are served by n1, while other
    clients' are forwarded as before."""
    entry, target = forward_to(cluster3, "n2")
    with containers(cluster3, [entry]):
        time.sleep(SEEN_S)
        with counting(cluster3) as moved:
            for _ in range(4):
                assert whoami(cluster3, service(entry, family), host=box_of(entry)) == entry.name
            assert whoami(cluster3, service(entry, family)) == target.name
    assert moved["n1"]["inside_client"] == 4
    assert moved["n1"]["flows_made"] == 1
