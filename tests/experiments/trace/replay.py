# SPDX-License-Identifier: GPL-2.0-or-later
"""Sends the requests of a plan, each at its moment, over a connection of its own (HTTP/1.0): "trace replay".

An open loop: a slow answer delays no other request. One thread, one epoll. Every request of the plan ends as ok, as
an error, or as waiting when the run is over.
"""
import bisect
import collections
import errno
import gc
import resource
import select
import socket
import time

import workload

RECEIVE_BYTES = 1 << 18
HEAD_MOST_BYTES = 8192
EXPECTED = {workload.FULL: 200, workload.PART: 206, workload.UNCHANGED: 304}
OK, WAITING = "ok", "waiting"
ERRORS = {errno.ECONNREFUSED: "refused", errno.ECONNRESET: "reset", errno.EPIPE: "reset",
          errno.ETIMEDOUT: "timeout", errno.EHOSTUNREACH: "unreachable", errno.ENETUNREACH: "unreachable"}
LOCAL = {errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM}


def server_of(client, servers):
    """The server whose address a client knows: [(host, share)] dealt out by share, always the same one."""
    bounds, total = [], 0
    for _host, share in servers:
        total += share
        bounds.append(total)
    return bisect.bisect_right(bounds, workload.mix(client ^ 0x5eed) % total)


def parse_servers(text):
    """[(host, share)] of "HOST[*SHARE],..."; ValueError when that is not what the text says."""
    found = []
    for part in text.split(","):
        host, star, share = part.partition("*")
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
        found.append((host, int(share) if star else 1))
        if found[-1][1] < 1:
            raise ValueError(part)
    return found


