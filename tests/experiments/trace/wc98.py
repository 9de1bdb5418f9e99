# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads and writes traces in the record format of the WorldCup98 logs (Internet Traffic Archive).

    byte   0         4         8         12        16      17      18    19
           time      client    object    size      method  status  type  server

Big-endian, 20 bytes a record, sorted by time (seconds since 1970, GMT). size is of the answer; NO_SIZE where the
server's log had "-". status: 2 bits HTTP version, 6 bits number of the status code. server: 3 bits region, 5 bits
number. The files are packed with gzip. The numbers' meanings are facts of the archive's own description and tools.
"""
import gzip
import operator
import os
import sys
import zlib
from array import array

RECORD_BYTES = 20
COLUMNS = 5
READ_BYTES = RECORD_BYTES << 18
GZIP_MAGIC = b"\x1f\x8b"
NO_SIZE = 0xffffffff

METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "other")
VERSIONS = ("HTTP/0.9", "HTTP/1.0", "HTTP/1.1", "HTTP/x.x")
STATUSES = ("100", "101", "200", "201", "202", "203", "204", "205", "206", "300", "301", "302", "303", "304", "305",
            "400", "401", "402", "403", "404", "405", "406", "407", "408", "409", "410", "411", "412", "413", "414",
            "415", "500", "501", "502", "503", "504", "505", "other")
TYPES = ("HTML", "image", "audio", "video", "Java", "formatted", "dynamic", "text", "compressed", "program",
         "directory", "ICL", "other")
REGIONS = ("Santa Clara", "Plano", "Herndon", "Paris")


class TraceError(Exception):
    """A trace that cannot be used as it is; the text gives the reason and the remedy."""


def flags_of(method, version, status, kind, region, server):
    """The last four bytes of a record as one number, from names and numbers."""
    return (METHODS.index(method) << 24 | (VERSIONS.index(version) << 6 | STATUSES.index(status)) << 16 |
            TYPES.index(kind) << 8 | REGIONS.index(region) << 5 | server)


def name_of(names, code):
    return names[code] if code < len(names) else f"unknown {code}"


def method_of(flags):
    return name_of(METHODS, flags >> 24)


def version_of(flags):
    return VERSIONS[flags >> 22 & 3]


def status_of(flags):
    return name_of(STATUSES, flags >> 16 & 0x3f)


def type_of(flags):
    return name_of(TYPES, flags >> 8 & 0xff)


def region_of(flags):
    return name_of(REGIONS, flags >> 5 & 7)


def server_of(flags):
    return flags & 0x1f


def is_known(flags):
    """True when every code of these flags has a meaning."""
    return (flags >> 24 < len(METHODS) and (flags >> 16 & 0x3f) < len(STATUSES) and
            (flags >> 8 & 0xff) < len(TYPES) and (flags >> 5 & 7) < len(REGIONS))


class Trace:
    """Five columns of 32 bits, and the faults of the file, counted in damage."""

    def __init__(self):
        self.times, self.clients, self.objects, self.sizes, self.flags = (array("I") for _ in range(COLUMNS))
        self.damage = {"trailing_bytes": 0, "backwards": 0, "unknown_codes": 0, "unpacking_ended": 0}

    def __len__(self):
        return len(self.times)

    def append(self, time_s, client, obj, size, flags):
        for column, value in zip(self.columns(), (time_s, client, obj, size, flags)):
            column.append(value)

    def columns(self):
        return self.times, self.clients, self.objects, self.sizes, self.flags

    def extend(self, data):
        """Takes whole records as they are in a file."""
        words = array("I", data)
        if sys.byteorder == "little":
            words.byteswap()
        for place, column in enumerate(self.columns()):
            column.extend(words[place::COLUMNS])

    def sort(self):
        """By time; records of one second keep their order."""
        order = sorted(range(len(self)), key=self.times.__getitem__)
        self.times, self.clients, self.objects, self.sizes, self.flags = (
            array("I", map(column.__getitem__, order)) for column in self.columns())

    def data(self):
        """The records as they are in a file."""
        words = array("I", bytes(len(self) * RECORD_BYTES))
        for place, column in enumerate(self.columns()):
            words[place::COLUMNS] = column
        if sys.byteorder == "little":
            words.byteswap()
        return words.tobytes()


def read(path, accept_damage=False):
    """The trace in a file, packed with gzip or not. A fault is a TraceError; with accept_damage
    bytes behind the last whole record are left out, records are put in order of time, unknown codes kept: all
    counted in damage."""
    trace, rest = Trace(), b""
    try:
        with open(path, "rb") as plain:
            packed = plain.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            plain.seek(0)
            source = gzip.GzipFile(fileobj=plain) if packed else plain
            for piece in _pieces(source, path, accept_damage, trace.damage):
                piece = rest + piece
                whole = len(piece) - len(piece) % RECORD_BYTES
                trace.extend(piece[:whole])
                rest = piece[whole:]
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    trace.damage["trailing_bytes"] = len(rest)
    _check(trace, path, accept_damage)
    return trace


def _pieces(source, path, accept_damage, damage):
    """The content in large pieces, up to where a damaged gzip file can be unpacked."""
    while True:
        try:
            piece = source.read1(READ_BYTES) if isinstance(source, gzip.GzipFile) else source.read(READ_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not accept_damage:
                raise TraceError(f"{path}: the gzip file is damaged or cut off ({error}); fetch it again, or use "
                                 "--accept-damage to take what can be unpacked") from None
            damage["unpacking_ended"] = 1
            return
        if not piece:
            return
        yield piece


def _check(trace, path, accept_damage):
    damage = trace.damage
    hint = "; --accept-damage goes on"
    if damage["trailing_bytes"] and not accept_damage:
        raise TraceError(f"{path}: {len(trace)} records of {RECORD_BYTES} bytes and {damage['trailing_bytes']} bytes "
                         f"more: cut off, or no WorldCup98 trace{hint} without those bytes")
    unknown = {flags for flags in set(trace.flags) if not is_known(flags)}
    if unknown:
        damage["unknown_codes"] = sum(map(unknown.__contains__, trace.flags))
        if not accept_damage:
            first = next(place for place, flags in enumerate(trace.flags) if flags in unknown)
            flags = trace.flags[first]
            raise TraceError(f"{path}: record {first + 1} (of {damage['unknown_codes']} such) has a code without a "
                             f"meaning (method {method_of(flags)}, status {status_of(flags)}, type {type_of(flags)}, "
                             f"region {region_of(flags)}): no WorldCup98 trace, or damaged{hint}")
    later = trace.times[1:]
    damage["backwards"] = sum(map(operator.gt, trace.times, later))
    if damage["backwards"]:
        if not accept_damage:
            first = next(place for place, (a, b) in enumerate(zip(trace.times, later)) if a > b)
            raise TraceError(f"{path}: time runs backwards {damage['backwards']} times, first at record {first + 2} "
                             f"by {trace.times[first] - later[first]} s{hint} with the records sorted")
        trace.sort()


def write(path, trace):
    """All of it or nothing; packed when the name ends in .gz, the same bytes each time."""
    data = trace.data()
    if path.endswith(".gz"):
        data = gzip.compress(data, 6, mtime=0)
    try:
        with open(path + ".new", "wb") as file:
            file.write(data)
        os.rename(path + ".new", path)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
