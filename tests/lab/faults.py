# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults in a laboratory's network. They are in the switch, so before and behind all hooks of a node."""
import json


class Faults:
    """Part of Cluster: packet loss and one-way partitions, by rules of nftables on the switch's ports."""

    def _ports(self, node, interface):
        """The switch's ports of a node: of one of its interfaces, or of all."""
        ports = {"eth0": node.name}
        if self.layout == "own":
            ports["eth1"] = node.name + "c"
        return [ports[interface]] if interface else list(ports.values())

    def lose(self, which, match="", percent=100, hook="input", interface=None):
        """Drops a share of the packets that an nft expression matches ("udp dport 7946"), on their way to a node
        (input) or from it (output), by one of its interfaces or any."""
        node = self.node(which)
        table = f"bridge lab_loss_{node.name}"
        chain, side = {"input": ("postrouting", "oifname"), "output": ("prerouting", "iifname")}[hook]
        self.lossy.add(node.name)
        chance = "" if percent >= 100 else f"numgen random mod 10000 < {int(percent * 100)} "
        self.site.execute("sw", ["nft", "-f", "-"], text_in=(
            f"add table {table}\n"
            f"add chain {table} {hook} {{ type filter hook {chain} priority 0; }}\n" +
            "".join(f"add rule {table} {hook} {side} {port} {match} {chance}counter drop\n"
                    for port in self._ports(node, interface))))

    def lose_announcements(self, which, percent=100, hook="input", multicast=None, port=None):
        """Drops announcements only; multicast=True or False drops only the multicast or only the unicast ones."""
        port = port or self.announce_port
        kind = {None: "", True: "ether daddr & 01:00:00:00:00:00 != 00:00:00:00:00:00 ",
                False: "ether daddr & 01:00:00:00:00:00 == 00:00:00:00:00:00 "}[multicast]
        self.lose(which, f"{kind}udp dport {port}", percent, hook)

    def partition_one_way(self, to, sources):
        """Makes a node deaf to these nodes on the cluster's addresses, while they still hear it."""
        for source in sources:
            peer = self.node(source)
            self.lose(to, f"ip saddr {peer.cluster_v4}")
            if self.ipv6:
                self.lose(to, f"ip6 saddr {peer.cluster_v6}")

    def lost(self, which):
        """The number of packets that each fault of a node has dropped, in the order in which the faults were made."""
        listing = json.loads(self.site.execute("sw", ["nft", "-j", "list", "table", "bridge",
                                                      f"lab_loss_{self.node(which).name}"]))
        return [part["counter"]["packets"] for item in listing["nftables"]
                for part in item.get("rule", {}).get("expr", []) if "counter" in part]

    def heal(self, which=None):
        """Ends all faults of a node, or of all nodes."""
        names = set(self.lossy) if which is None else {self.node(which).name} & self.lossy
        if names:
            self.site.execute("sw", ["nft", "-f", "-"], text_in="".join(
                f"delete table bridge lab_loss_{name}\n" for name in sorted(names)))
        self.lossy -= names
