#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers of a fixed capacity with answers of a given size, and clients that ask again as soon as they are answered.

    closedloop.py serve PORT NAMESPACE=NAME...
    closedloop.py load --seed S --clients N --seconds T --warmup T --service-ms T --bytes B
                       --servers A,... --port P --json FILE

A server has one worker and takes connections first come, first served; a connection's only line says how long it
needs, in milliseconds, and how many bytes the answer shall have. So a server's capacity is a number and not a share
of this machine's processor. Client i always asks server i modulo their number, like a client whose resolver has kept
one address. Each has one connection at a time and asks once on each.
"""
import argparse
import asyncio
import json
import os
import random
import sys

import queuework

ANSWER_MOST_BYTES = 10_000_000
TICK_S = 0.02


class SizedServer(queuework.QueueServer):
    """Answers its name, filled up to the requested number of bytes."""

    def work(self, line):
        """(seconds, answer) of a request's line. ValueError when it is none."""
        service_ms, size = line.split()
        size = min(int(size), ANSWER_MOST_BYTES)
        return min(max(float(service_ms), 0.0), 1e6) / 1000, (self.name + b"\n").ljust(size, b".")

    async def serve(self, reader, writer):
        loop = asyncio.get_running_loop()
        try:
            service_s, answer = self.work(await reader.readline())
            await asyncio.sleep(self.end_of(loop.time(), service_s) - loop.time())
            writer.write(answer)
            await writer.drain()
        except (ValueError, OSError):
            pass  # not a request, or the client has gone: the worker goes on
        finally:
            writer.close()


async def serve(port, places):
    for place in places:
        namespace, _, name = place.partition("=")
        await asyncio.start_server(SizedServer(name, 1).serve, sock=queuework.listen_in(namespace, port),
                                   backlog=queuework.BACKLOG)
    print("ready", flush=True)
    await asyncio.Event().wait()


def judge_answer(answer, size):
    """(answering node or None, kind of error or None)"""
    if len(answer) != size:
        return None, "short" if answer else "closed"
    return answer.partition(b"\n")[0].decode("ascii", "replace"), None


async def ask(address, port, request, size, patience_s):
    """(seconds from connect to the end, answering node or None, kind of error or None)"""
    seconds, answer, error = await queuework.exchange(address, port, request, -1, patience_s)
    return seconds, *((None, error) if error else judge_answer(answer, size))


async def client(arguments, address, wait_s, results):
    """One client, for ever; results gets (moment of the end, *what ask() gave)."""
    loop = asyncio.get_running_loop()
    request = f"{arguments.service_ms:.3f} {arguments.bytes}\n".encode()
    await asyncio.sleep(wait_s)
    while True:
        result = await ask(address, arguments.port, request, arguments.bytes, arguments.patience)
        results.append((loop.time(), *result))
        if result[2]:
            await asyncio.sleep(arguments.service_ms / 1000)  # a refusal is quick: do not spin on it


async def watch_lag(found):
    """found[0] becomes how late this process was at most, in seconds, when it wanted to do something."""
    loop = asyncio.get_running_loop()
    while True:
        wanted = loop.time() + TICK_S
        await asyncio.sleep(TICK_S)
        found[0] = max(found[0], loop.time() - wanted)


def summary(results, begin, end, lag_s):
    """The requests that ended in the measured time."""
    measured = [result[1:] for result in results if begin <= result[0] < end]
    return {"response_s": [round(seconds, 6) for seconds, _node, error in measured if not error],
            "nodes": queuework.count(node for _seconds, node, error in measured if not error),
            "errors": queuework.count(error for _seconds, _node, error in measured if error),
            "lag_max_ms": lag_s * 1000}


async def load(arguments):
    """All clients, until the measured time is over; they begin at random moments of the first round."""
    loop = asyncio.get_running_loop()
    rng = random.Random(arguments.seed)
    results, lag = [], [0.0]
    begin = loop.time() + arguments.warmup
    end = begin + arguments.seconds
    round_s = arguments.service_ms / 1000 * arguments.clients / len(arguments.servers)
    tasks = [asyncio.create_task(client(arguments, arguments.servers[i % len(arguments.servers)],
                                        rng.uniform(0, min(round_s, arguments.warmup)), results))
             for i in range(arguments.clients)]
    tasks.append(asyncio.create_task(watch_lag(lag)))
    await asyncio.sleep(end - loop.time())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with open(arguments.json, "w", encoding="ascii") as file:
        json.dump(summary(results, begin, end, lag[0]), file)


def parse_load(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", choices=["load"])
    for name in ("seconds", "warmup", "service-ms"):
        parser.add_argument(f"--{name}", type=float, required=True)
    for name in ("clients", "bytes", "port"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=30)
    parser.add_argument("--servers", type=lambda text: text.split(","), required=True)
    parser.add_argument("--json", required=True)
    return parser.parse_args(words)


def main():
    if sys.version_info < (3, 11):
        sys.exit("closedloop: needs Python 3.11")
    if sys.argv[1:2] == ["serve"] and len(sys.argv) > 3:
        asyncio.run(serve(int(sys.argv[2]), sys.argv[3:]))
        return
    asyncio.run(load(parse_load(sys.argv[1:])))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(130)
