# SPDX-License-Identifier: GPL-2.0-or-later
"""Real servers 10: passive servers behind n1, reached by NAT, directly or by a tunnel.

    c1 -- router --+-- eth0 n1 eth2 --- b1, b2    nat
                   +-- eth0 b3                    direct   (answers the router itself, as b4 does)
                   +-- eth0 b4                    tunnel
                   +-- eth0 n2
"""
import collections
import contextlib
import hashlib
import os
import socket
import struct
import time

import pytest

import hiccups
from backendlib import (ALL, BACK_S, BY_FORM, ECHO_PORT, FAILS_SOON, GONE_S, PLAN, SHORT, SILENT_S, Downloads, addresses_of,
                        check_errors, check_flows, counts_agree, forget_ended, heal, holding, nothing_fails, open_at,
                        open_held, reported, usable, using)
from faultlib import NO_WAIT_MS, RESTART_S, SECOND_SYN_S, goes_on_s, load, members, reload_both, wait_for
from test_a_40_syn import connect_again
from traffic import (FAMILIES, HEADERS, ICMP_TOO_BIG, TCP, Capture, RawClient, connect, counting, curl, download,
                     file_sha256, forward_all, random_bytes, read_line, service, too_big_mtu, upload, url, whoami)

ONE_MB, FIVE_MB = 1_000_000, 5_000_000
STALL_S = 2.0
AWAY_S = 2.5
NARROW_MTU = 1400
forms = pytest.mark.parametrize("form", BY_FORM)


@pytest.fixture(name="pair", params=["own", "one"])
def fixture_pair(request, session_clusters, law):
    """n1 with its four real servers, and n2."""
    cluster = session_clusters.get(f"backends-{request.param}", nodes=2, layout=request.param, real_servers=PLAN)
    heal(cluster)
    return cluster


@pytest.fixture(name="own")
def fixture_own(session_clusters, law):
    """The same with cluster addresses of their own, where the layout makes no difference."""
    cluster = session_clusters.get("backends-own", nodes=2, layout="own", real_servers=PLAN)
    heal(cluster)
    return cluster


@pytest.fixture(name="plain")
def fixture_plain(session_clusters, law):
    """The same without any offload: a packet on a link is a packet of the stack."""
    cluster = session_clusters.get("backends-plain", nodes=2, layout="own", real_servers=PLAN, offload=False)
    heal(cluster)
    return cluster


def transfer(cluster, address, path, size, name=None):
    """Up and down, byte for byte; the servers' names."""
    with hiccups.Span() as span:
        node, digest, count, stall_s = download(cluster, address, path)
    assert (digest, count) == (file_sha256(cluster.file_root + path), size) and node == (name or node)
    assert stall_s < STALL_S + span.lost_s, "download"
    data = random_bytes(size)
    with hiccups.Span() as span:
        other, count, digest, stall_s = upload(cluster, address, data)
    assert (digest, count) == (hashlib.sha256(data).hexdigest(), size) and other == (name or other)
    assert stall_s < STALL_S + span.lost_s, "upload"
    return {node, other}


# ---- who serves ----

@forms
def test_g10_it_serves(pair, form):
    """One real server gets everything: small requests, 1 MB each way, a file by PUT; in both families."""
    name, path = BY_FORM[form], pair.add_file("one", ONE_MB)
    source = os.path.join(pair.directory, "put.source")
    with open(source, "wb") as file:
        file.write(random_bytes(ONE_MB))
    with using(pair, name), nothing_fails(pair), counting(pair) as moved:
        for family in FAMILIES:
            address = service(pair.nodes[0], family)
            assert {whoami(pair, address) for _ in range(5)} == {name}
            transfer(pair, address, path, ONE_MB, name)
            arrived = os.path.join(pair.node(name).directory, "upload", f"put-{form}-{family}")
            curl(pair, "c1", "-T", source, "-H", "Expect:", url(address, f"/upload/put-{form}-{family}"))
            assert file_sha256(arrived) == file_sha256(source)
            os.unlink(arrived)
    assert moved["n1"]["backend"] == moved["n1"]["flows_made"] == 2 * 8


