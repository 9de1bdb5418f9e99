# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark's hosts, in network namespaces: one client, and its paths to a web server.

              +------ plain                        the web server alone, no dprd: "direct"
              +------ router ------- plain         the kernel forwards, plain answers directly
              +------ dnat --------- plain         nft DNAT and masquerade
    client ---+------ haproxy ------ plain         HAProxy in TCP mode
              +------ stream ------- plain         nginx stream
              +------ local ........ local-b       dprd, every connection served where it arrives
              +------ half  -------- half-b ----+  dprd, policy random: one half is served by half-b
              +------ queue -------- queue-b ---+  dprd, all connections served by queue-b
              +------ kernel ------- kernel-b --+  the same, decided by the BPF programs
              +------ form-direct -- ...-b -----+  the same, to the hardware address instead of by a tunnel
              +------ nfqueue ------ nfqueue-b -+  the same without any BPF
              +------ bare --------- bare-b ----+  the least program that forwards, by BPF (bare.c)
              +------ bare-hooks --- bare-hooks-b  the same, with a program for leaving packets and a rule for a queue
              +------ bare-flows --- bare-flows-b  the same, and each packet searches its SYN's entry in a table
              +------ bare-syns ---- bare-syns-b   the same, SYNs by a queue
              +------ bare-all ----- bare-all-b +  the same, every packet by queues, without any BPF
              +---------------------------------+
    client ---------- accept                       no server: the accept-all program, for SYNs
    client ---------- hooks                        plain, behind a program and a rule that let SYNs pass

