# SPDX-License-Identifier: GPL-2.0-or-later
"""The BPF objects in a node's kernel: pins on the file system, memory of maps, programs on interfaces.

Debian's bpftool does not know tcx, so this asks the kernel with bpf(2).
"""
import contextlib
import ctypes
import mmap
import os
import platform
import re
import socket
import struct

SYSCALL = {"x86_64": 321, "aarch64": 280}
PROG_LOAD, OBJ_GET, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD, PROG_QUERY, LINK_CREATE = 5, 7, 13, 15, 16, 28
CLASSIFIER = 3  # BPF_PROG_TYPE_SCHED_CLS
ACCEPT_ALL = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)  # r0 = TC_ACT_OK; exit
TCX = {"ingress": 46, "egress": 47}
BEFORE_ALL = 8  # BPF_F_BEFORE without another program
ATTRIBUTE_BYTES, INFO_BYTES, PROGRAMS_MAX = 128, 256, 64


def bpf(command, attribute):
    """Calls bpf(2) with a struct of bytes, which the kernel may change; OSError when it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(attribute, ATTRIBUTE_BYTES)
    found = libc.syscall(SYSCALL[platform.machine()], command, held, ATTRIBUTE_BYTES)
    if found < 0:
        raise OSError(ctypes.get_errno(), f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return found, held.raw


@contextlib.contextmanager
def pinned(path):
    """The file descriptor of a pinned object."""
    name = ctypes.create_string_buffer(path.encode())
    fd, _ = bpf(OBJ_GET, struct.pack("=QII", ctypes.addressof(name), 0, 0))
    try:
        yield fd
    finally:
        os.close(fd)


def info(fd):
    """The kernel's information on a map or program, in the layout of linux/bpf.h."""
    text = ctypes.create_string_buffer(INFO_BYTES)
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("=IIQ", fd, INFO_BYTES, ctypes.addressof(text)))
    return text.raw


@contextlib.contextmanager
def array_memory(path):
    """The values of a pinned array that can be mapped, as bytes that change when the kernel changes them."""
    with pinned(path) as fd:
        _, _, _, value_bytes, entries = struct.unpack_from("=IIIII", info(fd))
        size = -(-value_bytes // 8) * 8 * entries
        with mmap.mmap(fd, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ) as memory:
            yield memory


@contextlib.contextmanager
def accepting(interface, first=False):
    """Another program that accepts every packet that comes in by this interface of the present network namespace, behind
    the programs that are there, or before them."""
    code, licence = ctypes.create_string_buffer(ACCEPT_ALL), ctypes.create_string_buffer(b"GPL")
    program, _ = bpf(PROG_LOAD, struct.pack("=IIQQ", CLASSIFIER, len(ACCEPT_ALL) // 8, ctypes.addressof(code),
                                            ctypes.addressof(licence)))
    try:
        link, _ = bpf(LINK_CREATE, struct.pack("=IIII", program, socket.if_nametoindex(interface), TCX["ingress"],
                                             BEFORE_ALL if first else 0))
    finally:
        os.close(program)
    try:
        yield
    finally:
        os.close(link)


def program_name(number):
    fd, _ = bpf(PROG_GET_FD_BY_ID, struct.pack("=II", number, 0))
    try:
        return info(fd)[64:80].split(b"\0")[0].decode()
    finally:
        os.close(fd)


def attached(site, host):
    """["eth0 ingress NAME", ...]: the tcx programs on a host's interfaces, in their order."""
    found = []
    with site.inside(host):
        for index, interface in socket.if_nameindex():
            for direction, kind in TCX.items():
                numbers = (ctypes.c_uint32 * PROGRAMS_MAX)()
                _, answer = bpf(PROG_QUERY, struct.pack("=IIIIQI", index, kind, 0, 0, ctypes.addressof(numbers),
                                                        PROGRAMS_MAX))
                count = struct.unpack_from("=I", answer, 24)[0]
                found += [f"{interface} {direction} {program_name(number)}" for number in numbers[:count]]
    return found


def walk(directory, **how):
    """Does as os.walk(), without the kernel's own files (maps.debug): no user can make or remove a name with a dot."""
    for place, directories, files in os.walk(directory, **how):
        yield place, directories, [name for name in files if "." not in name]


def pins(directory):
    """All files and directories below a directory of pins, which need not exist."""
    found = []
    for place, directories, files in walk(directory):
        found += [os.path.relpath(os.path.join(place, name), directory) for name in directories + files]
    return sorted(found)


def mount_points():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in file}


def unpin_all(directory):
    """Removes all pins on a mounted file system. Other mount namespaces may hold copies of the mount, so an unmount
    alone would not remove them."""
    for place, directories, files in walk(directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(place, name))
        for name in directories:
            os.rmdir(os.path.join(place, name))
