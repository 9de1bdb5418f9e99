# SPDX-License-Identifier: GPL-2.0-or-later
"""The servers for tests of surge on the loopback interface: nginx, and servers that misbehave; and the files of a run."""
import concurrent.futures
import csv
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

SURGE = os.path.abspath(os.environ.get("SURGE", "build/tests/experiments/surge/surge"))
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
PATIENCE_S = 60  # with a busy host
LONGEST_S = 32  # of a run
LOG_FIELDS = "user step file size start connect first end received status server node outcome".split()

NGINX_CONF = """\
daemon off;
worker_processes 1;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 4096; }}
http {{
	log_format test '$http_host $remote_addr $server_port $connection $pipe $status $body_bytes_sent $uri';
	access_log {directory}/access.log test;
	client_body_temp_path {directory}/body;
	proxy_temp_path {directory}/proxy;
	fastcgi_temp_path {directory}/fastcgi;
	uwsgi_temp_path {directory}/uwsgi;
	scgi_temp_path {directory}/scgi;
	add_header X-Node n1 always;
	root {directory}/www;
	server {{ listen 127.0.0.1:{fast}; listen [::1]:{fast}; }}
	server {{ listen 127.0.0.1:{slow}; limit_rate 20k; }}
	server {{ listen 127.0.0.1:{crawl}; limit_rate 100; }}
}}
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Site:
    """nginx with a small file set; .fast, .slow and .crawl are ports."""

    def __init__(self, directory):
        self.directory = directory
        surge("files", f"{directory}/www", "--count", "200", "--max-bytes", "200000")
        self.index = f"{directory}/www/surge.index"
        self.runs = itertools.count()
        for _ in range(5):  # another program may take a port before nginx does
            self.fast, self.slow, self.crawl = free_ports(3)
            with open(f"{directory}/nginx.conf", "w", encoding="utf-8") as conf:
                conf.write(NGINX_CONF.format(directory=directory, fast=self.fast, slow=self.slow, crawl=self.crawl))
            self.nginx = subprocess.Popen([NGINX, "-c", f"{directory}/nginx.conf", "-p", directory],
                                          stderr=subprocess.DEVNULL)
            wait_for(lambda: self.nginx.poll() is not None or
                     all(map(can_connect, (self.fast, self.slow, self.crawl))), "nginx answers or ends")
            if self.nginx.poll() is None:
                return
        raise AssertionError(f"nginx does not start: see {directory}/error.log")

    def stop(self):
        self.nginx.send_signal(signal.SIGTERM)
        self.nginx.wait(PATIENCE_S)

    def access(self, run):
        """The requests of a run that nginx has seen."""
        with open(f"{self.directory}/access.log", encoding="utf-8") as log:
            lines = [line.split() for line in log]
        return [dict(zip("host address port connection pipe status bytes uri".split(), line)) for line in lines
                if line[0] == run.host]

    def run(self, *arguments, server=None, index=None, seconds=2, users=60, always=None, enough=None):
        """One run. With enough(run), and while that is not true, another one, twice as long: an event missing after
        LONGEST_S is a fault. always(run) checks each of them."""
        while True:
            run = Run(self.directory, f"run{next(self.runs)}", "--index", index or self.index, "--server",
                      server or f"127.0.0.1:{self.fast}", "--seconds", str(seconds), "--users", str(users),
                      "--stagger", "0.01", "--node-header", "X-Node", *arguments)
            if always:
                always(run)
            if not enough or enough(run):
                return run
            check(2 * seconds <= LONGEST_S, f"not enough in {seconds} s: {run.json}")
            seconds *= 2

    def fails(self, word, *arguments, **options):
        """A run of which every transfer that ended came to this error."""
        return self.run(*arguments, always=lambda run: run.only_errors(word),
                        enough=lambda run: run.json["errors"]["total"], **{"seconds": 1, **options})


class Run:
    """One run of surge and its files: .json, .log (dicts), .series, .result."""

    def __init__(self, directory, host, *arguments):
        out = tempfile.mkdtemp(dir=directory)
        self.host = host
        self.result = surge("run", *arguments, "--host", host, "--json", f"{out}/json", "--log", f"{out}/log",
                            "--series", f"{out}/series")
        with open(f"{out}/json", encoding="utf-8") as file:
            self.json = json.load(file)
        with open(f"{out}/log", encoding="utf-8") as file:
            self.log = [dict(zip(LOG_FIELDS, line.split())) for line in file if not line.startswith("#")]
        with open(f"{out}/series", encoding="utf-8") as file:
            self.series = list(csv.DictReader(file))

    def outcomes(self, word):
        return [line for line in self.log if line["outcome"] == word]

    def pauses(self):
        """Seconds that each user was idle after each step."""
        lines = {(line["user"], int(line["step"])): line for line in self.outcomes("ok")}
        after = {}
        for (user, step), line in lines.items():
            if (user, step + 1) in lines:
                end = float(line["start"]) + float(line["end"]) / 1000
                after[user, step] = float(lines[user, step + 1]["start"]) - end
        return after

    def only_errors(self, word):
        """Every transfer that ended came to this error."""
        errors = self.json["errors"]
        check(errors["total"] == errors[word], f"other errors: {errors}")
        check(len(self.outcomes(word)) == errors[word], "the log and the summary differ")

    def no_errors(self):
        check(self.json["errors"]["total"] == 0, f"errors: {self.json['errors']}")

    def lag_s(self):
        """The largest delay of surge's own actions."""
        return self.json["generator"]["lag_max_ms"] / 1000


def surge(*arguments, status=0, timeout=3 * PATIENCE_S):
    result = subprocess.run([SURGE, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    check(result.returncode == status, f"surge {' '.join(arguments)}: exit status {result.returncode}\n{result.stderr}")
    return result


def check(good, what):
    if not good:
        raise AssertionError(what)


def wait_for(condition, what, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.02)


def at_once(functions):
    """The values of functions that run side by side; the first failure of one is theirs."""
    with concurrent.futures.ThreadPoolExecutor(len(functions)) as threads:
        return [future.result() for future in [threads.submit(function) for function in functions]]


def can_connect(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class OddServer:
    """Answers each connection by a function of (socket), in threads."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        self.answer = answer
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        try:
            with one:
                self.answer(one)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def request_of(one):
    """The path of one request, None at the end."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = one.recv(1)
        if not more:
            return None
        text += more
    return text.split()[1].decode()


def end_of(one):
    """Closes when the other end has: with requests unread a close would be a reset, which may overtake the answer."""
    one.shutdown(socket.SHUT_WR)
    while one.recv(4096):
        pass
