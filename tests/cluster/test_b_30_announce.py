# SPDX-License-Identifier: GPL-2.0-or-later
"""Faults 30: announcements that no node may accept, sent by a stranger on the cluster's network."""
import contextlib
import json
import os
import random
import secrets
import time

from scapy.all import IP, UDP, IPv6, Raw

from faultlib import FIRST_SYN_S, eligible, load, members, steady, wait_for
from traffic import Capture, hardware, ip_layer, rules, send

ALL = ["n1", "n2", "n3"]
SEED = 11


def record(cluster, node, seconds):
    """The announcements of a node to n1 in some seconds: [(when, source, payload)]."""
    port = cluster.announce_port
    with Capture(cluster, "sw", "n1c", f"udp dst port {port}") as capture:
        time.sleep(seconds)
    sources = (cluster.node(node).cluster_v4, cluster.node(node).cluster_v6)
    heard = []
    for packet in capture.packets(outgoing=True):
        layer = packet.getlayer(IP) or packet.getlayer(IPv6)
        if layer is not None and UDP in packet and layer.src in sources:
            heard.append((layer.src, bytes(packet[UDP].payload)))
    assert len(heard) > 4
    return heard


def forge(cluster, source, payload):
    """Sends a datagram to n1 from an address that is not the stranger's."""
    receiver = cluster.node("n1")
    to = receiver.cluster_v6 if ":" in source else receiver.cluster_v4
    return ip_layer(source, to) / UDP(sport=cluster.announce_port, dport=cluster.announce_port) / Raw(payload)


def to_n1(cluster, datagrams, seconds=0.0):
    """Sends them as the stranger, all at once or spread over a time."""
    packets = [forge(cluster, *datagram) for datagram in datagrams]
    for packet in packets:
        send(cluster, [packet], "x", "eth1", ("n1", "eth1"))
        if seconds:
            time.sleep(seconds / len(packets))


def rejected(cluster):
    return cluster.status("n1")["announcements_rejected"]


@contextlib.contextmanager
def rejecting(cluster, at_least):
    """n1 rejects this many within the block."""
    before = rejected(cluster)
    yield
    wait_for(lambda: rejected(cluster) - before >= at_least, f"n1 rejects {at_least}", 15)


def test_b30_damaged(own3):
    """n2's announcements come again damaged, cut short, too long, or as noise: n1 takes none, and still hears n2."""
    heard = record(own3, "n2", 1)
    noise = random.Random(SEED)
    own3.set_policy("rr")
    damaged = []
    for _ in range(150):
        source, payload = noise.choice(heard)
        flipped = bytearray(payload)
        flipped[noise.randrange(len(flipped))] ^= 1 << noise.randrange(8)
        damaged.append((source, bytes(flipped)))
    source, payload = heard[0]
    damaged += [(source, payload[:length]) for length in range(0, len(payload), 7)]
    damaged += [(source, payload + bytes(more)) for more in (1, 32, 1400 - len(payload), 1401 - len(payload))]
    damaged += [(source, noise.randbytes(noise.randrange(1, 1400))) for _ in range(50)]
    with load(own3, ["n1"], flows=30, per_second=30) as work:
        with rejecting(own3, len(damaged) - 10):  # a flip of the sequence may make it a late copy, which is not a fault
            to_n1(own3, damaged, 1)
            steady(own3, {"n1": ["n2", "n3"]}, 0.3)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by()) == set(ALL)


def test_b34_forged(own3):
    """A stranger without the key sends well-formed announcements in n2's name, with a future sequence: no load, weight
    or state of it is taken, and n2's own announcements do not count as old afterwards.
    """
    heard = record(own3, "n2", 1)
    forged = []
    for number in range(30):
        source, payload = heard[number % len(heard)]
        sequence = int.from_bytes(payload[24:32], "big") + 1000 + number
        forged.append((source, payload[:24] + sequence.to_bytes(8, "big") + payload[32:]))
    with rejecting(own3, len(forged)):
        to_n1(own3, forged, 3)  # not faster than n2 may announce, so that the rate limit drops none
    steady(own3, {"n1": ["n2", "n3"]}, 1.5)


def foreign_key(cluster):
    """The path of a key that no other node has."""
    key = os.path.join(cluster.directory, "foreign.key")
    with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    return key


def says(cluster, node, words, but_not):
    """The page of "dprctl status" has these words and not those; None while it has not."""
    page = cluster.dprctl(node, "status", check=False)
    return page if words in page and but_not not in page else None