@pytest.mark.parametrize("policy, weights, serve_here, expected, off", (
    ("rr", {"b1": 1, "b2": 3, "b3": 1, "b4": 1}, True, {"n1": 8, "b1": 8, "b2": 8, "b3": 8, "b4": 8}, 1),
    ("wrr", {"b2": 1, "b4": 3}, False, {"b2": 10, "b4": 30}, 1),
    ("wlc", {"b1": 1, "b3": 3}, False, {"b1": 10, "b3": 30}, 2),
    ("lc", {"b1": 1, "b3": 3, "b4": 1}, False, {"b1": 13, "b3": 13, "b4": 13}, 2)), ids=("rr", "wrr", "wlc", "lc"))
def test_g11_spread(own, policy, weights, serve_here, expected, off):
    """40 connections are held at once: each server has the number that the policy gives it."""
    with using(own, *weights, policy=policy, weights=tuple(weights.values()), serve_here=serve_here), \
            nothing_fails(own):
        forget_ended(own)
        with holding(own, addresses_of(own.nodes[0]), 40) as held:
            assert set(held) == set(expected), (held, reported(own))
            assert all(abs(held[name] - count) <= off for name, count in expected.items()), (held, reported(own))


def test_g12_the_nodes_own_server(own):
    """n1 serves its part. Its web server ends: the real servers take all, and n1 stays a good peer. It is back."""
    with using(own, "b1", "b3", serve_here=True, Health=FAILS_SOON):
        with load(own, ["n1"], flows=0, per_second=60) as work:
            time.sleep(1)
            before = time.monotonic()
            own.stop_web("n1")
            gone = hiccups.wait(GONE_S)
            time.sleep(1)
            seen = members(own, "n2")["n1"]["state"]
            end = time.monotonic()
            own.start_web("n1")
            back = hiccups.wait(BACK_S)
            time.sleep(1)
    check_errors(work, before, gone)
    assert set(work.served_by(until=before)) == {"n1", "b1", "b3"}
    assert set(work.served_by(since=gone, until=end)) == {"b1", "b3"}
    assert set(work.served_by(since=back)) == {"n1", "b1", "b3"}
    assert seen == "active"


def test_g13_another_port(own):
    """b1 listens elsewhere: a client of n1's port 80 gets b1's port 8080."""
    with using(own, "b1"):
        own.node("b1").port = 8080
        reload_both(own)
        for family in FAMILIES:
            address = service(own.nodes[0], family)
            wait_for(lambda address=address: first_line(own, address, 80) == "b1", "port 80 is b1's port 8080", 15)
            with connect(own, address, 80) as made:
                assert read_line(made) == "b1"
                made.sendall(b"every byte\n")
                assert read_line(made) == "every byte"


def first_line(cluster, address, port):
    with connect(cluster, address, port) as made:
        made.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return read_line(made)


# ---- servers fail ----

@pytest.mark.parametrize("how, form", (("stopped", "nat"), ("cut", "nat"), ("stopped", "tunnel"), ("cut", "direct")))
def test_g14_one_server_fails(own, how, form):
    """Programs of one end, or its cable is pulled: within Interval x Fall + 1 s no new connection goes there. It is
    back."""
    victim, gone_s = BY_FORM[form], GONE_S if how == "stopped" else SILENT_S
    others = set(BY_FORM.values()) - {victim}
    with using(own, *BY_FORM.values(), Flows=SHORT, Health=FAILS_SOON):
        with load(own, ["n1"], flows=0, per_second=60) as work:
            time.sleep(0.7)
            before = time.monotonic()
            if how == "stopped":
                own.stop_web(victim)
            else:
                own.cut_backend(victim)
            gone = hiccups.wait(gone_s)
            time.sleep(1.2)
            assert usable(own) == others
            end = time.monotonic()
            if how == "stopped":
                own.start_web(victim)
            else:
                own.cut_backend(victim, up=True)
            wait_for(lambda: victim in usable(own), f"{victim} is back", RESTART_S)
            back = time.monotonic()
            time.sleep(0.7)
    check_errors(work, before, gone)
    assert set(work.served_by(until=before)) == others | {victim}
    assert set(work.served_by(since=gone, until=end)) == others
    assert set(work.served_by(since=back)) == others | {victim}


