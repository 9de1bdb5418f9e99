# SPDX-License-Identifier: GPL-2.0-or-later
"""Network namespaces, mounts and processes, noted in a file before they exist.

Everything a laboratory makes is in one registry file (REGISTRY/PREFIX.json), written ahead of each step, so that it
can be removed exactly: by its owner, or later by any process when the owner was killed.
"""
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import bpf

REGISTRY = "/run/dprd-lab"


class LabError(Exception):
    """A laboratory could not be raised or used; the text says why."""


class Late(LabError, AssertionError):
    """An event did not come within its time. That proves nothing else: a busy host may be the cause."""


def run(command, text_in=None, check=True):
    """Runs a short command to its end; returns its standard output."""
    done = subprocess.run(command, input=text_in, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise LabError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def start_time(pid):
    """When the kernel started this process, in ticks; None when it is gone (or a zombie)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def registry_path(prefix):
    return os.path.join(REGISTRY, prefix + ".json")


def load_registry():
    """All laboratories of this host, by prefix."""
    found = {}
    names = sorted(os.listdir(REGISTRY)) if os.path.isdir(REGISTRY) else []
    for name in names:
        if name.endswith(".json"):
            try:
                with open(os.path.join(REGISTRY, name), encoding="utf-8") as file:
                    found[name[:-5]] = json.load(file)
            except (OSError, ValueError):
                continue
    return found


class Site:
    """Namespaces, mounts and processes under one unique prefix."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.record = {"prefix": prefix, "owner": os.getpid(), "owner_start": start_time(os.getpid()),
                       "kept": False, "namespaces": [], "processes": [], "mounts": [], "directory": None, "info": {}}
        self.children = {}

    def save(self):
        os.makedirs(REGISTRY, mode=0o755, exist_ok=True)
        path = registry_path(self.prefix)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.record, file, indent=1)
        os.rename(path + ".new", path)

    def name(self, short):
        """The full name of a namespace of this site."""
        return f"{self.prefix}-{short}"

    def add_namespaces(self, shorts):
        self.record["namespaces"] += [self.name(short) for short in shorts]
        self.save()
        run(["ip", "-batch", "-"], "".join(f"netns add {self.name(short)}\n" for short in shorts))

    def ip(self, short, lines):
        """Runs ip(8) commands in a namespace."""
        run(["ip", "-n", self.name(short), "-batch", "-"], "\n".join(lines) + "\n")

    def execute(self, short, command, check=True, text_in=None):
        """Runs a short command in a namespace to its end; returns its standard output."""
        return run(["ip", "netns", "exec", self.name(short)] + command, text_in, check)

    def ask(self, short, command, check=True):
        """Does as execute(), in half the time, for a command that needs neither the namespace's /sys nor its own /etc."""
        return run(["nsenter", f"--net=/run/netns/{self.name(short)}", *command], None, check)

    def sysctl(self, short, values):
        """Sets kernel variables of a namespace; skips one that this kernel does not have."""
        self.ask(short, ["sysctl", "-qe"] + [f"{key}={value}" for key, value in values.items()])

    @contextlib.contextmanager
    def inside(self, short):
        """Puts the calling thread into a namespace; sockets made there stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as own, open(f"/run/netns/{self.name(short)}", "rb") as other:
            if libc.setns(other.fileno(), 0):
                raise LabError(f"setns {short}: {os.strerror(ctypes.get_errno())}")
            try:
                yield
            finally:
                if libc.setns(own.fileno(), 0):
                    raise LabError(f"setns back: {os.strerror(ctypes.get_errno())}")

    def connect(self, short, address, port, timeout_s=10):
        """A TCP connection from a namespace."""
        with self.inside(short):
            return socket.create_connection((address, port), timeout_s)

    def make_directory(self):
        """The site's directory, in memory as /run is on a host: the daemons write their files several times a second."""
        directory = tempfile.mkdtemp(prefix="dprd-lab-")
        self.record["directory"] = directory
        self.save()
        run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", directory])
        return directory

    def mount_bpf(self, directory):
        """Mounts a separate bpf file system. Processes that start in a namespace from now on see it."""
        if directory not in self.record["mounts"]:
            self.record["mounts"].append(directory)
            self.save()
        os.makedirs(directory, exist_ok=True)
        run(["mount", "-t", "bpf", "-o", "mode=0700", "bpf", directory])

    def etc_file(self, short, name, text):
        """Makes a file that processes in this namespace see as /etc/NAME."""
        directory = os.path.join("/etc/netns", self.name(short))
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, short, command, log, stdout=None):
        """Starts a process that stays. Its standard error goes to the file log. Returns the Popen."""
        with open(log, "ab") as errors:
            child = subprocess.Popen(["ip", "netns", "exec", self.name(short)] + command,
                                     stdin=subprocess.DEVNULL, stdout=stdout or errors, stderr=errors,
                                     start_new_session=True)
        self.children[child.pid] = child
        self.record["processes"].append([child.pid, start_time(child.pid)])
        self.save()
        return child

    def pids(self, short):
        """Every process that runs in a namespace, children of our servers included."""
        return [int(pid) for pid in run(["ip", "netns", "pids", self.name(short)], check=False).split()]

    def reap(self):
        """Forgets processes that ended."""
        for pid, child in list(self.children.items()):
            if child.poll() is not None:
                del self.children[pid]
                self.record["processes"] = [known for known in self.record["processes"] if known[0] != pid]

    def keep(self):
        """Leaves the site standing when this process ends."""
        self.record["kept"] = True
        self.save()

    def remove(self):
        remove_record(self.record, self.children)


