# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the load generator on a laboratory and watches the nodes meanwhile."""
import json
import os
import subprocess
import sys
import threading
import time

from netns import LabError

QUIET_PERIOD_S = 5  # between two lines of progress without a terminal


class Load:
    """Runs load.c in the client's namespace. wait() gives its result; samples holds the nodes' work:
    (monotonic seconds, {node: (served so far, open now)}), once a second."""

    def __init__(self, cluster, tag, options, show=None, log=False):
        self.cluster, self.tag, self.show = cluster, tag, show
        self.json_path = os.path.join(cluster.directory, f"load-{tag}.json")
        self.log_path = os.path.join(cluster.directory, f"load-{tag}.log") if log else None
        self.error_path = os.path.join(cluster.directory, f"load-{tag}.err")
        words = [cluster.program("tests/lab/load"), "--files", cluster.file_list, "--json", self.json_path,
                 "--progress"]
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        if log:
            words += ["--log", self.log_path]
        self.warmup_s, self.seconds = options.get("warmup", 0), options.get("seconds", 10)
        self.timeout_s = options.get("timeout", 60)  # load.c's default
        self.samples = []
        self.begin = time.monotonic()
        self.child = cluster.site.start(cluster.clients[0], words, self.error_path, stdout=subprocess.PIPE)
        self.watcher = threading.Thread(target=self._watch, daemon=True)
        self.watcher.start()

    def _watch(self):
        """Reads the nodes' counts at each line of the generator, once a second."""
        for line in self.child.stdout:
            try:
                beat = json.loads(line)
            except ValueError:
                continue
            counts = {}
            for node in self.cluster.nodes:
                try:
                    counts[node.name] = self.cluster.web_status(node)
                except OSError:
                    counts[node.name] = None  # its host, or nginx, is gone
            before = self.samples[-1][1] if self.samples else {}
            self.samples.append((time.monotonic(), counts))
            if beat["second"] > self.warmup_s + self.seconds:
                beat["waits_s"] = self.timeout_s
            if self.show:
                self.show(self.tag, beat, before, counts)

    def running(self):
        return self.child.poll() is None

    def stop(self):
        self.child.terminate()

    def wait(self):
        status = self.child.wait()
        self.watcher.join(5)
        self.child.stdout.close()
        self.cluster.site.reap()
        if status:
            with open(self.error_path, encoding="utf-8", errors="replace") as file:
                raise LabError(f"load ended with status {status}: {file.read()[-500:]}")
        with open(self.json_path, encoding="utf-8") as file:
            return json.load(file)

    def served_per_second(self):
        """{node: [connections served in each measured second]}."""
        rates = {node.name: [] for node in self.cluster.nodes}
        first, last = self.begin + self.warmup_s, self.begin + self.warmup_s + self.seconds
        for (start, before), (end, after) in zip(self.samples, self.samples[1:]):
            if start < first - 0.5 or end > last + 0.5:
                continue
            for name in rates:
                if before[name] and after[name]:
                    rates[name].append((after[name][0] - before[name][0]) / (end - start))
        return rates

    def requests(self):
        """The log: one dict per request."""
        rows = []
        with open(self.log_path, encoding="ascii", errors="replace") as file:
            for line in file:
                start, end, size, outcome, to, client, port, node, path = line.split()
                rows.append({"start": float(start), "end": float(end), "bytes": int(size), "outcome": outcome,
                             "to": to, "client": client, "port": int(port), "node": node, "path": path})
        return rows


class LongFlows:
    """Runs byteclient.c in the client's namespace, ready when made: flows that check every echoed byte."""

    def __init__(self, cluster, tag, count, addresses, options=None):
        self.cluster = cluster
        self.json_path = os.path.join(cluster.directory, f"flows-{tag}.json")
        words = [cluster.program("tests/lab/byteclient"), "--to", ",".join(addresses), "--flows", str(count),
                 "--json", self.json_path]
        for name, value in {"seconds": 600, **(options or {})}.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        self.child = cluster.site.start(cluster.clients[0], words, os.path.join(cluster.directory, f"flows-{tag}.err"),
                                        stdout=subprocess.PIPE)
        self.ready = int((self.child.stdout.readline().split() or [b"", b"0"])[1])

    def finish(self):
        """Ends all flows in good order; returns the result of byteclient.c."""
        self.child.terminate()
        status = self.child.wait()
        self.child.stdout.close()
        self.cluster.site.reap()
        if status:
            raise LabError(f"byteclient ended with status {status}")
        with open(self.json_path, encoding="utf-8") as file:
            return json.load(file)


def quantile(values, q):
    """A quantile by the nearest rank."""
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def imbalance(rates):
    """1 + ((p90 - p10) / 2) / mean of the connections that each node served in each second; 1 is perfect balance."""
    pooled = [rate for node in rates.values() for rate in node]
    mean = sum(pooled) / len(pooled) if pooled else 0
    return 1 + (quantile(pooled, 0.9) - quantile(pooled, 0.1)) / 2 / mean if mean else 0.0


def decisions(cluster):
    """(served here, forwarded) new connections, as all dprd counted them."""
    served = forwarded = 0
    for node in cluster.nodes:
        if not node.alive:
            continue
        made = (cluster.status(node) or {}).get("decisions", {})
        served += sum(each["count"] for each in made.values() if each["kind"] == "serve")
        forwarded += sum(made[reason]["count"] for reason in ("chosen", "draining", "unhealthy") if reason in made)
    return served, forwarded


class Progress:
    """A line of progress, rewritten each second on a terminal, otherwise written every few seconds."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.width = 0

    def say(self, text):
        self.clear()
        print(text, flush=True)

    def clear(self):
        if self.width:
            print("\r" + " " * self.width + "\r", end="")
            self.width = 0

    @staticmethod
    def line(tag, beat, before, counts):
        """The load of the last second; or, when users only wait for their last answers, how many of them and how long."""
        if "waits_s" in beat:
            gone = [name for name, now in counts.items() if not now]
            return (f"  {tag:12} {beat['second']:3d} s  no new requests; {beat['in_flight']} still wait, up to "
                    f"{beat['waits_s']} s" + (f" ({', '.join(gone)} is gone)" if gone else ""))
        parts = []
        for name, now in counts.items():
            then = before.get(name)
            parts.append(f"{name} gone".ljust(19) if not now else
                         f"{name} {max(0, now[0] - then[0]) if then else 0:4d}/s {max(0, now[1]):4d} open")
        line = (f"  {tag:12} {beat['second']:3d} s  {'  '.join(parts)}  "
                f"{beat['completed']:5d} req/s {beat['mean_ms']:6.0f} ms")
        return line + (f"  {beat['errors']} errors" if beat["errors"] else "")

    def show(self, tag, beat, before, counts):
        line = self.line(tag, beat, before, counts)
        if self.terminal:
            columns = os.get_terminal_size().columns
            line = line[:columns - 1]
            print("\r" + line.ljust(self.width), end="", flush=True)
            self.width = len(line)
        elif beat["second"] % QUIET_PERIOD_S == 0:
            print(line, flush=True)
