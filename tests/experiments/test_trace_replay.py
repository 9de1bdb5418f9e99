# SPDX-License-Identifier: GPL-2.0-or-later
"""trace replay on the loopback interface: moments, outcomes, sums; and the whole way from a trace to nginx."""
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
import types
from collections import Counter

import pytest

import exp_trace  # makes the trace's modules known
import replay
import results
import workload

TOOL = os.path.join(exp_trace.TOOLS, "trace")
TICK_S = 1e-8  # a clock that leaps goes on by at least this
PATIENCE_S = 60  # with a busy host


def tool(*words):
    done = subprocess.run(["/usr/bin/python3", TOOL, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=3 * PATIENCE_S)
    return done.returncode, done.stdout, done.stderr


class Server:
    """Answers as one of the words in the path says: /o1 and so on are fine. Before the answer it waits for .may_answer,
    until there were as many requests as that takes."""

    def __init__(self, answers, answers_after=0):
        self.answers, self.seen, self.answers_after = answers, [], answers_after
        self.may_answer = threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                link, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.answer, args=(link, time.monotonic()), daemon=True).start()

    def answer(self, link, moment):
        with link:
            text = b""
            while b"\r\n\r\n" not in text:
                text += link.recv(4096)
            words = text.decode().split("\r\n")
            self.seen.append((moment, words[0].split()[1], words[1:-2]))
            pieces = self.answers.get(words[0].split()[1])
            if len(self.seen) >= self.answers_after:
                self.may_answer.set()
            self.may_answer.wait(PATIENCE_S)
            if pieces is None:  # silent until the client has gone
                link.recv(1)
                return
            for piece in pieces:
                link.sendall(piece)
                time.sleep(0.01)
            if not pieces:  # closing with bytes unread or lingering 0 resets
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def reply(status, size, node="n1"):
    return f"HTTP/1.1 {status} x\r\nX-Node: {node}\r\n\r\n".encode() + b"x" * size


def run_replay(server, requests, seconds, **options):
    """All of them, however long the host takes: what is left waiting after PATIENCE_S has found a fault."""
    drain_s = options.pop("drain_s", PATIENCE_S)
    run = replay.Replay(requests, [("127.0.0.1", 1)], server.port, **{"timeout_s": 2 * PATIENCE_S, **options})
    run.run(seconds, drain_s)
    return run.exchanges


class Simulated(replay.Replay):
    """A replay whose clock leaps, with exchanges that end when delays_s[object] have passed; None: never."""

    def __init__(self, monkeypatch, requests, delays_s, **options):
        super().__init__(requests, [("127.0.0.1", 1)], **options)
        self.clock_s, self.turns = 1000.0, 0
        monkeypatch.setattr(replay, "time", types.SimpleNamespace(monotonic=lambda: self.clock_s))
        self.ends = {id(one): delays_s[request[2]] for one, request in zip(self.exchanges, requests)}

    def _begin(self, exchange):
        exchange.start_s = exchange.connect_s = self.now()
        self.open[id(exchange)] = exchange
        self.waiting.append(exchange)

    def _wait(self, most_s):
        self.turns += 1
        assert self.turns < 20 * len(self.exchanges) + 100, "it does not wait, it spins"
        due = {number: one.start_s + self.ends[number] for number, one in self.open.items()
               if self.ends[number] is not None}
        until_s = min([self.now() + max(0.0, most_s), *due.values()])
        self.clock_s = max(self.clock_s + TICK_S, self.begin_s + until_s)
        for number in [number for number, end_s in due.items() if end_s <= until_s]:
            self._end(self.open[number], replay.OK)

    def _end(self, exchange, outcome):
        super()._end(exchange, outcome)
        self.open.pop(id(exchange), None)


def test_requests_are_sent_at_their_moments_however_slow_the_answers(monkeypatch):
    rng = random.Random(1)
    requests = sorted((rng.randrange(1_000_000), i, i, "full", 3) for i in range(150))
    run = Simulated(monkeypatch, requests, {i: rng.choice((0.001, 0.4, 1.7)) for i in range(150)})
    run.run(1.0, 2.0)
    assert [one.outcome for one in run.exchanges] == ["ok"] * 150
    assert [one.start_s for one in run.exchanges] == pytest.approx([due_us / 1e6 for due_us, *_ in requests], abs=1e-6)
    assert [one.end_s - one.start_s for one in run.exchanges] == pytest.approx(
        [run.ends[id(one)] for one in run.exchanges], abs=1e-6)
    assert run.now() == pytest.approx(max(one.end_s for one in run.exchanges), abs=1e-6)


