# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 20: loadcast, a whole host, the web server; drain; configuration under load."""
import contextlib
import os
import shutil
import signal
import subprocess
import time

import pytest

import hiccups
from faultlib import FIRST_SYN_S, RESTART_S, SECOND_SYN_S, eligible, kill_host, load, members, reload_both, settings, wait_for
from netns import LabError
from traffic import connect, counting, flows, forward_to, read_line, service, url, whoami

ALL = ["n1", "n2", "n3"]


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_b20_loadcast_is_away(own3, fault):
    """loadcast of n2 is killed (frozen): within 1.5 s no node forwards to n2, and n2 serves its clients. It is back."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        if fault == "killed":
            own3.kill("n2", "loadcast")
        else:
            own3.freeze("n2", "loadcast")
        start = time.monotonic()
        wait_for(lambda: "n2" not in eligible(own3, "n1"), "n1 gives up n2", 1.5)
        wait_for(lambda: not eligible(own3, "n2"), "n2 is on its own", 1.5)
        alone = time.monotonic()
        time.sleep(1.2)
        end = time.monotonic()
        if fault == "killed":
            own3.start("n2", "loadcast")
        else:
            own3.resume("n2", "loadcast")
        own3.wait_ready(timeout_s=15)
        back = time.monotonic()
        time.sleep(0.4)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert alone - start < 2
    assert set(work.served_by(to="n2", since=alone + 0.1, until=end)) == {"n2"}
    assert set(work.served_by(to="n1", since=alone + 0.1, until=end)) == {"n1", "n3"}
    assert "n2" in work.served_by(to="n1", since=back)


def test_b28_loadcast_is_stopped(own3):
    """loadcast of n2 is stopped and takes its table with it, as systemd does (RuntimeDirectory=); dprd of n2 is stopped
    and started meanwhile, and loadcast again. Connections that n1 forwards to n2 go on."""
    own3.set_policy("rr")
    with load(own3, ["n1"]) as work:
        own3.stop("n2", "loadcast")
        os.unlink(os.path.join(own3.node("n2").directory, "table"))
        wait_for(lambda: "n2" not in eligible(own3, "n1"), "n1 gives up n2", 1.5)
        time.sleep(1)
        own3.stop("n2", "dprd")
        own3.start("n2", "dprd")
        wait_for(lambda: own3.status("n2"), "dprd of n2 answers", RESTART_S)
        time.sleep(1)
        own3.start("n2", "loadcast")
        own3.wait_ready(timeout_s=RESTART_S)
        back = time.monotonic()
        time.sleep(0.4)
    work.check_flows()
    work.check_waits(work.forwarded(serving="n2"))
    work.check_connects(FIRST_SYN_S)
    assert "n2" in work.served_by(to="n1", since=back)


def test_b21_a_host_is_gone(clusters):
    """n2's host dies under load. Only connections that it served, or that were addressed to it, break: at n1 with a
    reset, after DeadPeerTimeout. New connections get through. Then the host boots: within 3 s of its start it has
    clients again.
    """
    cluster = clusters.get("own3")
    with settings(cluster, Flows={"DeadPeerTimeout": "1500ms"}):
        with load(cluster, ALL, new_to=["n1", "n3"], finish_s=1) as work:
            host = kill_host(cluster, "n2")
            dead = host.at
            wait_for(lambda: not any("n2" in eligible(cluster, node) for node in ("n1", "n3")), "n2 is given up", 1.5)
            gone = time.monotonic()
            assert any(flow["node"] == "n2" for flow in flows(cluster, "n1")), "kept, in case n2 comes back"
            wait_for(lambda: not any(flow["node"] == "n2" for node in ("n1", "n3") for flow in flows(cluster, node)),
                     "flows to n2 are forgotten", 4)
            time.sleep(max(0, dead + 4.5 - time.monotonic()))  # a retransmission of each client hits n1's own stack
            end = time.monotonic()
            cluster.restart_host("n2")
            wait_for(lambda: all(cluster.sees(node, ALL) for node in ALL), "n2 is back", 15)
            back = time.monotonic()
            time.sleep(0.5)
    work.check_flows(unless=lambda flow: "n2" in (work.entry_of(flow), flow["node"]))
    work.check_connects(SECOND_SYN_S, host)
    orphans = work.forwarded(entry="n1", serving="n2") + work.forwarded(entry="n3", serving="n2")
    assert len(orphans) > 5
    for flow in orphans:
        assert flow["fate"] == "broken" and "reset" in flow["error"], flow
        assert 1.4 < flow["over"] - dead < 9 + hiccups.lost_s(dead, flow["over"]), (flow, dead)
    assert "n2" not in work.served_by(since=gone + 0.1, until=end)
    assert "n2" in work.served_by(since=back)


def test_b22_drain(one3):
    """n2 drains: after 1 s it serves no new connections, but goes on with the present ones. "drain --wait" ends when
    they are gone. Undrain."""
    command = ["ip", "netns", "exec", one3.site.name("n2"), one3.program("bin/dprctl"), "-c", one3.config_path("n2"),
               "drain", "--wait", "--timeout", "30"]
    with settings(one3, Flows={"FinTimeout": "500ms", "RstTimeout": "500ms"}):
        with load(one3, ALL) as work:
            asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            start = time.monotonic()
            wait_for(lambda: not any("n2" in eligible(one3, node) for node in ("n1", "n3")), "n2 is left alone", 1)
            time.sleep(max(0, start + 1 - time.monotonic()))
            drained = time.monotonic()
            time.sleep(1.5)
            assert asked.poll() is None, "it has connections still"
            end = time.monotonic()
        said, _ = asked.communicate(timeout=8)
        assert asked.returncode == 0 and "drained" in said
        assert all(flow["state"] in ("closing", "reset") for flow in flows(one3, "n2"))
        with load(one3, ["n1", "n2"], flows=0) as after:
            assert members(one3, "n1")["n2"]["state"] == "draining"
            one3.dprctl("n2", "undrain")
            undrained = time.monotonic()
            wait_for(lambda: one3.sees("n1", ALL), "n2 is back", 1.5)
            time.sleep(1)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert "n2" not in work.served_by(since=drained, until=end)
    assert work.served_by(to="n2", since=drained, until=end), "its clients were served elsewhere"
    after.check_connects(FIRST_SYN_S)
    assert "n2" not in after.served_by(since=0, until=undrained)
    for entry in ("n1", "n2"):
        assert "n2" in after.served_by(to=entry, since=undrained + 0.5)


def test_b23_a_web_server_is_gone(own3):
    """n2's servers end: once its loadcast has seen it, n2's clients are served by the others. The servers come back."""
    with settings(own3, Health={"Interval": "100ms", "Timeout": "200ms", "Fall": "2", "Rise": "1"}):
        with load(own3, ["n1", "n2"]) as work:
            own3.stop_web("n2")
            wait_for(lambda: all(members(own3, node)["n2"]["state"] == "unhealthy" for node in ALL),
                     "n2 is unhealthy", 1.5)
            seen = time.monotonic()
            time.sleep(1)
            end = time.monotonic()
            own3.start_web("n2")
            wait_for(lambda: own3.sees("n1", ALL) and own3.status("n2")["state"] == "active", "n2 is healthy", 1.5)
            back = time.monotonic()
            time.sleep(0.5)
    work.check_flows(unless=lambda flow: flow["node"] == "n2")
    work.check_connects(FIRST_SYN_S, since=seen + 0.5)
    assert set(work.served_by(to="n2", since=seen + 0.5, until=end)) == {"n1", "n3"}
    assert "n2" in work.served_by(to="n2", since=back + 0.1) and "n2" in work.served_by(to="n1", since=back + 0.1)


def test_b24_no_web_server_at_all(one3):
    """The servers of all nodes end. A client is refused at once: no node forwards it, and none in a circle."""
    with settings(one3, Health={"Interval": "100ms", "Timeout": "200ms", "Fall": "2", "Rise": "1"}):
        for node in ALL:
            one3.stop_web(node)
        wait_for(lambda: all(member["state"] == "unhealthy" for node in ALL for member in members(one3, node).values()),
                 "all are unhealthy", 15)
        time.sleep(0.2)
        with counting(one3) as moved, load(one3, ALL, flows=0) as work:
            time.sleep(1)
        for node in ALL:
            one3.start_web(node)
        one3.wait_ready(timeout_s=15)
    assert len(work.connects.made) > 30
    assert {connect.error for connect in work.connects.made} == {"Connection refused"}
    assert max(connect.waited for connect in work.connects.made) < 0.5
    assert not any(counts.get("from_peer") for counts in moved.values()), moved


def test_b25_configuration_changes(own3):
    """Policies and weights change under load, three times a second; then come three files with errors in them."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        for turn, policy in enumerate(["random", "li", "wrr", "least", "wlc", "rr"]):
            own3.set_config("Balance", "Policy", policy)
            own3.set_weight("n2", 1 + turn % 3)
            reload_both(own3)
            time.sleep(0.3)
        path = own3.config_path("n1")
        with open(path, encoding="utf-8") as file:
            good = file.read()
        line = next(number for number, text in enumerate(good.splitlines(), 1) if text.startswith("Policy="))
        for bad in ("Policy=nonsense", "Police=rr", "[Balance"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(good.replace("Policy=rr", bad))
            with pytest.raises(LabError, match=f"dprd.conf:{line}: "):
                own3.dprctl("n1", "reload")
            os.kill(own3.pid("n1", "dprd"), signal.SIGHUP)
            os.kill(own3.pid("n1", "loadcast"), signal.SIGHUP)
            wait_for(lambda: own3.log_text("n1", "loadcast").count(f"dprd.conf:{line}: "), "loadcast names the line", 15)
            time.sleep(0.2)
            assert own3.status("n1")["policy"] == "rr" and own3.sees("n1", ALL)
        with open(path, "w", encoding="utf-8") as file:
            file.write(good)
        marked = time.monotonic()
        time.sleep(0.3)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert own3.log_text("n1", "dprd").count(f"dprd.conf:{line}: ") >= 3, "SIGHUP says it in the log"
    assert set(work.served_by(to="n1", since=marked)) == set(ALL)


@pytest.mark.parametrize("form", ["own3", "one3"], ids=["own", "one"])
def test_b27_reloads_lose_nothing(clusters, form):
    """n1 is reloaded every 150 ms while it gets SYNs as fast as one client can send: the queue loses none."""
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    with counting(cluster) as moved:
        client = cluster.site.start("c1", ["wrk", "-t1", "-c20", "-d3s", "-H", "Connection: close",
                                           url(cluster.node("n1").service_v4, "/whoami")],
                                    os.path.join(cluster.directory, "wrk.log"), stdout=subprocess.PIPE)
        for _ in range(18):
            cluster.reload("n1")
            time.sleep(0.15)
        said = client.communicate(timeout=10)[0].decode()
        cluster.site.reap()
    assert "Socket errors" not in said and "Non-2xx" not in said, said
    assert moved["n1"]["syns"] > 500
    assert "verdict_errors" not in moved["n1"] and "no_tunnel" not in moved["n1"], moved["n1"]


def signal_all(pids, number):
    """Signals all of them; a process that was only a command of a daemon may be gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def test_b26_a_host_is_paused(one3):
    """All of n2 stands still for 2 s, like a virtual machine that is moved. Connections that it serves wait; others do
    not."""
    one3.set_policy("rr")
    pids = one3.site.pids("n2")
    assert len(pids) >= 5
    with load(one3, ALL, new_to=["n1", "n3"]) as work:
        signal_all(pids, signal.SIGSTOP)
        start = time.monotonic()
        try:
            wait_for(lambda: not any("n2" in eligible(one3, node) for node in ("n1", "n3")), "n2 is given up", 1.5)
            gone = time.monotonic()
            time.sleep(max(0, start + 2 - gone))
            end = time.monotonic()
        finally:
            signal_all(pids, signal.SIGCONT)
        one3.wait_ready(timeout_s=15)
        time.sleep(0.3)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    assert set(work.served_by(since=gone + 0.1, until=end - 0.1)) == {"n1", "n3"}
    assert work.longest_ms(work.local("n1") + work.forwarded(entry="n1", serving="n3")) < 500


def test_b29_a_tool_fails_at_a_reload(clusters):
    """n3 becomes a member while n1's nft fails for 2 s. n1 complains once, tries again now and then, and takes packets
    that n3 forwards when nft works again."""
    cluster = clusters.fresh(daemons=False, nodes=3, layout="own")
    tools, broken, tries = (os.path.join(cluster.directory, name) for name in ("tools", "broken", "tries"))
    os.mkdir(tools)
    with open(os.path.join(tools, "nft"), "w", encoding="ascii") as file:
        file.write(f'#!/bin/sh\n[ -e {broken} ] || exec {shutil.which("nft")} "$@"\necho "$*" >>{tries}\nexit 1\n')
    os.chmod(os.path.join(tools, "nft"), 0o755)
    all_members = cluster.member_lines()
    cluster.member_lines = lambda: all_members[:all_members.index('[Member "n3"]')]
    cluster.environment = [f"PATH={tools}:{os.environ['PATH']}"]
    cluster.start_node_daemons("n1")
    cluster.environment = []
    cluster.start_node_daemons("n2")
    cluster.wait_ready(["n1", "n2"])
    with open(broken, "w", encoding="ascii"):
        start = time.monotonic()
    del cluster.member_lines
    reload_both(cluster)
    cluster.start_node_daemons("n3")
    time.sleep(2)
    os.unlink(broken)
    failed_s = time.monotonic() - start
    wait_for(lambda: "the firewall rules are complete" in cluster.log_text("n1", "dprd"), "n1's rules are complete", 15)
    cluster.wait_ready()
    log = cluster.log_text("n1", "dprd")
    assert log.count("nft failed") == log.count("the firewall rules are incomplete") == 1, log
    with open(tries, encoding="ascii") as file:
        installs = sum("-f" in line for line in file)
    # The first time, when the kernel's rules are unknown, the script is tried twice more.
    assert 4 < installs <= 2 + 2 * (failed_s + 1), "a script, then another one in its place, each second"
    forward_to(cluster, "n1", entry="n3")
    n3 = cluster.node("n3")
    assert [whoami(cluster, address) for address in (n3.service_v4, n3.service_v6)] == ["n1", "n1"]


def test_b2a_a_member_is_removed(clusters):
    """n1's configuration loses n3. Connections that n1 forwarded to n3 end with a reset at the client's next packet;
    all other connections go on, and n1 forwards on to n2."""
    cluster = clusters.fresh(nodes=3, layout="own")
    cluster.set_policy("rr")
    n1 = cluster.node("n1")
    connections = [connect(cluster, service(n1, family), 8080) for family in ("v4", "v6") for _ in range(6)]
    names = [read_line(connection) for connection in connections]
    assert set(names) == {"n1", "n2", "n3"}, names
    all_members = cluster.member_lines()
    cluster.member_lines = lambda: all_members[:all_members.index('[Member "n3"]')]
    reload_both(cluster, "n1")
    assert {flow["node"] for flow in flows(cluster, "n1")} == {"n2"}
    for connection, name in zip(connections, names):
        with connection:
            connection.settimeout(3)
            if name == "n3":
                with pytest.raises(ConnectionResetError):
                    connection.sendall(b"still there\n")
                    connection.recv(100)
            else:
                connection.sendall(b"still there\n")
                assert read_line(connection) == "still there"
    cluster.wait_until(lambda: "n2" in eligible(cluster, "n1"), "n1 forwards to n2")
    assert {whoami(cluster, n1.service_v4) for _ in range(6)} == {"n1", "n2"}
