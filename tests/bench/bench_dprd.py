# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters of two nodes each: one that gets the client's connections, and one that may serve them."""
import os

import bench_peers
from bench_measure import pin_node
from daemons import Daemons
from netns import LabError

QUEUE = 8000
QUEUE_LENGTH = 512  # of new connections; with BPF that is an eighth of Length=
MAX_FLOWS = 1_048_576


def queue_state(pid, number=QUEUE):
    """(packets waiting, packets ever queued minus those the program never got) of an NFQUEUE in the
    network namespace of a process; see nfqnl_seq_show() of the kernel for the columns."""
    with open(f"/proc/{pid}/net/netfilter/nfnetlink_queue", encoding="ascii") as file:
        for line in file:
            words = [int(word) for word in line.split()]
            if words[0] == number:
                return words[2], words[7] - words[6]
    raise LabError(f"queue {number} of process {pid} is gone")


class Plan:
    """The special settings of a pair. share: weights of the two nodes for the policy "random"; with one of
    1,000 that serves its own share of 0.1 %, "all forwarded" is a decision like any other."""

    def __init__(self, name, plane, decide, share, form="tunnel"):
        self.name, self.plane, self.decide, self.share, self.form = name, plane, decide, share, form
        self.policy = "random" if share[1] else "local"
        self.serves = {name + suffix for suffix, weight in zip(("", "-b"), share) if weight > 1 or share == (1, 1)}


PAIRS = [Plan("auto", "bpf", "auto", (1, 1000)),
         Plan("local", "bpf", "queue", (1000, 0)),
         Plan("half", "bpf", "queue", (1, 1)),
         Plan("queue", "bpf", "queue", (1, 1000)),
         Plan("kernel", "bpf", "kernel", (1, 1000)),
         Plan("kernel-local", "bpf", "kernel", (1000, 0)),
         Plan("form-direct", "bpf", "kernel", (1, 1000), "direct"),
         Plan("nfqueue", "nfqueue", "queue", (1, 1000))]


class Node:
    """One of the two, with the names that Daemons asks for."""

    def __init__(self, name, directory, service_v4, cluster_v4):
        self.name, self.directory = name, os.path.join(directory, name)
        self.service_v4, self.cluster_v4 = service_v4, cluster_v4
        self.bpf_mount = os.path.join(self.directory, "bpf")
        self.pins = os.path.join(self.bpf_mount, "dprd")
        self.alive = True


class Pair(Daemons):
    """The two nodes, their link, web servers and daemons."""

    layout, ipv6 = "own", False

    def __init__(self, bench, plan, number):
        self.bench, self.plan, self.plane, self.decide = bench, plan, plan.plane, {"Decide": plan.decide}
        self.site, self.program = bench.site, bench.program
        self.directory = os.path.join(bench.directory, plan.name + ".cluster")
        self.daemons, self.overrides, self.loaded = {}, {}, {}
        self.entry, self.serving = self.nodes = [
            Node(plan.name + suffix, self.directory, bench.address(plan.name + suffix), f"10.80.{number}.{i + 1}")
            for i, suffix in enumerate(("", "-b"))]

    def node(self, which):
        return next((node for node in self.nodes if which in (node, node.name)), None)

    def up(self):
        entry, serving = self.nodes
        self.bench.link(entry.name, "eth1", serving.name, "eth1")
        for node in self.nodes:
            os.makedirs(node.directory)
            self.site.mount_bpf(node.bpf_mount)
            self.site.ip(node.name, [f"addr add {node.cluster_v4}/30 dev eth1"])
            bench_peers.start_web(self.bench, node.name)
        self._configure()
        for node in self.nodes:
            self.start_node_daemons(node)
        for node in self.nodes:
            self.wait_until(lambda node=node: self._runs(node), f"dprd of {node.name} answers")
            if not self.bench.for_flood:
                pin_node(self.pid(node, "dprd"), node is serving)
        wanted = self.plan.serves
        self.wait_until(lambda: self.bench.answers(entry.service_v4, 24) == wanted,
                        f"connections to {entry.name} are served by {' and '.join(sorted(wanted))}", 15)
        # At first there are no verdicts yet that dprd made ahead.
        self.wait_until(lambda: self._decides_as_planned(24),
                        f"dprd of {entry.name} gets so many packets of a connection as Decide={self.plan.decide} says", 15)

    def _configure(self):
        plan = self.plan
        self.set_config("Service", "Port", "80 8081 8080")
        self.set_config("Balance", "Policy", "local")
        self.set_config("Balance", "Policy", plan.policy, self.entry)
        for node, weight in zip(self.nodes, plan.share):
            self.set_weight(node, weight)
        self.set_config("Datapath", "Form", plan.form)
        self.set_config("Queue", "First", QUEUE)
        self.set_config("Queue", "Length", QUEUE_LENGTH * (8 if self.plane == "bpf" else 1))
        self.set_config("Queue", "Workers", 1)
        # The guard against floods would serve here connections that must be forwarded.
        self.set_config("Flows", "MaxNewFlowsPerSecond", 10_000_000)
        if self.bench.for_flood and plan.share[1]:
            # Half-open flows younger than a second do not give way; more connections are served locally.
            self.set_config("Flows", "MaxFlows", MAX_FLOWS)
            self.set_config("Flows", "MaxHalfOpen", 262_144)
        # Otherwise the ended flows of a few rounds would fill the table.
        self.set_config("Flows", "FinTimeout", "2s")
        self.set_config("Flows", "RstTimeout", "2s")

    def _runs(self, node):
        if not self.daemon_alive(node, "dprd"):
            raise LabError(f"dprd of {node.name} ended at its start: {self.log_text(node, 'dprd')[-500:].strip()}")
        status = self.status(node) or {}
        if "datapath" not in status:  # it does not answer yet, or with an error
            return False
        if status["datapath"] != self.plane:
            raise LabError(f"dprd of {node.name} has plane {status['datapath']}: {status['datapath_why']}")
        return all(member["self"] or member["form_v4"] == self.plan.form for member in status["members"])

    def queued(self):
        """Packets that the entry node's dprd has got so far, by both of its queues (new connections, forwarded)."""
        pid = self.pid(self.entry, "dprd")
        return sum(queue_state(pid, number)[1] for number in (QUEUE, QUEUE + 1))

    def check_forwarded(self):
        """Checks that connections were forwarded: a table without room would serve them here, and look faster."""
        counts = {name: one["count"] for name, one in self.status(self.entry)["decisions"].items()}
        refused = counts["table_full"] + counts["rate_guard"]
        if refused > counts["chosen"] / 1000:
            raise LabError(f"{self.entry.name} had no room for {refused} flows, and forwarded {counts['chosen']}")

    def _decides_as_planned(self, connections):
        """Checks that SYNs, and with BPF nothing else, come to the queue; none where the kernel decides."""
        before = self.queued()
        self.bench.answers(self.entry.service_v4, connections)
        each = (self.queued() - before) / connections
        most = {"kernel": 0.2}.get(self.plan.decide, 1.2)
        return self.plane != "bpf" or most - 1 < each <= most
