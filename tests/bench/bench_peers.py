# SPDX-License-Identifier: GPL-2.0-or-later
"""The web server, and other programs that could stand in dprd's place: a router, nft DNAT, HAProxy, nginx stream."""
import os

PEERS = ("router", "dnat", "haproxy", "stream")

# On port 8081 the kernel deals connections to the workers. On port 80 the workers race for each connection. For
# connections that stay, this decides how many have client and server on the same processor, and so the rate, which
# differs by half.
NGINX_CONF = """\
daemon off;
worker_processes 2;
worker_cpu_affinity auto;
worker_rlimit_nofile 20000;
user nobody nogroup;
pid {directory}/nginx.pid;
events {{
	worker_connections 8192;
	multi_accept on;
}}
http {{
	access_log off;
	keepalive_requests 100000000;
	client_body_temp_path {directory}/body;
	proxy_temp_path {directory}/proxy;
	fastcgi_temp_path {directory}/fastcgi;
	uwsgi_temp_path {directory}/uwsgi;
	scgi_temp_path {directory}/scgi;
	server {{
		listen 80 backlog=4096;
		listen 8081 backlog=4096 reuseport;
		location = /whoami {{
			default_type text/plain;
			return 200 "{name}\\n";
		}}
	}}
}}
"""

STREAM_CONF = """\
load_module /usr/lib/nginx/modules/ngx_stream_module.so;
daemon off;
worker_processes 2;
worker_cpu_affinity auto;
worker_rlimit_nofile 40000;
user nobody nogroup;
pid {directory}/nginx.pid;
events {{
	worker_connections 16384;
	multi_accept on;
}}
stream {{
	proxy_half_close on;
	server {{
		listen 80 backlog=4096;
		proxy_pass {backend}:80;
	}}
	server {{
		listen 8080 backlog=4096;
		proxy_pass {backend}:8080;
	}}
	server {{
		listen 8081 backlog=4096 reuseport;
		proxy_pass {backend}:8081;
	}}
}}
"""

HAPROXY_CONF = """\
global
	nbthread 2
	cpu-map auto:1/1-2 0-1
	maxconn 9000
defaults
	mode tcp
	timeout connect 5s
	timeout client 30s
	timeout server 30s
	backlog 4096
listen web
	bind *:80
	server plain {backend}:80
listen bulk
	bind *:8080
	server plain {backend}:8080
listen dealt
	bind *:8081
	server plain {backend}:8081
"""

DNAT_RULES = """\
add table ip bench
add chain ip bench incoming {{ type nat hook prerouting priority dstnat ; }}
add chain ip bench leaving {{ type nat hook postrouting priority srcnat ; }}
add rule ip bench incoming ip daddr {address} tcp dport {{ 80, 8080, 8081 }} dnat to {backend}
add rule ip bench leaving oifname "eth1" masquerade
"""


def start_web(bench, host):
    """nginx and the sink of bulk transfers on a host."""
    directory = os.path.join(bench.directory, host)
    os.makedirs(directory, exist_ok=True)
    _start_nginx(bench, host, directory, NGINX_CONF.format(directory=directory, name=host))
    bench.site.start(host, [bench.program("tests/bench/bulk"), "serve", "8080"], os.path.join(directory, "bulk.log"))
    bench.wait_for(f"nginx of {host} answers", lambda: bench.answers(bench.address(host)) == {host})


def start(bench):
    """The plain server, and everything that leads to it."""
    start_web(bench, "plain")
    backends = {}
    for number, host in enumerate(PEERS):
        backends[host] = f"10.81.{number}.2"
        bench.link(host, "eth1", "plain", host)
        bench.site.ip(host, [f"addr add 10.81.{number}.1/30 dev eth1"])
        bench.site.ip("plain", [f"addr add {backends[host]}/30 dev {host}"])
    _start_router(bench, backends["router"])
    _start_dnat(bench, backends["dnat"])
    _start_proxies(bench, backends)
    for host in PEERS:
        bench.wait_for(f"plain answers by {host}",
                       lambda host=host: bench.answers(bench.address(host)) == {"plain"})


def _start_router(bench, backend):
    """The router has its own address; it leads to a second address of plain."""
    routed = bench.address("router")
    bench.site.sysctl("router", {"net.ipv4.ip_forward": 1, "net.ipv4.conf.all.send_redirects": 0})
    bench.site.ip("router", ["addr add 192.0.2.1/32 dev eth0", f"addr del {routed}/32 dev eth0",
                             f"route add {routed} via {backend}"])
    bench.site.ip("plain", [f"addr add {routed}/32 dev lo"])
    bench.site.ip("client", [f"route replace {routed} via 192.0.2.1 dev router onlink src {bench.client_address}"])


def _start_dnat(bench, backend):
    bench.site.sysctl("dnat", {"net.ipv4.ip_forward": 1})
    bench.site.execute("dnat", ["nft", "-f", "-"],
                       text_in=DNAT_RULES.format(address=bench.address("dnat"), backend=backend))


def _start_proxies(bench, backends):
    directory = os.path.join(bench.directory, "stream")
    os.makedirs(directory)
    _start_nginx(bench, "stream", directory, STREAM_CONF.format(directory=directory, backend=backends["stream"]))
    directory = os.path.join(bench.directory, "haproxy")
    os.makedirs(directory)
    path = os.path.join(directory, "haproxy.cfg")
    with open(path, "w", encoding="ascii") as file:
        file.write(HAPROXY_CONF.format(backend=backends["haproxy"]))
    bench.site.start("haproxy", ["haproxy", "-db", "-f", path], os.path.join(directory, "haproxy.log"))


def _start_nginx(bench, host, directory, text):
    conf, log = os.path.join(directory, "nginx.conf"), os.path.join(directory, "nginx.log")
    with open(conf, "w", encoding="ascii") as file:
        file.write(text)
    bench.site.start(host, ["nginx", "-e", log, "-c", conf, "-p", directory], log)
