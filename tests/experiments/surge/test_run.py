#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""surge from end to end on the loopback interface, against nginx and against servers that misbehave.

    SURGE=build/tests/experiments/surge/surge test_run.py [WORD...]    only tests with a WORD in their name

No root, a quarter of a minute: the runs wait most of their time, so the tests run side by side. A run with too few
events is repeated, twice as long, up to LONGEST_S. Prints "ok NAME" or "FAILED NAME" and why; COUNT_FILE gets
"passed failed skipped".
"""
import concurrent.futures
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True

from loopback import LONGEST_S, NGINX, PATIENCE_S, SURGE, OddServer, Run, Site, at_once, check, end_of, request_of, surge

AT_ONCE = 12


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
    run = site.run("--warmup", "1", seconds=3, always=Run.no_errors, enough=lambda run: run.json["requests"] and
                   int(run.series[0]["requests"]))
    seconds = round(run.json["measured_s"])
    access = site.access(run)
    good = run.outcomes("ok")
    check(len(good) + len(run.outcomes("censored")) == len(run.log), "outcomes of the log")
    check(0 <= len(access) - len(good) <= len(run.outcomes("censored")), f"nginx saw {len(access)} of {len(good)}")
    check(sorted(line["file"] for line in good) == sorted(line["uri"][1:] for line in access)[:len(good)]
          or len(access) != len(good), "nginx saw other files")
    check(len({line["connection"] for line in access}) == len(access), "a connection was used twice")
    check(all(line["received"] == line["size"] for line in good), "a length")
    for user in {line["user"] for line in run.log}:
        steps = [int(line["step"]) for line in run.log if line["user"] == user]
        check(steps == list(range(len(steps))), f"user {user} took the steps {steps}")
    summary = run.json
    check(summary["requests"] == sum(int(line["requests"]) for line in run.series if int(line["second"]) >= 0),
          "the warm-up is not left out")
    check(summary["measured_s"] == seconds, "the measured time")
    check(abs(summary["requests_per_second"] - summary["requests"] / seconds) < 0.01, "the rate")
    check(abs(60 / summary["requests_per_second"] - summary["response_ms"]["mean"] / 1000
              - summary["think_time_s"]) < 0.001, "the think time")
    check(summary["nodes"][0]["name"] == "n1" and summary["nodes"][0]["requests"] == summary["requests"], "nodes")
    check(summary["servers"][0]["name"] == f"127.0.0.1:{site.fast}", "servers")
    check(sum(int(line["requests"]) for line in run.series) == len(good), "the series")
    check([int(line["second"]) for line in run.series] == list(range(-1, seconds)), "the seconds of the series")
    response = summary["response_ms"]
    check(response["p50"] <= response["p90"] <= response["p99"] <= response["max"], "percentiles")


def test_http_11_keeps_connections(site):
    def keeps(run):
        run.no_errors()
        check(len({line["connection"] for line in site.access(run)}) <= 40, "more connections than users")

    at_once([lambda: site.run("--http", "1.1", users=40, seconds=4, always=keeps,
                              enough=lambda run: len(site.access(run)) > 45),
             lambda: site.run("--http", "1.1", "--connection-pages", "1", users=40, seconds=4, always=Run.no_errors,
                              enough=lambda run: run.json["connections"]["opened"] > 40)])


def test_pipelining_asks_at_once(site):
    def is_pipelined(run):
        return any(line["pipe"] == "p" for line in site.access(run))

    pipelined, plain = at_once([
        lambda: site.run("--http", "pipelined", seconds=4, always=Run.no_errors, enough=is_pipelined),
        lambda: site.run("--http", "1.1", seconds=4, enough=lambda run: len(site.access(run)) > 45)])
    check(is_pipelined(pipelined) and not is_pipelined(plain), "pipelined without being told to")


def compared(arms):
    """(requests by user and step, differences of pauses) of arms that must request the same"""
    wanted = {}
    for arm in arms:
        for line in arm.log:
            key = line["user"], line["step"]
            check(wanted.setdefault(key, line["file"]) == line["file"], f"user and step {key}")
    pauses = arms[0].pauses(), arms[3].pauses()
    return wanted, [abs(pauses[0][key] - pauses[1][key]) for key in pauses[0] if key in pauses[1]]


def test_every_arm_asks_for_the_same(site):
    seconds = 2
    while True:
        seconds *= 2
        check(seconds <= LONGEST_S, "not enough to compare")
        *arms, other = at_once([
            lambda: site.run(seconds=seconds),
            lambda: site.run("--http", "pipelined", "--parallel", "2", seconds=seconds),
            lambda: site.run("--parallel", "4", server=f"127.0.0.1:{site.slow}", seconds=seconds),
            lambda: site.run("--http", "1.1", "--stagger", "0", "--warmup", "1", seconds=seconds),
            lambda: site.run("--seed", "2", seconds=seconds)])
        wanted, differences = compared(arms)
        # A pause is never shorter than planned, and longer by as much as surge was late.
        lag_s = max(arms[0].lag_s(), arms[3].lag_s())
        check(all(difference <= lag_s + 0.001 for difference in differences), f"late by {lag_s} s: {differences}")
        pauses = arms[0].pauses()
        inactive = [pause for pause in pauses.values() if pause >= 0.999]
        differing = [wanted[line["user"], line["step"]] != line["file"] for line in other.log
                     if (line["user"], line["step"]) in wanted]
        if len(wanted) > 100 and len(differences) > 30 and len(differing) > 50 and \
                any(float(line["end"]) >= 500 for line in arms[2].log) and \
                inactive and max(inactive) - min(inactive) > 1 and len(inactive) < len(pauses):
            break
    check(sum(differing) > len(differing) / 2, "another seed asks for the same")


def test_unfinished_transfers_are_censored(site):
    run = site.run(server=f"127.0.0.1:{site.crawl}", seconds=2, always=Run.no_errors,
                   enough=lambda run: len(run.outcomes("censored")) > 30)
    censored = run.outcomes("censored")
    check(run.json["censored"]["count"] == len(censored), "the log and the summary differ")
    in_flight = sum(float(line["end"]) for line in run.log) / 1000 / run.json["measured_s"]
    check(abs(run.json["in_flight_mean"] - in_flight) < 0.01, f"in flight: {run.json['in_flight_mean']}")
    check(all(float(line["end"]) <= 1000 * run.json["measured_s"] for line in censored), "one is older than the run")


def test_refused_connections_are_errors(site):
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        run = site.fails("refused", server=f"127.0.0.1:{nobody_listens.getsockname()[1]}")
    check(run.json["requests"] == 0 and run.json["response_ms"] is None, "requests")
    check(run.json["servers"][0]["errors"] == run.json["errors"]["total"], "errors of the server")


def test_wrong_lengths_and_missing_files(site):
    other = f"{site.directory}/other.index"
    with open(site.index, encoding="utf-8") as index:
        lines = index.read().splitlines()
    longer = [line if line.startswith("#") else "{} {} {}".format(line.split()[0], int(line.split()[1]) + 1,
                                                                  line.split()[2]) for line in lines]
    with open(other, "w", encoding="utf-8") as index:
        index.write("\n".join(longer) + "\n")
    at_once([lambda: site.fails("wrong_length", "--http", "1.0", index=other),
             lambda: site.fails("wrong_length", "--http", "1.1", index=other),
             lambda: site.fails("status", "--prefix", "/nowhere")])


def test_both_families_and_shares(site):
    run = site.run(server=f"127.0.0.1:{site.fast}*2,[::1]:{site.fast}", users=30, always=Run.no_errors,
                   enough=lambda run: len({line["user"] for line in run.outcomes("ok")}) == 30)
    users = {}
    for line in run.outcomes("ok"):
        users.setdefault(line["server"], set()).add(line["user"])
    check(len(users[f"127.0.0.1:{site.fast}"]) == 20 and len(users[f"[::1]:{site.fast}"]) == 10, f"shares: {users}")


def test_sources_are_taken_in_turn(site):
    run = site.run("--source", "127.0.0.2,127.0.0.3", users=20, always=Run.no_errors,
                   enough=lambda run: len({line["user"] for line in run.outcomes("ok")}) == 20)
    check({line["address"] for line in site.access(run)} == {"127.0.0.2", "127.0.0.3"}, "the sources")


def test_names_are_resolved_as_often_as_told(site):
    server = f"localhost:{site.fast}"

    def once():
        run = site.run("--group", "20", server=server, always=Run.no_errors,
                       enough=lambda run: len({line["user"] for line in run.outcomes("ok")}) == 60)
        check(run.json["lookups"]["count"] == 3, f"60 users in groups of 20: {run.json['lookups']}")

    def each_connection(run):
        run.no_errors()
        lookups = run.json["lookups"]["count"]
        check(0 <= lookups - run.json["connections"]["opened"] <= 60 and lookups >= run.json["requests"],
              "a lookup for each connection")

    at_once([once, lambda: site.run("--resolve", "connection", server=server, always=each_connection,
                                    enough=lambda run: run.json["requests"] > 60),
             lambda: site.run("--resolve", "object", server=server, seconds=4, always=Run.no_errors,  # each page
                              enough=lambda run: 80 < run.json["lookups"]["count"] <
                              run.json["connections"]["opened"]),
             lambda: site.fails("name", server="no-such-name.invalid")])


def test_servers_that_misbehave(site):
    def after_request(what):
        def answer(one):
            if request_of(one):
                one.sendall(what)
                end_of(one)
        return answer

    def reset(one):
        request_of(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def fails(word, answer, http):
        with OddServer(answer) as server:
            site.fails(word, "--http", http, server=f"127.0.0.1:{server.port}", users=20)

    at_once([lambda word=word, answer=answer, http=http: fails(word, answer, http) for word, answer in (
        ("closed", after_request(b"")), ("closed", after_request(b"HTTP/1.0 200 OK\r\nA: b")),
        ("malformed", after_request(b"hello\r\n")),
        ("chunked", after_request(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")),
        ("wrong_length", after_request(b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n123")),
        ("wrong_length", after_request(b"HTTP/1.0 200 OK\r\n\r\n123")), ("reset", reset))
        for http in ("1.0", "pipelined")])


def test_silent_servers_time_out(site):
    over = threading.Event()
    with OddServer(lambda one: over.wait(5 * PATIENCE_S)) as server:
        try:
            # However late surge is, one of them is on time.
            run = site.run("--timeout", "0.5", server=f"127.0.0.1:{server.port}", users=20,
                           always=lambda run: run.only_errors("timeout"),
                           enough=lambda run: any(float(line["end"]) < 700 for line in run.outcomes("timeout")))
        finally:
            over.set()
    check(all(float(line["end"]) >= 500 for line in run.outcomes("timeout")), "when it timed out")


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
        end_of(one)

    with OddServer(answer) as server:
        at_once([lambda http=http: site.run(
            "--http", http, server=f"127.0.0.1:{server.port}", users=40, seconds=5, always=Run.no_errors,
            enough=lambda run: run.json["connections"]["opened"] > 40 and
            (run.json["settings"]["http"] != "pipelined" or run.json["connections"]["reopened"]))
            for http in ("1.1", "pipelined")])


def test_a_signal_ends_with_a_report(site):
    out = f"{site.directory}/signal.json"
    with subprocess.Popen([SURGE, "run", "--index", site.index, "--server", f"127.0.0.1:{site.fast}", "--seconds",
                           str(10 * PATIENCE_S), "--users", "20", "--json", out, "--progress"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        line, served = process.stderr.readline(), None
        while line and not served:
            served = re.search(r"20 users  served [1-9]", line)
            line = served or process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        check(process.wait(PATIENCE_S) == 0, "exit status")
    check(served, "progress that says what was served")
    with open(out, encoding="utf-8") as file:
        summary = json.load(file)
    check(1 <= summary["measured_s"] < 9 * PATIENCE_S and summary["requests"] > 0,
          f"measured {summary['measured_s']} s")


def test_the_surge_log_has_its_columns(site):
    log = f"{site.directory}/surge.log"
    begin, lines, seconds = time.time(), [], 1
    while not lines and seconds <= LONGEST_S:
        surge("run", "--index", site.index, "--server", f"127.0.0.1:{site.fast}", "--seconds", str(seconds),
              "--users", "20", "--log", log, "--log-format", "surge")
        with open(log, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        seconds *= 2
    check(lines and all(len(line) == 9 and line[5].startswith("/0") for line in lines), "columns")
    check(all(begin - 1 <= int(line[3]) <= int(line[7]) <= time.time() and int(line[7]) * 1000000 + int(line[8])
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


def run_test(site, test):
    """(name, seconds, None or why it failed)"""
    start, failure = time.monotonic(), None
    try:
        test(site)
    except Exception:  # pylint: disable=broad-except
        failure = traceback.format_exc()
    return test.__name__[5:], time.monotonic() - start, failure


def run_tests(site, tests):
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as threads:
        for future in concurrent.futures.as_completed([threads.submit(run_test, site, test) for test in tests]):
            name, seconds, failure = future.result()
            if failure:
                print(f"FAILED {name}")
                print("".join(f"    {line}\n" for line in failure.splitlines()), end="", flush=True)
            else:
                print(f"ok {name}: {seconds:.1f} s", flush=True)
            passed, failed = passed + (not failure), failed + bool(failure)
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
            os.chmod(directory, 0o755)  # nginx's worker is another user when root runs this
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
