# SPDX-License-Identifier: GPL-2.0-or-later
"""How long the host did not let a process run that wanted to: what a time limit of a test leaves out.

A thread sleeps for 10 ms, again and again, and notes how much later it woke. A host that has processors to spare wakes it
at once; one that stands still, or is too busy for its work, does not, and holds up what is being tested as well.
"""
import bisect
import threading
import time

SLEEP_S = 0.01
NOTED_S = 0.001  # waking takes a moment on any host
KEPT_S = 600


class Hiccups:
    """Watches from now on. Spans of time are by time.monotonic()."""

    def __init__(self, sleep=time.sleep, clock=time.monotonic):
        self.sleep, self.clock = sleep, clock
        self.ends, self.lengths = [], []
        self.lock = threading.Lock()

    def start(self):
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def _watch(self):
        while True:
            self.step()

    def step(self):
        """One sleep."""
        due = self.clock() + SLEEP_S
        self.sleep(SLEEP_S)
        now = self.clock()
        if now - due < NOTED_S:
            return
        with self.lock:
            self.ends.append(now)
            self.lengths.append(now - due)
            old = bisect.bisect_left(self.ends, now - KEPT_S)
            del self.ends[:old], self.lengths[:old]

    def lost_s(self, start, end):
        """How much of a span the thread was not let run in."""
        with self.lock:
            first = bisect.bisect_left(self.ends, start)
            spans = list(zip(self.ends[first:], self.lengths[first:]))
        return sum(max(0.0, min(end, over) - max(start, over - length)) for over, length in spans)


_watcher = None


def watcher():
    """The one of this process; it watches from the first call on."""
    global _watcher  # pylint: disable=global-statement
    if _watcher is None:
        _watcher = Hiccups().start()
    return _watcher


def lost_s(start, end):
    return watcher().lost_s(start, end)


def wait(seconds):
    """Sleeps until the host has let processes run for so long; the moment then."""
    start = time.monotonic()
    while (rest := seconds - (time.monotonic() - start - lost_s(start, time.monotonic()))) > 0:
        time.sleep(rest)
    return time.monotonic()


class Span:
    """From its making to end(), or to the end of its block: took_s, and lost_s of it; end() gives the difference."""

    def __init__(self):
        watcher()
        self.start = time.monotonic()
        self.took_s = self.lost_s = 0.0

    def end(self):
        now = time.monotonic()
        self.took_s, self.lost_s = now - self.start, lost_s(self.start, now)
        return self.took_s - self.lost_s

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
