#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A web server that takes its time until it fails, and a client with an open loop: quickserver.py serve|ask ...

serve NAME SECONDS PORT...        answers each connection with NAME after SECONDS; once SIGUSR1 came, at once with "error"
ask PORT PER_S SECONDS ADDRESS... PER_S connections per second, to the addresses in turn; prints a line "answers errors
                                  failures" for each family of addresses
"""
import asyncio
import signal
import sys
import time


async def serve(name, seconds, *ports):
    fails = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, fails.set)

    async def answer(_reader, writer):
        text = "error" if fails.is_set() else name
        try:
            if not fails.is_set():
                await asyncio.sleep(float(seconds))
            writer.write(text.encode() + b"\n")
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        except OSError:
            pass  # a health check, or a client that is gone

    for port in ports:
        await asyncio.start_server(answer, None, int(port), backlog=1024)
    await asyncio.Event().wait()


async def ask_once(address, port):
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), 10)
        text = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return text.decode().strip()
    except (OSError, asyncio.TimeoutError):
        return ""


async def ask(port, per_s, seconds, *addresses):
    begun, tasks = time.monotonic(), {}
    for number in range(int(float(per_s) * float(seconds))):
        await asyncio.sleep(max(0, begun + number / float(per_s) - time.monotonic()))
        address = addresses[number % len(addresses)]
        tasks.setdefault(":" in address, []).append(asyncio.create_task(ask_once(address, int(port))))
    for of_family in tasks.values():
        answers = await asyncio.gather(*of_family)
        print(len(answers), answers.count("error"), answers.count(""), flush=True)


asyncio.run({"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:]))
