# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 50: the life of a forwarded flow, in dprd's table and in the kernel's set."""
import contextlib
import socket
import threading
import time

import pytest
from scapy.all import TCP

from traffic import (CLIENT, FAMILIES, RawClient, connect, counting, flow_of, forward_to, ip_layer, kernel_knows,
                     random_bytes, read_line, send, service)

both = pytest.mark.parametrize("family", FAMILIES)


def timeouts(cluster, **keys):
    """Sets them in files that are written from now on."""
    for key, value in keys.items():
        cluster.set_config("Flows", key, value)


def state(cluster, family, port):
    flow = flow_of(cluster, "n1", family, port)
    return flow and flow["state"]


def wait_state(cluster, family, port, wanted, timeout_s=15):
    cluster.wait_until(lambda: state(cluster, family, port) == wanted, f"the flow of port {port} is {wanted}",
                       timeout_s)


def sockets(cluster, node, port):
    """Sockets of a node with this client port, in any state."""
    return cluster.site.execute(node.name, ["ss", "-Htan", f"dport = :{port}"])


@both
def test_a50_the_states_of_a_flow(cluster3, family):
    """SYN, ACK, FIN: half open, confirmed, closing; the kernel's set has the flow as long as the table has it."""
    timeouts(cluster3, IdleTimeout="4s", SynTimeout="4s", FinTimeout="1s", RstTimeout="1s")
    entry, target = forward_to(cluster3, "n2")
    with counting(cluster3) as moved, RawClient(cluster3, service(entry, family), 8080, 20500) as client:
        client.send(client.syn())
        wait_state(cluster3, family, 20500, "half_open")
        assert kernel_knows(cluster3, entry, family, 20500)
        client.open()
        wait_state(cluster3, family, 20500, "confirmed")
        assert client.wait_heard(lambda heard: heard == b"n2\n")
        assert flow_of(cluster3, "n1", family, 20500)["node"] == target.name
        client.say(b"", flags="FA")
        wait_state(cluster3, family, 20500, "closing")
        assert kernel_knows(cluster3, entry, family, 20500)
        cluster3.wait_until(lambda: state(cluster3, family, 20500) is None, "the flow is forgotten", 15)
        cluster3.wait_until(lambda: not kernel_knows(cluster3, entry, family, 20500), "the kernel forgot it", 15)
        client.sequence += 1
        client.reset()
    assert moved["n1"]["flows_expired"] >= 1


@both
def test_a51_a_reset_ends_the_flow_and_the_socket(cluster3, family):
    """The client's RST reaches the serving node, and the flow is forgotten after IdleTimeout."""
    timeouts(cluster3, IdleTimeout="4s", SynTimeout="4s", FinTimeout="4s", RstTimeout="1s")
    entry, target = forward_to(cluster3, "n3")
    with RawClient(cluster3, service(entry, family), 8080, 20510) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n3\n")
        assert "ESTAB" in sockets(cluster3, target, 20510)
        client.reset()
        cluster3.wait_until(lambda: not sockets(cluster3, target, 20510), "the socket is gone", 15)
        wait_state(cluster3, family, 20510, "reset")
        cluster3.wait_until(lambda: state(cluster3, family, 20510) is None, "the flow is forgotten", 15)
        cluster3.wait_until(lambda: not kernel_knows(cluster3, entry, family, 20510), "the kernel forgot it", 15)


@both
def test_a52_a_half_open_flow_times_out(cluster3, family):
    """A SYN without the client's ACK: its flow is gone after SynTimeout."""
    timeouts(cluster3, SynTimeout="1s")
    entry, _ = forward_to(cluster3, "n2")
    with counting(cluster3) as moved, RawClient(cluster3, service(entry, family), 8080, 20520) as client:
        client.send(client.syn())
        wait_state(cluster3, family, 20520, "half_open")
        cluster3.wait_until(lambda: state(cluster3, family, 20520) is None, "the flow is forgotten", 15)
        cluster3.wait_until(lambda: not kernel_knows(cluster3, entry, family, 20520), "the kernel forgot it", 15)
        client.sequence = client.isn + 1
        client.reset()
    assert moved["n1"]["flows_expired"] >= 1


@both
def test_a53_an_idle_flow_times_out_and_a_busy_one_does_not(cluster3, family):
    """IdleTimeout 2 s: a connection that says something each half second lives on, a silent one is forgotten."""
    timeouts(cluster3, IdleTimeout="2s", SynTimeout="2s", FinTimeout="2s", RstTimeout="2s")
    entry, _ = forward_to(cluster3, "n2")
    address = service(entry, family)
    with connect(cluster3, address, 8080) as busy, connect(cluster3, address, 8080) as silent:
        ports = busy.getsockname()[1], silent.getsockname()[1]
        assert read_line(busy) == read_line(silent) == "n2"
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            busy.sendall(b"tick\n")
            assert read_line(busy) == "tick"
            time.sleep(0.3)
        assert state(cluster3, family, ports[0]) == "confirmed"
        assert state(cluster3, family, ports[1]) is None
        assert not kernel_knows(cluster3, entry, family, ports[1])