def request_bytes(path, kind, size, host):
    """The requests to send."""
    lines = [f"GET {path} HTTP/1.0", f"Host: {host}"]
    if kind == workload.PART:
        lines.append(f"Range: bytes=0-{size - 1}")
    elif kind == workload.UNCHANGED:
        lines.append(f"If-Modified-Since: {workload.LAST_MODIFIED}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


class Exchange:
    """One request under way; after its end its outcome."""
    __slots__ = ("due_s", "start_s", "connect_s", "end_s", "server", "kind", "size", "text", "link", "head", "received",
                 "status", "node", "outcome")

    def __init__(self, due_s, server, kind, size, text):
        self.due_s, self.server, self.kind, self.size, self.text = due_s, server, kind, size, text
        self.start_s = self.connect_s = self.end_s = self.link = self.outcome = None
        self.head, self.received, self.status, self.node = b"", 0, None, None


def read_head(exchange, node_header):
    """Takes status and node out of the head, when all of it is there; the rest counts as body. False: malformed."""
    head, gap, body = exchange.head.partition(b"\r\n\r\n")
    if not gap:
        return len(head) <= HEAD_MOST_BYTES
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split()
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        return False
    exchange.status, exchange.received, exchange.head = int(words[1]), len(body), b""
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name.strip().lower() == node_header:
            exchange.node = value.strip()
    return True


def verdict(exchange):
    """The outcome of an answer that was read to its end."""
    if exchange.status is None:
        return "malformed" if exchange.head else "closed"
    if exchange.status != EXPECTED[exchange.kind]:
        return "status"
    return OK if exchange.received == exchange.size else "wrong_length"


class Replay:
    """Runs a plan once: run(), then exchanges has all requests, in order."""

    def __init__(self, requests, servers, port=80, timeout_s=10.0, prefix="/",
                 node_header="x-node", beat=None):
        self.servers, self.port, self.timeout_s = servers, port, timeout_s
        self.node_header, self.beat = node_header.lower(), beat
        self.exchanges = []
        known = {}
        for due_us, client, obj, kind, size in requests:
            if client not in known:
                known[client] = server_of(client, servers)
            server = known[client]
            text = request_bytes(prefix + workload.file_name(obj), kind, size, servers[server][0])
            self.exchanges.append(Exchange(due_us / 1e6, server, kind, size, text))
        self.poll, self.open = select.epoll(), {}
        self.waiting = collections.deque()  # those under way and some that have ended, by their starts
        self.buffer = memoryview(bytearray(RECEIVE_BYTES))
        self.begin_s = 0.0
        self.good, self.failed, self.good_s = 0, 0, 0.0  # ended so far; seconds that the good ones took

    def now(self):
        return time.monotonic() - self.begin_s

    def run(self, seconds, drain_s=0.0, begin_at_s=None):
        """Runs for this many seconds and, when some requests still wait, at most drain_s more. begin_at_s: of the
        monotonic clock."""
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.begin_s = begin_at_s if begin_at_s is not None else time.monotonic() + 0.1
        gc.collect()
        gc.disable()  # there are no cycles, and a collection would make requests late
        following, next_beat = 0, 1.0
        while True:
            now = self.now()
            while following < len(self.exchanges) and self.exchanges[following].due_s <= now:
                self._begin(self.exchanges[following])
                following += 1
            self._expire(now)
            if now >= seconds and (not self.open or now >= seconds + drain_s):
                break
            due_s = self.exchanges[following].due_s if following < len(self.exchanges) else seconds + drain_s
            if now >= next_beat:
                next_beat = int(now) + 1.0
                if self.beat:
                    self.beat(self, now)
            late_s = self.waiting[0].start_s + self.timeout_s if self.waiting else due_s
            self._wait(min(due_s, late_s, next_beat, seconds if now < seconds else seconds + drain_s) - now)
        for exchange in list(self.open.values()):
            self._end(exchange, WAITING)
        gc.enable()

    def _wait(self, most_s):
        for number, events in self.poll.poll(max(0.0, most_s), 256):
            exchange = self.open.get(number)
            if exchange is None:
                continue
            try:
                if exchange.connect_s is None:
                    self._connected(exchange)
                elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                    self._receive(exchange)
            except BlockingIOError:
                continue
            except OSError as error:
                self._end(exchange, ERRORS.get(error.errno, "other"))

    def _begin(self, exchange):
        host = self.servers[exchange.server][0]
        exchange.start_s = self.now()
        try:
            exchange.link = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                                          socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            self.open[exchange.link.fileno()] = exchange
            self.poll.register(exchange.link, select.EPOLLOUT)
            failure = exchange.link.connect_ex((host, self.port))
        except OSError as error:
            failure = error.errno
        if failure not in (0, errno.EINPROGRESS):
            self._end(exchange, "local" if failure in LOCAL else ERRORS.get(failure, "other"))
        else:
            self.waiting.append(exchange)

    def _connected(self, exchange):
        failure = exchange.link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, "")
        exchange.connect_s = self.now()
        if exchange.link.send(exchange.text) < len(exchange.text):
            raise OSError(errno.ENOBUFS, "")  # a fresh socket takes some hundred bytes
        self.poll.modify(exchange.link, select.EPOLLIN)

    def _receive(self, exchange):
        count = exchange.link.recv_into(self.buffer)
        if not count:
            self._end(exchange, verdict(exchange))
        elif exchange.status is not None:
            exchange.received += count
        else:
            exchange.head += bytes(self.buffer[:count])
            if not read_head(exchange, self.node_header):
                self._end(exchange, "malformed")

    def _expire(self, now):
        while self.waiting and (self.waiting[0].outcome or self.waiting[0].start_s + self.timeout_s <= now):
            exchange = self.waiting.popleft()
            if not exchange.outcome:
                self._end(exchange, "timeout")

    def _end(self, exchange, outcome):
        exchange.outcome, exchange.end_s = outcome, self.now()
        if outcome == OK:
            self.good, self.good_s = self.good + 1, self.good_s + exchange.end_s - exchange.start_s
        elif outcome != WAITING:
            self.failed += 1
        if exchange.link is not None:
            self.open.pop(exchange.link.fileno(), None)
            exchange.link.close()
            exchange.link = None
