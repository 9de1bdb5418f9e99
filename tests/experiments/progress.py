# SPDX-License-Identifier: GPL-2.0-or-later
"""The progress of runs: a block rewritten each second on a terminal; without one a line from time to time; or one JSON
object per event for another program."""
import json
import os
import sys
import time

QUIET_PERIOD_S = 10
BAR_WIDTH = 32


def clock(seconds):
    """m:ss or h:mm:ss"""
    seconds = max(0, int(round(seconds)))
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


def bar(done, of):
    full = int(BAR_WIDTH * min(1, done / of)) if of else 0
    return "[" + "#" * full + "-" * (BAR_WIDTH - full) + "]"


def beat_lines(beat):
    """The lines about the run itself, from the experiment's figures."""
    phase = "measuring" if beat.get("measured") else "warm-up  "
    lines = [f"  {phase} {bar(beat['second'], beat['of'])} {beat['second']:4.0f}/{beat['of']:.0f} s"]
    if "requests" in beat:
        lines.append(f"  served {beat['requests']}/s   in flight {beat['in_flight']}   "
                     f"delay mean {beat['mean_ms'] / 1000:.2f} s   errors {beat['errors']}/s")
    served = beat.get("served", {})
    nodes = [f"{name} {served[name]}/s, {count} open" if name in served else f"{name} {count} open"
             for name, count in beat.get("open", {}).items()]
    if nodes:
        lines.append("  " + "   ".join(nodes[:6]) + (f"   and {len(nodes) - 6} more" if len(nodes) > 6 else ""))
    return lines


class Progress:
    """begin() before each run, show() during it, end() after it; say() for everything else."""

    def __init__(self, json_lines=False, out=sys.stdout):
        self.json_lines, self.out = json_lines, out
        self.terminal = not json_lines and out.isatty()
        self.height = 0
        self.started = time.monotonic()
        self.head = ""
        self.said_at = 0.0

    def _write(self, text):
        print(text, file=self.out, flush=True)

    def _clear(self):
        if self.height:
            self.out.write(f"\x1b[{self.height}A\x1b[J")
            self.height = 0

    def event(self, kind, **values):
        if self.json_lines:
            self._write(json.dumps({"event": kind, "elapsed_s": round(time.monotonic() - self.started, 1), **values}))

    def say(self, text):
        if self.json_lines:
            self.event("text", text=text)
            return
        self._clear()
        self._write(text)

    def begin(self, number, count, run, left_s):
        elapsed = clock(time.monotonic() - self.started)
        attempt = f", attempt {run['attempt']}" if run["attempt"] > 1 else ""
        self.head = (f"{run['experiment']:10} run {number} of {count}   {run['arm']}, repetition "
                     f"{run['repetition']}{attempt}")
        self.said_at = time.monotonic()
        self.event("begin", number=number, count=count, left_s=round(left_s), **run)
        if not self.json_lines:
            self.say(f"{self.head}   elapsed {elapsed}   left about {clock(left_s)}")

    def show(self, beat):
        self.event("beat", **beat)
        if self.terminal:
            columns = os.get_terminal_size(self.out.fileno()).columns
            self._clear()
            lines = [line[:columns - 1] for line in beat_lines(beat)]
            self._write("\n".join(lines))
            self.height = len(lines)
        elif not self.json_lines and time.monotonic() - self.said_at >= QUIET_PERIOD_S:
            self.said_at = time.monotonic()
            self._write("; ".join(line.strip() for line in beat_lines(beat)))

    def end(self, text, **values):
        self.event("end", text=text, **values)
        if not self.json_lines:
            self.say(f"  {text}")
