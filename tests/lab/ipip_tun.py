#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes packets out of IP in IP, as an ipip or ip6tnl device would: ipip_tun.py INTERFACE TUN.

Makes the device TUN. Packets for this host that arrive at INTERFACE as IPv4 in IPv4 or IPv6 in IPv6 go on from
there. The TUN device gets the work that is left for the kernel (checksum, segments): on virtual cables the sender
often leaves it to the receiver.
"""
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
ETH_P_IP, ETH_P_IPV6, ETHERNET_BYTES = 0x0800, 0x86DD, 14
SOL_PACKET, PACKET_VNET_HDR, PACKET_HOST = 263, 15, 0
SO_RCVBUFFORCE, BUFFER_BYTES = 33, 16 << 20
IPPROTO_IPIP, IPPROTO_IPV6 = 4, 41
NEEDS_CHECKSUM = 1
VNET = struct.Struct("=BBHHHH")  # flags, kind of segments, bytes of headers, segment, checksum's start and offset
SO_ATTACH_FILTER = 26


def inner_place(frame, at):
    """(begin, end) of the inner packet of an IP packet that begins at this place; None when it is not a tunnel packet."""
    version = frame[at] >> 4 if len(frame) > at else 0
    if version == 4 and len(frame) >= at + 20 and frame[at + 9] == IPPROTO_IPIP:
        begin, end = at + 4 * (frame[at] & 15), at + int.from_bytes(frame[at + 2:at + 4], "big")
        whole = not int.from_bytes(frame[at + 6:at + 8], "big") & 0x3FFF
    elif version == 6 and len(frame) >= at + 40 and frame[at + 6] == IPPROTO_IPV6:
        begin, end, whole = at + 40, at + 40 + int.from_bytes(frame[at + 4:at + 6], "big"), True
    else:
        return None
    fits = at < begin < end <= len(frame)
    return (begin, end) if whole and fits and frame[begin] >> 4 == version else None


def take_out(message):
    """The bytes to write to the TUN device for a packet from the packet socket, or None."""
    place = inner_place(message, VNET.size + ETHERNET_BYTES)
    if not place:
        return None
    begin, end = place
    skipped = begin - VNET.size
    flags, kind, headers, segment, start, offset = VNET.unpack_from(message)
    if flags & NEEDS_CHECKSUM:
        start -= skipped
    if start < 0:
        return None
    headers = min(max(headers - skipped, 0), end - begin)
    return VNET.pack(flags & NEEDS_CHECKSUM, kind, headers, segment, start, offset) + message[begin:end]


def swallow(family, protocol):
    """A raw socket that takes every packet and keeps none, so that the kernel does not answer "protocol unreachable"."""
    found = socket.socket(family, socket.SOCK_RAW, protocol)
    nothing = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # a program that only returns 0
    found.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(nothing)))
    return found


def listen(interface, protocol):
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    found.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    found.bind((interface, protocol))
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: ipip_tun.py INTERFACE TUN")
    interface, name = sys.argv[1:]
    _kept = [swallow(socket.AF_INET, IPPROTO_IPIP), swallow(socket.AF_INET6, IPPROTO_IPV6)]
    sources = [listen(interface, ETH_P_IP), listen(interface, ETH_P_IPV6)]
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    while True:
        for source in select.select(sources, [], [])[0]:
            message, about = source.recvfrom(VNET.size + ETHERNET_BYTES + 65600)
            packet = take_out(message) if about[2] == PACKET_HOST else None
            if packet:
                try:
                    os.write(tun, packet)
                except OSError as error:  # a bad packet must not end the program
                    print(f"ipip_tun: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
