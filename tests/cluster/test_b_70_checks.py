# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 70: a web server that works in part, with Check=auto: it fails fast, lacks a port, stands still, speaks TLS."""
import contextlib
import math
import os
import signal
import subprocess
import time

import hiccups
import pytest
from faultlib import in_time, members, reload_both, settings, wait_for
from netns import start_time, stop_processes
from traffic import connect, counting, read_line, run_in, whoami

ALL = ["n1", "n2", "n3"]
QUICK = {"Interval": "100ms", "Timeout": "200ms", "Fall": "2", "Rise": "1"}


def nginx_pid(cluster, which):
    with open(os.path.join(cluster.node(which).directory, "nginx.pid"), encoding="ascii") as file:
        return int(file.read())


def nginx_processes(cluster, which):
    pid = nginx_pid(cluster, which)
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [pid] + [int(word) for word in file.read().split()]


@contextlib.contextmanager
def nginx_with(cluster, which, *changes):
    """nginx reads a changed configuration, and its own again at the end."""
    path = os.path.join(cluster.node(which).directory, "nginx.conf")
    with open(path, encoding="ascii") as file:
        good = changed = file.read()
    for before, after in changes:
        assert before in changed
        changed = changed.replace(before, after)
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(changed)
        os.kill(nginx_pid(cluster, which), signal.SIGHUP)
        yield
    finally:
        with open(path, "w", encoding="ascii") as file:
            file.write(good)
        os.kill(nginx_pid(cluster, which), signal.SIGHUP)


def ports_down(cluster, node, of):
    return members(cluster, node)[of]["ports_down"]


def all_see(cluster, of, ports, within_s, what):
    wait_for(lambda: all(ports_down(cluster, node, of) == ports for node in ALL), what, within_s)


def served_at(cluster, entry, port, count=12):
    """Which nodes serve new connections to a port of an entry node's address."""
    names = set()
    for _ in range(count):
        with connect(cluster, cluster.node(entry).service_v4, port) as made:
            names.add(read_line(made))
    return names


def test_b79_a_server_fails_fast(cluster3):
    """n2's nginx answers every request with 500: it is out for its port, and back when it answers well."""
    with settings(cluster3, Health=QUICK):
        time.sleep(0.5)  # loadcast learns what the port speaks
        with nginx_with(cluster3, "n2", ("location / {", "location / {\n return 500;")):
            all_see(cluster3, "n2", [80], 3, "n2's port 80 is out")
            assert {whoami(cluster3, cluster3.node(entry).service_v4) for entry in ("n1", "n2") for _ in range(6)} \
                == {"n1", "n3"}
            assert "n2" in served_at(cluster3, "n1", 8080), "its other ports serve"
            warnings = cluster3.status("n1")["warnings"]
            assert any("port 80 of the web server of n2" in warning["text"] for warning in warnings), warnings
            warnings = cluster3.status("n2")["warnings"]
            assert any("port 80 of this node's web server" in warning["text"] for warning in warnings), warnings
        all_see(cluster3, "n2", [], 3, "n2's port 80 is back")
        assert "HTTP status 500 for /" in cluster3.log_text("n2", "loadcast")


def test_b71_a_port_is_dead(cluster3):
    """n2's server of 8080 and 8081 ends: connections to them, also those of n2's own clients, are served elsewhere and
    never refused; port 80 of n2 serves as before, and so does everything when the server is back."""
    with settings(cluster3, Health=QUICK):
        echo = cluster3.webs["n2"][1]
        stop_processes([(echo.pid, start_time(echo.pid))], cluster3.site.children)
        all_see(cluster3, "n2", [8080, 8081], 3, "n2's ports are out")
        assert all(member["state"] == "active" for member in members(cluster3, "n1").values())
        with counting(cluster3) as moved:
            assert served_at(cluster3, "n1", 8080) == {"n1", "n3"}
            assert served_at(cluster3, "n2", 8080) == {"n1", "n3"}
        assert moved["n2"].get("unhealthy", 0) >= 12, moved
        assert {whoami(cluster3, cluster3.node("n1").service_v4) for _ in range(9)} == set(ALL)
        cluster3.stop_web("n2")
        wait_for(lambda: members(cluster3, "n1")["n2"]["state"] == "unhealthy", "n2 is out as a whole", 3)
        assert ports_down(cluster3, "n1", "n2") == []
        cluster3.start_web("n2")
        all_see(cluster3, "n2", [], 3, "n2's ports are back")
        wait_for(lambda: members(cluster3, "n1")["n2"]["eligible"], "n2 is back", 3)
        assert served_at(cluster3, "n1", 8080) == set(ALL)


def test_b72_a_server_stands_still(own3):
    """n2's nginx is stopped by a signal, with the default intervals: the kernel goes on opening its connections, and it is
    out within three intervals all the same. It goes on, and is back."""
    own3.set_policy("rr")
    time.sleep(1.5)
    processes = nginx_processes(own3, "n2")
    try:
        for pid in processes:
            os.kill(pid, signal.SIGSTOP)
        begun = time.monotonic()
        wait_for(lambda: all(ports_down(own3, node, "n2") == [80] for node in ALL), "n2's port 80 is out", 15)
        took = time.monotonic() - begun - hiccups.lost_s(begun, time.monotonic())
        assert "the server does not accept connections" in own3.log_text("n2", "loadcast")
        assert {whoami(own3, own3.node(entry).service_v4) for entry in ("n1", "n2") for _ in range(6)} == {"n1", "n3"}
    finally:
        for pid in processes:
            os.kill(pid, signal.SIGCONT)
    all_see(own3, "n2", [], 5, "n2's port 80 is back")
    # An announcement, and dprd's next look at the table.
    in_time(took < 3 + 0.5, f"it took {took:.1f} s")