def test_no_request_waits_for_the_answer_to_another():
    """The server answers none before it has all: a client that waits for one never sends the rest. None comes early."""
    rng = random.Random(1)
    requests = sorted((rng.randrange(1_000_000), i, i, "full", 3) for i in range(150))
    with Server({f"/o{i}": [reply(200, 3)] for i in range(150)}, answers_after=150) as server:
        run = replay.Replay(requests, [("127.0.0.1", 1)], server.port, timeout_s=2 * PATIENCE_S)
        begin_s = time.monotonic() + 0.2
        run.run(1.0, PATIENCE_S, begin_s)
        arrived = {path: moment - begin_s for moment, path, _ in server.seen}
    assert [one.outcome for one in run.exchanges] == ["ok"] * 150
    assert min(arrived[f"/o{obj}"] - due_us / 1e6 for due_us, _, obj, _, _ in requests) >= 0


OUTCOMES = {
    "/o1": ("full", 5, [reply(200, 5)], "ok"),
    "/o2": ("part", 4, [reply(206, 4)], "ok"),
    "/o3": ("unchanged", 0, [reply(304, 0)], "ok"),
    "/o4": ("full", 5, [reply(404, 5)], "status"),
    "/o5": ("full", 5, [reply(200, 4)], "wrong_length"),
    "/o6": ("full", 5, [b"nonsense\r\n\r\n"], "malformed"),
    "/o7": ("full", 5, [b"HTTP/1.0 200"], "malformed"),
    "/o8": ("full", 5, [], "reset"),
    "/o10": ("part", 4, [reply(200, 9)], "status"),
    "/o11": ("full", 40000, [b"HTT", b"P/1.0 200 OK\r\nx-noDE:  n2 \r\n",
                             b"\r\n" + b"y" * 20000, b"z" * 20000], "ok"),
    "/o12": ("full", 5, [b"x" * 9000], "malformed"),
    "/o13": ("unchanged", 0, [reply(200, 5)], "status"),
}


def test_every_end_has_its_name():
    requests = [(10_000 * i, i, int(path[2:]), kind, size) for i, (path, (kind, size, _, _)) in
                enumerate(OUTCOMES.items())]
    with Server({path: answer for path, (_, _, answer, _) in OUTCOMES.items()}) as server:
        exchanges = run_replay(server, requests, 0.3)
        late = run_replay(server, [(0, 98, 9, "full", 5)], 0.1, timeout_s=0.3)
        waiting = run_replay(server, [(0, 99, 14, "full", 5)], 0.3, drain_s=0)
    assert [one.outcome for one in exchanges] == [end for _, _, _, end in OUTCOMES.values()]
    assert [one.node for one in exchanges if one.outcome == "ok"] == ["n1", "n1", "n1", "n2"]
    assert [one.outcome for one in late + waiting] == ["timeout", "waiting"]
    heads = {path: words for _, path, words in server.seen}
    assert "Range: bytes=0-3" in heads["/o2"] and f"If-Modified-Since: {workload.LAST_MODIFIED}" in heads["/o3"]
    assert heads["/o1"] == ["Host: 127.0.0.1"]
    assert late[0].end_s - late[0].start_s >= 0.3
    exchanges += late + waiting
    summary = results.summarize(exchanges, 1.0, [("127.0.0.1", 1)])
    assert summary["planned"] == summary["offered"] == 14 and summary["waiting"] == 1
    assert summary["offered"] == summary["requests"] + summary["ended_late"] + summary["waiting"] + \
        summary["errors"]["total"]
    assert summary["errors"] == {"total": 9, "status": 3, "wrong_length": 1, "malformed": 3, "reset": 1, "timeout": 1}
    lines = list(results.log_lines(exchanges, [("127.0.0.1", 1)]))
    assert len(lines) == 14 and all(len(line.split()) == len(results.LOG_HEADING.split()) - 1 for line in lines)


def test_a_timeout_and_the_end_come_at_their_moments(monkeypatch):
    requests = [(due_us, obj, obj, "full", 5) for due_us, obj in ((0, 1), (100_000, 2), (200_000, 3), (950_000, 4))]
    run = Simulated(monkeypatch, requests, {1: 0.6, 2: None, 3: 0.8, 4: 1.5}, timeout_s=0.7)
    run.run(1.0)
    assert [one.outcome for one in run.exchanges] == ["ok", "timeout", "timeout", "waiting"]
    assert [one.end_s for one in run.exchanges] == pytest.approx([0.6, 0.8, 0.9, 1.0], abs=1e-6)


def test_nobody_listens():
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        run = replay.Replay([(0, 1, 1, "full", 5), (100_000, 2, 1, "full", 5)], [("127.0.0.1", 1)],
                            nobody_listens.getsockname()[1], timeout_s=2 * PATIENCE_S)
        run.run(0.2, PATIENCE_S)
    assert [one.outcome for one in run.exchanges] == ["refused", "refused"]


def test_the_rest_may_take_its_time_but_only_so_long(monkeypatch):
    run = Simulated(monkeypatch, [(0, 1, 1, "full", 3), (0, 2, 2, "full", 3)], {1: 0.6, 2: 1.6})
    run.run(0.3, 0.7)
    assert run.now() == pytest.approx(1.0, abs=1e-6)
    assert [one.outcome for one in run.exchanges] == ["ok", "waiting"]
    summary = results.summarize(run.exchanges, 0.3, [("127.0.0.1", 1)])
    assert (summary["requests"], summary["ended_late"], summary["waiting"]) == (0, 1, 1)
    assert summary["in_flight_mean"] == pytest.approx(2)


