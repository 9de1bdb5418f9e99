#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""surge from end to end on the loopback interface, against nginx and against servers that misbehave.

    SURGE=build/tests/experiments/surge/surge test_run.py [WORD...]    only tests with a WORD in their name

No root, a minute and a half. Prints "ok NAME" or "FAILED NAME" and why; COUNT_FILE gets "passed failed skipped".
"""
import csv
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

SURGE = os.path.abspath(os.environ.get("SURGE", "build/tests/experiments/surge/surge"))
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
LOG_FIELDS = "user step file size start connect first end received status server node outcome".split()

NGINX_CONF = """\
daemon off;
worker_processes 1;
pid {directory}/pid;
error_log {directory}/error.log;
events {{ worker_connections 4096; }}
http {{
	log_format test '$remote_addr $server_port $connection $pipe $status $body_bytes_sent $uri';
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
        self.fast, self.slow, self.crawl = free_ports(3)
        with open(f"{directory}/nginx.conf", "w", encoding="utf-8") as conf:
            conf.write(NGINX_CONF.format(directory=directory, fast=self.fast, slow=self.slow, crawl=self.crawl))
        surge("files", f"{directory}/www", "--count", "200", "--max-bytes", "200000")
        self.index = f"{directory}/www/surge.index"
        self.nginx = subprocess.Popen([NGINX, "-c", f"{directory}/nginx.conf", "-p", directory],
                                      stderr=subprocess.DEVNULL)
        for port in (self.fast, self.slow, self.crawl):
            wait_for(lambda port=port: can_connect(port), f"nginx on port {port}")

    def stop(self):
        self.nginx.send_signal(signal.SIGTERM)
        self.nginx.wait(10)

    def access(self):
        """What nginx has seen since the last call."""
        path = f"{self.directory}/access.log"
        with open(path, encoding="utf-8") as log:
            lines = [line.split() for line in log]
        os.truncate(path, 0)
        return [dict(zip("address port connection pipe status bytes uri".split(), line)) for line in lines]

    def run(self, *arguments, server=None, index=None, seconds=2, users=60):
        self.access()
        return Run(self.directory, "--index", index or self.index, "--server",
                   server or f"127.0.0.1:{self.fast}", "--seconds", str(seconds), "--users", str(users),
                   "--stagger", "0.01", "--node-header", "X-Node", *arguments)


class Run:
    """One run of surge and what it has left: .json, .log (dicts), .series, .result."""

    def __init__(self, directory, *arguments):
        out = tempfile.mkdtemp(dir=directory)
        self.result = surge("run", *arguments, "--json", f"{out}/json", "--log", f"{out}/log", "--series",
                            f"{out}/series")
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
        check(errors[word] > 0, f"no {word}: {errors}")
        check(errors["total"] == errors[word], f"other errors: {errors}")
        check(len(self.outcomes(word)) == errors[word], "the log and the summary differ")

    def no_errors(self):
        check(self.json["errors"]["total"] == 0, f"errors: {self.json['errors']}")
        check(self.json["requests"] > 0, "no requests")


def surge(*arguments, status=0, timeout=60):
    result = subprocess.run([SURGE, *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    check(result.returncode == status, f"surge {' '.join(arguments)}: exit status {result.returncode}\n{result.stderr}")
    return result


def check(good, what):
    if not good:
        raise AssertionError(what)


def wait_for(condition, what, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.02)


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


def test_files_are_the_same_for_a_seed(site):
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        surge("files", f"{site.directory}/{name}", "--count", "50", "--seed", seed, "--max-bytes", "200000")
    indices = []
    for name in "abc":
        with open(f"{site.directory}/{name}/surge.index", encoding="utf-8") as index:
            indices.append([line.split() for line in index if not line.startswith("#")])
    check(indices[0] == indices[1], "one seed, two indices")
    check(indices[0] != indices[2], "two seeds, one index")
    check(len(indices[0]) == 50, "not 50 files")
    for name, size, _ in indices[0]:
        check(os.path.getsize(f"{site.directory}/a/{name}") == int(size), f"size of {name}")


def test_http_10_counts_agree(site):
    run = site.run("--warmup", "1", seconds=3)
    run.no_errors()
    access = site.access()
    good = run.outcomes("ok")
    check(len(good) + len(run.outcomes("censored")) == len(run.log), "outcomes of the log")
    check(0 <= len(access) - len(good) <= len(run.outcomes("censored")), f"nginx saw {len(access)} of {len(good)}")
    check(sorted(line["file"] for line in good) == sorted(line["uri"][1:] for line in access)[:len(good)]
          or len(access) != len(good), "nginx saw other files")
    check(len({line["connection"] for line in access}) == len(access), "a connection was used twice")
    check(all(line["received"] == line["size"] for line in good), "a length")
    for user in range(60):
        steps = [int(line["step"]) for line in run.log if line["user"] == str(user)]
        check(steps and steps == list(range(len(steps))), f"user {user} took the steps {steps}")
    summary = run.json
    check(0 < summary["requests"] < len(good), "the warm-up is not left out")
    check(abs(summary["requests_per_second"] - summary["requests"] / 3) < 0.01, "the rate")
    check(abs(60 / summary["requests_per_second"] - summary["response_ms"]["mean"] / 1000
              - summary["think_time_s"]) < 0.001, "the think time")
    check(summary["nodes"][0]["name"] == "n1" and summary["nodes"][0]["requests"] == summary["requests"], "nodes")
    check(summary["servers"][0]["name"] == f"127.0.0.1:{site.fast}", "servers")
    check(sum(int(line["requests"]) for line in run.series) == len(good), "the series")
    check([int(line["second"]) for line in run.series] == [-1, 0, 1, 2], "the seconds of the series")
    response = summary["response_ms"]
    check(response["p50"] <= response["p90"] <= response["p99"] <= response["max"], "percentiles")


def test_http_11_keeps_connections(site):
    kept = site.run("--http", "1.1", users=40, seconds=4)
    kept.no_errors()
    access = site.access()
    check(len({line["connection"] for line in access}) <= 40, "more connections than users")
    check(len(access) > 45, "too few requests to say anything")
    short = site.run("--http", "1.1", "--connection-pages", "1", users=40, seconds=4)
    short.no_errors()
    check(short.json["connections"]["opened"] > kept.json["connections"]["opened"], "--connection-pages 1")


def test_pipelining_asks_at_once(site):
    run = site.run("--http", "pipelined", seconds=4)
    run.no_errors()
    check(any(line["pipe"] == "p" for line in site.access()), "nginx saw no pipelined request")
    run = site.run("--http", "1.1")
    check(not any(line["pipe"] == "p" for line in site.access()), "pipelined without being told to")


def test_every_arm_asks_for_the_same(site):
    arms = [site.run(seconds=4), site.run("--http", "pipelined", "--parallel", "2", seconds=4),
            site.run("--parallel", "4", server=f"127.0.0.1:{site.slow}", seconds=4),
            site.run("--http", "1.1", "--stagger", "0", "--warmup", "1", seconds=2)]
    check(arms[2].json["requests"] < arms[0].json["requests"], "the slow server is not slow")
    wanted = {}
    for arm in arms:
        for line in arm.log:
            key = line["user"], line["step"]
            check(wanted.setdefault(key, line["file"]) == line["file"], f"user and step {key}")
    check(len(wanted) > 100, "too few to say anything")
    pauses = arms[0].pauses(), arms[3].pauses()
    differences = sorted(abs(pauses[0][key] - pauses[1][key]) for key in pauses[0] if key in pauses[1])
    check(len(differences) > 30 and differences[len(differences) // 2] < 0.05, f"pauses differ by {differences}")
    inactive = [pause for pause in pauses[0].values() if pause >= 0.999]
    check(max(inactive) - min(inactive) > 1 and len(inactive) < len(pauses[0]), "all pauses are alike")
    other = site.run("--seed", "2")
    differing = sum(wanted.get((line["user"], line["step"]), "") != line["file"] for line in other.log)
    check(differing > len(other.log) / 2, "another seed asks for the same")


def test_unfinished_transfers_are_censored(site):
    run = site.run(server=f"127.0.0.1:{site.crawl}", seconds=2)
    check(run.json["errors"]["total"] == 0, f"errors: {run.json['errors']}")
    censored = run.outcomes("censored")
    check(len(censored) > 30, f"only {len(censored)} censored")
    check(run.json["censored"]["count"] == len(censored), "the log and the summary differ")
    check(run.json["in_flight_mean"] > 20, f"in flight: {run.json['in_flight_mean']}")
    check(all(float(line["end"]) <= 2100 for line in censored), "a censored one is older than the run")


def test_refused_connections_are_errors(site):
    port = free_ports(1)[0]
    run = site.run(server=f"127.0.0.1:{port}", seconds=1)
    run.only_errors("refused")
    check(run.json["requests"] == 0 and run.json["response_ms"] is None, "requests")
    check(run.json["servers"][0]["errors"] == run.json["errors"]["total"], "errors of the server")


def test_wrong_lengths_and_missing_files(site):
    shutil.copy(site.index, f"{site.directory}/other.index")
    with open(f"{site.directory}/other.index", encoding="utf-8") as index:
        lines = index.read().splitlines()
    longer = [line if line.startswith("#") else "{} {} {}".format(line.split()[0], int(line.split()[1]) + 1,
                                                                  line.split()[2]) for line in lines]
    with open(f"{site.directory}/other.index", "w", encoding="utf-8") as index:
        index.write("\n".join(longer) + "\n")
    for http in ("1.0", "1.1"):
        site.run("--http", http, index=f"{site.directory}/other.index", seconds=1).only_errors("wrong_length")
    site.run("--prefix", "/nowhere", seconds=1).only_errors("status")


def test_both_families_and_shares(site):
    run = site.run(server=f"127.0.0.1:{site.fast}*2,[::1]:{site.fast}", users=30)
    run.no_errors()
    users = {}
    for line in run.log:
        users.setdefault(line["server"], set()).add(line["user"])
    check(len(users[f"127.0.0.1:{site.fast}"]) == 20 and len(users[f"[::1]:{site.fast}"]) == 10, f"shares: {users}")


def test_sources_are_taken_in_turn(site):
    run = site.run("--source", "127.0.0.2,127.0.0.3", users=20)
    run.no_errors()
    check({line["address"] for line in site.access()} == {"127.0.0.2", "127.0.0.3"}, "the sources")


def test_names_are_resolved_as_often_as_told(site):
    server = f"localhost:{site.fast}"
    once = site.run("--group", "20", server=server)
    once.no_errors()
    check(once.json["lookups"]["count"] == 3, f"60 users in groups of 20: {once.json['lookups']}")
    connection = site.run("--resolve", "connection", server=server)
    connection.no_errors()
    check(0 <= connection.json["lookups"]["count"] - connection.json["connections"]["opened"] <= 60
          and connection.json["lookups"]["count"] >= connection.json["requests"], "a lookup for each connection")
    page = site.run("--resolve", "object", server=server, seconds=4)
    page.no_errors()
    check(80 < page.json["lookups"]["count"] < page.json["connections"]["opened"], "a lookup for each page")
    site.run(server="no-such-name.invalid", seconds=1).only_errors("name")


def test_servers_that_misbehave(site):
    def after_request(what):
        def answer(one):
            if request_of(one):
                one.sendall(what)
        return answer

    def reset(one):
        request_of(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    for word, answer in (("closed", after_request(b"")), ("closed", after_request(b"HTTP/1.0 200 OK\r\nA: b")),
                         ("malformed", after_request(b"hello\r\n")),
                         ("chunked", after_request(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")),
                         ("wrong_length", after_request(b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n123")),
                         ("wrong_length", after_request(b"HTTP/1.0 200 OK\r\n\r\n123")), ("reset", reset)):
        with OddServer(answer) as server:
            for http in ("1.0", "pipelined"):
                site.run("--http", http, server=f"127.0.0.1:{server.port}", seconds=1, users=20).only_errors(word)


def test_silent_servers_time_out(site):
    with OddServer(lambda one: time.sleep(5)) as server:
        run = site.run("--timeout", "0.5", server=f"127.0.0.1:{server.port}", users=20)
        run.only_errors("timeout")
        check(all(500 <= float(line["end"]) < 1500 for line in run.outcomes("timeout")), "when it timed out")


def test_a_kept_connection_may_be_closed(site):
    """The server says keep-alive and closes after some answers: asked again, no error."""
    def answer(one):
        for _ in range(2):
            path = request_of(one)
            if not path:
                return
            with open(f"{site.directory}/www{path}", "rb") as file:
                body = file.read()
            one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        # With requests unread a close would be a reset, which may overtake the answer.
        one.shutdown(socket.SHUT_WR)
        while one.recv(4096):
            pass

    with OddServer(answer) as server:
        for http in ("1.1", "pipelined"):
            run = site.run("--http", http, server=f"127.0.0.1:{server.port}", users=40, seconds=5)
            run.no_errors()
            check(run.json["connections"]["opened"] > 40, "nothing was closed")
        check(run.json["connections"]["reopened"] > 0, "no pipeline was cut")


def test_a_signal_ends_with_a_report(site):
    out = f"{site.directory}/signal.json"
    with subprocess.Popen([SURGE, "run", "--index", site.index, "--server", f"127.0.0.1:{site.fast}", "--seconds",
                           "60", "--users", "20", "--json", out, "--progress"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        line = process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        check(process.wait(10) == 0, "exit status")
    check("20 users" in line and "served" in line, f"progress: {line}")
    with open(out, encoding="utf-8") as file:
        summary = json.load(file)
    check(0.5 < summary["measured_s"] < 10 and summary["requests"] > 0, f"measured {summary['measured_s']} s")


def test_the_surge_log_has_its_columns(site):
    log = f"{site.directory}/surge.log"
    surge("run", "--index", site.index, "--server", f"127.0.0.1:{site.fast}", "--seconds", "1", "--users", "20",
          "--log", log, "--log-format", "surge")
    with open(log, encoding="utf-8") as file:
        lines = [line.split() for line in file]
    check(lines and all(len(line) == 9 and line[5].startswith("/0") for line in lines), "columns")
    check(all(abs(int(line[3]) - time.time()) < 60 and int(line[7]) * 1000000 + int(line[8])
              >= int(line[3]) * 1000000 + int(line[4]) for line in lines), "times")


def test_wrong_usage_is_said(site):
    for arguments in ([], ["walk"], ["run"], ["run", "--index", "x"], ["run", "--server", "a:b", "--index", "x"],
                      ["run", "--index", "x", "--server", "a", "--users", "0"],
                      ["run", "--index", "x", "--server", "a", "--http", "2"],
                      ["run", "--index", "x", "--server", "a", "extra"], ["run", "--walk"], ["files"],
                      ["files", "a", "b"], ["files", "a", "--count", "9"], ["files", "a", "--max-bytes", "1000"],
                      ["files", "a", "--top-requests", "5"], ["selfcheck", "extra"], ["selfcheck", "--seed", "x"]):
        check(surge(*arguments, status=2).stderr, f"no message: {arguments}")
    for arguments in (["run", "--index", "/nonexistent", "--server", "127.0.0.1"],
                      ["files", "/nonexistent/deep"],
                      ["run", "--index", site.index, "--server", "127.0.0.1", "--log", "/nonexistent/log"],
                      ["run", "--index", site.index, "--server", "127.0.0.1", "--seconds", "1000000", "--users",
                       "100000"]):
        check(surge(*arguments, status=1).stderr, f"no message: {arguments}")
    for word in ("files", "run", "selfcheck"):
        check(surge(word, "--help").stdout.startswith(f"usage: surge {word}"), f"help of {word}")


def test_the_self_check_judges(site):
    out = f"{site.directory}/selfcheck.json"
    surge("selfcheck", "--json", out)
    with open(out, encoding="utf-8") as file:
        rows = json.load(file)["properties"]
    check(len(rows) == 8 and all(row["ok"] and 0 < row["ks_distance"] <= row["bound"] for row in rows), str(rows))
    # So few references cannot have the law of temporal locality.
    check("OUT OF BOUND" in surge("selfcheck", "--users", "1", "--seconds", "5", status=1).stdout, "nothing found")


def run_tests(site, tests):
    passed = failed = 0
    for test in tests:
        name = test.__name__[5:]
        start = time.monotonic()
        try:
            test(site)
        except Exception:  # pylint: disable=broad-except
            print(f"FAILED {name}")
            print("".join(f"    {line}\n" for line in traceback.format_exc().splitlines()), end="")
            failed += 1
            continue
        print(f"ok {name}: {time.monotonic() - start:.1f} s", flush=True)
        passed += 1
    return passed, failed


def main():
    tests = [test for name, test in globals().items() if name.startswith("test_")
             and (len(sys.argv) == 1 or any(word in name for word in sys.argv[1:]))]
    counts = 0, 1
    if not os.path.exists(SURGE):
        print(f"FAILED surge: {SURGE} is not there: make surge")
    elif not os.path.exists(NGINX):
        print("FAILED surge: nginx is not installed: sudo make setup")
    elif not tests:
        print("FAILED surge: no test has such a name")
    else:
        with tempfile.TemporaryDirectory(prefix="surge-test-") as directory:
            os.chmod(directory, 0o755)  # nginx's worker is somebody else when root runs this
            site = Site(directory)
            try:
                counts = run_tests(site, tests)
            finally:
                site.stop()
    if os.environ.get("COUNT_FILE"):
        with open(os.environ["COUNT_FILE"], "w", encoding="utf-8") as file:
            print(*counts, 0, file=file)
    print(f"surge: {counts[0]} passed, {counts[1]} failed")
    return counts[1] > 0


if __name__ == "__main__":
    sys.exit(main())