def stop_processes(processes, children=None, grace_s=1.0):
    """Sends TERM, and KILL after grace_s, to each [pid, start time]; never to a pid that was reused since."""
    def living():
        for child in (children or {}).values():
            child.poll()
        return [pid for pid, started in processes if started is not None and start_time(pid) == started]

    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in living():
            try:
                os.kill(pid, sent)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + grace_s
        while living() and time.monotonic() < deadline:
            time.sleep(0.01)
    return living()


def unmount_bpf(directory):
    """Unmounts the file system, and with it removes all pins there."""
    if directory in bpf.mount_points():
        bpf.unpin_all(directory)
        run(["umount", directory])


def remove_directory(directory):
    """Removes the directory of make_directory(). It is emptied first: mount namespaces that stay may hold copies."""
    shutil.rmtree(directory, ignore_errors=True)
    if directory in bpf.mount_points():
        run(["umount", "--lazy", directory])
    shutil.rmtree(directory, ignore_errors=True)


def remove_record(record, children=None):
    """Ends and deletes everything that one registry file names, in the opposite order."""
    existing = {line.split()[0] for line in run(["ip", "netns", "list"], check=False).splitlines() if line}
    namespaces = [name for name in record["namespaces"] if name in existing]
    processes = [tuple(known) for known in record["processes"]]
    stop_processes(processes, children)
    rest = [int(pid) for name in namespaces for pid in run(["ip", "netns", "pids", name], check=False).split()]
    left = stop_processes([(pid, start_time(pid)) for pid in rest if pid != os.getpid()], children)
    if namespaces:
        run(["ip", "-batch", "-"], "".join(f"netns delete {name}\n" for name in reversed(namespaces)))
    for directory in reversed(record.get("mounts", [])):
        unmount_bpf(directory)
    for name in record["namespaces"]:
        shutil.rmtree(os.path.join("/etc/netns", name), ignore_errors=True)
    if record["directory"]:
        remove_directory(record["directory"])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(registry_path(record["prefix"]))
    for shared in ("/etc/netns", REGISTRY):
        with contextlib.suppress(OSError):
            os.rmdir(shared)  # only when it is empty
    if left:
        raise LabError(f"processes {left} of {record['prefix']} would not end")


def prune():
    """Removes laboratories whose owner was killed before it could."""
    for record in load_registry().values():
        if not record["kept"] and start_time(record["owner"]) != record["owner_start"]:
            remove_record(record)
