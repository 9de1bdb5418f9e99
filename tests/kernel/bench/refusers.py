# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs that refuse other nodes' packets of a shared address: the module, dprd's BPF programs, and Linux' own
means. Each raises itself on the director, which has no share or almost none, and returns a function that counts
refused packets.
"""
import json
import os
import time

import kernel_site
from kernel_site import DIRECTOR, POLL_S, POLLS_MAX, SERVER, SERVICE, SHARED_MAC, Balanced, Node
from netns import LabError

OWN_SERVICES = ("192.0.2.3", "192.0.2.4")


def module(hosts):
    kernel_site.module(hosts, True)

    def refused():
        counts = json.loads(hosts.shared("get"))["counters"]
        return sum(count for name, count in counts.items() if name.startswith("refuse_"))
    return refused


def shared_bpf(hosts):
    pair = SharedPair(hosts)
    pair.up()
    before = pair.refused()
    return lambda: pair.refused() - before


class SharedPair(Balanced):
    """The director has the shared address, and the server nearly all of the share."""

    def __init__(self, hosts):
        super().__init__(hosts, "bpf", False)
        self.nodes = [Node("director", self.directory, OWN_SERVICES[0], DIRECTOR, "bpf"),
                      Node("server", self.directory, OWN_SERVICES[1], SERVER, "bpf")]

    def up(self):
        self.configure()
        self.set_config("Health", "Check", "none")
        self.set_config("Shared", "Address", SERVICE)
        self.set_config("Shared", "Form", "bpf")
        self.set_weight("server", 1000)
        for node, interface in zip(self.nodes, ("eth0", "eth1")):
            os.makedirs(node.directory, exist_ok=True)
            self.site.mount_bpf(node.bpf_mount)
            self.site.ip(node.name, [f"addr add {address}/32 dev {interface}" for address in (node.service_v4, SERVICE)])
            self.set_config("Datapath", "Plane", node.plane, node)
            self.start_node_daemons(node)
        for node in self.nodes:
            self._wait(node)
        self._wait_lease()

    def _wait_lease(self):
        for _ in range(POLLS_MAX):
            shared = self.status("director").get("shared", {})
            if shared.get("lease_ms") is not None and len(shared["members"]) == 2:
                return
            time.sleep(POLL_S)
        raise LabError(f"the director has no lease: {shared}")

    def refused(self):
        counts = self.status("director")["shared"]["counters"]
        return sum(count for name, count in counts.items() if name.startswith("refuse_"))


def _iptables(hosts, *words):
    return hosts.site.execute("director", ["iptables-legacy", *words])


def _packets(hosts, table, chain):
    """The number of packets that met each rule."""
    lines = _iptables(hosts, "-t", table, "-L", chain, "-nvx").splitlines()[2:]
    return [int(line.split()[0]) for line in lines]


def xt_cluster(hosts):
    """With a share of 1/32, which is dropped as well: refused packets meet the same rules."""
    hosts.site.ip("director", [f"addr add {SERVICE}/32 dev eth0"])
    table = ("-t", "mangle", "-A", "PREROUTING", "-i", "eth0", "-d", SERVICE)
    _iptables(hosts, *table, "-m", "cluster", "--cluster-total-nodes", "32", "--cluster-local-node", "1",
              "--cluster-hash-seed", "0x6b3a")
    _iptables(hosts, *table, "-j", "DROP")
    return lambda: _packets(hosts, "mangle", "PREROUTING")[1]


def clusterip(hosts):
    """The second of two nodes, whose share was taken away."""
    hosts.site.ip("director", [f"addr add {SERVICE}/32 dev eth0"])
    table = ("-A", "INPUT", "-i", "eth0", "-d", SERVICE)
    _iptables(hosts, *table, "-j", "CLUSTERIP", "--new", "--hashmode", "sourceip-sourceport", "--clustermac", SHARED_MAC,
              "--total-nodes", "2", "--local-node", "2", "--hash-init", "1")
    _iptables(hosts, *table, "-j", "DROP")
    hosts.site.execute("director", ["sh", "-c", f"echo -2 >/proc/net/ipt_CLUSTERIP/{SERVICE}"])

    def refused():
        met, accepted = _packets(hosts, "filter", "INPUT")
        return met - accepted
    return refused


REFUSERS = {each.__name__: each for each in (module, shared_bpf, xt_cluster, clusterip)}