def test_b31_foreign_key(own3):
    """loadcast of n2 starts with another cluster's key: n1 and n3 reject it, and it them, and "dprctl status" of n1 and
    n2 blames the key, and not a firewall. Then with the right one.
    """
    own3.stop("n2", "loadcast")
    own3.set_config("Cluster", "KeyFile", foreign_key(own3), "n2")
    own3.write_config("n2")
    wait_for(lambda: eligible(own3, "n1") == {"n3"} and not eligible(own3, "n2"), "n2 is given up", 2)
    with rejecting(own3, 5):
        own3.start("n2", "loadcast")
        steady(own3, {"n1": ["n3"], "n2": []}, 2)
    assert "made with a key that is not ours" in own3.log_text("n1", "loadcast")
    for node, other in (("n1", "n2"), ("n2", "n1")):
        wait_for(lambda node=node, other=other: says(
            own3, node, f"announcements of {other} from {own3.node(other).cluster_v4} are not accepted: they are made with "
            "another key", "firewall") or says(
            own3, node, f"announcements of {other} from {own3.node(other).cluster_v6} are not accepted: they are made with "
            "another key", "firewall"), f"{node} says why it does not hear {other}", 15)
    own3.stop("n2", "loadcast")
    del own3.overrides["n2"]
    own3.write_config("n2")
    own3.start("n2", "loadcast")
    own3.wait_ready(timeout_s=15)


def test_b38_a_key_too_early(own3):
    """n2 signs with a new key that the others do not have, and still accepts theirs. It hears them, and they tell it why
    they do not hear n2; so "dprctl status" of n2 blames the key, too.
    """
    right = own3.settings("n2")["Cluster"]["KeyFile"]
    own3.set_config("Cluster", "KeyFile", foreign_key(own3), "n2")
    own3.set_config("Cluster", "KeyFileNext", right, "n2")
    own3.write_config("n2")
    own3.stop("n2", "loadcast")
    own3.start("n2", "loadcast")
    wait_for(lambda: says(own3, "n2", "n1 does not accept the announcements of this node: it has another key", "firewall"),
             "n2 says why n1 does not hear it", 15)
    wait_for(lambda: says(own3, "n1", "they are made with another key", "firewall"), "n1 says why it does not hear n2", 15)
    assert "does not hear this node" not in own3.dprctl("n1", "status", check=False)
    own3.stop("n2", "loadcast")
    del own3.overrides["n2"]
    own3.write_config("n2")
    own3.start("n2", "loadcast")
    own3.wait_ready(timeout_s=15)


