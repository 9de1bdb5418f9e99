# SPDX-License-Identifier: GPL-2.0-or-later
"""An sshd on each node of a cluster, with keys made for it alone, and a dprctl on one node that reaches the others by ssh."""
import json
import os
import subprocess

from netns import run

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Seat:
    """Start and stop it with a "with" block."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.directory = os.path.join(cluster.directory, "seat")
        self.children = {}

    def path(self, name):
        return os.path.join(self.directory, name)

    def program(self, node):
        """dprctl as the remote shell finds it: the configuration of the node is not where dprctl looks by itself."""
        return os.path.join(self.directory, f"bin-{node}", "dprctl")

    def __enter__(self):
        os.makedirs(self.directory, exist_ok=True)
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for key in ("host", "user"):
            if not os.path.exists(self.path(key)):
                run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.path(key)])
        for node in self.cluster.nodes:
            self.start(node)
        return self

    def __exit__(self, *_):
        for name in list(self.children):
            self.stop(name)

    def start(self, node):
        os.makedirs(os.path.dirname(self.program(node.name)), exist_ok=True)
        with open(self.program(node.name), "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {self.cluster.program("bin/dprctl")} -c {self.cluster.config_path(node)} "$@"\n')
        os.chmod(self.program(node.name), 0o755)
        lines = [f"ListenAddress {node.cluster_v4}", f"HostKey {self.path('host')}", f"AuthorizedKeysFile {self.path('user.pub')}",
                 "StrictModes no", "UsePAM no", "PidFile none", "PasswordAuthentication no", "MaxStartups 100",
                 f"SetEnv PATH={os.path.dirname(self.program(node.name))}:{PATH}"]
        config = self.path(f"sshd-{node.name}")
        with open(config, "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        self.children[node.name] = self.cluster.site.start(
            node.name, ["/usr/sbin/sshd", "-D", "-e", "-f", config], self.path(f"sshd-{node.name}.log"))
        self.cluster.wait_until(lambda: self.listens(node), f"sshd of {node.name} listens")

    def listens(self, node):
        return ":22 " in self.cluster.site.ask(node.name, ["ss", "-Hltn"], check=False)

    def stop(self, name):
        child = self.children.pop(name)
        child.terminate()
        child.wait(5)
        self.cluster.site.reap()

    def ssh(self):
        return (f"ssh -F /dev/null -i {self.path('user')} -o UserKnownHostsFile={self.path('known')} "
                "-o StrictHostKeyChecking=accept-new -o LogLevel=ERROR")

    def dprctl(self, node, *words, ssh=None, **more):
        """Runs dprctl on a node; its result has returncode, stdout and stderr."""
        return subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.cluster.site.name(node)}", "env", f"DPRCTL_SSH={ssh or self.ssh()}",
             self.program(node), *words], capture_output=True, text=True, timeout=50, check=False, **more)

    def json(self, node, *words):
        found = self.dprctl(node, *words, "--json")
        assert found.stdout, found
        return json.loads(found.stdout)
