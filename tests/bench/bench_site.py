# SPDX-License-Identifier: GPL-2.0-or-later
"""The benchmark's hosts: a laboratory cluster, a SYN generator, and the accept-all program.

    client c1 -- router -- n1 local     dprd, policy local: every connection is served here
                           n2 half      dprd, policy random: one half goes to n3
                           n3 serving   dprd, policy local: takes what n2 and n4 forward
                           n4 forwards  dprd, drained: everything goes to n3
                           n5 plain     no dprd: the same web server alone

    g (generator) ==== one direct link each, interface "flood" ==== n1, n2, n4, aa, am

    aa  accept-all program on one plain NFQUEUE rule
    am  accept-all program behind exactly the rules that dprd made on n1

On every "flood" link the SYNs are dropped right behind the hook of the queues (mangle priority), the
same way for all, so that no TCP stack takes part in the comparison.
"""
import json
import os
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "lab"))
# pylint: disable=wrong-import-position,unused-import
from cluster import Cluster, exit_on_signals
from netns import LabError, run
from bench_measure import raise_priority

LOCAL, HALF, SERVING, FORWARDS, PLAIN = "n1", "n2", "n3", "n4", "n5"
QUEUE = 8000
MEMORY = "/dev/shm"
QUEUE_LENGTH = 1024

# Mangle priority, -150: behind raw (-300), where the queues are, and in front of the routing.
SINK_RULES = """\
add table netdev sink
add chain netdev sink tunnels {{ type filter hook ingress devices = {{ {ports} }} priority 0 ; }}
add rule netdev sink tunnels ip protocol 4 drop
"""

DROP_RULES = """\
add table inet bench
add chain inet bench behind { type filter hook prerouting priority -150 ; }
add rule inet bench behind iifname "flood" drop
"""


class Arm:
    """One side of a comparison: a host that gets SYNs and the program that judges them."""

    def __init__(self, name, host, address, pid):
        self.name, self.host, self.address, self.pid = name, host, address, pid
        self.link, self.mac = f"to-{host}", None


