# SPDX-License-Identifier: GPL-2.0-or-later
"""A dprd that only answers on its control socket, and dprd-web beside it: for tests of the server alone."""
import contextlib
import json
import os
import socket
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
WEB = os.path.join(TOP, os.environ.get("BUILD", "build"), "bin/dprd-web")
DPRCTL = os.path.join(TOP, os.environ.get("BUILD", "build"), "bin/dprctl")

CONFIG = """[Cluster]
Name=web
[Node]
Name=n1
[Run]
Directory={directory}
Table={directory}/table
[Member "n1"]
Service=192.0.2.11
Cluster=10.0.0.11
[Member "n2"]
Service=192.0.2.12
Cluster=10.0.0.12
"""


def member(name, **more):
    return {"name": name, "self": False, "state": "active", "eligible": True, "why_not": None, "address": "192.0.2.12",
            "weight": 1, "load": 2.0, "open_connections": 2, "cpu_ratio": 0.1, "redirected": 0,
            "arrivals_per_second": 3.0, "age_ms": 100, "version": "0.1.0", "forwarded_v4": 7, "forwarded_v6": 1,
            **more}


def status_answer(**more):
    return {"schema": "dprd.status/1", "node": "n1", "cluster": "web", "version": "0.1.0", "pid": 1000, "uptime_seconds": 12.5,
            "datapath": "bpf", "policy": "least", "state": "active", "own_load": 4.0, "max_load": 1.0,
            "totals": {"seen": 100, "served": 60, "forwarded": 40, "passed": 0, "dropped": 0, "decapsulated": 0},
            "decisions": {"chosen": {"kind": "forward", "count": 30}}, "counters": {"syns_taken": 5}, "shared": None,
            "members": [member("n1", self=True, load=4.0, forwarded_v4=None, forwarded_v6=None), member("n2")],
            "warnings": [], "notes": [], **more}


class Dprd:
    """Answers each request with self.answer(request); notes all requests. stop() and start() as a real one."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "control")
        self.requests = []
        self.status = status_answer()
        self.silent = False
        self.listener = None
        self.start()

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self._run, args=(self.listener,), daemon=True).start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        os.unlink(self.path)

    def answer(self, request):
        if request["command"] == "status":
            return self.status
        if request["command"] == "why":
            return {"schema": "dprd.why/1", "node": "n1", "decisions": [], "more": False}
        return {"error": "a command that no page needs"}

    def _run(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, client.makefile("rb") as lines, contextlib.suppress(BrokenPipeError):
            for line in lines:
                request = json.loads(line)
                self.requests.append(request)
                while self.silent:
                    time.sleep(0.05)
                client.sendall(json.dumps(self.answer(request)).encode() + b"\n")


class Web:
    """dprd-web on a port of the loopback interface. wrapper: words in front of its command."""

    def __init__(self, directory, *options, wrapper=()):
        self.config = os.path.join(directory, "dprd.conf")
        if not os.path.exists(self.config):
            with open(self.config, "w", encoding="utf-8") as file:
                file.write(CONFIG.format(directory=directory))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = os.path.join(directory, "web.log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*wrapper, WEB, "-c", self.config, "--listen", f"127.0.0.1:{self.port}", *options],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_up()

    def wait_up(self):
        for _ in range(600):
            if self.process.poll() is not None:
                raise AssertionError(f"dprd-web ended with {self.process.returncode}: {self.log_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError(f"dprd-web does not listen: {self.log_text()}")

    def log_text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self):
        self.process.terminate()
        return self.process.wait(30)

    def raw(self, request, timeout_s=20):
        """All bytes that come back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as connection:
            got = b""
            try:
                connection.sendall(request)
                while part := connection.recv(65536):
                    got += part
            except ConnectionError:
                pass  # the server may end a bad request early
            return got

    def ask(self, path, method="GET", host="localhost", headers=()):
        """(status, headers, body) of one request."""
        lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), "Connection: close", *headers]
        head, _, body = self.raw("\r\n".join([*lines, "", ""]).encode()).partition(b"\r\n\r\n")
        first, *rest = head.decode("latin-1").split("\r\n")
        return int(first.split()[1]), {key.lower(): value for key, _, value in (line.partition(": ") for line in rest)}, body

    def json(self, path):
        status, _, body = self.ask(path)
        assert status == 200, f"{path}: {status}"
        return json.loads(body)