def test_clients_are_dealt_out_by_share_and_stay():
    servers = replay.parse_servers("192.0.2.1*4,192.0.2.2,2001:db8::1")
    assert servers == [("192.0.2.1", 4), ("192.0.2.2", 1), ("2001:db8::1", 1)]
    dealt = Counter(replay.server_of(client, servers) for client in range(6000))
    assert dealt[0] == pytest.approx(4000, rel=0.05) and dealt[1] == pytest.approx(1000, rel=0.15)
    assert [replay.server_of(client, servers) for client in range(50)] == [
        replay.server_of(client, servers) for client in range(50)]
    for wrong in ("", "www", "192.0.2.1*0", "192.0.2.1*x", "192.0.2.1,", "192.0.2.1*"):
        with pytest.raises((ValueError, OSError)):
            replay.parse_servers(wrong)


def ended(due_s, start_s, end_s, outcome="ok", node="n1"):
    one = replay.Exchange(due_s, 0, "full", 10, b"")
    one.start_s, one.connect_s, one.end_s, one.outcome, one.node, one.received = (
        start_s, start_s, end_s, outcome, node, 10)
    return one


def test_a_summary_counts_by_second_and_finds_the_burst():
    exchanges = [ended(i + 0.5, i + 0.5, i + 0.6) for i in range(20)]
    exchanges += [ended(7.1, 7.2, 9.2, node="n2"), ended(7.2, 7.2, 8.2, "timeout"), ended(19.9, 19.9, 20.4)]
    exchanges.sort(key=lambda one: one.due_s)
    found = results.summarize(exchanges, 20, [("a", 1)])
    assert found["series"]["offered"] == [1] * 7 + [3] + [1] * 11 + [2]
    assert found["series"]["served"] == {"n1": [1] * 20, "n2": [0] * 9 + [1] + [0] * 10}
    assert found["series"]["failed"][8] == 1 and found["errors"] == {"total": 1, "timeout": 1}
    assert (found["requests"], found["ended_late"]) == (21, 1) and found["requests_per_second"] == 21 / 20
    assert found["lag_ms"]["max"] == pytest.approx(100)
    assert found["burst_waited_ms"]["max"] == pytest.approx(2000)
    assert found["burst_waited_ms"]["mean"] == pytest.approx((100 + 2000 + 1000 + 100 + 500) / 5)
    assert found["delay_ms"]["mean"] == pytest.approx((20 * 100 + 2000 + 500) / 22)
    exchanges.append(ended(19.95, 19.95, 29.95, "timeout"))
    found = results.summarize(exchanges, 20, [("a", 1)])
    assert found["waited_ms"]["max"] == pytest.approx(10000) and found["delay_ms"]["max"] == pytest.approx(2000)


NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
NGINX_CONF = """\
daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log;
events {{ worker_connections 512; }}
http {{
	access_log off; keepalive_timeout 0; root {directory}/d/files; add_header X-Node n1 always;
	client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
	uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
	server {{ listen 127.0.0.1:{port}; }}
}}
"""


@pytest.mark.skipif(not os.path.exists(NGINX), reason="no nginx")
def test_from_a_trace_to_answers_of_nginx(tmp_path):
    trace = tmp_path / "t.gz"
    assert tool("make", trace, "--span-s", 100, "--rate", 3, "--objects", 50, "--clients", 40)[0] == 0
    status, out, _ = tool("prepare", trace, "--output", tmp_path / "d", "--compress", 50,
                          "--seconds", 2)
    counts = json.loads(out)
    assert status == 0 and counts["kinds"]["unchanged"] > 10 and counts["kinds"]["full"] > 100
    port = free_port()
    user = "user root;\n" if os.geteuid() == 0 else ""
    (tmp_path / "conf").write_text(user + NGINX_CONF.format(directory=tmp_path, port=port))
    server = subprocess.Popen([NGINX, "-e", tmp_path / "error.log", "-c", tmp_path / "conf"])
    try:
        for _ in range(PATIENCE_S * 20):
            time.sleep(0.05)
            with socket.socket() as asked:
                if not asked.connect_ex(("127.0.0.1", port)):
                    break
        status, out, err = tool("replay", tmp_path / "d" / "plan", "--servers", "127.0.0.1", "--port", port,
                                "--progress", "--drain", PATIENCE_S, "--timeout", PATIENCE_S, "--log", tmp_path / "log")
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
    found = json.loads(out)
    assert status == 0 and found["errors"] == {"total": 0} and found["waiting"] == 0
    assert found["requests"] + found["ended_late"] == counts["replayed"] == counts["in_slice"] - sum(
        counts["left_out"].values())
    assert {line.split()[-1] for line in (tmp_path / "log").read_text().splitlines()[1:]} == {"ok"}
    assert list(found["series"]["served"]) == ["n1"] and "in flight" in err
