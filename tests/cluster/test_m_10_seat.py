# SPDX-License-Identifier: GPL-2.0-or-later
"""One seat 10: dprctl reaches the other nodes by a real ssh, and prints DNS records."""
import contextlib
import fcntl
import json
import os
import pty
import select
import stat
import struct
import subprocess
import termios
import threading
import time

from faultlib import Flows, wait_for
from seat import Seat

ALL = ["n1", "n2", "n3"]


def test_m10_another_host(own3):
    """dprctl --host n2 on n1 is dprctl on n2: its answer, its exit status, its arguments as they are. Without sshd, without
    dprctl there, and without ssh here, a line says so and the exit status is 2."""
    with Seat(own3) as seat:
        assert seat.json("n1", "--host", "n2", "status")["node"] == "n2"
        assert seat.json("n1", "--host=root@n3")["node"] == "n3"
        found = seat.dprctl("n1", "--host", "n2", "why", "203.0.113.7")
        assert (found.returncode, "of n2" in found.stdout) == (1, True), found
        odd = "it's $(id) \"x\""
        found = seat.dprctl("n1", "--host", "n2", "flows", "--to", odd)
        assert (found.returncode, odd in found.stderr) == (2, True), found
        assert seat.dprctl("n1", "--host", "n2", "drain").returncode == 0
        assert (own3.status("n2")["state"], own3.status("n1")["state"]) == ("draining", "active")
        assert seat.dprctl("n1", "--host", "n2", "undrain").returncode == 0

        own3.stop("n2", "dprd")
        found = seat.dprctl("n1", "--host", "n2", "peers")
        assert (found.returncode, "dprd does not run" in found.stderr) == (2, True), found
        os.unlink(seat.program("n2"))
        found = seat.dprctl("n1", "--host", "n2", "peers")
        assert (found.returncode, "not installed there" in found.stderr) == (2, True), found
        seat.stop("n3")
        found = seat.dprctl("n1", "--host", "n3", "peers")
        assert (found.returncode, "cannot be reached by ssh" in found.stderr) == (2, True), found
        found = seat.dprctl("n1", "--host", "n3", "peers", ssh="/nonexistent/ssh")
        assert (found.returncode, "ssh cannot be run" in found.stderr) == (2, True), found


def addresses(seat, node="n1"):
    return {record["address"] for record in json.loads(seat.dprctl(node, "zone", "--format=json").stdout)["records"]}


def service_addresses(cluster, *names):
    return {address for name in names for address in (cluster.node(name).service_v4, cluster.node(name).service_v6)}


def test_m11_records(own3):
    """dprctl zone lists the members that work. A node that drains or is silent is left out; a node without news lists all.
    Without dprd there is no record at all, and an error. A real dnsmasq answers with these records."""
    with Seat(own3) as seat:
        assert addresses(seat) == service_addresses(own3, *ALL)
        own3.dprctl("n2", "drain")
        wait_for(lambda: addresses(seat) == service_addresses(own3, "n1", "n3"), "n2 is left out", 3)
        assert seat.dprctl("n2", "zone").returncode == 0
        assert dnsmasq_answers(own3, seat) == {own3.node("n1").service_v4, own3.node("n3").service_v4}
        own3.freeze("n3", "loadcast")
        wait_for(lambda: addresses(seat) == service_addresses(own3, "n1"), "n3 is left out", 3)
        wait_for(lambda: addresses(seat, "n3") == service_addresses(own3, *ALL), "n3 itself lists all", 3)
        assert seat.dprctl("n3", "zone", "www").returncode == 1
        own3.resume("n3", "loadcast")
        own3.stop("n1", "dprd")
        found = seat.dprctl("n1", "zone", "www")
        assert (found.returncode, found.stdout, "dprd does not run" in found.stderr) == (2, "", True), found


