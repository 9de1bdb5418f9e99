# SPDX-License-Identifier: GPL-2.0-or-later
"""Traffic 10: downloads and uploads arrive, whichever node serves them."""
import hashlib
import http.client
import os
import re

import pytest

from traffic import (CLIENT, FAMILIES, HEADERS, OVERHEAD, Capture, TCP, connect, counting, curl, download, file_sha256,
                     flows, forward_all, forward_to, random_bytes, read_line, run_in, service, tcp_option, upload, url,
                     whoami)

BIG_BYTES = 50_000_000
both = pytest.mark.parametrize("family", FAMILIES)


@both
def test_a10_forwarded_download_is_byte_exact(cluster3, family):
    """n1 drains. A client fetches 50 MB from n1's address: another node serves it, and every byte is right."""
    forward_all(cluster3)
    path = cluster3.add_file("big", BIG_BYTES)
    with counting(cluster3) as moved:
        node, digest, count, _ = download(cluster3, service(cluster3.nodes[0], family), path)
    assert count == BIG_BYTES
    assert digest == file_sha256(cluster3.file_root + path)
    assert node in ("n2", "n3")
    assert moved["n1"]["flows_made"] == moved["n1"]["draining"] == 1
    assert moved[node]["from_peer"] > 10


@both
def test_a11_forwarded_upload_is_byte_exact(cluster3, family):
    """n1 drains. A client sends 50 MB to n1's address by HTTP PUT: the whole file is on the serving node."""
    forward_all(cluster3)
    source = os.path.join(cluster3.directory, "upload.source")
    with open(source, "wb") as file:
        file.write(random_bytes(BIG_BYTES))
    name = f"put-{family}"
    code = curl(cluster3, "c1", "-T", source, "-H", "Expect:", "-o", "/dev/null", "-w", "%{http_code}",
                url(service(cluster3.nodes[0], family), f"/upload/{name}"))
    assert code in ("201", "204")
    arrived = [os.path.join(node.directory, "upload", name) for node in cluster3.nodes]
    arrived = [path for path in arrived if os.path.exists(path)]
    assert len(arrived) == 1 and "/n1/" not in arrived[0]
    assert file_sha256(arrived[0]) == file_sha256(source)
    os.unlink(arrived[0])


@both
def test_a12_keepalive_stays_with_its_node(cluster3, family):
    """Round robin over all nodes. One keep-alive connection of 100 requests is one decision: one node serves all."""
    cluster3.set_policy("rr")
    address = service(cluster3.nodes[0], family)
    for _ in range(3):
        with counting(cluster3) as moved:
            connection = http.client.HTTPConnection(address, timeout=10)
            connection.sock = connect(cluster3, address, 80)
            served = set()
            for _ in range(100):
                connection.request("GET", "/whoami")
                answer = connection.getresponse()
                assert answer.status == 200
                served.add(answer.read())
            connection.close()
        assert len(served) == 1
        assert moved["n1"]["syns"] == 1


@both
def test_a13_every_node_serves(cluster3, family):
    """Round robin. 30 connections to n1's address: each node serves ten of them."""
    cluster3.set_policy("rr")
    served = [whoami(cluster3, service(cluster3.nodes[0], family)) for _ in range(30)]
    assert {name: served.count(name) for name in set(served)} == {"n1": 10, "n2": 10, "n3": 10}


def test_a14_httperf_without_errors(cluster3):
    """Random placement, httperf (it knows IPv4 only): 1,000 connections to n1's address, no error."""
    cluster3.set_policy("random")
    with counting(cluster3) as moved:
        status, said = run_in(cluster3, "c1", ["httperf", "--server", cluster3.nodes[0].service_v4, "--uri",
                                               "/whoami", "--num-conns", "1000", "--rate", "400", "--timeout", "30",
                                               "--hog"])
    assert status == 0, said
    assert re.search(r"Errors: total 0 ", said), said
    assert re.search(r"Reply status: 1xx=0 2xx=1000 ", said), said
    # The BPF programs leave SYNs to the node while dprd gets no processor.
    assert moved["n1"]["syns"] >= (950 if cluster3.plane == "bpf" else 1000)
    assert moved["n1"]["chosen"] > 500 and moved["n1"]["local_policy"] > 200
    assert moved["n2"]["from_peer"] > 700 and moved["n3"]["from_peer"] > 700


@both
def test_a15_wrk_without_errors(cluster3, family):
    """n1 drains, wrk: 20 keep-alive connections for 2 s, no socket error or wrong status."""
    forward_all(cluster3)
    status, said = run_in(cluster3, "c1", ["wrk", "-t1", "-c20", "-d2s", url(service(cluster3.nodes[0], family),
                                                                             "/whoami")])
    assert status == 0, said
    assert "Socket errors" not in said and "Non-2xx" not in said, said
    assert int(re.search(r"(\d+) requests in", said).group(1)) >= 20, said
    assert len(flows(cluster3, "n1")) >= 20


@both
def test_a16_mss_is_lowered_for_the_tunnel_only(cluster3, family):
    """The SYN-ACK of a tunnelled connection leaves room for the outer header; that of a local one does not."""
    address = service(cluster3.nodes[0], family)
    found = {}
    for how in ("local", "tunnelled"):
        if how == "tunnelled":
            forward_all(cluster3)
        with Capture(cluster3, "c1", only="tcp port 80 or ip6") as seen:
            node = whoami(cluster3, address)
            assert (node == "n1") == (how == "local")
        answers = [packet for packet in seen.packets(outgoing=False) if TCP in packet and packet[TCP].flags == "SA"]
        assert len(answers) == 1
        found[how] = tcp_option(answers[0], "MSS")
    assert found == {"local": 1500 - HEADERS[family], "tunnelled": 1500 - HEADERS[family] - OVERHEAD[family]}


@both
def test_a17_every_byte_both_ways_at_once(cluster3, family):
    """The echo server gives 4 MB back while more comes in: a tunnel with data and ACKs in both directions."""
    entry, target = forward_to(cluster3, "n3")
    data = random_bytes(4_000_000)
    back, sent = hashlib.sha256(), 0
    with connect(cluster3, service(entry, family), 8080) as made:
        assert read_line(made) == target.name
        received = 0
        while received < len(data):
            if sent < len(data):
                sent += made.send(data[sent:sent + 16384])
            part = made.recv(65536)
            assert part
            back.update(part)
            received += len(part)
    assert back.digest() == hashlib.sha256(data).digest()


@both
def test_a18_all_uploads_at_once(cluster3, family):
    """Thirty small uploads, one after another, to the targets of all policies: counts and sums are right each time."""
    cluster3.set_policy("random")
    for size in (0, 1, 1399, 1400, 1440, 1460, 1461, 4000, 65536, 300_000) * 3:
        data = random_bytes(size)
        _, count, digest, _ = upload(cluster3, service(cluster3.nodes[0], family), data)
        assert (count, digest) == (size, hashlib.sha256(data).hexdigest())


def test_a19_the_client_sees_only_the_address_it_asked(cluster3):
    """While n1 drains, every packet that reaches the client has n1's source address."""
    forward_all(cluster3)
    with Capture(cluster3, "c1", only="tcp") as seen:
        for family in FAMILIES:
            whoami(cluster3, service(cluster3.nodes[0], family))
    sources = {packet.payload.src for packet in seen.packets(outgoing=False)}
    assert sources == {cluster3.nodes[0].service_v4, cluster3.nodes[0].service_v6}
    assert {packet.payload.dst for packet in seen.packets(outgoing=False)} == set(CLIENT.values())
