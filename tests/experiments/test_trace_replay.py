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
from collections import Counter

import pytest

import exp_trace  # makes the trace's modules known
import replay
import results
import workload

TOOL = os.path.join(exp_trace.TOOLS, "trace")


def tool(*words):
    done = subprocess.run(["/usr/bin/python3", TOOL, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


class Server:
    """Answers as one of the words in the path says: /o1 and so on are fine."""

    def __init__(self, answers):
        self.answers, self.seen = answers, []
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
            delay_s, pieces = self.answers[words[0].split()[1]]
            time.sleep(delay_s)
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
    drain_s = options.pop("drain_s", 0)
    run = replay.Replay(requests, [("127.0.0.1", 1)], server.port, **options)
    run.run(seconds, drain_s)
    return run.exchanges


def test_requests_are_sent_at_their_moments_however_slow_the_answers():
    rng = random.Random(1)
    requests = sorted((rng.randrange(1_000_000), i, i, "full", 3) for i in range(150))
    with Server({f"/o{i}": (0.4, [reply(200, 3)]) for i in range(150)}) as server:
        run = replay.Replay(requests, [("127.0.0.1", 1)], server.port)
        begin_s = time.monotonic() + 0.2
        run.run(1.0, 2.0, begin_s)
        arrived = {path: moment - begin_s for moment, path, _ in server.seen}
    assert [one.outcome for one in run.exchanges] == ["ok"] * 150
    late = sorted(arrived[f"/o{obj}"] - due_us / 1e6 for due_us, _, obj, _, _ in requests)
    assert late[0] >= 0 and late[75] < 0.2 and late[-1] < 1
    assert all(one.end_s - one.start_s >= 0.4 for one in run.exchanges)


OUTCOMES = {
    "/o1": ("full", 5, (0, [reply(200, 5)]), "ok"),
    "/o2": ("part", 4, (0, [reply(206, 4)]), "ok"),
    "/o3": ("unchanged", 0, (0, [reply(304, 0)]), "ok"),
    "/o4": ("full", 5, (0, [reply(404, 5)]), "status"),
    "/o5": ("full", 5, (0, [reply(200, 4)]), "wrong_length"),
    "/o6": ("full", 5, (0, [b"nonsense\r\n\r\n"]), "malformed"),
    "/o7": ("full", 5, (0, [b"HTTP/1.0 200"]), "malformed"),
    "/o8": ("full", 5, (0, []), "reset"),
    "/o9": ("full", 5, (2, [reply(200, 5)]), "timeout"),
    "/o10": ("part", 4, (0, [reply(200, 9)]), "status"),
    "/o11": ("full", 40000, (0, [b"HTT", b"P/1.0 200 OK\r\nx-noDE:  n2 \r\n",
                                 b"\r\n" + b"y" * 20000, b"z" * 20000]), "ok"),
    "/o12": ("full", 5, (0, [b"x" * 9000]), "malformed"),
    "/o13": ("unchanged", 0, (0, [reply(200, 5)]), "status"),
}


def test_every_end_has_its_name():
    requests = [(10_000 * i, i, int(path[2:]), kind, size) for i, (path, (kind, size, _, _)) in
                enumerate(OUTCOMES.items())] + [(950_000, 99, 14, "full", 5)]
    answers = {path: answer for path, (_, _, answer, _) in OUTCOMES.items()}
    with Server({**answers, "/o14": (1.5, [reply(200, 5)])}) as server:
        exchanges = run_replay(server, requests, 1.0, timeout_s=0.7)
    assert [one.outcome for one in exchanges] == [end for _, _, _, end in OUTCOMES.values()] + ["waiting"]
    assert [one.node for one in exchanges if one.outcome == "ok"] == ["n1", "n1", "n1", "n2"]
    heads = {path: words for _, path, words in server.seen}
    assert "Range: bytes=0-3" in heads["/o2"] and f"If-Modified-Since: {workload.LAST_MODIFIED}" in heads["/o3"]
    assert heads["/o1"] == ["Host: 127.0.0.1"]
    timeout = exchanges[8]
    assert 0.7 <= timeout.end_s - timeout.start_s < 1.5
    summary = results.summarize(exchanges, 1.0, [("127.0.0.1", 1)])
    assert summary["planned"] == summary["offered"] == 14 and summary["waiting"] == 1
    assert summary["offered"] == summary["requests"] + summary["ended_late"] + summary["waiting"] + \
        summary["errors"]["total"]
    assert summary["errors"] == {"total": 9, "status": 3, "wrong_length": 1, "malformed": 3, "reset": 1, "timeout": 1}
    assert summary["waited_ms"]["max"] >= 700 > summary["delay_ms"]["max"]
    lines = list(results.log_lines(exchanges, [("127.0.0.1", 1)]))
    assert len(lines) == 14 and all(len(line.split()) == len(results.LOG_HEADING.split()) - 1 for line in lines)


def test_nobody_listens():
    run = replay.Replay([(0, 1, 1, "full", 5), (100_000, 2, 1, "full", 5)], [("127.0.0.1", 1)], free_port())
    run.run(0.2)
    assert [one.outcome for one in run.exchanges] == ["refused", "refused"]


def test_the_rest_may_take_its_time_but_only_so_long():
    requests = [(0, 1, 1, "full", 3), (0, 2, 2, "full", 3)]
    with Server({"/o1": (0.6, [reply(200, 3)]), "/o2": (1.6, [reply(200, 3)])}) as server:
        begin = time.monotonic()
        exchanges = run_replay(server, requests, 0.3, drain_s=0.7)
        assert 1.0 < time.monotonic() - begin < 3
    assert [one.outcome for one in exchanges] == ["ok", "waiting"]
    summary = results.summarize(exchanges, 0.3, [("127.0.0.1", 1)])
    assert (summary["requests"], summary["ended_late"], summary["waiting"]) == (0, 1, 1)
    assert summary["in_flight_mean"] == pytest.approx(2, rel=0.1)


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
        for _ in range(100):
            time.sleep(0.05)
            with socket.socket() as asked:
                if not asked.connect_ex(("127.0.0.1", port)):
                    break
        status, out, err = tool("replay", tmp_path / "d" / "plan", "--servers", "127.0.0.1", "--port", port,
                                "--progress", "--drain", 5, "--log", tmp_path / "log")
    finally:
        server.terminate()
        server.wait(10)
    found = json.loads(out)
    assert status == 0 and found["errors"] == {"total": 0} and found["waiting"] == 0
    assert found["requests"] + found["ended_late"] == counts["replayed"] == counts["in_slice"] - sum(
        counts["left_out"].values())
    assert {line.split()[-1] for line in (tmp_path / "log").read_text().splitlines()[1:]} == {"ok"}
    assert list(found["series"]["served"]) == ["n1"] and "in flight" in err
