# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 50: rules that vanish, tables that are full, little memory, and wrong use."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import time

import pytest
from scapy.all import TCP

from faultlib import FIRST_SYN_S, SECOND_SYN_S, Flows, emptying, load, memory_kb, wait_for
from stormlib import Floods
from traffic import CLIENT, FAMILIES, RawClient, counting, flow_of, forward_to, hardware, ip_layer, nft, run_in, send, service

ALL = ["n1", "n2", "n3"]


def test_b50_the_ruleset_is_flushed(own3):
    """An operator flushes n1's ruleset under load. It stands again within 3 s; nothing local breaks.

    Packets of forwarded flows that come in that moment reach n1's own stack, which resets them; on the plane bpf they
    do not need the ruleset.
    """
    own3.set_policy("rr")
    before = own3.counters("n1")["rules_restored"]
    with load(own3, ["n1", "n2"]) as work:
        flushed = time.monotonic()
        own3.site.execute("n1", ["nft", "flush", "ruleset"])
        gone = time.monotonic()
        took = wait_for(lambda: own3.counters("n1")["rules_restored"] > before, "dprd sees it", 3)
        wait_for(lambda: own3.site.execute("n1", ["iptables-save", "-t", "raw"]).count("NFQUEUE") == 3,
                 "the rules are back", 2)
        restored = time.monotonic()
        time.sleep(0.7)
    lost = [flow for flow in work.forwarded(entry="n1") + work.forwarded(serving="n1") if flow["fate"] != "good"]
    assert not lost or own3.plane == "nfqueue", lost[:4]
    print(f"restored after {took:.1f} s; {len(lost)} forwarded flows through n1 were reset meanwhile")
    work.check_flows(unless=lambda flow: flow in lost)
    # Without the BPF programs a forwarded connection that has just begun counts as local. n2 sends copies of a SYN to
    # n1 until n1 takes them.
    work.check_connects(SECOND_SYN_S, since=gone if own3.plane == "nfqueue" else flushed)
    work.check_connects(SECOND_SYN_S, until=flushed - 0.2)
    assert set(work.served_by(to="n1", since=restored + 0.2)) == set(ALL)


def queue_rules(cluster, which):
    """The rules of the tables raw, both families, in their order."""
    return [line for tool in ("iptables", "ip6tables")
            for line in cluster.site.execute(which, [tool, "-t", "raw", "-S"]).splitlines() if line.startswith("-A")]


@pytest.mark.parametrize("command", ["iptables -t raw -F", "ip6tables -t raw -F PREROUTING"])
def test_b62_the_chains_are_emptied(own3, command):
    """A firewall script empties n1's tables raw; dprd's chains stay there without effect. The kernel reports that: soon
    each rule exists again, once, and connections are forwarded.

    Meanwhile n1 serves new connections. Forwarded flows go on by the BPF programs; without them n1's own stack
    resets them.
    """
    own3.set_policy("rr")
    before = {name: own3.counters(name)["rules_restored"] for name in ALL}
    rules = queue_rules(own3, "n1")
    with load(own3, ["n1"]) as work:
        flushed = time.monotonic()
        own3.site.execute("n1", command.split())
        gone = time.monotonic()
        took = wait_for(lambda: own3.counters("n1")["rules_restored"] > before["n1"], "dprd sees it", 4)
        wait_for(lambda: queue_rules(own3, "n1") == rules, "the rules are back", 2)
        restored = time.monotonic()
        time.sleep(0.7)
    lost = [flow for flow in work.forwarded(entry="n1") if flow["fate"] != "good"]
    assert not lost or own3.plane == "nfqueue", lost[:4]
    print(f"restored after {took:.1f} s; {len(lost)} forwarded flows through n1 were reset meanwhile")
    work.check_flows(unless=lambda flow: flow in lost)
    # Without the BPF programs a forwarded connection that has just begun counts as local.
    work.check_connects(FIRST_SYN_S, since=gone if own3.plane == "nfqueue" else flushed)
    work.check_connects(FIRST_SYN_S, until=flushed - 0.2)
    assert set(work.served_by(to="n1", since=restored + 0.2)) == set(ALL)
    # The other nodes' rules were whole, and they were checked, too.
    assert all(own3.counters(name)["rules_restored"] == before[name] for name in ["n2", "n3"])


