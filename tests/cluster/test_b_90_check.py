# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 90: what dprd --check finds by trying: the host's firewall, and policy routing by source; and the metrics."""
import re
import time

import pytest

from faultlib import load, wait_for
from traffic import rules, run_in

LAYOUTS = pytest.mark.parametrize("layout", ["own", "one"])


def check(cluster, node="n1"):
    return run_in(cluster, node, [cluster.program("bin/dprd"), "-c", cluster.config_path(node), "--node", node, "--check"])


@LAYOUTS
def test_b90_check_tries_the_firewall(clusters, layout):
    """A usual stateful firewall is well. One that drops announcements, of both families or of IPv6 alone, or a service port
    on the cluster's interface, is found, by nftables or by iptables. While the daemons run, the same, and no connection
    suffers from it.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout=layout)
    cluster.write_config("n1")
    link = {"own": "eth1", "one": "eth0"}[layout]
    port = cluster.announce_port
    usual = ["ct state established,related accept", "ct state invalid drop", "meta l4proto { icmp, ipv6-icmp, igmp } accept",
             f"udp dport {port} accept", "tcp dport { 80, 8080, 8081 } accept", 'iifname "lo" accept', "drop"]
    with rules(cluster, "n1", usual, "input", priority=0):
        assert check(cluster)[0] == 0, check(cluster)
    for rule, found, not_found in (
            (f"udp dport {port} drop", f"ERROR: this host's firewall drops announcements: UDP port {port} from", "TCP"),
            (f"meta nfproto ipv6 udp dport {port} drop", f"UDP port {port} from {'fd80' if layout == 'own' else '2001'}",
             f"UDP port {port} from 1"),
            (f'iifname "{link}" tcp dport 8080 drop', "firewall drops connections that peers forward: TCP port 8080 of", "UDP")):
        with rules(cluster, "n1", [rule], "input", priority=0):
            status, said = check(cluster)
        assert status == 1 and found in said and not_found not in said, said
    iptables = ["iptables", "-w", "-A", "INPUT", "-p", "udp", "--dport", str(port), "-j", "DROP"]
    cluster.site.execute("n1", iptables)
    status, said = check(cluster)
    assert status == 1 and said.count("firewall drops announcements") == 1, said
    cluster.site.execute("n1", ["-D" if word == "-A" else word for word in iptables])
    cluster.start_daemons(policy="rr")
    with load(cluster, ["n1", "n2"], flows=10, per_second=20) as work:
        assert "firewall" not in check(cluster)[1]
        with rules(cluster, "n1", [f'iifname "{link}" tcp dport 8081 drop'], "input", priority=0):
            assert "TCP port 8081 of" in check(cluster)[1]
    work.check_flows()
    work.check_connects(1)


@LAYOUTS
def test_b91_check_sees_policy_routing(clusters, layout):
    """A rule leads packets from the node's own address to another router: answers of forwarded connections have another
    source. The command that the check prints fixes it. With such a rule for the whole network, only aliases differ.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout=layout)
    cluster.write_config("n1")
    n1, n2 = cluster.node("n1"), cluster.node("n2")
    for version, own, router, network in (("-4", n1.service_v4, n2.service_v4, "192.0.2.0/24"),
                                          ("-6", n1.service_v6, n2.service_v6, "2001:db8:a::/64")):
        def ip(*words, version=version):
            cluster.site.execute("n1", ["ip", version, *words])

        ip("route", "add", "default", "via", router, "dev", "eth0", "table", "100")
        ip("rule", "add", "from", own, "lookup", "100", "priority", "1000")
        status, said = check(cluster)
        found = re.search(rf"warning: policy routing .* source {own} .* source is (\S+)\n +fix: ip (.*), and the same", said)
        assert status == 3 and found and said.count("policy routing") == 1, said
        assert (found[1] == (n2.service_v4 if version == "-4" else n2.service_v6)) == (layout == "own"), said
        ip(*found[2].removeprefix("-6 ").split())
        assert check(cluster)[0] == 0, check(cluster)
        ip("rule", "del", "from", found[1], "lookup", "100")
        ip("rule", "del", "from", own, "lookup", "100")
        ip("rule", "add", "from", network, "lookup", "100", "priority", "1000")
        status, said = check(cluster)
        assert ("policy routing" in said) == (layout == "one"), said
        # The same way by another table is well.
        ip("route", "flush", "table", "100")
        default = cluster.site.ask("n1", ["ip", version, "route", "show", "default"]).split()
        ip("route", "add", *default, "table", "100")
        assert check(cluster)[0] == 0, check(cluster)
        ip("rule", "del", "from", network, "lookup", "100")


def metrics(cluster, node):
    """{family: {labels: value}} of "dprctl metrics"; each sample belongs to a family with HELP and TYPE in front of it."""
    found, kind = {}, {}
    for line in cluster.dprctl(node, "metrics", check=False).splitlines():
        if words := re.match(r"# TYPE (\w+) (counter|gauge|histogram)$", line):
            kind[words[1]] = words[2]
        elif not line.startswith("# HELP "):
            name, labels, value = re.match(r"(\w+)(?:\{(.*)\})? ([-+.e\d]+)$", line).groups()
            family = re.sub("_(bucket|sum|count)$", "", name) if name not in kind else name
            assert family in kind and (kind[family] == "counter") == name.endswith("_total"), line
            found.setdefault(name, {})[labels or ""] = float(value)
    return found


def test_b92_metrics_say_what_happened(clusters):
    """Some connections to a node that forwards by turns: those that it forwarded, by member, are those that flows were made
    for and that its peers served; the time of every decision of dprd is in the histogram; all ports pass their checks.
    """
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    with load(cluster, ["n1"], flows=20, per_second=40) as work:
        time.sleep(1)
    work.check_flows()

    def adds_up():
        now = metrics(cluster, "n1")
        forwarded = sum(now["dprd_forwarded_total"].values())
        return forwarded > 20 and forwarded == now["dprd_flows_made_total"][""] == \
            now["dprd_connections_total"]['action="forwarded"'] and now
    now = cluster.wait_until(adds_up, "the counts of forwarded connections agree", 15)
    assert set(now["dprd_forwarded_total"]) == {f'member="{node}",family="ipv{family}"'
                                                for node in ("n2", "n3") for family in (4, 6)}
    assert now["dprd_decision_seconds_count"][""] == now["dprd_decision_seconds_bucket"]['le="+Inf"'] <= now["dprd_syns_total"][""]
    if cluster.status("n1")["decided_by"] == "dprd":
        assert now["dprd_decision_seconds_count"][""] > 0
    ports = now["dprd_member_port_up"]
    assert len(ports) == 9 and set(ports.values()) == {1.0}, ports
    assert len({re.search('config="(.*?)"', labels)[1] for labels in now["dprd_member_info"]}) == 1
