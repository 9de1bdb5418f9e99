# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns a trace into a workload: requests with their moments, and the files that they ask for.

Every record of the slice is accounted for: in_slice = replayed + clients_left_out + all of left_out.
"""
import bisect
import email.utils
import functools
import math
import os
import random
from collections import Counter
from dataclasses import dataclass, field

import wc98

# The kinds of requests: the whole file, its first bytes (206), or only whether it changed (304).
FULL, PART, UNCHANGED = "full", "part", "unchanged"
KINDS = {("GET", "200"): FULL, ("GET", "206"): PART, ("GET", "304"): UNCHANGED}
# All files have this time, so that a request "if modified since then" gets a 304 from every server.
FILE_TIME_S = 893_894_400
LAST_MODIFIED = email.utils.formatdate(FILE_TIME_S, usegmt=True)
HEADING = "# trace plan 1"
SESSION_GAP_S = 15.0
HASH_SPAN = 1 << 64


@dataclass(frozen=True)
class Slice:
    """The part of a trace to replay, and how. start: seconds from the first record, or "busiest"; seconds: of
    the replay; compress: seconds of the trace in one of the replay; rate: the limit of requests/s, roughly, by
    leaving out clients (0: all); seed: of the moments within a second of the trace."""
    start: str = "0"
    seconds: float = 60.0
    compress: float = 1.0
    rate: float = 0.0
    cap_bytes: int = 1_000_000
    seed: int = 1

    def check(self):
        for name, low, high in (("seconds", 0.001, 1e7), ("compress", 0.001, 1e6), ("rate", 0, 1e6),
                                ("cap_bytes", 1, 1 << 32)):
            if not low <= getattr(self, name) <= high:
                raise wc98.TraceError(f"{name.replace('_', '-')}: must be from {low} to {high}")
        if self.start != "busiest":
            try:
                good = 0 <= float(self.start) < math.inf
            except ValueError:
                good = False
            if not good:
                raise wc98.TraceError(f"start: {self.start} is neither \"busiest\" nor seconds from the first record")


@dataclass
class Workload:
    """requests: (due_us, client, object, kind, bytes of the answer), sorted; sizes: {object: bytes of its file};
    counts: the fate of the trace's records."""
    seconds: float
    requests: list = field(default_factory=list)
    sizes: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)


def mix(value):
    """64 well-mixed bits of a number (splitmix64's end), the same in every run."""
    value = (value + 0x9e3779b97f4a7c15) % HASH_SPAN
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9 % HASH_SPAN
    value = (value ^ value >> 27) * 0x94d049bb133111eb % HASH_SPAN
    return value ^ value >> 31


def window(trace, choice):
    """(index of the first record, index behind the last, time of the begin) of the slice."""
    first, span_s = trace.times[0], choice.seconds * choice.compress
    if choice.start == "busiest":
        begin = max(sorted(set(trace.times)),
                    key=lambda time_s: bisect.bisect_left(trace.times, time_s + span_s) -
                    bisect.bisect_left(trace.times, time_s))
    else:
        begin = first + float(choice.start)
    low, high = (bisect.bisect_left(trace.times, moment) for moment in (begin, begin + span_s))
    if low == high:
        raise wc98.TraceError(f"no record between {begin - first:.0f} and {begin - first + span_s:.0f} s after the "
                              f"first one; the trace is {trace.times[-1] - first + 1} s long")
    return low, high, begin


def moments(times, rng):
    """A moment for each record: those of one second lie at random places of it, in the trace's order."""
    found, place = [], 0
    while place < len(times):
        end = bisect.bisect_right(times, times[place], place)
        found += [times[place] + where for where in sorted(rng.random() for _ in range(end - place))]
        place = end
    return found


def object_sizes(trace, places, cap_bytes):
    """{object: bytes of its file}: the mean of its whole answers, so that the sum of all stays what it was; without
    any, room for the largest part."""
    whole, parts = {}, {}
    for place in places:
        obj, size, kind = trace.objects[place], trace.sizes[place], kind_of(trace.flags[place])
        known = size != wc98.NO_SIZE
        if kind == FULL and known:
            total, count = whole.get(obj, (0, 0))
            whole[obj] = total + size, count + 1
        else:
            parts[obj] = max(parts.get(obj, 1), size if known and kind == PART else 1)
    sizes = {**parts, **{obj: round(total / count) for obj, (total, count) in whole.items()}}
    return ({obj: min(size, cap_bytes) for obj, size in sizes.items()},
            sum(size > cap_bytes for size in sizes.values()))


@functools.lru_cache(maxsize=1 << 16)
def kind_of(flags):
    return KINDS.get((wc98.method_of(flags), wc98.status_of(flags)))


def reason_of(flags, size):
    """Why a record cannot be replayed; None when it can."""
    kind = kind_of(flags)
    if kind is None:
        method, status = wc98.method_of(flags), wc98.status_of(flags)
        return f"method {method}" if method != "GET" else f"status {status}"
    return "part without a size" if kind == PART and size in (0, wc98.NO_SIZE) else None


