# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults that a laboratory puts into its network."""


class Faults:
    """Part of Cluster: packet loss and one-way partitions, by rules in nodes' namespaces."""

    LOSS_TABLE = "inet lab_loss"

    def lose(self, which, match, percent=100, hook="input"):
        """Drops a share of the packets that an nft expression matches ("udp dport 7946"), before
        anything else sees them (input) or after everything (output)."""
        node = self.node(which)
        chain = {"input": "type filter hook prerouting priority -500",
                 "output": "type filter hook postrouting priority 500"}
        chance = "" if percent >= 100 else f"numgen random mod 10000 < {int(percent * 100)} "
        self.site.execute(node.name, ["nft", "-f", "-"], text_in=(
            f"add table {self.LOSS_TABLE}\n"
            f"add chain {self.LOSS_TABLE} {hook} {{ {chain[hook]}; }}\n"
            f"add rule {self.LOSS_TABLE} {hook} {match} {chance}counter drop\n"))

    def lose_announcements(self, which, percent=100, hook="input", multicast=None, port=None):
        """Announcements only; multicast=True or False takes only those or only the unicast ones."""
        port = port or self.announce_port
        kinds = {None: "", True: "pkttype multicast ", False: "pkttype host "}
        if hook == "output":
            kinds = {None: "", True: "ip daddr 224.0.0.0/4 ", False: "ip daddr != 224.0.0.0/4 "}
        self.lose(which, f"{kinds[multicast]}udp dport {port}", percent, hook)

    def partition_one_way(self, to, sources):
        """The node no longer hears these nodes on the cluster's addresses, but they hear it."""
        for source in sources:
            peer = self.node(source)
            self.lose(to, f"ip saddr {peer.cluster_v4}")
            if self.ipv6:
                self.lose(to, f"ip6 saddr {peer.cluster_v6}")

    def heal(self, which=None):
        """Ends all faults of a node, or of all nodes."""
        for node in self.nodes if which is None else [self.node(which)]:
            if node.alive:
                self.site.execute(node.name, ["nft", "-f", "-"], text_in=(
                    f"add table {self.LOSS_TABLE}\ndelete table {self.LOSS_TABLE}\n"))