def test_b32_replay(own3):
    """A stranger records n2 and sends it again: while n2 lives, when n2 is dead, and to an n1 that has just started.

    At the speed of the record and all at once: only n2 itself makes n2 eligible.
    """
    heard = record(own3, "n2", 1)
    with rejecting(own3, len(heard) // 2):  # n2 goes on, so all of them are old
        to_n1(own3, heard, 1)
        to_n1(own3, heard)
        steady(own3, {"n1": ["n2", "n3"]}, 0.3)
    last = record(own3, "n2", 0.6)
    own3.kill("n2", "loadcast")
    own3.kill("n2", "dprd")
    wait_for(lambda: eligible(own3, "n1") == {"n3"}, "n2 is given up", 2)
    with rejecting(own3, len(last)):
        to_n1(own3, last, 0.6)
        to_n1(own3, heard + last)
        steady(own3, {"n1": ["n3"]}, 0.3)
    own3.stop("n1", "loadcast")
    wait_for(lambda: not eligible(own3, "n1"), "n1 is on its own", 2)
    own3.start("n1", "loadcast")
    wait_for(lambda: eligible(own3, "n1") == {"n3"}, "n1 hears n3", 15)
    for seconds in (0.0, 0.6):
        to_n1(own3, last, seconds)
        steady(own3, {"n1": ["n3"]}, 0.3)
    assert members(own3, "n1")["n2"]["why_not"] in ("does not hear this node", "not heard")
    own3.start("n2", "loadcast")
    own3.start("n2", "dprd")
    own3.wait_ready(timeout_s=15)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_b33_two_hosts_with_one_name(own3):
    """A second host takes n2's name, cluster address and key: no node forwards to either of them. One leaves.

    As long as they do not hear each other, both announce; then one of them is silent.
    """
    own3.set_policy("rr")
    n2, directory = own3.node("n2"), os.path.join(own3.directory, "twin")
    addresses = [f"{n2.cluster_v4}/24 dev eth1", f"{n2.cluster_v6}/64 dev eth1 nodad"]
    logs = [own3.log_path("n2", "loadcast"), os.path.join(directory, "loadcast.log")]
    os.mkdir(directory)
    with open(os.path.join(directory, "dprd.conf"), "w", encoding="utf-8") as file:
        file.write(read(own3.config_path("n2")).replace(n2.directory, directory))
    deaf = [f"udp dport {own3.announce_port} ether saddr {hardware(own3, host, 'eth1')} drop" for host in ("x", "n2")]
    with load(own3, ["n1", "n3"], flows=0) as work:
        own3.site.ip("x", [f"addr add {address}" for address in addresses])
        child = own3.site.start("x", [own3.program("bin/loadcast"), "-c", os.path.join(directory, "dprd.conf"),
                                      "--node", "n2"], logs[1])
        try:
            with rules(own3, "n2", deaf[:1], "prerouting"), rules(own3, "x", deaf[1:], "prerouting"):
                wait_for(lambda: all(members(own3, node)["n2"]["why_not"] == "two hosts use its name"
                                     for node in ("n1", "n3")), "the conflict is seen", 3)
                seen = time.monotonic()
                steady(own3, {"n1": ["n3"], "n3": ["n1"]}, 1)
            wait_for(lambda: any('another host announces itself as "n2"' in read(log) for log in logs),
                     "one of the two hears the other, and is silent", 15)
            steady(own3, {"n1": ["n3"], "n3": ["n1"]}, 1)
            end = time.monotonic()
        finally:
            child.kill()
            child.wait(15)
            own3.site.ip("x", [f"addr del {address.replace(' nodad', '')}" for address in addresses])
    work.check_connects(FIRST_SYN_S, since=seen + 0.1, until=end)
    assert set(work.served_by(since=seen + 0.1, until=end)) == {"n1", "n3"}
    for node in ALL:  # the next test need not wait until the conflict is forgotten
        own3.stop(node, "loadcast")
        own3.start(node, "loadcast")
    own3.wait_ready(timeout_s=15)


def test_b37_two_on_one_host(own3):
    """A second loadcast, and a second dprd, are started on n1 by hand: each says that there is one, and ends."""
    for daemon in ("loadcast", "dprd"):
        log = os.path.join(own3.directory, f"second-{daemon}.log")
        child = own3.site.start("n1", [own3.program(f"bin/{daemon}"), "-c", own3.config_path("n1"), "--node", "n1"],
                                log)
        assert child.wait(15) == 1, read(log)
        assert f"another {daemon} is running here" in read(log), read(log)
    steady(own3, {"n1": ["n2", "n3"], "n2": ["n1", "n3"]}, 1)


def test_b35_mixed_versions(clusters):
    """loadcast of n2 is of another version, as in a rolling upgrade: all forward to all, under load. dprctl shows the
    versions and has a note, which is no warning, until n2 has the version of the others again. The cluster is fresh:
    the connections of other tests may look suspicious.
    """
    own3 = clusters.fresh(layout="own")

    def versions(node):
        peers = json.loads(own3.dprctl(node, "peers", "--json", check=False))  # an error while a peer starts
        return {member["name"]: member["version"] for member in peers["members"]}, peers["notes"]

    version = own3.status("n1")["version"]
    same = {name: version for name in ALL}
    assert versions("n1") == (same, [])
    own3.set_policy("rr")
    with load(own3, ["n1", "n3"], flows=30, per_second=30) as work:
        own3.stop("n2", "loadcast")
        own3.start("n2", "loadcast", "tests/lab/loadcast-other")
        own3.wait_ready(timeout_s=15)
        mixed = same | {"n2": "99.9-other"}
        for node in ("n1", "n3", "n2"):
            wait_for(lambda node=node: versions(node) == (
                mixed, [f"members run other versions than this dprd ({version}): n2 99.9-other"]),
                f"{node} knows that n2 runs another version", 15)
        own3.dprctl("n1", "status")  # exit status 0: nothing is wrong
        assert "n2 99.9-other" in own3.dprctl("n1", "peers")
        steady(own3, {"n1": ["n2", "n3"], "n2": ["n1", "n3"], "n3": ["n1", "n2"]}, 0.5)
        own3.stop("n2", "loadcast")
        own3.start("n2", "loadcast")
        own3.wait_ready(timeout_s=15)
        wait_for(lambda: versions("n1") == (same, []), "n1 knows that all run one version", 15)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    assert set(work.served_by()) == set(ALL)
