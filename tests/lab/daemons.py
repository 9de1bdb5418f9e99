# SPDX-License-Identifier: GPL-2.0-or-later
"""dprd and loadcast on the nodes of a laboratory: configuration, processes, state."""
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import time

from netns import LabError, Late, start_time, stop_processes

PROGRAMS = {"loadcast": "bin/loadcast", "dprd": "bin/dprd"}
ANSWER_S = 3  # as dprctl waits
AFTER_PAUSE_S = 0.4  # longer than dprd's tick and the period of announcements: no state from before the pause is left


class Daemons:
    """Part of Cluster. A daemon is named by its node and "dprd" or "loadcast"."""

    announce_port = 7980
    # Words in front of a daemon's command, such as valgrind, by daemon.
    wrappers = {"loadcast": [], "dprd": []}
    # More environment of the daemons, as NAME=value words.
    environment = []
    paused = False

    # ---- configuration ----

    def config_path(self, which):
        return os.path.join(self.node(which).directory, "dprd.conf")

    def set_config(self, section, key, value, which=None):
        """Overrides one setting of all nodes (or one node) in files that are written from now on."""
        self.overrides.setdefault(self.node(which).name if which else "", {}).setdefault(section, {})[key] = value

    def settings(self, which):
        """{section: {key: value}} of a node, without the members' sections."""
        node = self.node(which)
        found = {
            "Cluster": {"Name": "lab", "KeyFile": os.path.join(self.directory, "cluster.key")},
            "Node": {"Name": node.name},
            "Service": {"Port": "80 8080 8081"},
            "Balance": {"SlowStart": "0s"},  # nodes come and go all the time; b74 has it
            "Datapath": {"Plane": self.plane, "Pins": node.pins, **self.decide},
            "Announce": {"Period": "200ms", "Port": str(self.announce_port)},
            "Run": {"Directory": os.path.join(node.directory, "run"),
                    "Table": os.path.join(node.directory, "table")},
        }
        for level in ("", node.name):
            for section, keys in self.overrides.get(level, {}).items():
                for key, value in keys.items():
                    found.setdefault(section, {})[key] = str(value)
        return found

    def member_lines(self):
        lines = []
        for node in self.nodes:
            v6 = self.ipv6
            lines += [f'[Member "{node.name}"]', f"Service={node.service_v4}{' ' + node.service_v6 if v6 else ''}"]
            if self.layout == "own":
                lines.append(f"Cluster={node.cluster_v4}{' ' + node.cluster_v6 if v6 else ''}")
            weight = self.overrides.get("weights", {}).get(node.name)
            if weight is not None:
                lines.append(f"Weight={weight}")
        return lines

    def backend_lines(self):
        """The sections of real servers in dprd.conf (backends.py)."""
        return []

    def set_weight(self, which, weight):
        self.overrides.setdefault("weights", {})[self.node(which).name] = weight

    def write_config(self, which):
        """Writes the node's dprd.conf (and the cluster's key, once)."""
        node = self.node(which)
        key = os.path.join(self.directory, "cluster.key")
        if not os.path.exists(key):
            with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
        os.makedirs(os.path.join(node.directory, "run"), exist_ok=True)
        lines = []
        for section, keys in self.settings(node).items():
            lines += [f"[{section}]"] + [f"{key}={value}" for key, value in keys.items()]
        path = self.config_path(node)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines + self.member_lines() + self.backend_lines()) + "\n")
        os.rename(path + ".new", path)

    def config_text(self, which):
        with open(self.config_path(which), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _note_loaded(self, node):
        """Notes that the node's dprd runs with the configuration file as it is now."""
        self.loaded[node.name] = (self.pid(node, "dprd"), self.config_text(node))

    def set_policy(self, policy, which=None, **balance):
        """Sets another policy (and more keys of [Balance]) on all nodes or one, by a reload."""
        for key, value in {"Policy": policy, **balance}.items():
            self.set_config("Balance", key, value, which)
        self.reload(which)

    def reload(self, which=None):
        for node in self.nodes if which is None else [self.node(which)]:
            self.write_config(node)
            if self.daemon_alive(node, "dprd"):
                # A loadcast that stands still does not read the file, and dprctl says so.
                self.dprctl(node, "reload", check=not self.is_frozen(node, "loadcast"))

    # ---- processes ----

    def start_daemons(self, policy=None, wait=True, **balance):
        """Starts loadcast and dprd on all living nodes, with a policy; returns when every node sees all others."""
        if policy:
            for key, value in {"Policy": policy, **balance}.items():
                self.set_config("Balance", key, value)
        for node in self.nodes:
            if node.alive:
                self.start_node_daemons(node)
        if wait:
            self.wait_ready()

    def start_node_daemons(self, which):
        self.write_config(which)
        self.start(which, "loadcast")
        self.start(which, "dprd")

    def stop_daemons(self):
        """Ends all daemons at the same time."""
        stop_processes([(child.pid, start_time(child.pid)) for child in self.daemons.values()],
                       self.site.children, grace_s=3)
        self.daemons = {}
        self.site.reap()

    def start(self, which, daemon, program=None):
        """Starts a daemon: the usual program, or another one that was built for a test."""
        node = self.node(which)
        if self.daemon_alive(node, daemon):
            raise LabError(f"{node.name}: {daemon} runs already")
        if not os.path.exists(self.config_path(node)):
            self.write_config(node)
        command = ["env"] + self.environment if self.environment else []
        command += self.wrappers[daemon] + [self.program(program or PROGRAMS[daemon]), "-c",
                                            self.config_path(node), "--node", node.name]
        self.daemons[node.name, daemon] = self.site.start(node.name, command, self.log_path(node, daemon))
        if daemon == "dprd":
            self._note_loaded(node)
        return self.daemons[node.name, daemon]

    def log_path(self, which, daemon):
        return os.path.join(self.node(which).directory, daemon + ".log")

    def log_text(self, which, daemon):
        try:
            with open(self.log_path(which, daemon), encoding="utf-8", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            return ""

    def pid(self, which, daemon):
        child = self.daemons.get((self.node(which).name, daemon))
        if child is None:
            raise LabError(f"{which}: {daemon} was not started")
        return child.pid

    def daemon_alive(self, which, daemon):
        child = self.daemons.get((self.node(which).name, daemon))
        return child is not None and child.poll() is None

    def stop(self, which, daemon, timeout_s=5):
        """Asks the daemon to end (SIGTERM); returns its exit status."""
        node = self.node(which)
        child = self.daemons[node.name, daemon]
        child.terminate()
        try:
            status = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"{node.name}: {daemon} did not end within {timeout_s} s of SIGTERM") from None
        del self.daemons[node.name, daemon]
        self.site.reap()
        return status

    def kill(self, which, daemon):
        """Sends SIGKILL: the daemon can neither send a message nor remove anything."""
        node = self.node(which)
        child = self.daemons.pop((node.name, daemon))
        child.kill()
        child.wait(5)
        self.site.reap()

    def freeze(self, which, daemon):
        os.kill(self.pid(which, daemon), signal.SIGSTOP)

    def is_frozen(self, which, daemon):
        if not self.daemon_alive(which, daemon):
            return False
        with open(f"/proc/{self.pid(which, daemon)}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    def resume(self, which, daemon):
        os.kill(self.pid(which, daemon), signal.SIGCONT)

    def pause(self):
        """Makes all daemons and their children stand still, until go_on()."""
        self.paused = True
        self._signal_groups(signal.SIGSTOP)

    def go_on(self):
        """Waits after a pause until each daemon has noticed how long it stood still."""
        self.paused = False
        self._signal_groups(signal.SIGCONT)
        time.sleep(AFTER_PAUSE_S)

    def _signal_groups(self, number):
        for child in self.daemons.values():
            if child.poll() is None:
                os.killpg(child.pid, number)  # each has a session of its own (Site.start)

    # ---- state ----

    def dprctl(self, which, *words, check=True):
        """The output of dprctl on this node."""
        node = self.node(which)
        said = self.site.ask(node.name, [self.program("bin/dprctl"), "-c", self.config_path(node), *words], check)
        if words[0] == "reload" and (node.name, "dprd") in self.daemons:
            self._note_loaded(node)
        return said

    def status(self, which):
        """The JSON of dprctl status --json; None without."""
        with contextlib.suppress(OSError, ValueError):
            said = self._ask(which, "status")
            if "error" not in said:
                return said
        with contextlib.suppress(ValueError):
            return json.loads(self.dprctl(which, "status", "--json", check=False))
        return None

    def _ask(self, which, command):
        """dprd's answer to one command. Tests ask for the status all the time: a process for each would take a third of
        the host."""
        with socket.socket(socket.AF_UNIX) as dprd:
            dprd.settimeout(ANSWER_S)
            dprd.connect(os.path.join(self.node(which).directory, "run", "control"))
            dprd.sendall(json.dumps({"command": command}).encode() + b"\n")
            return json.loads(dprd.makefile("rb").readline())

    def counters(self, which):
        """dprd's counters of a node, {name: count}, without probes of ways, which always come; empty while dprd does not
        answer."""
        counters = (self.status(which) or {}).get("counters", {})
        if "probe" in counters:
            counters["seen"] -= counters.pop("probe")
            del counters["probes_sent"]
        return counters

    def wait_until(self, condition, what, timeout_s=10):
        """Calls condition() until it holds and returns its value. LabError with the text "what" after timeout_s."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise Late(f"not within {timeout_s} s: {what}")
            time.sleep(0.05)

    def sees(self, which, expected):
        """True when a node's dprd would forward connections of all ports to exactly these other nodes."""
        status = self.status(which)
        if not status:
            return False
        able = {member["name"] for member in status["members"]
                if member["eligible"] and not member["self"] and not member["ports_down"]}
        return able == set(expected) - {self.node(which).name}

    def wait_ready(self, expected=None, timeout_s=30):
        """Waits until the dprd of each of these nodes (default: all living ones) may forward to all the others."""
        names = [self.node(node).name for node in expected or self.nodes if self.node(node).alive]
        for name in names:
            try:
                self.wait_until(lambda name=name: self.sees(name, names) or self._early_end(name),
                                f"{name} sees {', '.join(names)}", timeout_s)
            except Late as error:
                raise Late(f"{error}\ndprctl peers on {name}: "
                           f"{self.dprctl(name, 'peers', check=False)}") from None

    def _early_end(self, name):
        for daemon in PROGRAMS:
            if (name, daemon) in self.daemons and not self.daemon_alive(name, daemon):
                raise LabError(f"{name}: {daemon} ended: {self.log_text(name, daemon)[-800:]}")
        return False
