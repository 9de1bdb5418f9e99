# SPDX-License-Identifier: GPL-2.0-or-later
"""Assigns scenarios to planes, to the quick rung or the complete one, and to processes.

A datapath is a plane, or "kernel": the bpf plane with Decide=kernel. One pytest runs the scenarios of one datapath.
The quick rung (CLUSTER_QUICK=seed) takes the executions of each scenario that pairs.py chooses over all datapaths,
and leaves out tests marked @pytest.mark.long("reason"); long storms are short in it (QUICK). Processes that share a
directory of claims share the work: each takes tests that none has taken.
"""
import os

import pairs

QUICK = os.environ.get("CLUSTER_QUICK", "")  # the quick rung's seed; empty in the complete one
PLANE = os.environ.setdefault("DPRD_PLANE", "nfqueue")
DATAPATH = "kernel" if os.environ.get("DPRD_DECIDE") == "kernel" else PLANE
DATAPATHS = {"bpf": {"plane": "bpf", "decide": "auto"}, "nfqueue": {"plane": "nfqueue", "decide": "auto"},
             "kernel": {"plane": "bpf", "decide": "kernel"}}
# Scenarios that choose the plane themselves, or do not ask for it: one run is enough.
CHOOSE_THEIR_PLANE = {"test_d11_without_tcx", "test_d12_auto_finds_a_plane", "test_d13_a_plane_that_cannot_be",
                      "test_d14_decided_in_the_kernel", "test_d15_the_guard_in_the_kernel",
                      "test_d16_killed_while_the_kernel_decides", "test_d17_the_programs_decide_while_many_come", "test_d1a_bursts_are_answered",
                      "test_d19_behind_another_program",
                      "test_m10_another_host", "test_m11_records", "test_m12_views", "test_m13_members", "test_m14_top",
                      "test_d40_no_place_for_programs", "test_d46_the_service_address_on_a_bridge"}
# Scenarios for which the value of Decide= matters.
KERNEL_FILES = ("test_a_10", "test_b_10", "test_b_50", "test_b_70", "test_d_10", "test_d_20", "test_d_30", "test_g_10")
DECIDE = ("decide",)
GROUP_AXES = ("plane", "decide", "layout", "family")
LAYOUTS = {"own3": "own", "one3": "one", "own": "own", "one": "one"}
# {plane: {test function: why it makes no sense there}}
SHARED_NEED_PROGRAMS = "without the kernel module, shared addresses need the BPF programs"
NOT_FOR_PLANE = {
    "bpf": {"test_b60_a_flood_passes_by": "in a flood the BPF programs decide"},
    "nfqueue": {
        "test_b63_a_port_is_used_again_meanwhile": "without the programs no packet finds its flow while the rules are gone",
        "test_b107_program_in_front": "without programs no other one can come first",
        "test_b112_no_programs_where_peers_come": "without programs all interfaces are alike",
        "test_b109_many_interfaces": "without programs all interfaces are alike",
    } | {name: SHARED_NEED_PROGRAMS for name in (
        "test_f10_everybody_serves", "test_f11_forwarding", "test_f12_host_dies", "test_f13_host_returns",
        "test_f14_dprd_dies", "test_f15_announcer_dies", "test_f16_messages_and_purge", "test_f17_half_open",
        "test_f18_cookies", "test_f19_hand_over", "test_f20_no_false_take_over", "test_f21_one_answer",
        "test_f22_other_period", "test_f23_successor_without_lease", "test_f24_copy_after_changes", "test_f25_found_socket",
        "test_g25_shared", "test_g26_shared_host_dies")},
}


def why_not(item, datapath):
    """The reason for which a scenario does not run on a datapath; None when it does, "" when no reason is needed."""
    reason = NOT_FOR_PLANE[DATAPATHS[datapath]["plane"]].get(item.originalname)
    if reason is None and datapath == "kernel" and not item.path.name.startswith(KERNEL_FILES):
        return ""
    if datapath != "bpf" and item.originalname in CHOOSE_THEIR_PLANE:
        return ""
    return reason


def scenario(item):
    return f"{item.path.name}::{item.originalname}"


def surroundings(item, datapath):
    """The axes of one execution: {axis: value}."""
    axes = dict(DATAPATHS[datapath])
    for name, value in (item.callspec.params if hasattr(item, "callspec") else {}).items():
        axis = "layout" if str(value) in LAYOUTS else name
        axes[axis] = LAYOUTS.get(str(value), str(value))
    return axes


def long_reason(item):
    """The reason why the quick rung leaves a test out; None when it does not."""
    mark = item.get_closest_marker("long")
    return mark.args[0] if mark else None


def narrowed(execution, axes=None, without=()):
    return {axis: value for axis, value in execution.items() if (axes is None or axis in axes) and axis not in without}


def grouped(executions, key):
    groups = {}
    for execution in executions:
        groups.setdefault(key(execution), []).append(execution)
    return groups


def quick_choice(items, seed):
    """The executions of the quick rung, for these tests on all datapaths: {(test's name, datapath)}.

    Pairs meet in each scenario separately, with one exception: the values of Decide= meet planes, layouts and
    families in each file.
    """
    product = [(item.nodeid, datapath, scenario(item), surroundings(item, datapath)) for item in items for datapath in DATAPATHS
               if why_not(item, datapath) is None and long_reason(item) is None]
    chosen = []
    for name, executions in grouped(product, lambda execution: execution[2]).items():
        axes = [narrowed(execution[3], without=DECIDE) for execution in executions]
        chosen += [executions[place] for place in pairs.choose(axes, f"{seed} {name}")]
    had = grouped(chosen, file_of)
    for name, executions in grouped(product, file_of).items():
        axes = [narrowed(execution[3], GROUP_AXES) for execution in executions]
        there = [narrowed(execution[3], GROUP_AXES) for execution in had[name]]
        chosen += [executions[place] for place in pairs.choose(axes, f"{seed} {name}", there)]
    return {execution[:2] for execution in chosen}


def file_of(execution):
    return execution[2].partition("::")[0]


class Claims:
    """A directory in which each test is taken by one of the processes that run side by side."""

    def __init__(self, directory):
        self.directory = directory

    def take(self, item):
        """True when this process takes the test. Without a directory it takes all."""
        if not self.directory:
            return True
        path = os.path.join(self.directory, f"{DATAPATH}.{item.nodeid.replace('/', '_')}")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        return True

    def expect(self, count):
        """Notes the number of tests that all processes together must report on this datapath."""
        if self.directory:
            with open(os.path.join(self.directory, f"expected.{DATAPATH}"), "w", encoding="ascii") as file:
                file.write(f"{count}\n")