Every line is a veth pair. Answers of the nodes X-b go to the client by a separate link: triangles.
All web servers are nginx with two workers and the same configuration. All of it runs during the whole
measurement; only the traffic goes to one after the other.
"""
import json
import os
import sys
import tempfile
import time

import bench_bare
import bench_peers
from bench_dprd import PAIRS, Pair
from bench_measure import raise_priority
from cluster import COMMON_SYSCTLS, NODE_SYSCTLS
from netns import LabError, Site, prune, run

CLIENT_ADDRESS = "203.0.113.10"
MEMORY = "/dev/shm"
TOOL_TIMEOUT_S = 60
OFFLOADS = {"tx": "tx-checksumming", "tso": "tcp-segmentation-offload", "gso": "generic-segmentation-offload",
            "gro": "generic-receive-offload"}
HOST_SYSCTLS = {**COMMON_SYSCTLS, "net.ipv4.ip_local_port_range": "1024 65535",
                "net.ipv4.tcp_tw_reuse": 1, "net.ipv6.conf.all.disable_ipv6": 1,
                "net.ipv6.conf.default.disable_ipv6": 1}


class BenchSite:
    """Raised by "with"; removed at its end in any case."""

    def __init__(self, build, for_flood=False):
        """for_flood: dprd's flow table has room for a forwarded flood. Otherwise it has the default size."""
        # It is in memory like /run: on a disk each replaced file may wait for the device.
        if os.path.ismount(MEMORY):
            tempfile.tempdir = MEMORY
        self.build, self.for_flood, self.client_address = build, for_flood, CLIENT_ADDRESS
        self.site = Site(f"bn-{os.getpid()}")
        self.directory = None
        self.addresses = {}
        self.links = []  # (host, interface) of every end
        self.offloads = {}  # settings of a new link
        self.pairs = {}
        # In a flood auto behaves as kernel, and forwarded packets end at the other node's wire.
        self.plans = [plan for plan in PAIRS if not (for_flood and (plan.decide == "auto" or plan.form == "direct"))]
        self.missing = {}  # pair that could not be started -> reason

    def __enter__(self):
        if os.geteuid() != 0:
            raise LabError("the benchmark needs root: it makes network namespaces")
        prune()
        try:
            self._up()
        except BaseException:
            self.site.remove()
            raise
        return self

    def __exit__(self, *_):
        self.site.remove()

    # ---- what the parts ask ----

    def program(self, path):
        full = os.path.join(self.build, path)
        if not os.access(full, os.X_OK):
            raise LabError(f"{full} is missing: run make first")
        return full

    def address(self, host):
        return self.addresses[host]

    def pids(self, hosts):
        return [pid for host in hosts for pid in self.site.pids(host)]

    def client(self, command):
        """Runs a tool on the client to its end; returns its standard output."""
        return self.site.execute("client", ["timeout", str(TOOL_TIMEOUT_S)] + command)

    def start_tool(self, host, name, words):
        """Starts a program of the benchmark that stays; returns when it has said "ready"."""
        log = os.path.join(self.directory, f"{name}-{host}.log")
        child = self.site.start(host, [self.program("tests/bench/" + name)] + words, log)

        def ready():
            with open(log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if child.poll() is not None:
                raise LabError(f"{name} ended at its start: {text}")
            return "ready" in text
        self.wait_for(f"{name} is ready", ready)
        return child

    def hardware_address(self, host, interface="eth0"):
        shown = run(["ip", "-n", self.site.name(host), "-j", "link", "show", interface])
        return json.loads(shown)[0]["address"]

    def set_offloads(self, wanted):
        """Sets the offloads on both ends of every link: the first ones, or none. Without offloads every packet is one
        of the wire, with its checksum."""
        if not self.offloads:
            host, interface = self.links[0]
            shown = self.site.execute(host, ["ethtool", "-k", interface])
            self.offloads = {name: f"{text}: on" in shown for name, text in OFFLOADS.items()}
        words = []
        for name, there in self.offloads.items():
            words += [name, "on" if wanted and there else "off"]
        for host, interface in self.links:
            self.site.execute(host, ["ethtool", "-K", interface] + words)

    def answers(self, address, times=1):
        """The hosts that answer requests to an address."""
        urls = [f"http://{address}/whoami"] * times
        command = ["curl", "-s", "-m", "2", "-H", "Connection: close"] + urls
        return set(self.site.execute("client", command, check=False).split())

    def wait_for(self, what, condition, timeout_s=10):
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise LabError(f"not within {timeout_s} s: {what}")
            time.sleep(0.05)

    # ---- raising it ----

    def _up(self):
        self.directory = tempfile.mkdtemp(prefix="dprd-bench-")
        os.chmod(self.directory, 0o755)
        self.site.record["directory"] = self.directory
        self.site.save()
        self._add_host("client")
        self.site.ip("client", [f"addr add {CLIENT_ADDRESS}/32 dev lo"])
        for host in ("plain",) + bench_peers.PEERS + (("accept", "hooks") if self.for_flood else ()):
            self._add_host(host)
            self._link_client(host)
        for pair in self.plans:
            for host in (pair.name, pair.name + "-b"):
                self._add_host(host)
                self.site.sysctl(host, NODE_SYSCTLS)
                self._link_client(host)
        for entry in () if self.for_flood else bench_bare.BARE:
            for host in (entry, entry + "-b"):
                self._add_host(host)
                self._link_client(host)
        bench_peers.start(self)
        if self.for_flood:
            bench_bare.start_hooks(self, "hooks")
        else:
            bench_bare.start(self)
        for number, pair in enumerate(self.plans):
            self._start_pair(pair, number)
        self.raise_priorities()

    def _start_pair(self, plan, number):
        """A plane that this host or this dprd does not offer is left out, and the results give the reason."""
        pair = Pair(self, plan, number)
        try:
            pair.up()
        except LabError as error:
            pair.stop_daemons()
            self.missing[plan.name] = str(error)
            print(f"bench: {plan.name} is not measured: {error}", file=sys.stderr)
            return
        self.pairs[plan.name] = pair

    def _add_host(self, host):
        self.site.add_namespaces([host])
        self.site.sysctl(host, HOST_SYSCTLS)
        self.site.ip(host, ["link set lo up"])

    def link(self, host, interface, other, other_interface):
        """A cable between two hosts."""
        self.site.ip(host, [f"link add {interface} type veth peer name {other_interface} "
                            f"netns {self.site.name(other)}", f"link set {interface} up"])
        self.site.ip(other, [f"link set {other_interface} up"])
        self.links += [(host, interface), (other, other_interface)]

    def _link_client(self, host):
        """The client's cable to a host, named after it, and the host's service address."""
        self.addresses[host] = f"192.0.2.{10 + len(self.addresses)}"
        self.link("client", host, host, "eth0")
        self.site.ip(host, [f"addr add {self.addresses[host]}/32 dev eth0", f"route add {CLIENT_ADDRESS} dev eth0",
                            f"route add default via {CLIENT_ADDRESS}"])
        self.site.ip("client", [f"route add {self.addresses[host]} dev {host} src {CLIENT_ADDRESS}"])

    def raise_priorities(self):
        """Every server and daemon has a session of its own; all get the same niceness as the generators."""
        for name in self.site.record["namespaces"]:
            for pid in run(["ip", "netns", "pids", name], check=False).split():
                raise_priority(int(pid))
