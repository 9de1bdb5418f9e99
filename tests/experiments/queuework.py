#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers that are queues, and clients that do not wait for each other: for questions where a web server's own costs
would only blur the effect of a policy.

    queuework.py serve PORT WORKERS NAMESPACE=NAME...
    queuework.py load --seed S --rate R --seconds T --warmup T --service-ms MEAN
                      --servers A*SHARE,... --port P --json FILE

A server takes connections first come, first served, with WORKERS at a time; a connection's only line has its work in
milliseconds, so that each request is the same work under every policy. It answers its name. One process serves all
namespaces: a connection belongs to the namespace of its listener, and the kernel counts it there. Arrivals are
Poisson, service times exponential, each from a stream of its own.
"""
import argparse
import asyncio
import ctypes
import heapq
import json
import os
import random
import socket
import sys

BACKLOG = 4096
LINE_BYTES = 64


class QueueServer:
    """WORKERS workers; a connection waits for the first of them that is free."""

    def __init__(self, name, workers):
        self.name = name.encode()
        self.free_at = [0.0] * workers

    def end_of(self, now, service_s):
        """When a connection that comes now will be done."""
        end = max(now, heapq.heappop(self.free_at)) + service_s
        heapq.heappush(self.free_at, end)
        return end

    async def serve(self, reader, writer):
        loop = asyncio.get_running_loop()
        try:
            line = await reader.readline()
            service_s = min(max(float(line), 0.0), 1e6) / 1000
            await asyncio.sleep(self.end_of(loop.time(), service_s) - loop.time())
            writer.write(self.name + b"\n")
            await writer.drain()
        except (ValueError, OSError):
            pass  # not a request, or the client has gone: the worker goes on
        finally:
            writer.close()


def listen_in(namespace, port):
    """A listening socket that belongs to a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as own, open(f"/run/netns/{namespace}", "rb") as other:
        if libc.setns(other.fileno(), 0):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")
        try:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(BACKLOG)
            return listener
        finally:
            if libc.setns(own.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns back")


async def serve(port, workers, places):
    for place in places:
        namespace, _, name = place.partition("=")
        server = QueueServer(name, workers)
        await asyncio.start_server(server.serve, sock=listen_in(namespace, port), backlog=BACKLOG)
    print("ready", flush=True)
    await asyncio.Event().wait()


def schedule(seed, rate, seconds, service_ms, servers):
    """[(moment, server, service ms)]: everything that clients do, fixed in advance. servers: [(address, share)]."""
    moments, work, choice = (random.Random(f"{seed}/{kind}") for kind in ("moments", "work", "choice"))
    addresses, shares = zip(*servers)
    planned, at = [], 0.0
    while True:
        at += moments.expovariate(rate)
        if at >= seconds:
            return planned
        planned.append((at, choice.choices(addresses, shares)[0], work.expovariate(1 / service_ms)))


async def exchange(address, port, request, most_bytes, patience_s):
    """One request on a connection of its own, and up to most_bytes of the answer (-1: all of it):
    (seconds from connect to the end, answer, kind of error or None)"""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                writer.write(request)
                answer = await reader.read(most_bytes)
            finally:
                writer.close()
        return loop.time() - begin, answer, None
    except TimeoutError:
        return loop.time() - begin, b"", "timeout"
    except OSError as error:
        return loop.time() - begin, b"", type(error).__name__


async def ask(address, port, service_ms, patience_s):
    """(seconds from connect to the end, answering node or None, kind of error or None)"""
    request = f"{service_ms:.3f}\n".encode()
    seconds, answer, error = await exchange(address, port, request, LINE_BYTES, patience_s)
    return seconds, answer.decode().strip() or None, error or (None if answer else "closed")


async def load(arguments):
    """The schedule, on time; what began in the measured time counts, and is waited for."""
    loop = asyncio.get_running_loop()
    planned = schedule(arguments.seed, arguments.rate, arguments.warmup + arguments.seconds, arguments.service_ms,
                       arguments.servers)
    begin, lag_most, tasks = loop.time(), 0.0, []
    for at, address, service_ms in planned:
        await asyncio.sleep(max(0, begin + at - loop.time()))
        lag_most = max(lag_most, loop.time() - begin - at)
        task = asyncio.create_task(ask(address, arguments.port, service_ms, arguments.patience))
        tasks.append((at >= arguments.warmup, task))
    await asyncio.gather(*(task for _, task in tasks))
    results = [task.result() for measured, task in tasks if measured]
    with open(arguments.json, "w", encoding="ascii") as file:
        json.dump({"response_s": [round(result[0], 6) for result in results if not result[2]],
                   "nodes": count(result[1] for result in results if not result[2]),
                   "errors": count(result[2] for result in results if result[2]),
                   "offered": len(results), "lag_max_ms": lag_most * 1000}, file)


def count(values):
    found = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return found


def parse_servers(text):
    """[(address, share)] of "a*4,b"."""
    found = []
    for word in text.split(","):
        address, star, share = word.partition("*")
        found.append((address, float(share) if star else 1.0))
    return found


def main():
    if sys.version_info < (3, 11):
        sys.exit("queuework: needs Python 3.11")
    if sys.argv[1:2] == ["serve"] and len(sys.argv) > 4:
        asyncio.run(serve(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", choices=["load"])
    for name in ("rate", "seconds", "warmup", "service-ms"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=120)
    parser.add_argument("--servers", type=parse_servers, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--json", required=True)
    asyncio.run(load(parser.parse_args()))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(130)
