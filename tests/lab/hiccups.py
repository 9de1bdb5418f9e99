# SPDX-License-Identifier: GPL-2.0-or-later
"""The time in which the host did not let a ready process run. Time limits of tests do not count it.

A thread sleeps for 10 ms, again and again, and notes how late it woke. A host with idle processors wakes it at once.
A host that stands still, or is too busy, wakes it late, and holds up the tested programs as well.
"""
import bisect
import threading
import time

SLEEP_S = 0.01
NOTED_S = 0.001  # waking takes a moment on any host
KEPT_S = 1200  # the longest scenario that asks at its end


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
        """The part of a span in which the thread was not let run."""
        with self.lock:
            first = bisect.bisect_left(self.ends, start)
            spans = list(zip(self.ends[first:], self.lengths[first:]))
        return sum(max(0.0, min(end, over) - max(start, over - length)) for over, length in spans)


_watcher = None


def watcher():
    """The watcher of this process; it watches from the first call on."""
    global _watcher  # pylint: disable=global-statement
    if _watcher is None:
        _watcher = Hiccups().start()
    return _watcher


def lost_s(start, end):
    return watcher().lost_s(start, end)


def wait(seconds):
    """Sleeps until the host has let processes run for this long; returns the time then."""
    start = time.monotonic()
    while (rest := seconds - (time.monotonic() - start - lost_s(start, time.monotonic()))) > 0:
        time.sleep(rest)
    return time.monotonic()


class Span:
    """A span from its making to end(), or to the end of its block: took_s, and lost_s of it; end() returns the
    difference."""

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
