# SPDX-License-Identifier: GPL-2.0-or-later
"""Shared by the traffic tests: connections of real kernels, and packets made and seen one by one."""
import contextlib
import hashlib
import itertools
import json
import os
import socket
import struct
import subprocess
import time

from scapy.all import ICMP, ICMPv6PacketTooBig, IP, TCP, Ether, IPv6, Raw, conf

import bpf
from capture import Capture

conf.verb = 0

FAMILIES = ("v4", "v6")
CLIENT = {"v4": "203.0.113.10", "v6": "2001:db8:c::10"}
OVERHEAD = {"v4": 20, "v6": 40}
HEADERS = {"v4": 40, "v6": 60}
SYNS = "(tcp[13] & 2 != 0) or (ip6[6] == 6 and ip6[53] & 2 != 0)"


def service(node, family):
    return node.service_v4 if family == "v4" else node.service_v6


def tunnel_address(node, family):
    return node.cluster_v4 if family == "v4" else node.cluster_v6


def url(address, path):
    return f"http://[{address}]{path}" if ":" in address else f"http://{address}{path}"


def run_in(cluster, host, command, timeout_s=40):
    """A program in a host's namespace; (exit status, both outputs)."""
    done = subprocess.run(["ip", "netns", "exec", cluster.site.name(host)] + command, text=True, timeout=timeout_s,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def curl(cluster, host, *words):
    status, said = run_in(cluster, host, ["curl", "-sS", "--max-time", "20", *words])
    assert status == 0, f"curl {' '.join(words)}: {said}"
    return said


def whoami(cluster, address, host="c1"):
    """The name of the node that serves one new connection."""
    return curl(cluster, host, "--noproxy", "*", url(address, "/whoami")).strip()


# ---- who serves ----

def forward_all(cluster, entry="n1"):
    """Makes the entry node forward every new connection: it drains."""
    cluster.dprctl(entry, "drain")
    return cluster.node(entry)


def gets_answers(cluster, entry, target):
    """False while the entry node holds its way to the target for lost, as clients of a test did not go on; then a whole
    connection of that family proves it."""
    found = [member for member in (cluster.status(entry) or {}).get("members", []) if member["name"] == target]
    lost = [family for family in FAMILIES if found and found[0][f"answers_{family}"] is False]
    for family in lost:
        run_in(cluster, "c1", ["curl", "-s", "--noproxy", "*", "--max-time", "3",
                               url(service(cluster.node(entry), family), "/whoami")])
    return bool(found) and not lost


def forward_to(cluster, target, entry="n1"):
    """Sends every new connection to the entry node to one node: the others have no weight."""
    for node in cluster.nodes:
        cluster.set_weight(node, 1 if node.name in (target, entry) else 0)
    cluster.write_config(entry)
    cluster.dprctl(entry, "reload")
    cluster.dprctl(entry, "drain")
    cluster.wait_until(lambda: cluster.sees(entry, [target]), f"{entry} forwards to {target} only")
    cluster.wait_until(lambda: gets_answers(cluster, entry, target), f"connections from {entry} to {target} come about", 30)
    return cluster.node(entry), cluster.node(target)


@contextlib.contextmanager
def counting(cluster):
    """Counters of all living nodes that move within the block: moved[node name][counter]."""
    before = {node.name: cluster.counters(node) for node in cluster.nodes if node.alive}
    moved = {}
    yield moved
    for name, was in before.items():
        now = cluster.counters(name)
        moved[name] = {key: now[key] - was[key] for key in now if now[key] != was[key]}


def flows(cluster, node):
    """The flow table of a node: its lines without the last one."""
    listing = cluster.dprctl(node, "flows", "--limit", "0", "--json", check=False).splitlines()
    return [line for line in map(json.loads, listing) if "client" in line]


def flow_of(cluster, node, family, port):
    """The flow of a client port, or None."""
    return next((flow for flow in flows(cluster, node)
                 if flow["client_port"] == port and (":" in flow["client"]) == (family == "v6")), None)


def kernel_knows(cluster, node, family, port):
    """True when the kernel has a flow of this client port: in the map of nftables, or in the table of the BPF programs
    (dprd/core/flow/slot.h)."""
    if cluster.plane == "bpf":
        client = socket.inet_pton(socket.AF_INET6 if family == "v6" else socket.AF_INET, CLIENT[family])
        with bpf.array_memory(os.path.join(node.pins, "v1/flows")) as memory:
            # A copy: find() of a mapping may read one byte behind its end.
            return table_has(memory[:], client, struct.pack("!H", port))
    listing = json.loads(cluster.site.execute(node.name, ["nft", "-j", "list", "map", "inet", "dprd",
                                                          f"flows{family[1]}"]))
    held = next(item["map"] for item in listing["nftables"] if "map" in item)
    tuples = [key["concat"] for key, _mark in held.get("elem", [])]
    return any(client_port == port for _, client_port, _, _ in tuples)


def table_has(memory, client, port):
    """True when a slot of the flow table has this client address and port."""
    v6 = len(client) == 16
    pattern, place = (client, 16) if v6 else (port + client, 2)  # behind the start of the slot, or of two slots
    at = memory.find(pattern)
    while at >= 0:
        start = at - place
        if start >= 0 and start % 16 == 0 and memory[start] == (0xFE if v6 else 0xFF) and \
                memory[start + 2:start + 4] == port:
            return True
        at = memory.find(pattern, at + 1)
    return False


# ---- connections ----

def connect(cluster, address, port, host="c1", local_port=None, timeout_s=10):
    with cluster.site.inside(host):
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    made.settimeout(timeout_s)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if local_port:
            made.bind(("", local_port))
        made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return made


def clients_at(cluster, host, *ports):
    """The number of the client's connections to these ports of a host, by its kernel."""
    where = " or ".join(f"sport = :{port}" for port in ports)
    lines = cluster.site.execute(host, ["ss", "-Htn", "state", "established", f"( {where} )"]).splitlines()
    return sum(any(address in line for address in CLIENT.values()) for line in lines)


def read_line(connection):
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(1)
        if not part:
            break
        line += part
    return line.decode().strip()


class Progress:
    """The longest time without progress of a transfer."""

    def __init__(self):
        self.last = time.monotonic()
        self.worst_s = 0.0

    def step(self):
        now = time.monotonic()
        self.worst_s = max(self.worst_s, now - self.last)
        self.last = now


def upload(cluster, address, data, host="c1"):
    """Uploads to the sum server: (node, count, sha256, longest stall in seconds)."""
    with connect(cluster, address, 8081, host, timeout_s=20) as made:
        progress = Progress()
        view = memoryview(data)
        while view:
            view = view[made.send(view[:65536]):]
            progress.step()
        made.shutdown(socket.SHUT_WR)
        name, count, digest = read_line(made).split()
        progress.step()
    return name, int(count), digest, progress.worst_s


def download(cluster, address, path, host="c1"):
    """Downloads by HTTP/1.0: (node, sha256, bytes, longest stall in seconds)."""
    digest = hashlib.sha256()
    with connect(cluster, address, 80, host, timeout_s=20) as made:
        progress = Progress()
        made.sendall(f"GET {path} HTTP/1.0\r\nHost: lab\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            part = made.recv(65536)
            assert part, f"the connection ended within the head: {head!r}"
            head += part
            progress.step()
        head, _, body = head.partition(b"\r\n\r\n")
        digest.update(body)
        total = len(body)
        while part := made.recv(65536):
            digest.update(part)
            total += len(part)
            progress.step()
    assert b" 200 " in head.split(b"\r\n")[0], head
    node = next(line[8:].decode() for line in head.split(b"\r\n") if line.startswith(b"X-Node: "))
    return node, digest.hexdigest(), total, progress.worst_s


def file_sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- links ----

def set_mtu(cluster, network, mtu):
    """Sets the MTU of a whole network: all interfaces on it, and the switch's ports."""
    ends = {"client": [("r", "eth1", "rc")] + [(client, "eth0", client) for client in cluster.clients],
            "service": [("r", "eth0", "r"), ("x", "eth0", "x")] + [(n.name, "eth0", n.name) for n in cluster.nodes],
            "cluster": [("x", "eth1", "xc")] + [(n.name, "eth1", n.name + "c") for n in cluster.nodes]}
    bridge = {"client": "clients"}.get(network, network)
    for host, interface, _ in ends[network]:
        cluster.site.ip(host, [f"link set {interface} mtu {mtu}"])
    cluster.site.ip("sw", [f"link set {port} mtu {mtu}" for _, _, port in ends[network]] +
                    [f"link set {bridge} mtu {mtu}"])


def nft(cluster, host, script):
    cluster.site.execute(host, ["nft", "-f", "-"], text_in=script)


@contextlib.contextmanager
def rules(cluster, host, lines, hook="output", name="lab_test", priority=-400, family="inet"):
    """Rules of nftables in a host during the block. Yields a function that returns the packets that rules with
    "counter" have met."""
    nft(cluster, host, f"add table {family} {name}\n"
        f"add chain {family} {name} chosen {{ type filter hook {hook} priority {priority}; }}\n" +
        "".join(f"add rule {family} {name} chosen {line}\n" for line in lines))
    try:
        yield lambda: counted(cluster, host, name, family)
    finally:
        nft(cluster, host, f"delete table {family} {name}\n")


def counted(cluster, host, table, family):
    """Packets in all counters of a table."""
    listing = json.loads(cluster.site.execute(host, ["nft", "-j", "list", "table", family, table]))["nftables"]
    expressions = [part for item in listing for part in item.get("rule", {}).get("expr", [])]
    return sum(part["counter"]["packets"] for part in expressions if "counter" in part) + \
        sum(item["counter"]["packets"] for item in listing if "counter" in item)


# ---- packets ----

_hardware = {}


def hardware(cluster, host, interface):
    """The hardware address of an interface."""
    key = (cluster.site.prefix, host, interface)
    if key not in _hardware:
        said = json.loads(cluster.site.execute(host, ["ip", "-j", "link", "show", interface]))
        _hardware[key] = said[0]["address"]
    return _hardware[key]


def send(cluster, packets, host="c1", interface="eth0", to=("r", "eth1")):
    """Puts packets on a link as they are, addressed to the hardware of another host."""
    head = Ether(dst=hardware(cluster, *to), src=hardware(cluster, host, interface))
    with cluster.site.inside(host):
        out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with out:
        out.bind((interface, 0))
        for packet in packets:
            out.send(bytes(head / packet))


def ip_layer(source, destination, **fields):
    return IPv6(src=source, dst=destination, **fields) if ":" in destination else \
        IP(src=source, dst=destination, **fields)


def tcp_of(frame):
    """(source, destination, source port, destination port, sequence, acknowledgement, flags) of a TCP frame."""
    v6 = frame[12:14] == b"\x86\xdd"
    tcp = frame[54:] if v6 else frame[14 + 4 * (frame[14] & 15):]
    source, destination = (frame[22:38], frame[38:54]) if v6 else (frame[26:30], frame[30:34])
    ports = struct.unpack("!HHII", tcp[:12])
    return source, destination, *ports, tcp[13]


class RawClient:
    """A TCP client that sends single packets; resets of the kernel for its port are dropped."""

    made = itertools.count()

    def __init__(self, cluster, address, port, local_port, host="c1", mss=1460, **ip_fields):
        self.cluster, self.host, self.port, self.local_port = cluster, host, port, local_port
        self.address, self.mss, self.ip_fields = address, mss, ip_fields
        self.source = CLIENT["v6" if ":" in address else "v4"]
        # Another one each time: dprd takes a SYN of the same numbers for a copy.
        self.sequence = self.isn = 1_000_000 + 104_729 * next(RawClient.made) % 2_000_000_000
        self.acknowledged = self.first = 0
        self.acknowledges = True
        self.capture = Capture(cluster, host, only=f"tcp port {local_port} or icmp or icmp6")

    def __enter__(self):
        nft(self.cluster, self.host, "add table inet lab_raw\n"
            "add chain inet lab_raw out { type filter hook output priority -400; }\n"
            f"add rule inet lab_raw out tcp sport {self.local_port} tcp flags & rst != 0 drop\n")
        self.capture.__enter__()
        return self

    def __exit__(self, *_):
        self.capture.stop()
        nft(self.cluster, self.host, "delete table inet lab_raw\n")

    def packet(self, flags, payload=b"", sequence=None, options=()):
        tcp = TCP(sport=self.local_port, dport=self.port, flags=flags, options=list(options), window=65535,
                  seq=self.sequence if sequence is None else sequence, ack=self.acknowledged if "A" in flags else 0)
        made = ip_layer(self.source, self.address, **self.ip_fields) / tcp
        return made / Raw(payload) if payload else made

    def send(self, *packets):
        send(self.cluster, packets, self.host)

    def syn(self):
        return self.packet("S", options=[("MSS", self.mss)], sequence=self.isn)

    def is_answer(self, packet):
        return TCP in packet and packet[TCP].dport == self.local_port and packet[TCP].sport == self.port

    def answers(self):
        """All SYN-ACKs so far."""
        return [packet for packet in self.capture.packets(outgoing=False)
                if self.is_answer(packet) and packet[TCP].flags & 0x12 == 0x12]

    def open(self):
        """Does the whole handshake; returns the SYN-ACK."""
        self.send(self.syn())
        answer = self.capture.wait(lambda packet: self.is_answer(packet) and packet[TCP].flags == "SA")
        assert answer is not None, "no SYN-ACK"
        self.sequence = self.isn + 1
        self.acknowledged = self.first = answer[TCP].seq + 1
        self.send(self.packet("A"))
        return answer

    def say(self, payload, flags="PA"):
        """Sends the next segment; it acknowledges the bytes received."""
        if self.acknowledges:
            self.acknowledged = (self.first + len(self.heard())) & 0xFFFFFFFF
        self.send(self.packet(flags, payload))
        self.sequence += len(payload)

    def heard(self):
        """The bytes that the server sent so far, in order, without gaps."""
        pieces = {}
        for packet in self.capture.packets(outgoing=False):
            if self.is_answer(packet) and not packet[TCP].flags & 0x02:
                body = ip_payload(packet)
                if body:
                    pieces[(packet[TCP].seq - self.first) & 0xFFFFFFFF] = body
        stream = b""
        for offset in sorted(pieces):
            if offset <= len(stream):
                stream = stream[:offset] + pieces[offset]
        return stream

    def wait_heard(self, condition, timeout_s=3):
        """True when condition(all bytes received) comes true; acknowledges segments, unless acknowledges is unset."""
        deadline = time.monotonic() + timeout_s
        while True:
            heard = self.heard()
            expected = (self.first + len(heard)) & 0xFFFFFFFF
            if self.acknowledges and expected != self.acknowledged:
                self.acknowledged = expected
                self.send(self.packet("A"))
            if condition(heard):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)

    def reset(self):
        self.send(self.packet("R"))


def ip_payload(packet):
    """The TCP payload by the lengths in the headers, without the padding of short frames."""
    if IP in packet:
        length = packet[IP].len - 4 * packet[IP].ihl - 4 * packet[TCP].dataofs
    else:
        length = packet[IPv6].plen - 4 * packet[TCP].dataofs
    return bytes(packet[TCP].payload)[:length]


def tcp_option(packet, name):
    return dict((key, value) for key, value in packet[TCP].options if isinstance(key, str)).get(name)


def random_bytes(count):
    return os.urandom(count)


ICMP_TOO_BIG = {"v4": lambda packet: ICMP in packet and (packet[ICMP].type, packet[ICMP].code) == (3, 4),
                "v6": lambda packet: ICMPv6PacketTooBig in packet}


def too_big_mtu(packet):
    return packet[ICMP].nexthopmtu if ICMP in packet else packet[ICMPv6PacketTooBig].mtu


@contextlib.contextmanager
def route_mtu(cluster, mtu):
    """Makes the router forward no packet larger than this in both directions, and report that by ICMP; the links take
    more."""
    v4 = (("192.0.2.0/24", "eth0", "192.0.2.1"), ("203.0.113.0/24", "eth1", "203.0.113.1"))
    v6 = (("2001:db8:a::/64", "eth0"), ("2001:db8:c::/64", "eth1"))
    cluster.site.ip("r", [f"route replace {net} dev {dev} proto kernel scope link src {src} mtu lock {mtu}"
                          for net, dev, src in v4] +
                    [f"route add {net} dev {dev} metric 1 mtu lock {mtu}" for net, dev in v6])
    try:
        yield
    finally:
        cluster.site.ip("r", [f"route replace {net} dev {dev} proto kernel scope link src {src}"
                              for net, dev, src in v4] +
                        [f"route del {net} dev {dev} metric 1" for net, dev in v6])
        for node in cluster.nodes:  # path MTUs that they learnt
            cluster.site.execute(node.name, ["ip", "route", "flush", "cache"])
            cluster.site.execute(node.name, ["ip", "-6", "route", "flush", "cache"])
        for client in cluster.clients:
            cluster.site.execute(client, ["ip", "route", "flush", "cache"])
            cluster.site.execute(client, ["ip", "-6", "route", "flush", "cache"])
