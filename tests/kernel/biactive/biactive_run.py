# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs the tests of the module in a guest: guest-test* [CHECK...]; without names all checks, in their order. Prints
"ok NAME", "FAILED NAME: why" or "skipped NAME: why" for each; the exit status is 0 when none failed. Needs root, and a
kernel to spare.
   GUEST_MODULE   the module's file; empty: it is part of the kernel
   BUILD          where biactive-tool is, in tests/kernel/biactive (default: build)
"""
import ctypes
import os
import socket
import sys
import time
import traceback

from biactive_frames import Wire
from biactive_site import NODES, PATIENT_S, Connection, Site, configure, libc, run, tool

MODULE = os.environ.get("GUEST_MODULE", "")
FAMILIES = (4, 6)
ADVERTISED_S = 5.0  # an advertisement's time to come, and to be noticed
SYS_FINIT_MODULE, SYS_DELETE_MODULE = 313, 176  # of x86_64


class Skip(Exception):
    """Not here."""


def load():
    run("modprobe", "nf_conntrack")
    with open(MODULE, "rb") as file:
        if libc.syscall(SYS_FINIT_MODULE, file.fileno(), b"", 0):
            raise OSError(ctypes.get_errno(), "the module cannot be loaded")


def unload():
    if libc.syscall(SYS_DELETE_MODULE, b"dprd_biactive", os.O_NONBLOCK):
        raise OSError(ctypes.get_errno(), "the module cannot be unloaded")


def configure_all(hook="early"):
    for name in NODES:
        configure(name, hook)


def hold(count):
    """Connections that have asked once: [(connection, node)]."""
    held = []
    for _ in range(count):
        for family in FAMILIES:
            made = Connection(family)
            held.append((made, made.ask()))
    return held


def still_served(held):
    for made, name in held:
        assert made.ask() == name, "another node answered"


def run_checks(site, checks):
    """Runs the checks; returns the number of failures."""
    failed = 0
    wire = Wire(site.macs)
    for check in checks:
        name = check.__name__.removeprefix("check_")
        start = time.monotonic()
        try:
            check(site, wire)
            print(f"ok {name}, {time.monotonic() - start:.1f} s", flush=True)
        except Skip as why:
            print(f"skipped {name}: {why}", flush=True)
        except Exception as error:  # any error counts as this check's failure
            failed += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
            print("   " + traceback.format_exc().replace("\n", "\n   "), flush=True)
            for node in NODES:
                print(f"   {node}: {tool(node, 'get')[1].strip()}", flush=True)
    wire.close()
    return failed


def run_all(checks, prepare=None):
    """The exit status; prepare(site) adds to the network before all checks."""
    socket.setdefaulttimeout(PATIENT_S)
    wanted = sys.argv[1:]
    names = [check.__name__.removeprefix("check_") for check in checks]
    if set(wanted) - set(names):
        print("there are: " + " ".join(names), file=sys.stderr)
        return 2
    if MODULE:
        load()
    site = Site()
    try:
        site.raise_network()
        configure_all()
        if prepare:
            prepare(site)
        failed = run_checks(site, [check for check, name in zip(checks, names) if not wanted or name in wanted])
    finally:
        site.close()
    if MODULE:
        unload()
    return 1 if failed else 0