def prepare(trace, choice):
    """The Workload of a slice. TraceError when there is nothing to replay."""
    choice.check()
    if not len(trace):
        raise wc98.TraceError("the trace has no record")
    low, high, begin = window(trace, choice)
    left_out, places = Counter(), []
    for place in range(low, high):
        reason = reason_of(trace.flags[place], trace.sizes[place])
        if reason:
            left_out[reason] += 1
        else:
            places.append(place)
    usable = len(places)
    kept = choose_clients(Counter(trace.clients[place] for place in places),
                          choice.rate * choice.seconds if choice.rate else usable)
    places = [place for place in places if trace.clients[place] in kept]
    if not places:
        raise wc98.TraceError(f"none of the {high - low} records in the slice can be replayed: {dict(left_out)}, "
                              f"{usable} of clients that were left out")
    sizes, capped = object_sizes(trace, places, choice.cap_bytes)
    found = Workload(choice.seconds, sizes=sizes)
    when = moments([trace.times[place] for place in places], random.Random(f"moments {choice.seed}"))
    for place, moment in zip(places, when):
        due_us = int((moment - begin) / choice.compress * 1e6)
        kind, size = kind_of(trace.flags[place]), sizes[trace.objects[place]]
        answer = {FULL: size, PART: min(trace.sizes[place], size), UNCHANGED: 0}[kind]
        found.requests.append((due_us, trace.clients[place], trace.objects[place], kind, answer))
    found.requests = [row for row in found.requests if 0 <= row[0] < choice.seconds * 1e6]
    left_out["second cut by the slice"] += len(places) - len(found.requests)
    found.counts = _counts(trace, (low, high), places, found, usable, +left_out, capped)
    return found


def choose_clients(requests, most):
    """Clients with at most this many requests together ({client: its requests}), in an order that is the same in every
    run: whole clients, so that sessions stay whole. One with too many for the rest of the room is passed over."""
    kept, total = set(), 0
    for client in sorted(requests, key=mix):
        if total + requests[client] <= most:
            kept.add(client)
            total += requests[client]
    return kept


def _counts(trace, borders, places, found, usable, left_out, capped):
    low, high = borders
    return {
        "in_trace": len(trace), "in_slice": high - low, "replayed": len(found.requests),
        "clients_left_out": usable - len(places), "left_out": dict(left_out.most_common()),
        "clients": len({row[1] for row in found.requests}), "objects": len(found.sizes), "capped_objects": capped,
        "kinds": dict(Counter(row[3] for row in found.requests)),
        "trace_bytes": sum(trace.sizes[place] for place in places if trace.sizes[place] != wc98.NO_SIZE),
        "replay_bytes": sum(row[4] for row in found.requests), "files_bytes": sum(found.sizes.values()),
        "requests_per_second": len(found.requests) / found.seconds,
        "busiest_second": max(Counter(row[0] // 1_000_000 for row in found.requests).values(), default=0),
    }


def file_name(obj):
    return f"o{obj}"


def make_files(directory, sizes):
    """The files: without blocks on the disk, as only their lengths are checked. Not for a directory that a server
    knows already with other lengths: servers keep files open."""
    os.makedirs(directory, exist_ok=True)
    for obj, size in sizes.items():
        path = os.path.join(directory, file_name(obj))
        with open(path, "wb") as file:
            file.truncate(size)
        os.utime(path, (FILE_TIME_S, FILE_TIME_S))


def write_plan(path, found):
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(f"{HEADING} {found.seconds:g} {len(found.requests)}\n")
        for row in found.requests:
            file.write("%d %d %d %s %d\n" % row)
    os.rename(path + ".new", path)


def read_plan(path):
    """(seconds, requests) from the output of write_plan(); TraceError for other text."""
    try:
        with open(path, encoding="ascii") as file:
            words = file.readline().rpartition(HEADING)[2].split()
            rows = [line.split() for line in file]
        seconds, count = float(words[0]), int(words[1])
        requests = [(int(due), int(client), int(obj), kind, int(size)) for due, client, obj, kind, size in rows]
    except OSError as error:
        raise wc98.TraceError(f"{path}: {error.strerror}") from None
    except (ValueError, IndexError):
        raise wc98.TraceError(f"{path}: not a plan; \"trace prepare\" makes one") from None
    if len(requests) != count or {row[3] for row in requests} - {FULL, PART, UNCHANGED} or requests != sorted(
            requests, key=lambda row: row[0]):
        raise wc98.TraceError(f"{path}: damaged: it must have {count} requests in order; make it again with "
                              "\"trace prepare\"")
    return seconds, requests


def sessions(requests, gap_s=SESSION_GAP_S):
    """[[(due_us, object)]] as httperf knows them: a client's requests without a longer gap between two, and only
    those for whole files, as a session file has no request headers; (sessions, requests without a place)."""
    found, open_by_client, unfit = [], {}, 0
    for due_us, client, obj, kind, _size in requests:
        if kind != FULL:
            unfit += 1
            continue
        mine = open_by_client.get(client)
        if mine is None or due_us - mine[-1][0] > gap_s * 1e6:
            mine = open_by_client[client] = []
            found.append(mine)
        mine.append((due_us, obj))
    return found, unfit


def session_text(found):
    """The file for httperf --wsesslog: the pause behind each request, as httperf counts it from the answer's end."""
    lines = []
    for one in found:
        for (due_us, obj), following in zip(one, one[1:] + [None]):
            pause = f" think={(following[0] - due_us) / 1e6:.6f}" if following else ""
            lines.append(f"/{file_name(obj)}{pause}\n")
        lines.append("\n")
    return "".join(lines)
