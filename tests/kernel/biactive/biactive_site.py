# SPDX-License-Identifier: GPL-2.0-or-later
"""Three nodes that share an address, a client and a switch, as network namespaces of one guest:

    client c --- pc \\
                    br0 in sw (snoops, has a querier) --- p1 --- e0 of n1 (10.9.0.11, fd09::11, the shared ones)
                                                      --- p2 --- e0 of n2
                                                      --- p3 --- e0 of n3

Where a test puts a server behind a node, NAT leads to it: b0 of n1 --- e0 of s1 (10.9.11.2, fd09:1::2).

Processes are expensive in a guest. So this one process enters the namespaces by itself."""
import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import time

TOOL = os.path.join(os.environ.get("BUILD", "build"), "tests/kernel/biactive/biactive-tool")
SHARED = {4: "10.9.0.250", 6: "fd09::250"}
SHARED_MAC = {4: "01:00:5e:09:00:fa", 6: "33:33:00:00:02:50"}
CLIENT = {4: "10.9.0.100", 6: "fd09::100"}
# An address whose packets go to the client's interface, where no TCP looks at them.
GHOST = {4: "10.9.0.77", 6: "fd09::77"}
KEY = "000102030405060708090a0b0c0d0e0f"
NODES = ("n1", "n2", "n3")
CLONE_NEWNET = 0x40000000
MEMBERS_MAX = 64
LEASE_PATH = "/proc/net/dprd_biactive/lease"
LEASE_MS = 600_000
PATIENT_S = 60  # enough for a slow guest on a busy host
libc = ctypes.CDLL(None, use_errno=True)


