# SPDX-License-Identifier: GPL-2.0-or-later
"""Frames made by hand, and the frames on the client's wire."""
import socket
import struct
import time

from biactive_site import GHOST, PATIENT_S, SHARED, SHARED_MAC, inside

ETH_P_ALL = 3
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SO_RCVBUFFORCE = 33
PACKET_OUTGOING = 4


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def ip_packet(source, destination, protocol, payload, fragment=0):
    """IPv4 or IPv6 as the addresses are; fragment is IPv4's field of flags and offset."""
    if ":" in source:
        head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
        return head + packed(source) + packed(destination) + payload
    start = struct.pack("!BBHHHBB", 0x45, 0, 20 + len(payload), 1, fragment, 64, protocol)
    end = packed(source) + packed(destination)
    return start + struct.pack("!H", checksum(start + b"\0\0" + end)) + end + payload


def with_checksum(source, destination, protocol, payload, at):
    """The payload with its checksum at this place, over the pseudo header."""
    pseudo = packed(source) + packed(destination) + struct.pack("!II", len(payload), protocol)
    return payload[:at] + struct.pack("!H", checksum(pseudo + payload)) + payload[at + 2:]


def tcp(source, destination, ports, seq, ack, flags, data=b""):
    header = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, 65535, 0, 0)
    return ip_packet(source, destination, 6, with_checksum(source, destination, 6, header + data, 16))


def udp(source, destination, ports, data=b"x"):
    header = struct.pack("!HHHH", *ports, 8 + len(data), 0)
    return ip_packet(source, destination, 17, with_checksum(source, destination, 17, header + data, 6))


def echo_request(source, destination, number):
    if ":" in source:
        message = struct.pack("!BBHHH", 128, 0, 0, 7, number)
        return ip_packet(source, destination, 58, with_checksum(source, destination, 58, message, 2))
    message = struct.pack("!BBHHH", 8, 0, 0, 7, number)
    return ip_packet(source, destination, 1, message[:2] + struct.pack("!H", checksum(message)) + message[4:])


def too_big(source, destination, about):
    """The ICMP error that says: 1400 bytes at most."""
    if ":" in source:
        message = struct.pack("!BBHI", 2, 0, 0, 1400) + about
        return ip_packet(source, destination, 58, with_checksum(source, destination, 58, message, 2))
    message = struct.pack("!BBHHH", 3, 4, 0, 0, 1400) + about[:28]
    return ip_packet(source, destination, 1, message[:2] + struct.pack("!H", checksum(message)) + message[4:])


class Packet:
    """The checked fields of a frame; an attribute is missing when the frame has no such field."""

    def __init__(self, frame):
        self.source_mac, self.kind = frame[6:12].hex(":"), struct.unpack_from("!H", frame, 12)[0]
        if self.kind == 0x0800:
            self.protocol, start = frame[23], 14 + (frame[14] & 15) * 4
            self.source, self.destination = (socket.inet_ntop(socket.AF_INET, frame[at:at + 4]) for at in (26, 30))
        elif self.kind == 0x86dd:
            self.protocol, start = frame[20], 54
            self.source, self.destination = (socket.inet_ntop(socket.AF_INET6, frame[at:at + 16]) for at in (22, 38))
        else:
            self.protocol, start = None, 14
        self.payload = frame[start:]
        if self.protocol == 6:
            self.source_port, self.destination_port, self.seq, self.ack = struct.unpack_from("!HHII", self.payload)
            self.flags = self.payload[13]

    def is_from_shared(self):
        return self.protocol is not None and self.source in SHARED.values()


def is_advertisement(frame, interval_s):
    """4 or 6: a Multicast Router Advertisement of that family, right to the last bit (RFC 4286); else None."""
    packet = frame[14:]
    if frame[:6].hex() == "01005e00006a" and frame[12:14] == b"\x08\0":
        if (packet[0] == 0x46 and packet[8:10] == bytes([1, 2]) and packet[16:24] == b"\xe0\0\0\x6a\x94\4\0\0" and
                packet[24:26] == bytes([0x30, interval_s]) and not checksum(packet[:24]) and
                packet[28:32] == bytes(4) and not checksum(packet[24:32])):
            return 4
    if frame[:6].hex() == "33330000006a" and frame[12:14] == b"\x86\xdd":
        pseudo = packet[8:40] + struct.pack("!II", 8, 58)
        if (packet[4:8] == bytes([0, 16, 0, 1]) and packet[8:10] == b"\xfe\x80" and
                packet[24:40] == packed("ff02::6a") and packet[40:48] == b"\x3a\0\5\2\0\0\1\0" and
                packet[48:50] == bytes([151, interval_s]) and packet[52:56] == bytes(4) and
                not checksum(pseudo + packet[48:56])):
            return 6
    return None


