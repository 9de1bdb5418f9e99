# SPDX-License-Identifier: GPL-2.0-or-later
"""A laboratory (tests/lab) with SURGE's files behind nginx, and eyes on it while a generator runs.

The measured time of a run is a window: HostWatch, dprd's decisions, processor time of the daemons and
the nodes' counters are read when it begins and when it ends, the nodes' counters once a second.
"""
import itertools
import os
import signal
import subprocess
import threading
import time

import hoststate
from cluster import Cluster
from hostinfo import task_seconds
from measure import decisions
from netns import LabError

FILES_BUILD = "tests/experiments/surge/surge"
DRAIN_MOST_S = 60
FOLLOW_PERIOD_S = 1.0
START_PERIOD = "200ms"
DEAD_PEER_TIMEOUT = "60s"  # six of the longest period that dprd takes
IDLE_LOOKS, IDLE_LOOK_S = 10, 0.05
RELOAD_S = 0.3
_serial = itertools.count(1)


class SurgeCluster(Cluster):
    """A cluster whose nginx serves a file set of "surge files"; index is the list of it."""

    def __init__(self, file_count=2000, surge_seed=1, more_files=(), rates=None, workers=1, **options):
        super().__init__(prefix=f"ex-{os.getpid()}-{next(_serial)}", **options)
        self.surge_files = (file_count, surge_seed)
        self.more_files, self.rates, self.workers = more_files, rates or {}, workers
        self.idle_sockets = {}

    def _make_files(self):
        count, seed = self.surge_files
        self.file_root = os.path.join(self.directory, "files")
        if count:
            done = subprocess.run([self.program(FILES_BUILD), "files", self.file_root, "--count", str(count),
                                   "--seed", str(seed)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise LabError(f"surge files: {done.stderr.strip()}")
        self.index = os.path.join(self.file_root, "surge.index")
        os.makedirs(self.file_root, exist_ok=True)
        self.file_list = os.path.join(self.directory, "files.list")
        self.mean_request_bytes = mean_request_bytes(self.index) if count else None
        for name, size in self.more_files:
            self.add_file(name, size)

    def _shape(self, interface):
        """A node may have a rate of its own."""
        common = self.rate_mbit
        self.rate_mbit = self.rates.get(interface.partition("-")[0], common)
        super()._shape(interface)
        self.rate_mbit = common

    def open_connections(self, node):
        """TCP sockets of a node without the listeners and its idle ones: as dprd counts load."""
        return tcp_in_use(self.webs[node.name][0].pid) - self.idle_sockets.get(node.name, 0)

    def note_idle_sockets(self):
        """Call with the servers and daemons up and no client connected. Takes the least of all readings since the
        site was opened: health checks come and go, and connections of a crowded run outlive it by a minute and
        more."""
        for _ in range(IDLE_LOOKS):
            for node in self.nodes:
                seen = tcp_in_use(self.webs[node.name][0].pid)
                self.idle_sockets[node.name] = min(seen, self.idle_sockets.get(node.name, seen))
            time.sleep(IDLE_LOOK_S)

    def drain(self):
        """Waits until no connection of the run before is left, for up to a minute. Before the first run the number
        of idle sockets is unknown, and it does not wait."""
        deadline = time.monotonic() + DRAIN_MOST_S
        while (self.idle_sockets and time.monotonic() < deadline
               and any(self.open_connections(node) > 0 for node in self.nodes)):
            time.sleep(0.1)

    def fresh_daemons(self, policy, period=START_PERIOD, **balance):
        """Starts dprd and loadcast anew on all nodes, so that no run inherits knowledge of the last one. They get to
        know each other quickly, and then announce once in period."""
        self.stop_daemons()
        self.set_config("Announce", "Period", START_PERIOD)
        self.start_daemons(policy, **balance)
        if period != START_PERIOD:
            self.set_config("Announce", "Period", period)
            self.set_config("Flows", "DeadPeerTimeout", DEAD_PEER_TIMEOUT)
            self.reload()
            for node in self.nodes:
                os.kill(self.pid(node, "loadcast"), signal.SIGHUP)
            time.sleep(RELOAD_S)
            self.wait_ready()
        self.note_idle_sockets()


def mean_request_bytes(index):
    """The mean size of requests: sizes weighted by the references of surge.index."""
    total = references = 0
    with open(index, encoding="ascii") as file:
        for line in file:
            if not line.startswith("#"):
                _name, size, count = line.split()
                total += int(size) * int(count)
                references += int(count)
    return total / references


def tcp_in_use(pid):
    """TCP sockets in use in the network namespace of a process."""
    total = 0
    for name, label in (("sockstat", "TCP:"), ("sockstat6", "TCP6:")):
        with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
            for line in file:
                if line.startswith(label):
                    total += int(line.split()[2])
    return total


class Window(threading.Thread):
    """Follows the nodes from the start of a generator until its end; finish() gives its counts."""

    def __init__(self, cluster, child, warmup_s, seconds, show, beat=None):
        super().__init__(daemon=True)
        self.cluster, self.child, self.show, self.beat = cluster, child, show, beat or dict
        self.begin = time.monotonic()
        self.warmup_s, self.seconds = warmup_s, seconds
        self.served = {node.name: [] for node in cluster.nodes}
        self.opened = {node.name: [] for node in cluster.nodes}
        self.found = {}
        self.generator_s = 0.0
        self.failure = None
        self.start()

    def run(self):
        try:
            self._follow(self.begin, False)
            first = self._look()
            host = hoststate.HostWatch()
            self._follow(self.begin + self.warmup_s, True)
            last = self._look()
            self.found = {"host": host.stop(), **self._differences(first, last)}
        except (LabError, OSError, KeyError) as error:
            self.failure = error

    def _follow(self, begin, measured):
        """Once a second until the window begins, or ends; when it runs it notes what the nodes do."""
        period = self.seconds if measured else self.warmup_s
        before = self._counts()
        for second in range(1, int(period / FOLLOW_PERIOD_S) + 1):
            time.sleep(max(0, begin + second * FOLLOW_PERIOD_S - time.monotonic()))
            if self.child.poll() is not None and second * FOLLOW_PERIOD_S < period - 1:
                raise LabError("the generator ended too early")
            counts = self._counts()
            # It may end a moment before the window does.
            self.generator_s = task_seconds([self.child.pid]) or self.generator_s
            rates = {name: counts[name][0] - before[name][0] for name in counts}
            before = counts
            for name, (_served, opened) in counts.items():
                if measured:
                    self.served[name].append(rates[name])
                    self.opened[name].append(opened)
            self.show({"second": second, "of": period, "measured": measured, "served": rates,
                       "open": {name: count[1] for name, count in counts.items()}, **self.beat()})
        time.sleep(max(0, begin + period - time.monotonic()))

    def _counts(self):
        return {node.name: (self.cluster.web_status(node)[0], self.cluster.open_connections(node))
                for node in self.cluster.nodes}

    def _look(self):
        pids = [child.pid for child in self.cluster.daemons.values()]
        return {"at": time.monotonic(), "decisions": decisions(self.cluster) if pids else (0, 0),
                "daemons_s": task_seconds(pids), "generator_s": self.generator_s}

    @staticmethod
    def _differences(first, last):
        seconds = last["at"] - first["at"]
        here, forwarded = (after - before for before, after in zip(first["decisions"], last["decisions"]))
        return {
            "forwarded_share": forwarded / (here + forwarded) if here + forwarded else None,
            "daemons_cpu_percent": 100 * (last["daemons_s"] - first["daemons_s"]) / seconds,
            "generator_cpu_percent": 100 * (last["generator_s"] - first["generator_s"]) / seconds,
        }

    def finish(self):
        """{host, forwarded_share, ...}; the lists per second are in served and opened."""
        self.join(self.warmup_s + self.seconds + 60)
        if self.failure or not self.found:
            raise LabError(f"watching the nodes: {self.failure or 'took too long'}")
        return self.found
