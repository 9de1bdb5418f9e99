# SPDX-License-Identifier: GPL-2.0-or-later
"""The content of a trace: "trace info". Pure."""
import time
from collections import Counter

import wc98

QUANTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (1.0, "max"))


def quantiles(values, zeros=0):
    """{p50, ...} by nearest rank, of the values and as many zeros more; None where there are no values."""
    ordered, count = sorted(values), len(values) + zeros
    found = {}
    for share, name in QUANTILES:
        place = max(-(-count * round(share * 100) // 100), 1) - 1 - zeros
        found[name] = (ordered[place] if place >= 0 else 0) if count else None
    return found


def clock(seconds):
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def rates(trace):
    """Requests per second, of all seconds from the first record's to the last one's."""
    span_s = trace.times[-1] - trace.times[0] + 1
    each = Counter(trace.times)
    return {"mean": len(trace) / span_s, **quantiles(each.values(), span_s - len(each))}


def summarize(trace):
    """Everything as one object; names of codes with their counts, the most frequent first."""
    sizes = [size for size in trace.sizes if size != wc98.NO_SIZE]
    flags = Counter(trace.flags)

    def counted(name):
        found = Counter()
        for word, count in flags.items():
            found[name(word)] += count
        return dict(found.most_common())

    count = len(trace)
    return {
        "schema": "trace-info/1",
        "records": count,
        "start": trace.times[0] if count else None,
        "end": trace.times[-1] if count else None,
        "span_s": trace.times[-1] - trace.times[0] + 1 if count else 0,
        "requests_per_second": rates(trace) if count else None,
        "clients": len(set(trace.clients)),
        "objects": len(set(trace.objects)),
        "bytes": sum(sizes),
        "size_bytes": {"mean": sum(sizes) / len(sizes) if sizes else None, **quantiles(sizes)},
        "unknown_sizes": count - len(sizes),
        "methods": counted(wc98.method_of),
        "statuses": counted(wc98.status_of),
        "versions": counted(wc98.version_of),
        "types": counted(wc98.type_of),
        "servers": counted(lambda word: f"{wc98.region_of(word)} {wc98.server_of(word)}"),
        "damage": trace.damage,
    }


def number(value):
    return "-" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def text(summary):
    """The same for people."""
    lines = [("records", number(summary["records"]))]
    if summary["records"]:
        lines += [
            ("from", clock(summary["start"])), ("to", clock(summary["end"])),
            ("span", f"{number(summary['span_s'])} s"),
            ("requests/s", _list(summary["requests_per_second"])),
            ("clients", number(summary["clients"])), ("objects", number(summary["objects"])),
            ("bytes", number(summary["bytes"])),
            ("size, bytes", _list(summary["size_bytes"]) + f"  unknown {number(summary['unknown_sizes'])}"),
        ]
        lines += [(name, _list(summary[name])) for name in ("methods", "statuses", "versions", "types", "servers")]
    lines += [("damage", _list({name.replace("_", " "): count for name, count in summary["damage"].items()
                                if count}) or "none")]
    return "\n".join(f"{name:12} {value}" for name, value in lines) + "\n"


def _list(values):
    return "  ".join(f"{name} {number(value)}" for name, value in values.items())