def tap(namespace, device):
    """A socket that sees all frames of an interface."""
    with inside(namespace):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
    made.bind((device, ETH_P_ALL))
    made.setblocking(False)
    return made


def take_all(made):
    """[(frame, whether it goes out)] that a tap has seen since the last time."""
    found = []
    while True:
        try:
            frame, address = made.recvfrom(65536)
        except BlockingIOError:
            return found
        found.append((frame, address[2] == PACKET_OUTGOING))


class Wire:
    """Everything on the client's wire, seen at the switch; it also sends frames."""

    def __init__(self, macs):
        self.macs = macs
        self.tap = tap("sw", "pc")
        with inside("c"):
            self.sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        self.sender.bind(("e0", 0))

    def close(self):
        self.tap.close()
        self.sender.close()

    def send(self, packet, mac=None):
        """An IP packet, to the shared hardware address or another one."""
        family = packet[0] >> 4
        kind = 0x0800 if family == 4 else 0x86dd
        head = bytes.fromhex((mac or SHARED_MAC[family]).replace(":", "") + self.macs["c"].replace(":", ""))
        self.sender.send(head + struct.pack("!H", kind) + packet)

    def take(self):
        """The frames that went to the client since the last call."""
        return [Packet(frame) for frame, goes_out in take_all(self.tap) if goes_out]

    def answers(self, wait_s=0.3):
        """The frames that the shared addresses sent in this time."""
        time.sleep(wait_s)
        return [packet for packet in self.take() if packet.is_from_shared()]


    def gather(self, wanted, count):
        """This many answers that wanted() accepts, and the frames shortly after the last of them."""
        found, deadline = [], time.monotonic() + PATIENT_S
        while len(found) < count and time.monotonic() < deadline:
            found += filter(wanted, self.answers(0.05))
        return found + list(filter(wanted, self.answers()))


class Ghost:
    """A connection unknown to the client's TCP: the test sends each of its segments."""

    def __init__(self, wire, family, port, seq=1000, service_port=80):
        self.wire, self.family, self.address = wire, family, GHOST[family]
        self.ports, self.seq = (port, service_port), seq

    def send(self, flags, ack=0, seq=None, data=b""):
        self.wire.send(tcp(self.address, SHARED[self.family], self.ports, self.seq if seq is None else seq, ack,
                           flags, data))

    def is_mine(self, packet):
        return packet.protocol == 6 and (packet.destination, packet.destination_port) == (self.address, self.ports[0])

    def answers(self, wait_s=0.3):
        return list(filter(self.is_mine, self.wire.answers(wait_s)))

    def answer(self):
        """The first one."""
        deadline = time.monotonic() + PATIENT_S
        while time.monotonic() < deadline:
            packets = self.answers(0.02)
            if packets:
                return packets[0]
        raise AssertionError(f"nobody answers port {self.ports[0]}")


def syn_acks(packets):
    """{(client's port, sequence number): nodes that answered}"""
    found = {}
    for packet in packets:
        if packet.protocol == 6 and packet.flags & (SYN | ACK) == SYN | ACK:
            found.setdefault((packet.destination, packet.destination_port, packet.ack), []).append(packet.source_mac)
    return found


def resets(packets):
    return [packet for packet in packets if packet.protocol == 6 and packet.flags & RST]


def resets_of_living(packets):
    """Resets, except those of a node for a connection that it had already ended by its own FIN."""
    ended, found = set(), []
    for packet in packets:
        if packet.protocol != 6:
            continue
        connection = (packet.source_mac, packet.destination, packet.destination_port)
        if packet.flags & RST and connection not in ended:
            found.append(packet)
        elif packet.flags & FIN:
            ended.add(connection)
    return found


def name_of(site, mac):
    return next(name for name, own in site.macs.items() if own == mac)