def test_b73_a_port_speaks_tls(own3):
    """Port 80 of n2 becomes one of TLS, whose nginx answers a GET with a page that says 400: it is asked for TLS soon, and
    for nothing else. A server without a certificate that can be used is out."""
    directory = own3.node("n2").directory
    key, certificate, log = (os.path.join(directory, name) for name in ("key.pem", "certificate.pem", "gets.log"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=n2"], check=True, stderr=subprocess.DEVNULL)
    tls = [("listen 80 backlog=4096;", f"listen 80 ssl backlog=4096;\n ssl_certificate {certificate};"
                                       f"\n ssl_certificate_key {key};\n access_log {log};")]
    with settings(own3, Health=QUICK):
        time.sleep(0.5)
        with nginx_with(own3, "n2", *tls):
            wait_for(lambda: os.path.exists(log) and os.path.getsize(log), "it was asked by a GET", 10)
            time.sleep(1)
            with open(log, encoding="ascii") as file:
                asked = len(file.readlines())
            time.sleep(1.5)
            with open(log, encoding="ascii") as file:
                lines = file.readlines()
            assert len(lines) == asked <= 3, lines
            assert all(" 400 " in line for line in lines), lines
            assert ports_down(own3, "n1", "n2") == []
        # HTTP again: it is learnt by what the port says to a ClientHello.
        time.sleep(1)
        assert ports_down(own3, "n1", "n2") == []
        assert "n2" in {whoami(own3, own3.node("n1").service_v4) for _ in range(9)}


def test_b74_a_server_comes_back_slowly(own3):
    """n2's servers end and come back: by SlowStart= its weight grows, as all see, and with it its part of the connections.
    A slow host only makes the weights that are seen smaller than the time allows."""
    with settings(own3, policy="wrr", which="n2", Balance={"SlowStart": "1h"}, Health=QUICK):
        def all_see_n2(**wanted):
            wait_for(lambda: all({key: members(own3, node)["n2"][key] for key in wanted} == wanted for node in ALL),
                     f"n2: {wanted}", 15)

        own3.stop_web("n2")
        all_see_n2(state="unhealthy")
        begun = time.monotonic()
        own3.start_web("n2")
        all_see_n2(state="active", eligible=True, ports_down=[])
        weights = [members(own3, node)["n2"]["weight"] for node in ALL]
        served = [whoami(own3, own3.node("n1").service_v4) for _ in range(12)]
        slow_s = math.ceil(time.monotonic() - begun) + 2
        own3.overrides["n2"]["Balance"]["SlowStart"] = f"{slow_s}s"
        reload_both(own3)

        def all_have_all():
            seen = [members(own3, node)["n2"]["weight"] for node in ALL]
            may = 0.1 + 0.9 * (time.monotonic() - begun) / slow_s
            assert max(seen) <= may + 0.01, (seen, may)
            return min(seen) == 1
        wait_for(all_have_all, "n2 has all its weight", slow_s + 15)
        after = [whoami(own3, own3.node("n1").service_v4) for _ in range(12)]
    assert after.count("n2") == 4, after
    assert all(weight < 0.2 for weight in weights), weights
    assert served.count("n2") <= 2, served


@pytest.mark.seconds(240)
@pytest.mark.long("half a minute to learn the usual life of connections, and the minute after the fault; test_sim_run plays "
                  "the same")
@pytest.mark.parametrize("layout", ["own", "one"])
def test_b75_a_server_fails_where_no_check_looks(clusters, layout):
    """Each of four nodes works 200 ms for a connection; then n4 ends its connections at once, with an error. By TCP checks
    it is well. In the next minute li sends it at most 1.5 times its quarter, over each family, and all nodes say why."""
    cluster = clusters.fresh(nodes=4, layout=layout)
    cluster.overrides = {"": {"Balance": {"Policy": "li"}, "Health": {"Check": "tcp"}}}
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "quickserver.py")
    servers = {}
    for node in cluster.nodes:
        echo = cluster.webs[node.name][1]
        stop_processes([(echo.pid, start_time(echo.pid))], cluster.site.children)
        servers[node.name] = cluster.site.start(
            node.name, [program, "serve", node.name, "0.2", "8080", "8081"], os.path.join(node.directory, "quick.log"))
    reload_both(cluster)
    wait_for(lambda: all(member["eligible"] and not member["ports_down"]
                         for node in cluster.nodes for member in members(cluster, node.name).values()),
             "all nodes are well", 20)

    def ask(seconds):
        words = [program, "ask", "8080", "100", str(seconds)]
        for node in cluster.nodes:
            words += [node.service_v4, node.service_v6]
        lines = run_in(cluster, "c1", words, seconds + 60)[1].splitlines()
        return {family: [int(word) for word in line.split()] for family, line in zip(("v4", "v6"), lines, strict=True)}

    assert all(answers[1:] == [0, 0] for answers in ask(45).values())
    for node in cluster.nodes:
        assert not warns(cluster, node.name, "as they used to")
    os.kill(servers["n4"].pid, signal.SIGUSR1)
    asked = ask(60)
    print(f"answers, errors, failures: {asked}")
    assert warns(cluster, "n4", "connections of this node end")
    for node in ("n1", "n2", "n3"):
        assert warns(cluster, node, "connections of n4 end"), cluster.status(node)["warnings"]
        assert not warns(cluster, node, "connections of this node end")
    for answers, errors, failures in asked.values():
        assert failures == 0
        assert errors <= 1.5 * answers / len(cluster.nodes), f"{errors} of {answers}"


def warns(cluster, which, text):
    return any(text in warning["text"] for warning in cluster.status(which)["warnings"])