@pytest.mark.parametrize("serve_here, instead", ((True, "n1"), (False, "n2")), ids=("here", "not-here"))
def test_g15_all_servers_fail(own, serve_here, instead):
    """No real server is left: n1 serves itself or, where it has no server, sends its clients to n2."""
    names = set(BY_FORM.values())
    with using(own, *names, serve_here=serve_here, Flows=SHORT, Health=FAILS_SOON):
        with load(own, ["n1"], flows=0, per_second=60) as work:
            time.sleep(0.7)
            before = time.monotonic()
            for name in names:
                own.stop_web(name)
            gone = hiccups.wait(GONE_S)
            time.sleep(1.2)
            state = members(own, "n2")["n1"]["state"]
            end = time.monotonic()
            for name in names:
                own.start_web(name)
            wait_for(lambda: usable(own) == names, "all are back", RESTART_S)
            time.sleep(0.5)
            back = time.monotonic()
            time.sleep(0.7)
    check_errors(work, before, gone)
    assert set(work.served_by(since=gone, until=end)) == {instead}
    assert set(work.served_by(since=back)) == names | ({"n1"} if serve_here else set())
    assert state == ("active" if serve_here else "unhealthy")


def test_g16_weight_0(own):
    """Two real servers get weight 0 by reload: no new connection goes to them, and their present ones go on."""
    with using(own, *ALL, policy="lc"), nothing_fails(own):
        forget_ended(own)
        with load(own, ["n1"], flows=40, per_second=40) as work:
            for name in ("b1", "b4"):
                own.node(name).weight = 0
            reload_both(own)
            wait_for(lambda: usable(own) == {"b2", "b3"}, "only b2 and b3 take connections", 15)
            rests = time.monotonic()
            time.sleep(1.5)
            held = {name: backend["connections"] for name, backend in reported(own).items()}
    served = check_flows(work.flows)
    work.check_connects(0.9)
    assert set(work.served_by(since=rests + 0.1)) == {"b2", "b3"}
    assert min(served[name] for name in ALL) >= 8, served
    assert held["b1"] == served["b1"] and held["b4"] == served["b4"], (held, served)


# ---- dprd fails ----

def without_dprd(cluster):
    """The real servers that new clients get while dprd is away: BPF programs know them all, rules those behind NAT."""
    return set(ALL) if cluster.plane == "bpf" else {"b1", "b2"}


