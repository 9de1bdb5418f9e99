# SPDX-License-Identifier: GPL-2.0-or-later
"""VLAN devices. A kernel without them (CONFIG_VLAN_8021Q) gets a stand-in: a virtual cable at whose far end two BPF
programs add and remove the tag. They run where tagged frames pass anyway: at tc, after dprd's programs."""
import ctypes
import json
import os
import socket
import struct

import bpf
from netns import LabError

PROG_LOAD, OBJ_PIN, SCHED_CLS = 5, 6, 3
PRIORITY = 300  # behind dprd's own, where that has classifiers
TAG_PRESENT, TAG = 20, 24  # struct __sk_buff
VLAN_PUSH, VLAN_POP, REDIRECT = 18, 19, 23  # enum bpf_func_id
UNSPEC = -1


def _code(code, target=0, source=0, offset=0, value=0):
    return struct.pack("=BBhi", code, source << 4 | target, offset, value)


def _leave(interface):
    """return bpf_redirect(interface, 0)"""
    return [_code(0xB7, 1, value=interface), _code(0xB7, 2), _code(0x85, value=REDIRECT), _code(0x95)]


def _untag(number, interface):
    """Sends frames of this VLAN to the interface without their tag."""
    rest = [_code(0x85, value=VLAN_POP)] + _leave(interface)
    return [_code(0xB7, 0, value=UNSPEC),
            _code(0x61, 2, 1, TAG_PRESENT), _code(0x15, 2, offset=len(rest) + 3),
            _code(0x61, 2, 1, TAG), _code(0x57, 2, value=0xFFF),
            _code(0x55, 2, offset=len(rest), value=number)] + rest + [_code(0x95)]


def _tag(number, interface):
    """Sends all frames to the interface with the tag."""
    return [_code(0xB7, 2, value=socket.htons(0x8100)), _code(0xB7, 3, value=number),
            _code(0x85, value=VLAN_PUSH)] + _leave(interface)


def _attach(cluster, host, interface, codes):
    """Attaches a program to frames that arrive at an interface."""
    text, gpl, log = b"".join(codes), b"GPL\0", ctypes.create_string_buffer(65536)
    held = [ctypes.create_string_buffer(part) for part in (text, gpl)]
    try:
        fd, _ = bpf.bpf(PROG_LOAD, struct.pack("=IIQQIIQ", SCHED_CLS, len(codes), ctypes.addressof(held[0]),
                                               ctypes.addressof(held[1]), 1, len(log), ctypes.addressof(log)))
    except OSError as error:
        raise LabError(f"the stand-in for a VLAN device: {error}: {log.value.decode()[-500:]}") from error
    path = os.path.join(cluster.nodes[0].bpf_mount, f"vlan-{host}-{interface}")
    name = ctypes.create_string_buffer(path.encode())
    try:
        bpf.bpf(OBJ_PIN, struct.pack("=QII", ctypes.addressof(name), fd, 0))
        cluster.site.execute(host, ["tc", "qdisc", "add", "dev", interface, "clsact"], check=False)
        cluster.site.execute(host, ["tc", "filter", "add", "dev", interface, "ingress", "prio", str(PRIORITY),
                                    "bpf", "direct-action", "object-pinned", path])
    finally:
        if os.path.exists(path):
            os.unlink(path)
        os.close(fd)


def _number_of(cluster, host, interface):
    return json.loads(cluster.site.execute(host, ["ip", "-j", "link", "show", interface]))[0]["ifindex"]


def add_vlan(cluster, host, parent, number, addresses):
    """Makes the device PARENT.NUMBER of a host; returns its name."""
    name = f"{parent}.{number}"
    try:
        cluster.site.ip(host, [f"link add link {parent} name {name} type vlan id {number}"])
    except LabError as error:
        if "Unknown device type" not in str(error):
            raise
        hardware = json.loads(cluster.site.execute(host, ["ip", "-j", "link", "show", parent]))[0]["address"]
        cluster.site.ip(host, [f"link add {name} address {hardware} type veth peer name tags", "link set tags up",
                               "link set tags arp off"])
        _attach(cluster, host, parent, _untag(number, _number_of(cluster, host, "tags")))
        _attach(cluster, host, "tags", _tag(number, _number_of(cluster, host, parent)))
    cluster.site.ip(host, [f"link set {name} up"] +
                    [f"addr add {address} dev {name}" + (" nodad" if ":" in address else "") for address in addresses])
    return name
