# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 76: ways of checking that the operator chooses: https, a command, an agent."""
import contextlib
import os
import socket
import subprocess
import threading

from faultlib import members, reload_both, settings, wait_for
from test_b_70_checks import QUICK, all_see, nginx_with, ports_down, served_at, warns
from traffic import counting, whoami

ALL = ["n1", "n2", "n3"]


def make_certificate(directory, name):
    key, certificate = os.path.join(directory, "key.pem"), os.path.join(directory, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"],
                   check=True, stderr=subprocess.DEVNULL)
    return key, certificate


def text_of(path):
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii") as file:
        return file.read()
    return ""


def test_b76_https(own3):
    """n2 speaks TLS. An error behind it takes n2's port out, which no handshake shows; Verify= looks at the certificate."""
    key, certificate = make_certificate(own3.node("n2").directory, "www.example.org")
    log = os.path.join(own3.node("n2").directory, "https.log")
    tls = ("listen 80 backlog=4096;", f"listen 80 ssl backlog=4096;\n ssl_certificate {certificate};"
                                      f"\n ssl_certificate_key {key};\n access_log {log};")
    https = {**QUICK, "Check": "https", "Host": "www.example.org", "Path": "/alive?a=b"}
    with nginx_with(own3, "n2", tls), settings(own3, which="n2", Health={**https, "Timeout": "1s"}):
        wait_for(lambda: '"GET /alive?a=b HTTP/1.1" 404' in text_of(log), "a GET came to n2", 10)
        assert ports_down(own3, "n1", "n2") == []  # a page that is not there is well
        with nginx_with(own3, "n2", ("location / {", "location / {\n return 503;")):
            all_see(own3, "n2", [80], 5, "n2's port 80 is out")
            assert "HTTP status 503 for /alive" in own3.log_text("n2", "loadcast")
            assert "n2" in served_at(own3, "n1", 8080), "its other ports serve"
        all_see(own3, "n2", [], 5, "n2's port 80 is back")
        own3.overrides["n2"]["Health"]["Verify"] = "yes"
        reload_both(own3)
        all_see(own3, "n2", [80], 5, "n2's port 80 is out")
        assert "certificate" in own3.log_text("n2", "loadcast")
    all_see(own3, "n2", [], 5, "n2's port 80 is back")


def runs(cluster, which, text):
    """The processes of a node whose command line has this text."""
    pids = subprocess.run(["ip", "netns", "pids", cluster.site.name(which)], text=True, check=True,
                          stdout=subprocess.PIPE).stdout.split()
    found = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", encoding="ascii") as file:
            if text in file.read():
                found.append(int(pid))
    return found


def test_b77_a_command(own3):
    """A program says which port of n2 is well. One that hangs is killed, and two never run at a time."""
    directory = own3.node("n2").directory
    script, flag, hang = (os.path.join(directory, name) for name in ("check-web", "flag", "hang"))
    with open(script, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\n[ -e {hang} ] && [ $2 = 8080 ] && {{ sleep 1000; }}\n"
                   f"[ ! -e {flag} ] || [ $2 != 8080 ] || {{ echo \"no room for $1\"; exit 2; }}\n")
    os.chmod(script, 0o755)
    with settings(own3, which="n2", Health={**QUICK, "Check": "command", "Command": f"{script} %a %p", "Timeout": "2s"}):
        with open(flag, "w", encoding="ascii"):
            all_see(own3, "n2", [8080], 10, "n2's port 8080 is out")
        assert f"command: exit status 2: no room for {own3.node('n2').service_v4}" in own3.log_text("n2", "loadcast")
        assert served_at(own3, "n1", 8080) == {"n1", "n3"}
        assert "n2" in {whoami(own3, own3.node("n1").service_v4) for _ in range(9)}, "port 80 serves"
        os.unlink(flag)
        all_see(own3, "n2", [], 10, "n2's port 8080 is back")
    with settings(own3, which="n2", Health={**QUICK, "Check": "command", "Command": f"{script} %a %p", "Timeout": "300ms"}):
        with open(hang, "w", encoding="ascii"):
            all_see(own3, "n2", [8080], 10, "n2's port 8080 is out")
        assert "the command did not end in time" in own3.log_text("n2", "loadcast")
        counts = [len(runs(own3, "n2", "sleep\x001000")) for _ in range(20)]
        assert max(counts) <= 1, counts
        os.unlink(hang)
        all_see(own3, "n2", [], 10, "n2's port 8080 is back")
    wait_for(lambda: not runs(own3, "n2", script), "no program is left", 5)
    assert not runs(own3, "n2", "sleep\x001000")


@contextlib.contextmanager
def agent(cluster, which, port, says):
    """An agent within a node. says is a list; its last line is what it says now."""
    with cluster.site.inside(which):
        listener = socket.create_server(("127.0.0.1", port))

    def serve():
        while True:
            try:
                peer = listener.accept()[0]
            except OSError:
                return
            with peer, contextlib.suppress(OSError):
                peer.sendall(says[-1].encode())
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(2)
        listener.close()
        thread.join(5)


def test_b78_an_agent(cluster3):
    """n2's agent takes it out in all ways, and back; its part of the weight meets slow start. Words that are none of an
    agent's change nothing, and no more does an agent that is gone."""
    says = ["up ready 100%\n"]
    with agent(cluster3, "n2", 9707, says), \
            settings(cluster3, "wrr", Balance={"SlowStart": "3s"}), \
            settings(cluster3, "wrr", which="n2", Health={**QUICK, "Agent": "127.0.0.1:9707"}):
        def see(what, **wanted):
            wait_for(lambda: all({key: members(cluster3, node)["n2"][key] for key in wanted} == wanted for node in ALL),
                     f"n2: {what}", 10)

        see("all", state="active", weight=1)
        says.append("50%\n")
        see("half", state="active", weight=0.5)
        says.append("drain\n")
        see("drain", state="draining", eligible=False)
        assert warns(cluster3, "n2", 'the agent of this node says "drain"')
        with counting(cluster3) as moved:
            served = {whoami(cluster3, cluster3.node(entry).service_v4) for entry in ("n1", "n2") for _ in range(6)}
        assert served == {"n1", "n3"}
        assert moved["n2"].get("draining", 0) >= 6, moved
        says.append("maint # new disk\n")
        wait_for(lambda: warns(cluster3, "n2", 'says "maint"'), "it says maint", 10)
        says.append("ready down # no disk\n")
        see("down", state="unhealthy", eligible=False)
        assert warns(cluster3, "n2", 'says "down"')
        assert {whoami(cluster3, cluster3.node("n2").service_v4) for _ in range(6)} == {"n1", "n3"}
        says.append("up\n")
        see("up", state="active")
        slow = members(cluster3, "n1")["n2"]["weight"]
        see("up, half", weight=0.5)
        assert slow < 0.5
        for line in ("up drian\n", "<html>\n", "0x10%\n", "up" * 500 + "\n", "", "down"):
            says.append(line)
            if line != "down":
                wait_for(lambda: warns(cluster3, "n2", "gives no answer"), "it is not understood", 10)
                see("nothing new", state="active", weight=0.5)
        see("down without an end of the line", state="unhealthy")
        says.append("up 100%\n")
        see("all again", state="active", weight=1)
        says.append("25%\n")
        see("a quarter", weight=0.25)
    # Without Agent= it is forgotten.
    wait_for(lambda: members(cluster3, "n1")["n2"]["weight"] == 1, "n2 has all its weight", 10)