@pytest.mark.parametrize("family", FAMILIES)
def test_b63_a_port_is_used_again_meanwhile(own3, family):
    """While n1's tables raw are empty, a client uses ports again whose last connections n1 forwarded. n1 serves them,
    since dprd gets none of their SYNs, and later packets stay there, too. (With Decide=kernel the connection is
    forwarded as before.)"""
    n1, _ = forward_to(own3, "n2")
    ports = range(20861, 20867)
    for port in ports:
        with RawClient(own3, service(n1, family), 8080, port) as first:
            first.open()
            assert first.wait_heard(lambda heard: heard == b"n2\n")
            first.say(b"", flags="FA")
            wait_for(lambda port=port: (flow_of(own3, "n1", family, port) or {}).get("state") == "closing", "it ends", 15)
            first.sequence += 1
            first.reset()
    served = []
    with emptying(own3):
        for port in ports:
            with RawClient(own3, service(n1, family), 8080, port) as client:
                client.isn += 1_000_000
                client.open()
                assert client.wait_heard(lambda heard: len(heard) == 3), port
                served.append(client.heard())
                client.say(b"still there\n")
                assert client.wait_heard(lambda heard: heard[3:] == b"still there\n"), port
                client.reset()
    # Just after dprd has set the rules up again it decides.
    if own3.decide.get("Decide") != "kernel":
        assert served.count(b"n1\n") >= len(ports) // 2, served


