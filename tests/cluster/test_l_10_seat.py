# SPDX-License-Identifier: GPL-2.0-or-later
"""One seat 10: dprctl reaches the other nodes by a real ssh, and prints DNS records."""
import json
import os

from faultlib import wait_for
from seat import Seat

ALL = ["n1", "n2", "n3"]


def test_l10_another_host(own3):
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


def test_l11_records(own3):
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