@pytest.mark.parametrize("how", ("killed", "stopped"))
def test_g17_without_dprd(pair, how):
    """dprd of n1 is away for 2.5 s amid long transfers and held connections of each form: none breaks. Those with NAT
    do not wait, and on the bpf plane none waits. New clients get n1 or a server behind NAT (on the bpf plane any).
    dprd comes back and counts right."""
    with using(pair, *ALL, policy="wlc", serve_here=True), nothing_fails(pair):
        forget_ended(pair)
        with load(pair, ["n1"], flows=60, per_second=40) as work:
            downloads = Downloads(pair, 15)
            time.sleep(0.7)
            if how == "killed":
                pair.kill("n1", "dprd")
            else:
                assert pair.stop("n1", "dprd") == 0
            away = time.monotonic()
            time.sleep(AWAY_S)
            end = time.monotonic()
            pair.start("n1", "dprd")
            wait_for(lambda: usable(pair) == set(ALL), "n1 knows its real servers again", RESTART_S)
            back = time.monotonic()
            time.sleep(1)
            work.connects.end()
            fetched = downloads.join()
            # On the nfqueue plane the FIN of a connection that was open when dprd ended may have passed it by (g19).
            certain = ALL if pair.plane == "bpf" else ("b3", "b4")
            wait_for(lambda: counts_agree(pair, certain), "dprd counts what the servers have", 15)
            assert sum(backend["connections"] for backend in reported(pair).values()) > 30
    served = check_flows(work.flows)
    work.check_connects(SECOND_SYN_S)
    assert set(served) == {"n1", *ALL} and set(fetched) <= {"n1", *ALL} and set(fetched) & set(ALL), (served, fetched)
    waited = [flow for flow in work.flows.each if pair.plane == "bpf" or flow["node"] in ("b1", "b2", "n1")]
    assert work.longest_ms(waited) < NO_WAIT_MS, f"a flow waited {work.longest_ms(waited):.0f} ms"
    alone = set(work.served_by(since=away + goes_on_s(pair) + 0.3, until=end))
    assert {"n1", "b1", "b2"} <= alone <= without_dprd(pair) | {"n1"}, alone
    assert set(ALL) <= set(work.served_by(since=back))


def test_g18_without_dprd_and_nobody_here(own):
    """As before, but n1 serves nothing itself: new clients get its real servers, by their weights."""
    with using(own, *ALL, weights=(1, 3, 1, 1)), nothing_fails(own):
        with load(own, ["n1"], flows=0, per_second=60) as work:
            time.sleep(0.5)
            own.kill("n1", "dprd")
            away = time.monotonic()
            time.sleep(AWAY_S)
            end = time.monotonic()
            own.start("n1", "dprd")
            wait_for(lambda: usable(own) == set(ALL), "n1 knows its real servers again", RESTART_S)
    work.check_connects(SECOND_SYN_S)
    alone = work.served_by(since=away + goes_on_s(own) + 0.3, until=end)
    assert {"b1", "b2"} <= set(alone) <= without_dprd(own) and alone["b2"] > 1.5 * alone["b1"], alone


def test_g19_closed_while_away(own):
    """Clients leave while dprd is away. When it is back it does not count them as open, except on the nfqueue plane
    those with NAT, whose FIN passed it by."""
    with using(own, *ALL):
        forget_ended(own)
        held = open_held(own, addresses_of(own.nodes[0]), 20)
        wait_for(lambda: counts_agree(own, ALL), "dprd counts what the servers have", 15)
        own.kill("n1", "dprd")
        for made, _ in held:
            made.close()
        time.sleep(0.5)
        own.start("n1", "dprd")
        wait_for(lambda: usable(own) == set(ALL), "n1 knows its real servers again", RESTART_S)
        # A FIN without an answer is sent again, each time after twice as long.
        names = ALL if own.plane == "bpf" else ("b3", "b4")
        wait_for(lambda: open_at(own, names) == 0, f"no connection is open at {names}", 15)


# ---- peers, copies, sizes ----