def dnsmasq_answers(cluster, seat):
    """The IPv4 addresses of www.example.org that a dnsmasq with the records gives, in the namespace of n1."""
    path = seat.path("records.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(seat.dprctl("n1", "zone", "www.example.org", "--format=dnsmasq").stdout)
    child = cluster.site.start("n1", ["dnsmasq", "-k", "-p", "5399", "-C", path, "--no-resolv", "--no-hosts", "--pid-file="],
                               seat.path("dnsmasq.log"))
    try:
        ask = ["dig", "-p", "5399", "+short", "+time=1", "+tries=5", "@127.0.0.1", "www.example.org", "A"]
        return set(cluster.wait_until(lambda: cluster.site.ask("n1", ask, check=False).split(), "dnsmasq answers"))
    finally:
        child.terminate()
        child.wait(5)
        cluster.site.reap()


def test_m12_views(own3):
    """dprctl cluster: all agree; n2 drains, and all agree; loadcast of n3 stands still, so it and the others see each other as
    they are not; sshd of n2 is away. Each is told, with exit status 1. It also works on a node whose dprd is dead."""
    with Seat(own3) as seat:
        found = seat.dprctl("n1", "cluster")
        assert (found.returncode, "all nodes agree" in found.stdout) == (0, True), found
        own3.dprctl("n2", "drain")
        wait_for(lambda: seat.dprctl("n1", "cluster").returncode == 0, "all know that n2 drains", 5)
        own3.freeze("n3", "loadcast")
        late = "n1 sees n3 as LATE (not heard), which say of themselves: up"
        wait_for(lambda: late in seat.json("n1", "cluster")["disagreements"], "n1 gives up n3", 5)
        own3.resume("n3", "loadcast")
        own3.dprctl("n2", "undrain")
        seat.stop("n2")
        own3.stop("n1", "dprd")
        start = time.monotonic()
        found = seat.dprctl("n1", "cluster")
        assert time.monotonic() - start < 15
        assert found.returncode == 1
        assert "! n1 does not answer: dprd does not run" in found.stdout
        assert "! n2 does not answer: it cannot be reached by ssh" in found.stdout
        assert "n3     up" in found.stdout


def texts(cluster):
    return {node.name: cluster.config_text(node) for node in cluster.nodes}


def inner(cluster, node, name):
    """A member as dprd of the node has it."""
    return next((member for member in cluster.status(node)["members"] if member["name"] == name), None)


def test_m13_members(clusters):
    """dprctl member adds, weighs and removes a member on one node and on all. Comments, mode and a link stay. A change that one
    node cannot make is made nowhere; one that fails in the middle is taken back; a refused file changes nothing."""
    cluster = clusters.fresh(nodes=3, layout="own")
    add = ["member", "add", "n4", "--service", "192.0.2.14", "--cluster", "10.80.0.14"]
    with Seat(cluster) as seat:
        path = cluster.config_path(cluster.node("n1"))
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
        with open(path, "a", encoding="ascii") as file:
            file.write("# the end\n")
        os.chmod(path, 0o640)
        cluster.dprctl("n1", "reload")
        before = texts(cluster)

        found = seat.dprctl("n1", *add, "--dry-run")
        assert (found.returncode, '+[Member "n4"]' in found.stdout) == (0, True), found
        assert texts(cluster) == before
        found = seat.dprctl("n1", "member", "add", "n4", "--service", cluster.node("n2").service_v4)
        assert (found.returncode, "belongs to [Member" in found.stderr, texts(cluster)) == (2, True, before), found

        found = seat.dprctl("n1", *add)
        assert found.returncode == 0, found
        assert os.path.islink(path) and stat.S_IMODE(os.stat(path).st_mode) == 0o640
        assert inner(cluster, "n1", "n4") and not inner(cluster, "n2", "n4")
        # n2 and n3 could make the change, and n1 cannot: nothing happens anywhere.
        found = seat.dprctl("n2", *add, "--all")
        assert (found.returncode, "n1 cannot make this change" in found.stderr) == (2, True), found
        assert {**texts(cluster), "n1": before["n1"]} == before
        assert seat.dprctl("n1", "member", "undo").returncode == 0
        assert texts(cluster) == before and not inner(cluster, "n1", "n4")

        found = seat.dprctl("n2", "member", "weight", "n3", "50", "--all")
        assert found.returncode == 0, found
        wait_for(lambda: all(inner(cluster, node.name, "n3")["weight"] == 50 for node in cluster.nodes), "n3 weighs 50", 3)
        assert "# the end" in cluster.config_text("n1")
        heavy = texts(cluster)

        # dprd of n3 is away: it can check a change, but not make it. n2 has the value from a former change, which stays.
        assert seat.dprctl("n2", "member", "weight", "n1", "7").returncode == 0
        cluster.stop("n3", "dprd")
        found = seat.dprctl("n1", "member", "weight", "n1", "7", "--all")
        assert (found.returncode, found.stderr.count(": taken back")) == (2, 1), found
        assert {**texts(cluster), "n2": heavy["n2"]} == heavy and "Weight=7" in cluster.config_text("n2")
        assert seat.dprctl("n2", "member", "undo").returncode == 0
        cluster.start("n3", "dprd")
        cluster.wait_ready(timeout_s=15)

        found = seat.dprctl("n1", *add, "--all")
        assert found.returncode == 0, found
        assert all(inner(cluster, node.name, "n4") for node in cluster.nodes)
        more = texts(cluster)

        cluster.stop("n3", "dprd")
        found = seat.dprctl("n1", "member", "remove", "n4", "--all")
        assert (found.returncode, found.stderr.count(": taken back")) == (2, 2), found
        assert texts(cluster) == more and inner(cluster, "n1", "n4") and inner(cluster, "n2", "n4")
        found = seat.dprctl("n3", "member", "weight", "n4", "5")
        assert (found.returncode, "dprd does not run" in found.stderr, texts(cluster)) == (2, True, more), found
        cluster.start("n3", "dprd")
        cluster.wait_ready(timeout_s=15)
        found = seat.dprctl("n1", "member", "remove", "n4", "--all")
        assert found.returncode == 0, found
        assert texts(cluster) == heavy
        check_editor(cluster, seat)
        check_undo_with_connections(cluster, seat)


def check_editor(cluster, seat):
    """An editor saves dprd.conf of n3 while dprctl waits for dprd: its text stays."""
    path = cluster.config_path(cluster.node("n3"))

    def save():
        with open(path, "a", encoding="ascii") as file:
            file.write("# by an editor\n")
        cluster.resume("n3", "dprd")

    cluster.freeze("n3", "dprd")
    saves = threading.Timer(0.5, save)
    saves.start()
    found = seat.dprctl("n3", "member", "weight", "n1", "9")
    saves.join()
    assert (found.returncode, "changed by another program" in found.stderr) == (2, True), found
    assert cluster.config_text("n3").endswith("# by an editor\n") and "Weight=9" not in cluster.config_text("n3")


def check_undo_with_connections(cluster, seat):
    """n1 adds n3 and forwards connections to it: to undo that would end them."""
    cluster.set_policy("rr")
    n3 = cluster.node("n3")
    cluster.wait_ready()
    assert seat.dprctl("n1", "member", "remove", "n3").returncode == 0
    found = seat.dprctl("n1", "member", "add", "n3", "--service", n3.service_v4, "--service", n3.service_v6, "--cluster",
                        n3.cluster_v4, "--cluster", n3.cluster_v6)
    assert found.returncode == 0, found
    wait_for(lambda: inner(cluster, "n1", "n3")["eligible"], "n1 gives n3 connections", 10)
    flows = Flows(cluster, [cluster.node("n1").service_v4], 9)
    try:
        assert flows.wait_ready() == 9
        before = texts(cluster)
        found = seat.dprctl("n1", "member", "undo")
        assert (found.returncode, "connections are forwarded to n3" in found.stderr) == (2, True), found
        assert texts(cluster) == before
    finally:
        flows.end()
    assert all(flow["fate"] == "good" for flow in flows.each), flows.each


class Screen:
    """dprctl top on a terminal of its own, in the namespace of a node."""

    def __init__(self, cluster, seat, node):
        self.seen = ""
        self.master, inner_end = pty.openpty()
        self.size(24, 100)
        self.child = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{cluster.site.name(node)}", "env", "TERM=vt100", "LC_ALL=C", seat.program(node), "top",
             "--interval", "1"], preexec_fn=lambda: os.login_tty(inner_end))
        os.close(inner_end)

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def shows(self, text):
        """True when the terminal has got this text since the last question."""
        with contextlib.suppress(OSError):  # the program has ended
            while select.select([self.master], [], [], 0)[0]:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
        found = text in self.seen
        if found:
            self.seen = ""
        return found

    def end(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.child.wait(5)
        self.child.kill()
        return self.child.wait(5)


def shown_up(found, name):
    return found if f" {name}     up " in found.stdout else None


def test_m14_top(own3):
    """dprctl top on a terminal: it shows all nodes, fits into a small one, drains this node after a question, says when dprd is
    away, and quits. Elsewhere it prints lines, and without dprd an error."""
    with Seat(own3) as seat:
        found = own3.wait_until(lambda: shown_up(seat.dprctl("n1", "top", "--once", "--interval", "1"), "n3"),
                                "n1 shows n3, whose probes come again")
        assert (found.returncode, "decisions p50" in found.stdout) == (0, True), found
        screen = Screen(own3, seat, "n1")
        try:
            wait_for(lambda: screen.shows("q quit"), "the first view", 5)
            screen.size(6, 30)
            wait_for(lambda: screen.shows("NODE"), "a view on a small terminal", 5)
            screen.press("dn")
            time.sleep(0.5)
            assert own3.status("n1")["state"] == "active"
            screen.press("dy")
            wait_for(lambda: own3.status("n1")["state"] == "draining", "n1 drains", 5)
            wait_for(lambda: screen.shows("Enter: back"), "the answer of dprd", 5)
            screen.press("\n")
            screen.size(24, 100)
            own3.stop("n1", "dprd")
            wait_for(lambda: screen.shows("DOES NOT ANSWER"), "dprd is away", 5)
            screen.press("q")
        finally:
            status = screen.end()
            os.close(screen.master)
        assert status == 0
        found = seat.dprctl("n1", "top", "--once")
        assert (found.returncode, "dprd does not run" in found.stderr) == (2, True), found
        own3.start("n1", "dprd")
        own3.wait_until(lambda: own3.status("n1").get("state") == "draining", "n1 answers, and drains as before its stop")
        own3.dprctl("n1", "undrain")
