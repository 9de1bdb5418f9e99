# SPDX-License-Identifier: GPL-2.0-or-later
"""The least program that forwards in a tunnel (bare.c), in dprd's places: the limit of any such program on this
host."""
import bench_peers
from bench_dprd import QUEUE
from bench_measure import pin_node
from cluster import NODE_SYSCTLS

# The ways of packets to it: all by BPF, SYNs by a queue, all by queues on both nodes. "bare-hooks" is the first with
# the other parts that dprd needs: a program for leaving packets (the MSS of SYN-ACKs), and the rule that queues marked
# packets. "bare-flows" also remembers: one line of memory for each packet, one search for a local socket for each SYN.
BARE = ("bare", "bare-hooks", "bare-flows", "bare-syns", "bare-all")
HOOKED = ("bare-hooks", "bare-flows")
MARKED = ["-m", "mark", "!", "--mark", "0/0x60000000"]


def _queue_rule(bench, host, words):
    bench.site.execute(host, ["iptables-nft", "-t", "raw", "-A", "PREROUTING"] + words
                       + ["-j", "NFQUEUE", "--queue-num", str(QUEUE)])


def _start(bench, host, words, serving):
    pin_node(bench.start_tool(host, "bare", words).pid, serving)


def _start_pair(bench, entry, number):
    serving, ends = entry + "-b", [f"10.82.{number}.{i}" for i in (1, 2)]
    service = bench.address(entry)
    bench.link(entry, "eth1", serving, "eth1")
    for host, address in zip((entry, serving), ends):
        bench.site.sysctl(host, NODE_SYSCTLS)
        bench.site.ip(host, [f"addr add {address}/30 dev eth1"])
    bench.site.ip(serving, [f"route add local {service} dev lo"])
    bench.site.ip(entry, [f"neigh replace {ends[1]} lladdr {bench.hardware_address(serving, 'eth1')} dev eth1"])
    bench_peers.start_web(bench, serving)
    if entry == "bare-all":
        _queue_rule(bench, entry, ["-p", "tcp", "--dport", "80"])
        _queue_rule(bench, serving, ["-p", "4"])
        _start(bench, entry, ["all"] + ends + [str(QUEUE)], False)
        _start(bench, serving, ["take", str(QUEUE)], True)
    else:
        leaving = ["-l", "eth0", "-l", "eth1"] if entry in HOOKED else []
        remembers = ["-f"] if entry == "bare-flows" else []
        words = ["entry", "eth0", "eth1", bench.hardware_address(serving, "eth1"), service] + ends
        if entry == "bare-syns":
            _queue_rule(bench, entry, ["-p", "tcp", "--syn", "--dport", "80"])
            words.append(str(QUEUE))
        _start(bench, entry, leaving + remembers + words, False)
        if entry in HOOKED:
            for host in (entry, serving):
                _queue_rule(bench, host, MARKED)
        _start(bench, serving, leaving + ["serving", "eth1", ends[1]], True)
    bench.wait_for(f"{serving} answers for {entry}", lambda: bench.answers(service) == {serving})


def start_hooks(bench, host):
    """The parts on the way of a SYN that no program decides: a program that passes it on, and the rule for marked
    packets."""
    address = bench.address(host)
    bench_peers.start_web(bench, host)
    _queue_rule(bench, host, MARKED)
    bench.start_tool(host, "bare", ["-l", "eth0", "entry", "eth0", "eth0", bench.hardware_address(host), address, address,
                                    address, str(QUEUE)])


def start(bench):
    for number, entry in enumerate(BARE):
        _start_pair(bench, entry, number)
