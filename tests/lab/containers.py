# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers on the nodes, as docker sets them up: a bridge with masquerading, and a namespace behind it.

    n1  docker0 172.17.0.1/16, fd17::1/64 -- veth -- eth0 n1-box 172.17.0.2, fd17::2

Every node has the same addresses, as with docker. A published port is DNAT in prerouting and output, except
for the loopback addresses, where docker's proxy listens; here the node's own server does.
"""
import contextlib

NETWORK_V4, GATEWAY_V4, BOX_V4 = "172.17.0.0/16", "172.17.0.1", "172.17.0.2"
NETWORK_V6, GATEWAY_V6, BOX_V6 = "fd17::/64", "fd17::1", "fd17::2"
ROUTING = {"net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1}
BOX = {"v4": BOX_V4, "v6": BOX_V6}

TABLE = """
table inet docker_like {{
	chain nat_out {{
		type nat hook postrouting priority srcnat;
		ip saddr {v4} oifname != "docker0" masquerade
		ip6 saddr {v6} oifname != "docker0" masquerade
	}}
	chain nat_in {{
		type nat hook prerouting priority dstnat;
	}}
	chain nat_local {{
		type nat hook output priority -100;
		ip daddr 127.0.0.0/8 accept
		ip6 daddr ::1 accept
	}}
}}
"""


def box_of(node):
    return f"{node.name}-box"


def publish(cluster, node, ports, log):
    """Starts the echo server in the container of a node, and publishes these ports. Returns the process."""
    cluster.site.execute(node.name, ["nft", "-f", "-"], text_in="".join(
        f"add rule inet docker_like {chain} meta nfproto {family} fib daddr type local tcp dport {port} "
        f"dnat {ip} to {address}:{port}\n" for port in ports for chain in ("nat_in", "nat_local")
        for family, ip, address in (("ipv4", "ip", BOX_V4), ("ipv6", "ip6", f"[{BOX_V6}]"))))
    return start_server(cluster, node, log)


def start_server(cluster, node, log):
    """Starts the echo server in the container of a node."""
    return cluster.site.start(box_of(node), [cluster.program("tests/lab/echoserver"), "--name", box_of(node), "--echo",
                                             "8080", "--sum", "8081"], log)


@contextlib.contextmanager
def containers(cluster, nodes):
    """A bridge with one container on each of these nodes during the block."""
    made = []
    try:
        for node in nodes:
            made.append(node)
            _make(cluster, node)
        yield
    finally:
        for node in made:
            _remove(cluster, node)


def _make(cluster, node):
    site, box = cluster.site, box_of(node)
    site.add_namespaces([box])
    site.sysctl(box, {"net.ipv6.conf.all.accept_dad": 0, "net.ipv6.conf.default.accept_dad": 0})
    site.sysctl(node.name, ROUTING)
    site.ip(node.name, ["link add docker0 type bridge forward_delay 0", "link set docker0 up",
                        f"addr add {GATEWAY_V4}/16 dev docker0", f"addr add {GATEWAY_V6}/64 dev docker0 nodad",
                        f"link add vethbox type veth peer name eth0 netns {site.name(box)}",
                        "link set vethbox master docker0 up"])
    site.ip(box, ["link set lo up", "link set eth0 up", f"addr add {BOX_V4}/16 dev eth0",
                  f"addr add {BOX_V6}/64 dev eth0 nodad", f"route add default via {GATEWAY_V4}",
                  f"route add default via {GATEWAY_V6}"])
    site.execute(node.name, ["nft", "-f", "-"], text_in=TABLE.format(v4=NETWORK_V4, v6=NETWORK_V6))


def _remove(cluster, node):
    site, box = cluster.site, box_of(node)
    site.execute(node.name, ["nft", "delete", "table", "inet", "docker_like"], check=False)
    site.execute(node.name, ["ip", "link", "del", "docker0"], check=False)
    site.execute(node.name, ["ip", "link", "del", "vethbox"], check=False)
    site.execute("r", ["ip", "netns", "del", site.name(box)], check=False)
    if site.name(box) in site.record["namespaces"]:
        site.record["namespaces"].remove(site.name(box))
        site.save()
