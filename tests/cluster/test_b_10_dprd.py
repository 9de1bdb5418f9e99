# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 10: dprd is killed, frozen, restarted, upgraded or stopped while clients are connected."""
import contextlib
import os
import pwd
import re
import shutil
import socket
import subprocess
import time

import pytest

import hiccups
from cluster import TOP
from faultlib import (FIRST_SYN_S, RESTART_S, SECOND_SYN_S, eligible, frozen_whole, goes_on_s, load, state_of_kernel,
                      taken_over, wait_for)


def restart(cluster, node, pause_s):
    """Kills dprd, waits, starts a new one, and waits until its peers forward to it again."""
    cluster.kill(node, "dprd")
    time.sleep(pause_s)
    cluster.start(node, "dprd")
    wait_for(lambda: cluster.sees(node, ["n1", "n2", "n3"]), f"{node} is back", RESTART_S)


def check_taken_over(cluster, node, before, starts, flows):
    """Every start took over at least the long flows."""
    counts = taken_over(cluster, node)[before:]
    assert len(counts) == starts and min(counts) >= flows, (counts, flows)


@pytest.mark.parametrize("form, node", [("own3", "n1"), ("one3", "n2")], ids=["own-entry", "one-serving"])
def test_b10_dprd_is_killed(clusters, form, node):
    """All enter at n1, which forwards two thirds. dprd of n1 (of n2) is killed and comes back after 3, 1 and 0 s."""
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    starts = len(taken_over(cluster, node))
    with load(cluster, ["n1"]) as work:
        for pause_s in (3, 1, 0):
            restart(cluster, node, pause_s)
        back = time.monotonic()
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    work.check_waits(work.flows.each)
    assert {"n2", "n3"} <= set(work.served_by(since=back)), "n1 forwards again"
    check_taken_over(cluster, node, starts, 3, len(work.forwarded(entry=node)))


def test_b11_nobody_forwards_to_a_killed_dprd(own3):
    """dprd of n2 is killed, and away for a while. Soon n1 sends it nothing, and its own clients are served by it."""
    own3.set_policy("rr")
    with load(own3, ["n1", "n2"]) as work:
        own3.kill("n2", "dprd")
        dead = time.monotonic()
        wait_for(lambda: "n2" not in eligible(own3, "n1"), "n1 gives up n2", 2)
        gone = time.monotonic()
        time.sleep(2)
        own3.start("n2", "dprd")
        wait_for(lambda: own3.sees("n1", ["n1", "n2", "n3"]), "n2 is back", RESTART_S)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    work.check_waits(work.flows.each)
    assert set(work.served_by(to="n1", since=gone + 0.1, until=gone + 1.9)) == {"n1", "n3"}
    assert set(work.served_by(to="n2", since=dead + goes_on_s(own3) + 0.1, until=gone + 1.9)) == {"n2"}


@pytest.mark.parametrize("form, node", [("one3", "n1"), ("own3", "n2"), ("one3", "n2")],
                         ids=["one-entry", "own-serving", "one-serving"])