@contextlib.contextmanager
def served_by_test(cluster, target, serve):
    """Port 8080 of a node is the test's during the block: serve() gets each connection once its client has closed its
    half. (Health checks connect as well.) The node's own server is started again for the next test."""
    echo = cluster.webs[target.name][1]
    echo.terminate()
    echo.wait(15)
    with cluster.site.inside(target.name):
        listener = socket.create_server(("::", 8080), family=socket.AF_INET6, dualstack_ipv6=True)

    def serve_one(taken):
        with taken, contextlib.suppress(OSError):
            while taken.recv(65536):
                pass
            serve(taken)

    def serve_all():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()

    with listener:
        threading.Thread(target=serve_all, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def read_half_closed(cluster, address):
    """All that the server sends to a client that closes its half at once."""
    with connect(cluster, address, 8080) as made:
        made.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: made.recv(65536), b""))


@both
def test_a54_half_close(cluster3, family):
    """The client closes its half at once; the server sends 10 MB for longer than FinTimeout: all of it arrives."""
    timeouts(cluster3, FinTimeout="1s", RstTimeout="1s")
    entry, target = forward_to(cluster3, "n2")
    data = random_bytes(10_000_000)

    def in_ten_parts(taken):
        part = len(data) // 10
        for i in range(10):
            taken.sendall(data[i * part:(i + 1) * part])
            time.sleep(0.25)

    with served_by_test(cluster3, target, in_ten_parts):
        assert read_half_closed(cluster3, service(entry, family)) == data


@both
def test_a55_a_new_decision_after_the_end(cluster3, family):
    """A port whose connection ended by FIN is used again: that makes a new decision, not the old flow."""
    entry, _ = forward_to(cluster3, "n2")
    with RawClient(cluster3, service(entry, family), 8080, 20550) as client:
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n2\n")
        client.say(b"", flags="FA")
        wait_state(cluster3, family, 20550, "closing")
        client.sequence += 1
        client.reset()
    forward_to(cluster3, "n3")
    with counting(cluster3) as moved, RawClient(cluster3, service(entry, family), 8080, 20550) as client:
        client.isn += 1_000_000
        client.open()
        assert client.wait_heard(lambda heard: heard == b"n3\n")
        client.reset()
    assert moved["n1"]["flows_made"] == moved["n1"]["draining"] == 1
    assert "same_syn" not in moved["n1"]


@both
def test_a57_a_stray_reset_ends_nothing(cluster3, family):
    """RSTs with sequence numbers far from the window (RFC 5961 3.2), and one with a broken checksum: the silent forwarded
    connection answers when its client speaks again, as a local one does, and its flow is confirmed again."""
    timeouts(cluster3, FinTimeout="500ms", RstTimeout="500ms")
    entry, target = forward_to(cluster3, "n2")
    address = service(entry, family)
    with connect(cluster3, address, 8080, local_port=20570) as made:
        assert read_line(made) == target.name
        wait_state(cluster3, family, 20570, "confirmed")
        stray = ip_layer(CLIENT[family], address) / TCP(sport=20570, dport=8080, flags="R", seq=0)
        damaged = ip_layer(CLIENT[family], address) / TCP(sport=20570, dport=8080, flags="R", seq=0, chksum=0x1234)
        far = ip_layer(CLIENT[family], address) / TCP(sport=20570, dport=8080, flags="R", seq=0x80000000)
        send(cluster3, [stray, damaged, far], "c1")
        wait_state(cluster3, family, 20570, "reset")
        time.sleep(2)
        made.sendall(b"still here\n")
        assert read_line(made) == "still here"
        wait_state(cluster3, family, 20570, "confirmed")


@both
def test_a58_half_closed_and_silent(cluster3, family):
    """The client closes its half, and the server is silent for four times FinTimeout before it sends: all of it arrives."""
    timeouts(cluster3, FinTimeout="500ms", RstTimeout="500ms")
    entry, target = forward_to(cluster3, "n2")
    data = random_bytes(200_000)

    def late(taken):
        time.sleep(2)
        taken.sendall(data)

    with served_by_test(cluster3, target, late):
        assert read_half_closed(cluster3, service(entry, family)) == data


def test_a56_why_says_what_happened(cluster3):
    """dprctl why knows the decision on a client's last connection."""
    entry, target = forward_to(cluster3, "n2")
    with connect(cluster3, entry.service_v4, 8080) as made:
        assert read_line(made) == target.name
        port = made.getsockname()[1]
        said = cluster3.dprctl("n1", "why", f"203.0.113.10:{port}", check=False)
    assert "n2" in said and "drain" in said, said
