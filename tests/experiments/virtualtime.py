# SPDX-License-Identifier: GPL-2.0-or-later
"""An event loop whose clock leaps from timer to timer, and a network within it: for tests that a slow host does not
disturb.

While something can be done the clock stands still; when all wait, it leaps to the first of them. So a second of
waiting costs nothing, and the moment of everything is exact.
"""
import asyncio
import selectors


class LeapingSelector(selectors.DefaultSelector):
    """Never waits: adds each wait to .now_s."""

    def __init__(self):
        super().__init__()
        self.now_s = 1000.0

    def select(self, timeout=None):
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("everything waits, and for nothing")
        if not ready:
            self.now_s += timeout
        return ready


class LeapingLoop(asyncio.SelectorEventLoop):
    """Runs until done, whatever the time between."""

    def __init__(self):
        self.clock = LeapingSelector()
        super().__init__(self.clock)

    def time(self):
        return self.clock.now_s


def run(coroutine):
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        return runner.run(coroutine)


class Pipe:
    """The writing end of one direction; what is written is there at once."""

    def __init__(self, to):
        self.to, self.closed = to, False

    def write(self, data):
        if not self.closed:
            self.to.feed_data(data)

    async def drain(self):
        await asyncio.sleep(0)

    def close(self):
        if not self.closed:
            self.to.feed_eof()
        self.closed = True


class Network:
    """Servers by their address and port: asyncio.start_server and asyncio.open_connection without the kernel."""

    def __init__(self):
        self.servers, self.tasks = {}, []

    def serve(self, address, port, answer):
        """answer: as asyncio.start_server takes it"""
        self.servers[address, port] = answer

    async def open_connection(self, address, port):
        await asyncio.sleep(0)
        if (address, port) not in self.servers:
            raise ConnectionRefusedError
        here, there = asyncio.StreamReader(), asyncio.StreamReader()
        self.tasks.append(asyncio.create_task(self.servers[address, port](there, Pipe(here))))
        return here, Pipe(there)