def run(*words, **options):
    """The output of a command that must succeed."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout.strip()}"
    return done.stdout


def batch(namespace, *lines):
    run("ip", *(["-n", namespace] if namespace else []), "-batch", "-", input="\n".join(lines) + "\n")


def enter(name):
    with open("/proc/1/ns/net" if name is None else f"/run/netns/{name}", "rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {name}")


@contextlib.contextmanager
def inside(name):
    """Moves this process to another namespace, and back afterwards."""
    enter(name)
    try:
        yield
    finally:
        enter(None)


def mac_of(namespace, device):
    with inside(namespace), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as probe:
        probe.bind((device, 0))
        return probe.getsockname()[4].hex(":")


class Site:
    def __init__(self):
        self.servers = {}
        self.behind = []
        self.macs = {}

    def raise_network(self):
        batch(None, *(f"netns add {name}" for name in ("sw", "c") + NODES))
        batch("sw", "link add br0 type bridge mcast_querier 1 mcast_query_interval 200 "
              "mcast_query_response_interval 100 mcast_startup_query_interval 100", "link set br0 up")
        for name in ("c",) + NODES:
            self.plug(name)
            self.macs[name] = mac_of(name, "e0")
        for name in NODES:
            self.serve(name)

    def port(self, name):
        return "p" + name[-1]

    def plug(self, name):
        """The interface e0 of a namespace, with what belongs to it."""
        batch("sw", f"link add {self.port(name)} type veth peer name e0 netns {name}",
              f"link set {self.port(name)} master br0 up")
        batch(name, "link set lo up", "link set e0 up")
        self.address(name)

    def address(self, name):
        """Sets everything that an interface loses when it goes down, and more."""
        own = (CLIENT[4], CLIENT[6]) if name == "c" else (f"10.9.0.1{name[1]}", f"fd09::1{name[1]}")
        lines = [f"addr replace {own[0]}/24 dev e0", f"addr replace {own[1]}/64 dev e0 nodad"]
        if name != "c":
            lines += [f"addr replace {SHARED[4]}/32 dev e0", f"addr replace {SHARED[6]}/128 dev e0 nodad"]
            lines += [f"neigh replace {ghost} lladdr {self.macs['c']} dev e0 nud permanent" for ghost in GHOST.values()]
        batch(name, *lines)

    def put_behind(self, name):
        """A server behind a node, which translates the shared addresses to it."""
        server, number = "s" + name[1], name[1]
        self.behind.append(server)
        batch(None, f"netns add {server}")
        batch(name, f"link add b0 type veth peer name e0 netns {server}", "link set b0 up",
              f"addr add 10.9.1{number}.1/24 dev b0", f"addr add fd09:{number}::1/64 dev b0 nodad")
        batch(server, "link set lo up", "link set e0 up", f"addr add 10.9.1{number}.2/24 dev e0",
              f"addr add fd09:{number}::2/64 dev e0 nodad", f"route add default via 10.9.1{number}.1",
              f"route add default via fd09:{number}::1")
        with inside(name):
            for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
                with open("/proc/sys/net/" + key, "w", encoding="ascii") as file:
                    file.write("1")
        self.translate(name)
        self.serve(server, 8080)

    def translate(self, name):
        """The rules on a node that send new connections to the server behind it."""
        number = name[1]
        with inside(name):
            run("nft", "add table inet nat; add chain inet nat c { type nat hook prerouting priority -100 ; }; "
                f"add rule inet nat c ip daddr {SHARED[4]} tcp dport 80 tcp flags & (syn | ack) == syn "
                f"dnat ip to 10.9.1{number}.2:8080; "
                f"add rule inet nat c ip6 daddr {SHARED[6]} tcp dport 80 tcp flags & (syn | ack) == syn "
                f"dnat ip6 to [fd09:{number}::2]:8080")

    def serve(self, name, port=80):
        """nginx, which returns the name of its node."""
        path = f"/run/nginx-{name}"
        os.makedirs(path, exist_ok=True)
        with open(path + "/conf", "w", encoding="ascii") as file:
            file.write(f"daemon off; master_process off; pid {path}/pid; error_log {path}/error;"
                       "events { worker_connections 4096; }"
                       "http { access_log off; keepalive_timeout 900; keepalive_time 1000h; keepalive_requests 1000000;"
                       f"client_body_temp_path {path}/1; proxy_temp_path {path}/2; fastcgi_temp_path {path}/3;"
                       f"uwsgi_temp_path {path}/4; scgi_temp_path {path}/5;"
                       f'server {{ listen {port}; listen [::]:{port}; location / {{ return 200 "{name}\\n"; }} }} }}')
        with inside(name):
            self.servers[name] = subprocess.Popen(["nginx", "-c", path + "/conf", "-p", path],
                                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                  stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENT_S
        while True:
            with inside(name), socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            assert time.monotonic() < deadline, f"nginx on {name} does not answer"
            time.sleep(0.1)

    def close(self):
        for server in self.servers.values():
            server.terminate()
            server.wait()
        self.servers = {}
        for name in ("c", "sw", *self.behind) + NODES:
            if os.path.exists("/run/netns/" + name):
                run("ip", "netns", "del", name)


def tool(name, *words):
    """Runs biactive-tool in a namespace: (exit status, output)."""
    with inside(name):
        done = subprocess.run([TOOL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def configure(name, hook="early", *addresses, uid=0, device="e0"):
    status, text = tool(name, "set", device, hook, KEY, str(uid), *(addresses or SHARED.values()))
    assert status == 0, text


def state(name):
    status, text = tool(name, "get")
    assert status == 0, text
    return json.loads(text)


def counters(*names):
    """{counter: value}, of all these nodes together."""
    total = {}
    for name in names or NODES:
        for counter, value in state(name)["counters"].items():
            total[counter] = total.get(counter, 0) + value
    return total


def since(before, *names):
    """The verdicts counted since, without those that were not."""
    return {name: value - before[name] for name, value in counters(*names).items()
            if value != before[name] and name.startswith(("accept_", "refuse_"))}


def eventually(condition):
    """In a slow guest a frame may still be on its way when sending it is over."""
    deadline, pause_s = time.monotonic() + PATIENT_S, 0.05
    while not condition() and time.monotonic() < deadline:
        time.sleep(pause_s)
        pause_s *= 1.5


def expect(before, wanted, *names):
    """Exactly these verdicts were counted since."""
    eventually(lambda: since(before, *names) == wanted)
    assert since(before, *names) == wanted, since(before, *names)


def pack_lease(self_id, weights, until_ns, version=1):
    members = b"".join(struct.pack("=II", int(name[1]), weight) for name, weight in weights.items())
    return (struct.pack("=IIQII", version, 0, until_ns, self_id, len(weights)) + members).ljust(24 + 8 * MEMBERS_MAX,
                                                                                              b"\0")


def give(weights, ms=LEASE_MS, nodes=NODES):
    """Gives the same shares to all: {node: weight}. Each node gets a lease, even one without a share."""
    until_ns = time.monotonic_ns() + ms * 1_000_000
    for name in nodes:
        with inside(name), open(LEASE_PATH, "wb", buffering=0) as file:
            file.write(pack_lease(int(name[1]), weights, until_ns))


ALL = {name: 100 for name in NODES}


class Connection:
    """A socket of the client. connect() raises TimeoutError when no node answers."""

    def __init__(self, family, timeout_s=PATIENT_S, port=80, address=None):
        with inside("c"):
            self.socket = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6)
        self.socket.settimeout(timeout_s)
        try:
            self.socket.connect((address or SHARED[family], port))
        except OSError:
            self.socket.close()
            raise

    def ask(self):
        """The node that answers a request."""
        self.send()
        return self.hear()

    def send(self):
        self.socket.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

    def hear(self):
        text = b""
        while b"\r\n\r\n" not in text or not text.endswith(b"\n"):
            part = self.socket.recv(4096)
            assert part, "the connection was closed"
            text += part
        assert text.startswith(b"HTTP/1.1 200"), text
        return text.split(b"\r\n\r\n")[1].decode().strip()

    def close(self):
        self.socket.close()


def ask_once(family, **options):
    made = Connection(family, **options)
    try:
        return made.ask()
    finally:
        made.close()


def is_silent(family, timeout_s=0.4):
    """No node answers a SYN: neither SYN-ACK nor RST."""
    try:
        Connection(family, timeout_s=timeout_s).close()
    except (TimeoutError, socket.timeout):
        return True
    except OSError:
        pass
    return False
