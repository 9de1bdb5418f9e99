# SPDX-License-Identifier: GPL-2.0-or-later
"""Packets as an interface sees them."""
import contextlib
import ctypes
import glob
import os
import select
import shutil
import socket
import struct
import subprocess
import threading
import time

from scapy.all import Ether

ETH_P_ALL, PACKET_OUTGOING, SO_TIMESTAMPNS = 3, 4, 35
# A ring keeps this many bytes of each packet: all headers, over Ethernet.
RING_BYTES, RING_MB, RING_FILES, STORY_LINES = 96, 8, 4, 24
# Probes of ways (dprd/core/packet/probe.h), in a tunnel and without one: they always come.
PROBES = " or ".join(f"({header} and {ip}[{ports}:4] & 0xfffcffff = 0x00080009)" for header, ip, ports in
                    (("ip[9] = 4", "ip", 40), ("ip6[6] = 41", "ip6", 80), ("ip[9] = 6", "ip", 20), ("ip6[6] = 6", "ip6", 40)))


class SockFprog(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def compile_filter(text):
    """A filter in tcpdump's language as the kernel takes it."""
    lines = subprocess.run(["tcpdump", "-ddd", "-y", "EN10MB", text], capture_output=True, text=True,
                           check=True).stdout.split("\n")
    return b"".join(struct.pack("HBBI", *map(int, line.split())) for line in lines[1:] if line)


class Capture:
    """Everything except probes that an interface sees and a filter takes, from the "with" to its end (or stop());
    interface None: of all interfaces of the host. frames: (bytes, kind of packet); about: for each (interface, time, True if it was
    sent)."""

    def __init__(self, cluster, host, interface="eth0", only=""):
        with cluster.site.inside(host):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0 if interface else socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        code = compile_filter((f"({only}) and " if only else "") + f"not ({PROBES})")
        held = ctypes.create_string_buffer(code, len(code))
        program = SockFprog(len(code) // 8, ctypes.addressof(held))
        self.socket.setsockopt(socket.SOL_SOCKET, 26, bytes(program))
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        if interface:
            self.socket.bind((interface, ETH_P_ALL))
        else:
            self._drain()
        self.frames, self.about = [], []
        self.wake, self.stop_end = socket.socketpair()
        self.thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def _drain(self):
        """Drops frames from before the filter was set, and forgets those for which there was no room then."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(1, socket.MSG_DONTWAIT)
        self._lost()

    def _lost(self):
        """The number of packets that were lost since it was last asked (PACKET_STATISTICS)."""
        return struct.unpack("II", self.socket.getsockopt(263, 6, 8))[1]

    def _read(self):
        while True:
            ready = select.select([self.socket, self.wake], [], [])[0]
            if self.socket in ready:
                frame, held, _, about = self.socket.recvmsg(65600, 64)
                seconds, ns = struct.unpack("qq", held[0][2])
                self.about.append((about[0], seconds + ns / 1e9, about[2] == PACKET_OUTGOING))
                self.frames.append((frame, about[2]))
            elif self.wake in ready:
                return

    def stop(self):
        if self.thread.is_alive():
            time.sleep(0.05)
            self.stop_end.send(b"x")
            self.thread.join(5)
            lost = self._lost()
            for end in (self.socket, self.wake, self.stop_end):
                end.close()
            assert lost == 0, f"the capture lost {lost} packets"
        return self

    def packets(self, outgoing=None):
        """The packets of scapy; outgoing: only those that the host sent (True) or got (False)."""
        return [Ether(frame) for frame, kind in list(self.frames)
                if outgoing is None or (kind == PACKET_OUTGOING) == outgoing]

    def wait(self, wanted, timeout_s=3):
        """The first packet for which wanted(packet) holds; None when none comes."""
        deadline, seen = time.monotonic() + timeout_s, 0
        while True:
            while seen < len(self.frames):
                packet = Ether(self.frames[seen][0])
                seen += 1
                if wanted(packet):
                    return packet
            if time.monotonic() > deadline:
                return None
            time.sleep(0.002)


class Ring:
    """The newest packets of one interface, by tcpdump, until end(): RING_FILES files of RING_MB at most. In keep() they
    move to BUILD/cluster; otherwise they go with the cluster."""

    def __init__(self, cluster, host, interface, only):
        self.cluster, self.path = cluster, os.path.join(cluster.directory, f"ring-{time.monotonic_ns()}.pcap")
        self.child = cluster.site.start(host, [
            "tcpdump", "--immediate-mode", "-n", "-p", "-Z", "root", "-i", interface, "-s", str(RING_BYTES), "-B", "8192",
            "-C", str(RING_MB), "-W", str(RING_FILES), "-w", self.path, only], os.path.join(cluster.directory, "ring.log"))

    def end(self):
        time.sleep(0.1)
        self.child.terminate()
        self.child.wait(5)
        self.cluster.site.reap()

    def keep(self, name):
        """Moves the files, in place of former ones of this name; returns the new paths, the oldest packets first."""
        start = os.path.join(self.cluster.build, "cluster", name + ".pcap")
        os.makedirs(os.path.dirname(start), exist_ok=True)
        for former in glob.glob(start + "*"):
            os.unlink(former)
        files = sorted(glob.glob(self.path + "*"), key=os.path.getmtime)
        return [shutil.move(path, start + str(number)) for number, path in enumerate(files)]


def story(paths, only):
    """The packets of some files that a filter takes, with their hardware addresses, one in a line; the last STORY_LINES."""
    lines = []
    for path in paths:
        lines += subprocess.run(["tcpdump", "-n", "-e", "-tt", "-r", path, only], capture_output=True, text=True,
                                check=True).stdout.splitlines()
    return lines[-STORY_LINES:]