def test_b59_emptied_again_and_again(own3):
    """A firewall script is slow; rules that it deletes while dprd sets them up come back."""
    rules = queue_rules(own3, "n1")
    own3.site.execute("n1", ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do iptables -t raw -F; sleep 0.05; done"])
    wait_for(lambda: queue_rules(own3, "n1") == rules, "the rules are back", 3)
    time.sleep(1.5)
    assert queue_rules(own3, "n1") == rules


def restore_with(cluster, refusals):
    """Empties n1's queue rules, and makes nft refuse dprd's next changes this often. True when the table is the same
    afterwards."""
    def table():
        listing = json.loads(cluster.site.execute("n1", ["nft", "-j", "list", "tables"]))["nftables"]
        return [one["table"]["handle"] for one in listing if one.get("table", {}).get("name") == "dprd"]

    before, handle, rules = cluster.counters("n1")["rules_restored"], table(), queue_rules(cluster, "n1")
    with open(os.path.join(cluster.directory, "refusals"), "w", encoding="ascii") as out:
        out.write("x" * refusals)
    cluster.site.execute("n1", ["iptables", "-t", "raw", "-F"])
    wait_for(lambda: cluster.counters("n1")["rules_restored"] > before, "dprd sees it", 4)
    wait_for(lambda: queue_rules(cluster, "n1") == rules, "the rules are back", 4)
    return table() == handle


def test_b61_nft_refuses(clusters):
    """A change that nft refuses once is tried again: the table stays, with its flows. Refused each time, as where
    another version's table stands in the way, it is replaced, and the log says why.

    dprd does not ask nft to list anything: nft reads all flows for that, which takes seconds and more while flows
    come.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    refusals, calls = (os.path.join(cluster.directory, name) for name in ("refusals", "calls"))
    with open(os.path.join(cluster.directory, "nft"), "w", encoding="ascii") as script:
        script.write(f"""#!/bin/sh
echo "$@" >> {calls}
if [ "$1" = -f ] && [ -s {refusals} ]; then
    truncate -s -1 {refusals}
    echo "Error: no luck today" >&2
    exit 1
fi
exec {shutil.which("nft")} "$@"
""")
    os.chmod(os.path.join(cluster.directory, "nft"), 0o755)
    cluster.environment = [f"PATH={cluster.directory}:{os.environ['PATH']}"]
    cluster.start_daemons("rr")
    assert restore_with(cluster, refusals=2)
    assert os.path.getsize(refusals) == 0 and "was replaced" not in cluster.log_text("n1", "dprd")
    assert not restore_with(cluster, refusals=3)
    assert "was replaced, since nft could not change it: Error: no luck today" in cluster.log_text("n1", "dprd")
    with load(cluster, ["n1", "n2"]) as work:
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(to="n1")) == {"n1", "n2"}
    cluster.set_policy("wrr")
    with open(calls, encoding="ascii") as lines:
        asked = {line.strip() for line in lines}
    # -c: it only asks what this kernel can do.
    assert "-f -" in asked <= {"-f -", "-c -f -"}, asked


def restart_empty(cluster):
    """n1's dprd starts again, with its present configuration and without flows of earlier tests."""
    cluster.stop("n1", "dprd")
    status, said = dprd(cluster, "--purge")
    assert status == 0, said
    cluster.start("n1", "dprd")


def spoofed_syns(cluster, count):
    """Frames with SYNs of clients that do not exist, to n1, in both families."""
    node = cluster.node("n1")
    head = bytes.fromhex((hardware(cluster, "r", "eth1") + hardware(cluster, "c1", "eth0")).replace(":", ""))
    for number in range(count):
        source, to = [(f"203.0.113.{100 + number % 100}", node.service_v4),
                      (f"2001:db8:c::{1000 + number % 1000}", node.service_v6)][number % 2]
        packet = ip_layer(source, to) / TCP(sport=1024 + number * 7 % 60000, dport=80, seq=number, flags="S")
        yield head + (b"\x86\xdd" if ":" in to else b"\x08\x00") + bytes(packet)


def test_b51_syn_flood(own3):
    """MaxHalfOpen=256 and 500 SYNs per second of clients that do not exist, without a guard: half-open flows push out
    only each other.

    The pool holds each for a second at least: long enough for the handshakes of real clients. SYNs that come
    meanwhile find no room and are served by n1.
    """
    own3.set_config("Flows", "MaxHalfOpen", 256, "n1")
    own3.set_config("Flows", "MaxFlows", 4096, "n1")
    own3.set_config("Flows", "MaxNewFlowsPerSecond", 10000000, "n1")
    own3.set_policy("rr")
    restart_empty(own3)
    own3.wait_ready()
    frames = list(spoofed_syns(own3, 1200))
    with own3.site.inside("c1"):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with out, counting(own3) as moved, load(own3, ["n1"]) as work:
        out.bind(("eth0", 0))
        for number, frame in enumerate(frames):
            out.send(frame)
            if number % 5 == 4:
                time.sleep(0.01)
        status = own3.status("n1")
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert status["flows"]["half_open"] <= 256 == status["flows"]["max_half_open"]
    assert moved["n1"]["flows_evicted"] > 150
    own3.stop("n1", "dprd")  # the next test's dprd has its usual table


def test_b52_flow_table_is_full(one3):
    """MaxFlows=1024 and 1,100 clients at n1, all of which policy random would spread: connections that find no room are
    served by n1, without an error.
    """
    one3.set_config("Flows", "MaxFlows", 1024, "n1")
    one3.set_policy("rr")
    restart_empty(one3)
    one3.wait_ready()
    with counting(one3) as moved, load(one3, ["n1"], flows=2000, per_second=20, finish_s=12) as work:
        # Flows that the BPF programs confirm are counted within two seconds.
        wait_for(lambda: one3.status("n1")["flows"]["confirmed"] >= 1000, "the table is full", 15)
        full = one3.status("n1")["flows"]
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    # Decisions of the programs are counted at dprd's next tick: there may be a few more in between.
    most = 1024 + 10 * (one3.plane == "bpf")
    assert full["max_confirmed"] == 1024 and full["confirmed"] <= most, full
    assert moved["n1"]["table_full"] > 100
    assert len(work.forwarded()) <= most
    one3.stop("n1", "dprd")


@contextlib.contextmanager
def forwarded_syn(cluster, entry):
    """A RawClient that has sent a SYN to this node, which forwarded it, and that was not decided in a flood."""
    address, port = cluster.node(entry).service_v4, 20000
    while port < 20010:
        port += 1
        before = cluster.counters(entry)["flows_made"]
        with RawClient(cluster, address, 80, port) as client:
            client.send(client.syn())
            assert client.capture.wait(client.is_answer, 4), "nobody answers"
            if client.isn % 1024 and cluster.counters(entry)["flows_made"] > before:
                yield client
                return
    raise AssertionError(f"{entry} forwards nothing")


def syn_v6(cluster, node, port):
    """A client whose SYN was not decided in a flood."""
    return ip_layer(CLIENT["v6"], cluster.node(node).service_v6) / TCP(sport=port, dport=80, flags="S", seq=port | 1)


def test_b60_a_flood_passes_by(clusters):
    """5,000 SYNs per second where 2,000 flows may be made: they pass by dprd, except a few. When at most 1,000 come,
    all are decided again, though the node still sees a flood. Established connections go on; and the copy of a SYN
    that was forwarded before goes to the same node.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    cluster.set_config("Flows", "MaxNewFlowsPerSecond", 2000)
    cluster.start_daemons("rr")
    cluster.wait_ready()
    cluster.site.sysctl("n1", {"net.ipv4.tcp_syncookies": 1})
    floods = Floods(cluster)

    def decided(seconds, rate):
        """Those of these SYNs that were forwarded, and their number."""
        before = cluster.counters("n1")["syns"]
        sent = floods.run("n1", seconds, rate)[0]
        time.sleep(0.2)
        return cluster.counters("n1")["syns"] - before, sent

    with forwarded_syn(cluster, "n1") as client, load(cluster, ["n1"], per_second=20, finish_s=12) as work:
        floods.run("n1", 1, 5000)
        wait_for(lambda: any("flood" in one["text"] for one in cluster.status("n1")["warnings"]), "it is noticed", 15)
        # A busy host may send fewer than make a flood.
        few, fast = next((found for found in (decided(2, 5000) for _ in range(5)) if found[1] > 5000), (0, 0))
        time.sleep(1.2)
        # The state of a flood for this long, without its SYNs.
        nft(cluster, "n1", "add element inet dprd flooding { tcp timeout 3s }\n")
        before = cluster.counters("n1")["syns"]
        send(cluster, [syn_v6(cluster, "n1", 21000 + i) for i in range(40)], "c1")
        time.sleep(0.2)
        assert cluster.counters("n1")["syns"] < before + 20, "those of the other family came to dprd"
        copies = cluster.counters("n1")["same_syn"]
        client.send(client.syn())
        wait_for(lambda: cluster.counters("n1")["same_syn"] > copies, "the copy of a forwarded SYN is forwarded", 15)
        time.sleep(3)
        assert len({answer[TCP].seq for answer in client.answers()}) == 1, "two nodes answered"
        most, slow = decided(1, 500)
    assert any("flood" in one["text"] for one in cluster.status("n1")["warnings"])
    assert fast > 5000 and few < fast / 20, f"{few} of {fast} SYNs came to dprd"
    assert slow > 400 and most >= slow, f"{most} of {slow} SYNs came to dprd"
    work.check_flows()
    work.check_connects(FIRST_SYN_S)


def test_b53_little_memory(clusters):
    """dprd gets 64 MiB of address space and loadcast 8. 20,000 connections later they are as small as before."""
    cluster = clusters.fresh(daemons=False, nodes=3, layout="own")
    cluster.wrappers = {"dprd": ["sh", "-c", 'ulimit -v 65536; exec "$@"', "sh"],
                        "loadcast": ["sh", "-c", 'ulimit -v 8192; exec "$@"', "sh"]}
    cluster.start_daemons("rr")
    bombard(cluster, 2000)
    before = {key: memory_kb(child.pid) for key, child in cluster.daemons.items()}
    with counting(cluster) as moved:
        bombard(cluster, 20000)
    after = {key: memory_kb(child.pid) for key, child in cluster.daemons.items()}
    # While dprd gets no processor, SYNs pass it by: a full queue and the BPF programs leave them to the node.
    assert moved["n1"]["syns"] >= 15000
    assert moved["n1"]["flows_made"] > 10000
    print({" ".join(key): f"{before[key]} -> {after[key]} kB" for key in after})
    assert all(after[key] - before[key] <= 2048 for key in after)


def bombard(cluster, count):
    """Makes this many connections to n1, v4 and v6, in rounds of 4,000; every one must be answered."""
    node = cluster.node("n1")
    while count > 0:
        flows = Flows(cluster, [node.service_v4, node.service_v6], min(count, 4000), pause_ms=100_000)
        assert flows.wait_ready(20) == flows.count
        flows.end()
        assert all(flow["fate"] == "good" for flow in flows.each)
        count -= flows.count


@pytest.mark.alone
@pytest.mark.seconds(120)
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
def test_b54_valgrind(clusters):
    """Both daemons of n1 run under valgrind, with traffic, a reload and a full stop: no error and no leak."""
    cluster = clusters.fresh(daemons=False, nodes=2, layout="one")
    cluster.set_config("Announce", "DeadPeriods", "15")
    cluster.set_config("Balance", "Policy", "rr")
    cluster.start_node_daemons("n2")
    cluster.wrappers = {daemon: ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full",
                                 "--errors-for-leak-kinds=definite,indirect", "--show-leak-kinds=definite,indirect",
                                 "--suppressions=" + os.path.join(os.path.dirname(__file__), "libbpf.supp")]
                        for daemon in ("dprd", "loadcast")}
    cluster.start_node_daemons("n1")
    cluster.wait_ready(timeout_s=60)
    with load(cluster, ["n1", "n2"], flows=10, per_second=10) as work:
        os.kill(cluster.pid("n1", "loadcast"), signal.SIGHUP)
        for command in ("reload", "status", "peers", "flows", "metrics", "config"):
            cluster.dprctl("n1", command, check=False)  # valgrind may make it late
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(8)
    for daemon in ("dprd", "loadcast"):
        status = cluster.stop("n1", daemon, timeout_s=20)
        assert status == 0, cluster.log_text("n1", daemon)[-3000:]
    assert "==" not in cluster.log_text("n1", "dprd") + cluster.log_text("n1", "loadcast")


def dprd(cluster, *words, node="n1"):
    return run_in(cluster, node, [cluster.program("bin/dprd"), "-c", cluster.config_path(node), "--node", node,
                                  *words])


def test_b55_wrong_use(own3):
    """A second dprd in one directory, a key that all users may read, unknown options: refused, and the first dprd goes
    on."""
    pid = own3.status("n1")["pid"]
    status, said = dprd(own3)
    assert status == 1 and "another dprd is running here" in said
    status, said = dprd(own3, "--purge")
    assert status == 1 and "stop dprd before --purge" in said
    for program in ("bin/dprd", "bin/loadcast", "bin/dprctl"):
        status, said = run_in(own3, "n1", [own3.program(program), "--no-such-option"])
        assert status == 2 and ("try:" in said or "usage:" in said), (program, status, said)
    assert dprd(own3, "left-over")[0] == 2
    status, said = run_in(own3, "n1", [own3.program("bin/dprd"), "-c", "/nonexistent.conf"])
    assert status == 1 and "/nonexistent.conf: No such file" in said
    key = os.path.join(own3.directory, "cluster.key")
    os.chmod(key, 0o644)
    try:
        status, said = run_in(own3, "n1", [own3.program("bin/loadcast"), "-c", own3.config_path("n1"),
                                           "--node", "n1"])
        assert status == 1 and f"{key}: readable by everyone" in said, said
    finally:
        os.chmod(key, 0o600)
    assert own3.status("n1")["pid"] == pid


def test_b56_check(clusters):
    """dprd --check on a good node, then with each setting spoiled: it names what is wrong, and a command.

    The test runs that command: after it the check passes again.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    cluster.write_config("n1")
    n1 = cluster.node("n1")
    status, said = dprd(cluster, "--check")
    assert status == 0 and "n1 is ready" in said, said
    spoil = [
        (["sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1"], "rp_filter of eth1 is strict"),
        (["sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=0", "net.ipv4.conf.eth0.arp_ignore=0",
          "net.ipv4.conf.eth1.arp_ignore=0"], "arp_ignore of eth0 is 0"),
        (["ip", "address", "del", f"{n1.cluster_v4}/24", "dev", "eth1"], f"cluster address {n1.cluster_v4}"),
    ]
    for command, what in spoil:
        cluster.site.execute("n1", command)
        status, said = dprd(cluster, "--check")
        assert status == 1 and f"ERROR: {what}" in said, said
        for fix in re.findall(r"fix: (.*)", said):
            words = fix.split(", or ")[0].replace("INTERFACE", "eth1").split()
            assert words[0] in ("sysctl", "ip"), fix
            if "get" not in words:
                cluster.site.execute("n1", words)
        status, said = dprd(cluster, "--check")
        assert status == 0, said


@contextlib.contextmanager
def listening(cluster, *servers):
    """Sockets of n1 on port 8082 of these (address, IPv4 too) pairs."""
    with contextlib.ExitStack() as stack:
        for address, both in servers:
            with cluster.site.inside("n1"):
                server = stack.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
            if ":" in address:
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
            server.bind((address, 8082))
            server.listen()
        yield


def test_b57_check_sees_listeners(clusters):
    """dprd --check on a node whose web server listens for one family only: forwarded connections of the other would be
    reset.
    """
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    cluster.set_config("Service", "Port", "80 8082")
    cluster.write_config("n1")
    own = (cluster.node("n1").service_v6, False)
    for servers, family in [((("0.0.0.0", False), own), "IPv6 "), ((("::", False),), "IPv4 "), ((own,), "")]:
        with listening(cluster, *servers):
            status, said = dprd(cluster, "--check")
        assert status == 3 and said.count("warning") == 2, said  # one, and the last line
        assert f"port 8082 of the wildcard {family}address: forwarded {family}connections get a reset" in said, said
    with listening(cluster, ("::", True)):
        status, said = dprd(cluster, "--check")
    assert status == 0, said


def test_b58_check_sees_pins(clusters):
    """dprd --check by root for a unit whose user cannot pin. The command that it prints mends it."""
    cluster = clusters.fresh(daemons=False, nodes=2, layout="own")
    cluster.write_config("n1")
    node = cluster.node("n1")
    run = os.path.join(node.directory, "run")
    os.chown(run, 65534, -1)
    status, said = dprd(cluster, "--check")
    found = re.search(r"warning: (.*)\n +fix: (install .*)", said)
    if cluster.plane == "nfqueue":
        assert status == 0 and not found, said
        return
    assert status == 3 and found and node.pins in found[1] and "of user nobody does not start" in found[1], said
    assert run_in(cluster, "n1", found[2].split()) == (0, "")
    status, said = dprd(cluster, "--check")
    assert status == 0, said
    os.chown(node.pins, 0, 0)
    cluster.set_config("Datapath", "Plane", "auto")
    cluster.write_config("n1")
    status, said = dprd(cluster, "--check")
    wanted = "it belongs to another user, so a dprd of user nobody uses the slower plane nfqueue"
    assert status == 3 and wanted in said, said
    # Before the first start there is no run directory, but the user of the unit.
    os.rmdir(run)
    users = os.path.join(node.directory, "passwd")
    with open(users, "w", encoding="ascii") as file:
        file.write("root:x:0:0::/:/bin/sh\ndprd:x:65533:65533::/:/bin/false\n")
    status, said = run_in(cluster, "n1", ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', users,
                                          cluster.program("bin/dprd"), "-c", cluster.config_path("n1"), "--node", "n1",
                                          "--check"])
    assert status == 3 and "user dprd uses the slower plane nfqueue" in said, said