@pytest.mark.parametrize("serve_here", (True, False), ids=("here", "not-here"))
def test_g20_landed(pair, serve_here):
    """n2 forwards all its clients to n1: n1's servers behind NAT take them, by weight, and n1 if it serves. Without
    n1's dprd present connections go on (on the nfqueue plane, when it is back)."""
    expected = {"b1", "b2", "n1"} if serve_here else {"b1", "b2"}
    path = pair.add_file("one", ONE_MB)
    with (using(pair, "b1", "b2", "b3", weights=(1, 3, 1), serve_here=serve_here), nothing_fails(pair),
          counting(pair) as moved):
        forward_all(pair, "n2")
        wait_for(lambda: whoami(pair, pair.nodes[1].service_v4) != "n2", "n2 forwards", 15)
        names = collections.Counter()
        for family in FAMILIES:
            address = service(pair.nodes[1], family)
            names.update(whoami(pair, address) for _ in range(30))
            assert transfer(pair, address, path, ONE_MB) <= expected
        assert expected <= set(names) and names["b2"] > names["b1"], names
        with holding(pair, addresses_of(pair.nodes[1]), 60) as held:
            assert {"b1", "b2"} <= set(held), held
            pair.kill("n1", "dprd")
            time.sleep(0.5)
            if pair.plane != "bpf":
                pair.start("n1", "dprd")  # it takes the packets out of n2's tunnel
        if pair.plane == "bpf":
            pair.start("n1", "dprd")
        wait_for(lambda: usable(pair) == {"b1", "b2", "b3"}, "n1 knows its real servers again", RESTART_S)
    # While the host gives n2's dprd no processor, SYNs are served where they arrive.
    late = sum(moved["n2"].get(reason, 0) for reason in ("standby_served", "stale_syn"))
    elsewhere = sum(count for name, count in (*names.items(), *held.items()) if name not in expected)
    assert elsewhere <= late, (names, held, moved["n2"])


def test_g21_copies(own):
    """A SYN comes three times: one server answers, whatever the policy would choose next."""
    with using(own, *ALL, serve_here=True), counting(own) as moved:
        for number, family in enumerate(FAMILIES * 8):
            with RawClient(own, service(own.nodes[0], family), 8080, 20800 + number) as client:
                client.send(client.syn(), client.syn())
                own.wait_until(client.answers, "a SYN-ACK")
                client.send(client.syn())
                time.sleep(0.15)
                assert len({answer[TCP].seq for answer in client.answers()}) == 1
                client.sequence = client.isn + 1
                client.reset()
    # Four of five servers are real ones, and ties are drawn. Both copies of each SYN follow it.
    assert moved["n1"]["backend"] >= 8, moved["n1"]
    assert moved["n1"]["same_syn"] + moved["n1"].get("standby_forwarded", 0) >= 2 * moved["n1"]["backend"], moved["n1"]


@pytest.mark.parametrize("close", ("reset", "fin"))
def test_g22_a_port_used_again(own, close):
    """One client port, 60 connections one after the other, each to another server: NAT's entry of the former one does
    no harm, and none waits for a copy of its SYN."""
    worst_s, names = 0, collections.Counter()
    with using(own, *ALL, serve_here=True):
        for number in range(60):
            span = hiccups.Span()
            made = connect_again(own, service(own.nodes[0], FAMILIES[number % 2]), 80 if close == "fin" else 8080,
                                 20810)
            if close == "fin":  # the server closes first, so that the client's port is free at once
                made.sendall(b"GET /whoami HTTP/1.0\r\n\r\n")
                names[b"".join(iter(lambda made=made: made.recv(4096), b"")).split()[-1].decode()] += 1
            else:
                names[read_line(made)] += 1
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            made.close()
            worst_s = max(worst_s, span.end())
    assert worst_s < 0.5
    assert set(names) == {"n1", *ALL} and max(names.values()) <= 15, names


@pytest.mark.parametrize("serve_here", (True, False), ids=("here-too", "not-here"))
def test_g27_stray_segments(own, serve_here):
    """Segments far outside of the window, which connection tracking does not count to their connection, come in
    between: no node resets it, and it goes on at the real server."""
    with using(own, "b1", serve_here=serve_here):
        for number, family in enumerate(FAMILIES * 4):
            with RawClient(own, service(own.nodes[0], family), ECHO_PORT, 20900 + number) as client:
                client.open()
                assert client.wait_heard(lambda heard: heard.endswith(b"\n"))
                for flags in ("A", "PA", "FA"):
                    client.send(client.packet(flags, b"stray", (client.sequence + 0x40000000) & 0xFFFFFFFF))
                client.say(b"still here\n")
                assert client.wait_heard(lambda heard: heard.endswith(b"still here\n")), client.heard()
                resets = [packet for packet in client.capture.packets(outgoing=False)
                          if client.is_answer(packet) and packet[TCP].flags & 0x04]
                client.reset()
            assert not resets, (client.heard(), resets)