class BenchSite:
    """Raised by "with"; removed at its end in any case."""

    def __init__(self, build):
        # As /run is where it belongs: on a disk each replaced file may wait for the device.
        if os.path.ismount(MEMORY):
            tempfile.tempdir = MEMORY
        self.cluster = Cluster(nodes=5, prefix=f"bn-{os.getpid()}", build=build, file_count=4,
                               file_cap_bytes=100_000)
        self.site = self.cluster.site
        self.arms = []

    def __enter__(self):
        self.cluster.up()
        try:
            # A switch has no packet filter; where the host's bridges have one, it would be measured, too.
            self.site.sysctl("sw", {f"net.bridge.bridge-nf-call-{tables}": 0
                                    for tables in ("iptables", "ip6tables", "arptables")})
            self._configure()
            self._start_daemons()
            self._make_generator()
            self._raise_priorities()
        except BaseException:
            self.cluster.down()
            raise
        return self

    def __exit__(self, *_):
        self.cluster.down()

    def program(self, name):
        return self.cluster.program("tests/bench/" + name)

    def address(self, node):
        return self.cluster.node(node).service_v4

    def _configure(self):
        cluster = self.cluster
        for node in (LOCAL, SERVING, FORWARDS):
            cluster.set_config("Balance", "Policy", "local", node)
        cluster.set_config("Balance", "Policy", "random", HALF)
        for node in (LOCAL, HALF, FORWARDS):
            cluster.set_weight(node, 0)  # never a target: what leaves n2 and n4 goes to n3
        cluster.set_config("Queue", "First", QUEUE)
        cluster.set_config("Queue", "Length", QUEUE_LENGTH)
        # The guard against floods would turn the half that is to be forwarded into local service.
        cluster.set_config("Flows", "MaxNewFlowsPerSecond", 10_000_000)
        # Room for what is forwarded within the time that ended flows are remembered, and for the flood:
        # half-open flows younger than a second do not give way, what is above them is served locally.
        cluster.set_config("Flows", "MaxFlows", 1_048_576)
        cluster.set_config("Flows", "MaxHalfOpen", 262_144)
        cluster.set_config("Flows", "FinTimeout", "2s")
        cluster.set_config("Flows", "RstTimeout", "2s")

    def _start_daemons(self):
        cluster = self.cluster
        for node in (LOCAL, HALF, SERVING, FORWARDS):
            cluster.start_node_daemons(node)
        for node in (LOCAL, HALF, SERVING, FORWARDS):
            cluster.wait_until(lambda node=node: self._dprd_answers(node), f"dprd of {node} answers")
        cluster.dprctl(FORWARDS, "drain")
        cluster.wait_until(lambda: self._asked(FORWARDS, 6) == {SERVING}, "n4 forwards all connections to n3", 15)
        cluster.wait_until(lambda: self._asked(HALF, 24) == {HALF, SERVING}, "n2 forwards some connections", 15)
        if self._asked(LOCAL, 6) != {LOCAL}:
            raise LabError("n1 does not serve all its connections itself")

    def flows_made(self, arm):
        """Connections that the arm's dprd has forwarded so far; 0 for an accept-all program."""
        if not arm.name.startswith("dprd"):
            return 0
        return self.cluster.counters(arm.host)["flows_made"]

    def sink_tunnels(self, wanted):
        """Tunnel packets are lost at the switch, or arrive again."""
        ports = ", ".join(self.cluster.node(node).name + "c" for node in (HALF, FORWARDS))
        rules = SINK_RULES.format(ports=ports) if wanted else "delete table netdev sink\n"
        self.site.execute("sw", ["nft", "-f", "-"], text_in=rules)

    def _raise_priorities(self):
        """Every server and daemon has a session of its own; all get what the generators have."""
        for node in self.cluster.nodes:
            for pid in self.site.pids(node.name):
                raise_priority(pid)
        for arm in self.arms:
            raise_priority(arm.pid)

    def _dprd_answers(self, node):
        if not self.cluster.daemon_alive(node, "dprd"):
            raise LabError(f"dprd of {node} ended at its start: {self.cluster.log_text(node, 'dprd')[-500:]}")
        return self.cluster.counters(node)

    def _asked(self, node, times):
        """The nodes that answer requests to this node's address."""
        urls = [f"http://{self.address(node)}/whoami"] * times
        return set(self.site.execute("c1", ["curl", "-s", "-m", "2"] + urls, check=False).split())

    def _make_generator(self):
        self.site.add_namespaces(["g", "aa", "am"])
        for host in ("g", "aa", "am"):
            self.site.sysctl(host, {"net.ipv6.conf.all.disable_ipv6": 1, "net.ipv6.conf.default.disable_ipv6": 1})
        accept_rule = ["-p", "tcp", "--syn", "--dport", "80", "-j", "NFQUEUE", "--queue-num", str(QUEUE),
                       "--queue-bypass"]
        self.site.execute("aa", ["iptables-nft", "-t", "raw", "-A", "PREROUTING"] + accept_rule)
        self._copy_rules(LOCAL, "am")
        target = self.address(LOCAL)
        accept = {host: self._start_accept_all(host) for host in ("aa", "am")}
        self.arms = [Arm("accept_all", "aa", target, accept["aa"]),
                     Arm("accept_all_same_rules", "am", target, accept["am"]),
                     Arm("dprd_local", LOCAL, target, self.cluster.pid(LOCAL, "dprd")),
                     Arm("dprd_half_forwarded", HALF, self.address(HALF), self.cluster.pid(HALF, "dprd")),
                     Arm("dprd_all_forwarded", FORWARDS, self.address(FORWARDS), self.cluster.pid(FORWARDS, "dprd"))]
        for arm in self.arms:
            self._link(arm)

    def _link(self, arm):
        self.site.ip("g", [f"link add {arm.link} type veth peer name flood netns {self.site.name(arm.host)}",
                           f"link set {arm.link} up"])
        self.site.ip(arm.host, ["link set flood up"])
        self.site.execute(arm.host, ["nft", "-f", "-"], text_in=DROP_RULES)
        shown = run(["ip", "-n", self.site.name(arm.host), "-j", "link", "show", "flood"])
        arm.mac = json.loads(shown)[0]["address"]

    def _copy_rules(self, source, target):
        """What dprd set up on one host, set and maps included, onto another that has no dprd."""
        table = self.site.execute(source, ["nft", "list", "table", "inet", "dprd"])
        self.site.execute(target, ["nft", "-f", "-"], text_in=table)
        saved = self.site.execute(source, ["iptables-nft-save", "-t", "raw"])
        self.site.execute(target, ["iptables-nft-restore"], text_in=saved)

    def _start_accept_all(self, host):
        log = os.path.join(self.cluster.directory, f"acceptall-{host}.log")
        child = self.site.start(host, [self.program("acceptall"), str(QUEUE), str(QUEUE_LENGTH)], log)

        def bound():
            with open(log, encoding="ascii", errors="replace") as file:
                text = file.read()
            if child.poll() is not None:
                raise LabError(f"acceptall ended at its start: {text}")
            return "ready" in text
        self.cluster.wait_until(bound, "acceptall binds its queue")
        return child.pid


def queue_state(pid):
    """(packets waiting, packets ever queued minus those the program never got) of QUEUE in the
    network namespace of a process; see nfqnl_seq_show() of the kernel for the columns."""
    with open(f"/proc/{pid}/net/netfilter/nfnetlink_queue", encoding="ascii") as file:
        for line in file:
            words = [int(word) for word in line.split()]
            if words[0] == QUEUE:
                return words[2], words[7] - words[6]
    raise LabError(f"queue {QUEUE} of process {pid} is gone")