def test_b12_dprd_is_frozen(clusters, form, node):
    """All enter at n1. dprd of n1 (of n2) stands still for 0.3 s, then for 2 s: nothing is hijacked when it resumes.

    New connections of n1's clients are served by n1 at once. Packets that n1 sent to n2 are served there at once:
    BPF programs or the standby process take them out of the tunnel.
    """
    cluster = clusters.get(form)
    cluster.set_policy("rr")
    before = cluster.counters(node)
    with hiccups.Span() as span, load(cluster, ["n1"], per_second=40) as work:
        for frozen_s in (0.3, 2):
            cluster.freeze(node, "dprd")
            start = time.monotonic()
            time.sleep(frozen_s)
            cluster.resume(node, "dprd")
            time.sleep(1)
        end = start + frozen_s
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    after = cluster.counters(node)
    if node == "n1":
        late = work.made(since=start + goes_on_s(cluster) + 0.2, until=end)
        assert {connect.node for connect in late} == {"n1"}
        assert sorted(connect.waited for connect in late)[len(late) * 9 // 10] < 0.2
        # Exceptions are packets that dprd had in hand when it was stopped, or finds first when it goes on, and delays
        # of the host.
        assert after["stale_syn"] - before["stale_syn"] <= 4 + 40 * span.lost_s
        served = after["standby_served"] - before["standby_served"]
        # The BPF programs notice that dprd takes nothing from the queue, and queue no more. SYNs that they decide never
        # come to it.
        least = 30 if cluster.plane == "nfqueue" else 0 if cluster.decide.get("Decide") == "kernel" else 1
        assert served >= least, served
    else:
        assert after["stale_tunnel_syn"] - before["stale_tunnel_syn"] <= (0 if cluster.plane == "bpf" else
                                                                                  4 + 40 * span.lost_s)
        at_once = [connect for connect in work.made(since=start, until=start + 0.5) if connect.node == "n2"]
        assert at_once and max(connect.waited for connect in at_once) < 0.5, at_once


def test_b13_frozen_with_a_full_queue(own3):
    """dprd of n1 and its standby process stand still, and the short queue is full: new connections are served at once,
    past it."""
    own3.set_config("Queue", "Length", 16)
    own3.set_policy("rr")
    own3.stop("n1", "dprd")
    own3.start("n1", "dprd")
    own3.wait_ready()
    with load(own3, ["n1"]) as work:
        with frozen_whole(own3, "n1"):
            start = time.monotonic()
            time.sleep(3)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    late = work.check_connects(SECOND_SYN_S, since=start + 1, until=start + 2.5)
    assert {connect.node for connect in late} == {"n1"}
    assert sorted(connect.waited for connect in late)[len(late) // 2] < 0.2, "past the queue"
    own3.stop("n1", "dprd")  # the next test's dprd has its usual queue


def test_b14_restarts_and_upgrades(clusters):
    """Under load n1's dprd is stopped and started, with its flow table smaller in between; then comes another program
    file, and again the old one. The flows of other tests would not fit into the small table: the cluster is fresh.
    """
    one3 = clusters.fresh(layout="one")
    one3.set_policy("rr")
    starts = len(taken_over(one3, "n1"))
    other = os.path.join(one3.directory, "dprd-upgrade")
    shutil.copy(one3.program("bin/dprd"), other)
    with load(one3, ["n1", "n2"]) as work:
        for program, max_flows in ((None, 262144), (None, 2048), (None, 8192), (other, 8192), (None, 262144)):
            one3.set_config("Flows", "MaxFlows", max_flows, "n1")
            one3.write_config("n1")
            assert one3.stop("n1", "dprd") == 0
            if program:
                one3.daemons["n1", "dprd"] = one3.site.start("n1", [
                    program, "-c", one3.config_path("n1"), "--node", "n1"], one3.log_path("n1", "dprd"))
            else:
                one3.start("n1", "dprd")
            wait_for(lambda: one3.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
            time.sleep(0.2)
        end = time.monotonic()
        wait_for(lambda: one3.sees("n2", ["n1", "n2", "n3"]), "n2 sees n1", 15)
        time.sleep(0.5)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)
    work.check_waits(work.flows.each)
    assert {"n2", "n3"} <= set(work.served_by(to="n1", since=end))
    check_taken_over(one3, "n1", starts, 5, len(work.forwarded(entry="n1")))


def test_b15_stop_leaves_nothing(clusters):
    """dprd of a fresh n1 runs and is stopped before any client came: the kernel is as if it had never run."""
    cluster = clusters.fresh(daemons=False, nodes=3, layout="own")
    before = state_of_kernel(cluster, "n1")
    cluster.start_daemons()
    during = state_of_kernel(cluster, "n1")
    assert len(during) > len(before) + 10
    assert cluster.stop("n1", "dprd") == 0
    assert state_of_kernel(cluster, "n1") == before
    assert not os.path.exists(os.path.join(cluster.node("n1").directory, "run", "flows"))


def test_b16_stop_with_flows_then_purge(clusters):
    """n1's dprd is stopped while it forwards: everything that its flows need stays in the kernel until "dprd
    --purge"."""
    cluster = clusters.fresh(daemons=False, nodes=3, layout="one")
    before = state_of_kernel(cluster, "n1")
    cluster.start_daemons()
    cluster.set_policy("rr")
    with load(cluster, ["n1"], flows=30, per_second=20) as work:
        assert cluster.stop("n1", "dprd") == 0
        stopped = time.monotonic()
        kept = state_of_kernel(cluster, "n1")
        time.sleep(1.5)
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
        back = time.monotonic()
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by(since=stopped, until=stopped + 1.4)) == {"n1"}
    assert any("dprd" in line for line in kept) and "wait for the next dprd" in cluster.log_text("n1", "dprd")
    assert back - stopped - hiccups.lost_s(stopped, back) < 5
    cluster.stop("n1", "dprd")
    cluster.site.execute("n1", [cluster.program("bin/dprd"), "-c", cluster.config_path("n1"), "--node", "n1",
                                "--purge"])
    assert state_of_kernel(cluster, "n1") == before
    assert os.listdir(os.path.join(cluster.node("n1").directory, "run")) in ([], ["lock"])


def test_b17_killed_and_never_back(one3):
    """dprd of n1 is killed and not started again: every new connection to n1 is served by n1, none waits.

    A connect that was forwarded as dprd died waits for the next dprd, which does not come here; on the plane bpf it
    waits for no process.
    """
    one3.set_policy("rr")
    with load(one3, ["n1"], flows=0, per_second=100) as work:
        one3.kill("n1", "dprd")
        dead = time.monotonic()
        time.sleep(2.5)
    work.check_connects(FIRST_SYN_S, until=dead - (0 if one3.plane == "bpf" else 0.3))
    work.check_connects(FIRST_SYN_S, since=dead + 0.2)
    later = work.made(since=dead + goes_on_s(one3) + 0.2)
    assert len(later) > 30 and {connect.node for connect in later} == {"n1"}
    assert sorted(connect.waited for connect in later)[len(later) * 9 // 10] < 0.2, "nothing waits for a dead dprd"


def test_b18_watchdog(own3):
    """The test is n1's service manager, with a watchdog of 1 s. dprd reports to it, until it is frozen: then it is
    killed and started again. Connected clients notice only a pause.
    """
    path = os.path.join(own3.directory, "notify")
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    own3.set_policy("rr")
    own3.stop("n1", "dprd")
    own3.environment = [f"NOTIFY_SOCKET={path}", "WATCHDOG_USEC=1000000"]
    own3.start("n1", "dprd")
    own3.environment = []
    own3.wait_ready()
    with manager, load(own3, ["n1", "n2"]) as work:
        manager.settimeout(15)
        said = [manager.recv(4096) for _ in range(6)]
        # The watchdog is fed before, too, while the rules are set up.
        ready = [index for index, words in enumerate(said) if words.startswith(b"READY=1")]
        assert len(ready) == 1 and set(said[:ready[0]]) <= {b"WATCHDOG=1"} and b"WATCHDOG=1" in said[ready[0] + 1:]
        manager.settimeout(1)
        own3.freeze("n1", "dprd")
        with pytest.raises(TimeoutError):
            while True:
                manager.recv(4096)  # its former messages; then a second of silence
        own3.kill("n1", "dprd")
        own3.start("n1", "dprd")
        own3.wait_ready(timeout_s=15)
    work.check_flows()
    work.check_connects(SECOND_SYN_S)


def comm_of(pid, task):
    with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
        return file.read().strip()


@contextlib.contextmanager
def stuck_worker(pid, seconds):
    """The only worker of a dprd stands still for this long, each time before it reads its queues."""
    worker, = (task for task in os.listdir(f"/proc/{pid}/task") if comm_of(pid, task) == "dprd-worker")
    tracer = subprocess.Popen(["strace", "-qq", "-p", worker, "-e", "trace=poll", "-o", "/dev/null",
                               "-e", f"inject=poll:delay_enter={int(seconds * 1_000_000)}"])
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait(10)


def words_of(manager):
    """The messages of dprd to its service manager until now."""
    said = []
    with contextlib.suppress(BlockingIOError):
        while True:
            said.append(manager.recv(4096, socket.MSG_DONTWAIT))
    return said


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_b1a_a_worker_stands_still(own3):
    """dprd of n1 works, except its worker, which stands still. The test is n1's service manager: it gets no more
    watchdog messages and would end that dprd; and n1's peers learn that it takes nothing out of the tunnel."""
    path = os.path.join(own3.directory, "notify-worker")
    own3.set_config("Queue", "Workers", 1)
    own3.stop("n1", "dprd")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        own3.environment = [f"NOTIFY_SOCKET={path}", "WATCHDOG_USEC=1000000"]
        own3.start("n1", "dprd")
        own3.environment = []
        own3.wait_ready()
        wait_for(lambda: b"WATCHDOG=1" in words_of(manager), "n1 says that all is well", 3)
        with stuck_worker(own3.pid("n1", "dprd"), 30):
            wait_for(lambda: "n1" not in eligible(own3, "n2"), "n2 forwards nothing to n1", 5)
            time.sleep(1)
            words_of(manager)
            time.sleep(1.5)
            said = words_of(manager)
            assert said and b"WATCHDOG=1" not in said, said
            assert "n1" not in eligible(own3, "n2")
        wait_for(lambda: b"WATCHDOG=1" in words_of(manager), "all is well again", 5)
    own3.wait_ready(timeout_s=5)


def unit_setting(name):
    """A setting of dprd's systemd unit."""
    with open(os.path.join(TOP, "conf/dprd.service"), encoding="utf-8") as file:
        return re.search(f"^{name}=(.*)$", file.read(), re.MULTILINE)[1]


def nobodys_directories(cluster, node):
    """Gives nobody the directories that tmpfiles.d gives dprd; returns the words that run dprd as in its unit."""
    user = pwd.getpwnam("nobody")
    cluster.write_config(node)
    os.chmod(node.bpf_mount, 0o711)
    os.mkdir(node.pins, 0o700)
    for directory in (node.pins, os.path.join(node.directory, "run")):
        os.chown(directory, user.pw_uid, user.pw_gid)
    capabilities = ",".join("+" + name.removeprefix("CAP_").lower() for name in
                            unit_setting("AmbientCapabilities").split())
    assert unit_setting("CapabilityBoundingSet") == unit_setting("AmbientCapabilities")
    return ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups", "--no-new-privs",
            f"--inh-caps=-all,{capabilities}", f"--ambient-caps=-all,{capabilities}",
            f"--bounding-set=-all,{capabilities}", "--"]


def test_b19_without_root(clusters):
    """n1's dprd runs as nobody, with the capabilities of its systemd unit and its own directories. It forwards, is
    killed and takes over, stops and leaves nothing.
    """
    cluster = clusters.fresh(daemons=False, nodes=3, layout="own")
    cluster.set_config("Balance", "Policy", "rr")
    n1 = cluster.node("n1")
    before = state_of_kernel(cluster, "n1")
    as_nobody = nobodys_directories(cluster, n1)
    for node in ("n2", "n3"):
        cluster.start_node_daemons(node)
    cluster.start("n1", "loadcast")
    cluster.wrappers = {**cluster.wrappers, "dprd": as_nobody}
    cluster.start("n1", "dprd")
    cluster.wait_ready()
    assert cluster.status("n1")["datapath"] == cluster.plane, cluster.status("n1")["datapath_why"]
    with load(cluster, ["n1"], flows=30, per_second=20) as work:
        restart(cluster, "n1", 0.3)
        time.sleep(0.5)
    work.check_flows()
    work.check_waits(work.flows.each)
    work.check_connects(SECOND_SYN_S)
    check_taken_over(cluster, "n1", 0, 1, len(work.forwarded()))
    cluster.stop("n1", "dprd")
    cluster.site.execute("n1", cluster.wrappers["dprd"] + [cluster.program("bin/dprd"), "-c", cluster.config_path(n1),
                                                           "--node", "n1", "--purge"])
    assert state_of_kernel(cluster, "n1") == before


@pytest.mark.parametrize("signal_name", ["stop", "kill"])
def test_b1c_run_by_root_once(clusters, signal_name):
    """n1's dprd runs by hand as root, and ends. The unit's dprd, which is not root, gets the same plane and the flows."""
    cluster = clusters.fresh(daemons=False, nodes=3, layout="own")
    cluster.set_config("Balance", "Policy", "rr")
    as_nobody = nobodys_directories(cluster, cluster.node("n1"))
    for node in ("n1", "n2", "n3"):
        cluster.start_node_daemons(node)
    cluster.wait_ready()
    with load(cluster, ["n1"], flows=30, per_second=20) as work:
        getattr(cluster, signal_name)("n1", "dprd")
        cluster.wrappers = {**cluster.wrappers, "dprd": as_nobody}
        cluster.start("n1", "dprd")
        wait_for(lambda: cluster.sees("n1", ["n1", "n2", "n3"]), "n1 is back", RESTART_S)
        assert cluster.status("n1")["datapath"] == cluster.plane, cluster.status("n1")["datapath_why"]
        time.sleep(0.5)
    work.check_flows()
    work.check_waits(work.flows.each)
    check_taken_over(cluster, "n1", 0, 1, len(work.forwarded()))