@contextlib.contextmanager
def narrow_inside(cluster, node, wanted):
    """The node sends no packet larger than NARROW_MTU to the network behind it, and reports that by ICMP."""
    v4, v6 = f"10.81.{node.number}.0/24", f"fd81:{node.number}::/64"
    if wanted:
        cluster.site.ip(node.name, [
            f"route replace {v4} dev eth2 proto kernel scope link src 10.81.{node.number}.1 mtu lock {NARROW_MTU}",
            f"route add {v6} dev eth2 metric 1 mtu lock {NARROW_MTU}"])
    try:
        yield
    finally:
        if wanted:
            cluster.site.ip(node.name, [
                f"route replace {v4} dev eth2 proto kernel scope link src 10.81.{node.number}.1",
                f"route del {v6} dev eth2 metric 1"])
            for flag in ("-4", "-6"):
                cluster.site.execute("c1", ["ip", flag, "route", "flush", "cache"])


@forms
def test_g23_full_packets(plain, form):
    """5 MB each way in full packets: where they do not fit on the way to the server, the client gets ICMP, or n1 cuts
    them."""
    name, path, n1 = BY_FORM[form], plain.add_file("five", FIVE_MB), plain.node("n1")
    port = name + "c" if form == "tunnel" else name
    with using(plain, name), narrow_inside(plain, n1, form == "nat"):
        for family in FAMILIES:
            with Capture(plain, "c1", only="icmp or icmp6") as told, \
                    Capture(plain, "sw", port, "greater 1300") as seen:
                transfer(plain, service(n1, family), path, FIVE_MB, name)
            sizes = [len(frame) for frame, kind in seen.frames if kind == 4]
            limit = 14 + (NARROW_MTU if form == "nat" else 1500)
            assert sizes and limit - HEADERS[family] < max(sizes) <= limit, (family, max(sizes, default=0))
            messages = [packet for packet in told.packets() if ICMP_TOO_BIG[family](packet)]
            if form == "nat":
                assert messages and {too_big_mtu(packet) for packet in messages} == {NARROW_MTU}


# ---- dprctl ----

def test_g24_what_dprctl_says(own):
    """dprctl backends, status and metrics; and to n2, n1 with its real servers is one node with one load."""
    with using(own, "b1", "b3", "b4", policy="rr", Announce={"Period": "100ms"}):
        forget_ended(own)
        before = {name: backend["chosen"] for name, backend in reported(own).items()}
        with holding(own, addresses_of(own.nodes[0]), 12) as held:
            assert held == {"b1": 4, "b3": 4, "b4": 4}
            assert len({whoami(own, own.nodes[0].service_v4) for _ in range(3)}) == 3
            wait_for(lambda: counts_agree(own, ALL), "dprd counts what the servers have", 15)
            said = reported(own)
            wait_for(lambda: members(own, "n2")["n1"]["open_connections"] >= 12, "n2 hears of them", 15)
            text, metrics = own.dprctl("n1", "backends", check=False), own.dprctl("n1", "metrics")
    assert sorted(said) == sorted(ALL)
    for backend in own.backends:
        of = said[backend.name]
        used = backend.name in held
        assert (of["form"], of["connections"]) == (backend.form, 4 if used else 0), of
        assert of["chosen"] - before[backend.name] == (5 if used else 0), of
        assert (of["address_v4"], of["address_v6"]) == (backend.v4, backend.v6), of
        state = (1, True, None) if used else (0, False, "weight 0")
        assert (of["weight"], of["eligible"], of["why_not"]) == state, of
        assert backend.name in text and backend.v4 in text
        assert f'dprd_backend_connections{{backend="{backend.name}"}} {4 if used else 0}' in metrics
        assert f'dprd_backend_up{{backend="{backend.name}"}} {1 if used else 0}' in metrics
