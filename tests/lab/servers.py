# SPDX-License-Identifier: GPL-2.0-or-later
"""The servers of a laboratory's nodes and the name server, with stock programs."""
import os
import shutil
import socket
import time

from netns import LabError, stop_processes, start_time

NGINX_CONF = """\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
user nobody nogroup;
pid {directory}/nginx.pid;
events {{
	worker_connections 8192;
	multi_accept on;
}}
http {{
	access_log off;
	default_type application/octet-stream;
	sendfile on;
	tcp_nopush on;
	keepalive_timeout {keepalive};
	keepalive_requests 100000;
	send_timeout 600s; # an overloaded link is slow, which is not an error
	open_file_cache max=4000 inactive=600s;
	open_file_cache_valid 60s;
	client_max_body_size 200m;
	client_body_temp_path {directory}/body;
	proxy_temp_path {directory}/proxy;
	fastcgi_temp_path {directory}/fastcgi;
	uwsgi_temp_path {directory}/uwsgi;
	scgi_temp_path {directory}/scgi;
	server {{
		listen 80 backlog=4096;
		listen [::]:80 ipv6only=on backlog=4096;
		add_header X-Node {name} always;
		location = /whoami {{
			default_type text/plain;
			return 200 "{name}\\n";
		}}
		location /upload/ {{
			root {directory};
			dav_methods PUT;
		}}
		location / {{
			root {files};
		}}
	}}
	server {{
		listen unix:{directory}/nginx.sock;
		location = /status {{
			stub_status;
		}}
	}}
}}
"""


ECHO_PORTS = (8080, 8081)
TCP_LISTEN = "0A"
START_S = 30


def listens(pid, ports):
    """True when a process listens on all of these ports in the network namespace of a process that has its own; False
    also when that process ended."""
    found = set()
    try:
        if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
            return False
        for name in ("tcp", "tcp6"):
            with open(f"/proc/{pid}/net/{name}", encoding="ascii") as file:
                found |= {int(words[1].rpartition(":")[2], 16) for words in map(str.split, list(file)[1:])
                          if words[3] == TCP_LISTEN}
    except OSError:
        return False
    return found >= set(ports)


class Servers:
    """Part of Cluster: starts nginx and the echo server of each node, and dnsmasq on the router."""

    def start_web(self, which, wait=True):
        """Starts the node's nginx and echo server."""
        node = self.node(which)
        uploads = os.path.join(node.directory, "upload")
        if not os.path.isdir(uploads):
            os.makedirs(uploads)
            shutil.chown(uploads, "nobody", "nogroup")
        # loadcast probes nginx for the node's health: the echo server must run before it.
        echo = self.start_echo(node)
        self.webs[node.name] = [self.start_nginx(node), echo]
        if wait:
            self.wait_web(node)

    def start_echo(self, which):
        """Starts the node's echo server, and waits until it listens."""
        node = self.node(which)
        echo = self.site.start(node.name, [self.program("tests/lab/echoserver"), "--name", node.name, "--echo",
                                           str(ECHO_PORTS[0]), "--sum", str(ECHO_PORTS[1])],
                               os.path.join(node.directory, "echoserver.log"))
        deadline = time.monotonic() + START_S
        while not listens(echo.pid, ECHO_PORTS):
            if echo.poll() is not None or time.monotonic() > deadline:
                raise LabError(f"{node.name}: the echo server does not listen; see {node.directory}/echoserver.log")
            time.sleep(0.002)
        return echo

    def configure_nginx(self, which, *changes):
        """Writes the configuration of a node's nginx, with other words in place of some. Returns its path."""
        node = self.node(which)
        text = NGINX_CONF.format(directory=node.directory, name=node.name, files=self.file_root,
                                 keepalive=75 if self.keepalive else 0)
        for words, others in changes:
            if words not in text:
                raise LabError(f"the configuration of nginx does not have {words}")
            text = text.replace(words, others)
        path = os.path.join(node.directory, "nginx.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def start_nginx(self, which, *changes):
        """Starts the node's nginx, with a changed configuration."""
        node = self.node(which)
        path, log = self.configure_nginx(node, *changes), os.path.join(node.directory, "nginx.log")
        socket_path = os.path.join(node.directory, "nginx.sock")
        if os.path.exists(socket_path):
            os.unlink(socket_path)
        node.status_polls = 0
        return self.site.start(node.name, ["nginx", "-e", log, "-c", path, "-p", node.directory], log)

    def wait_web(self, which, timeout_s=START_S):
        node = self.node(which)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for child in self.webs[node.name]:
                if child.poll() is not None:
                    raise LabError(f"{node.name}: {child.args[4]} ended at its start; see {node.directory}/*.log: "
                                   + self.log_tail(node))
            try:
                self.web_status(node)
                return
            except OSError:
                time.sleep(0.01)
        raise LabError(f"{node.name}: nginx does not answer")

    def log_tail(self, node):
        with open(os.path.join(node.directory, "nginx.log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-500:]

    def stop_web(self, which):
        """Ends the node's nginx and echo server; connections to them are refused from now on."""
        node = self.node(which)
        stop_processes([(child.pid, start_time(child.pid)) for child in self.webs.pop(node.name, [])],
                       self.site.children)
        self.site.reap()

    def web_status(self, which):
        """(connections served since nginx started, open now), without this method's own."""
        node = self.node(which)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            asked.settimeout(5)
            asked.connect(os.path.join(node.directory, "nginx.sock"))
            asked.sendall(b"GET /status HTTP/1.0\r\n\r\n")
            answer = b""
            while part := asked.recv(4096):
                answer += part
        node.status_polls += 1
        words = answer.partition(b"\r\n\r\n")[2].split()
        # "Active connections: 1 server accepts handled requests 5 5 5 Reading: ..."
        return int(words[8]) - node.status_polls, int(words[2]) - 1

    def start_dns(self, names=None, addresses=()):
        """Starts the name server on the router: the service name resolves to these nodes in turn, or to the given
        addresses."""
        self.stop_dns()
        command = ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
                   "--user=root", "--pid-file=", "--bind-interfaces", "--listen-address=203.0.113.1",
                   "--cache-size=0", "--local=/example.test/", "--log-facility=-"]
        for node in self.nodes if not addresses else ():
            if names is None or node.name in names:
                own = [node.service_v4] + ([node.service_v6] if self.ipv6 else [])
                command.append(f"--host-record=www.example.test,{','.join(own)}")
        if addresses:
            command.append(f"--host-record=www.example.test,{','.join(addresses)}")
        self.webs["dns"] = [self.site.start("r", command, os.path.join(self.directory, "dnsmasq.log"))]
        for _ in range(500):
            if self.webs["dns"][0].poll() is not None:
                break
            if ":53 " in self.site.execute("r", ["ss", "-Hlun"]):
                return
            time.sleep(0.01)
        with open(os.path.join(self.directory, "dnsmasq.log"), encoding="utf-8", errors="replace") as log:
            raise LabError("dnsmasq does not answer: " + log.read()[-500:])

    def stop_dns(self):
        stop_processes([(child.pid, start_time(child.pid)) for child in self.webs.pop("dns", [])],
                       self.site.children)
        self.site.reap()
