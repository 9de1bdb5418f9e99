# SPDX-License-Identifier: GPL-2.0-or-later
"""The trace tools: the record format, bad files, the synthetic trace, plans, and the experiment with them."""
import gzip
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections import Counter

import pytest

import exp_trace
import results
import stats
import synthetic
import tracestats
import wc98
import workload
from netns import LabError

TOOL = os.path.join(exp_trace.TOOLS, "trace")
OK_FLAGS = wc98.flags_of("GET", "HTTP/1.0", "200", "image", "Paris", 3)


def record(time_s=893971817, client=34600, obj=7, size=24736, method=0, status=0x42, kind=1, server=0x63):
    """As the archive describes it, without the code under test."""
    return struct.pack(">IIIIBBBB", time_s, client, obj, size, method, status, kind, server)


def tool(*words):
    done = subprocess.run(["/usr/bin/python3", TOOL, *map(str, words)], capture_output=True, text=True, check=False,
                          timeout=180)
    return done.returncode, done.stdout, done.stderr


def write(path, *records):
    path.write_bytes(b"".join(records))
    return str(path)


# ---- the format ----

def test_a_record_is_read_as_the_archive_describes_it(tmp_path):
    trace = wc98.read(write(tmp_path / "t", record(), record(client=9719, size=0xffffffff, status=0x8d, kind=10,
                                                             server=0x1f, method=1)))
    assert [list(column) for column in trace.columns()][:4] == [
        [893971817] * 2, [34600, 9719], [7, 7], [24736, wc98.NO_SIZE]]
    names = [(wc98.method_of(word), wc98.version_of(word), wc98.status_of(word), wc98.type_of(word),
              wc98.region_of(word), wc98.server_of(word)) for word in trace.flags]
    assert names == [("GET", "HTTP/1.0", "200", "image", "Paris", 3),
                     ("HEAD", "HTTP/1.1", "304", "directory", "Santa Clara", 31)]
    assert tracestats.clock(trace.times[0]) == "1998-04-30 21:30:17 UTC"


def test_what_is_written_is_what_was_read(tmp_path):
    rng = random.Random(5)
    content = b"".join(record(1000 + i // 3, rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32),
                              rng.randrange(9), rng.randrange(4) << 6 | rng.randrange(38), rng.randrange(13),
                              rng.randrange(4) << 5 | rng.randrange(32)) for i in range(5000))
    trace = wc98.read(write(tmp_path / "t", content))
    assert trace.data() == content
    for name in ("u", "u.gz"):
        wc98.write(str(tmp_path / name), trace)
    assert (tmp_path / "u").read_bytes() == content
    assert gzip.decompress((tmp_path / "u.gz").read_bytes()) == content
    assert wc98.read(str(tmp_path / "u.gz")).data() == content
    word = rng.choice(trace.flags)
    assert wc98.flags_of(wc98.method_of(word), wc98.version_of(word), wc98.status_of(word), wc98.type_of(word),
                         wc98.region_of(word), wc98.server_of(word)) == word


def test_records_across_the_borders_of_pieces(tmp_path, monkeypatch):
    content = b"".join(record(1000 + i, i, 2 * i, 3 * i) for i in range(300))
    for read_bytes in (7, 20, 33, 1000):
        monkeypatch.setattr(wc98, "READ_BYTES", read_bytes)
        assert wc98.read(write(tmp_path / "t", content)).data() == content
        assert wc98.read(write(tmp_path / "t.gz", gzip.compress(content))).data() == content


BAD = {
    "cut": (record() + record()[:7], "1 records of 20 bytes and 7 bytes more", {"trailing_bytes": 7}, 1),
    "backwards": (record(1000) + record(1002) + record(1001) + record(1001),
                  "record 3 by 1 s", {"backwards": 1}, 4),
    "method": (record() + record(method=9), r"record 2 \(of 1 such\).*method unknown 9", {"unknown_codes": 1}, 2),
    "status": (record(status=0x7f), "status unknown 63", {"unknown_codes": 1}, 1),
    "type": (record(kind=13), "type unknown 13", {"unknown_codes": 1}, 1),
    "region": (record(server=0x80), "region unknown 4", {"unknown_codes": 1}, 1),
    "gzip": (gzip.compress(b"".join(record(1000 + i) for i in range(5000)))[:-200], "gzip file is damaged",
             {"unpacking_ended": 1}, None),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_and_counted_when_accepted(tmp_path, name):
    content, message, damage, count = BAD[name]
    path = write(tmp_path / "t", content)
    with pytest.raises(wc98.TraceError) as error:
        wc98.read(path)
    assert re.search(message, str(error.value)) and "accept-damage" in str(error.value)
    trace = wc98.read(path, accept_damage=True)
    assert {key: value for key, value in trace.damage.items() if value and key != "trailing_bytes"} == \
        {key: value for key, value in damage.items() if key != "trailing_bytes"}
    assert trace.damage["trailing_bytes"] == damage.get("trailing_bytes", trace.damage["trailing_bytes"])
    assert list(trace.times) == sorted(trace.times)
    assert len(trace) == count if count else 0 < len(trace) < 5000


def test_no_file_and_an_empty_one(tmp_path):
    with pytest.raises(wc98.TraceError, match="No such file"):
        wc98.read(str(tmp_path / "none"))
    with pytest.raises(wc98.TraceError, match="directory"):
        wc98.read(str(tmp_path))
    trace = wc98.read(write(tmp_path / "empty"))
    assert len(trace) == 0 and "records      0" in tracestats.text(tracestats.summarize(trace))
    with pytest.raises(wc98.TraceError, match="no record"):
        workload.prepare(trace, workload.Slice())


def test_nothing_is_called_for_each_of_a_million_records(tmp_path):
    """So they take seconds: calls are counted, of functions in Python and in C."""
    path = write(tmp_path / "t", *(record(1000 + second) * 1000 for second in range(1000)))
    calls = []
    sys.setprofile(lambda frame, event, argument: event.endswith("call") and calls.append(event))
    try:
        summary = tracestats.summarize(wc98.read(path))
    finally:
        sys.setprofile(None)
    assert summary["records"] == 1_000_000 and len(calls) < 5000


# ---- info ----

def test_info_counts(tmp_path):
    path = write(tmp_path / "t", record(1000, 1, 1, 100), record(1000, 1, 2, 300), record(1000, 2, 1, 0xffffffff),
                 record(1009, 3, 1, 200, status=0x53))
    status, out, err = tool("info", path, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["records"], found["span_s"], found["clients"], found["objects"]) == (4, 10, 3, 2)
    assert found["bytes"] == 600 and found["unknown_sizes"] == 1
    assert found["size_bytes"] == {"mean": 200, "p50": 200, "p90": 300, "p99": 300, "max": 300}
    assert found["requests_per_second"] == {"mean": 0.4, "p50": 0, "p90": 1, "p99": 3, "max": 3}
    assert found["statuses"] == {"200": 3, "404": 1} and found["methods"] == {"GET": 4}
    assert found["servers"] == {"Paris 3": 4}
    assert "requests/s   mean 0.4  p50 0  p90 1  p99 3  max 3" in tool("info", path)[1]


def test_quantiles_with_zeros_agree_with_the_experiments():
    rng = random.Random(3)
    for count in (1, 2, 9, 100, 101):
        for zeros in (0, 1, 50, 1000):
            values = [rng.randrange(1, 1000) for _ in range(count)]
            for share, name in tracestats.QUANTILES:
                assert tracestats.quantiles(values, zeros)[name] == stats.quantile(values + [0] * zeros, share)


@pytest.mark.parametrize("words, status", [((), 2), (("info",), 2), (("make", "x", "--rate", "much"), 2),
                                           (("make", "/nowhere/t", "--span-s", "9", "--rate", "1"), 1),
                                           (("make", "x", "--rate", "0"), 1), (("info", "/nowhere"), 1),
                                           (("replay", "/nowhere", "--servers", "127.0.0.1"), 1),
                                           (("replay", "p", "--servers", "www"), 2)])
def test_wrong_usage_and_failures_have_their_status(words, status):
    done = tool(*words)
    assert done[0] == status and done[2] and "Traceback" not in done[2]


# ---- make ----

PLAN = synthetic.Plan(span_s=2000, rate=20, objects=500, clients=300, seed=3)


def test_the_synthetic_trace_depends_on_its_seeds_alone(tmp_path):
    once = synthetic.make(PLAN).data()
    words = ["--span-s", 2000, "--rate", 20, "--objects", 500, "--clients", 300, "--seed", 3]
    assert tool("make", tmp_path / "t.gz", *words)[0] == 0
    assert wc98.read(str(tmp_path / "t.gz")).data() == once
    other = synthetic.make(synthetic.Plan(**{**PLAN.__dict__, "seed": 4}))
    assert other.data() != once
    sizes = [{obj: size for obj, size, word in zip(trace.objects, trace.sizes, trace.flags) if word >> 16 & 63 == 2 and
              not word >> 24} for trace in (other, synthetic.make(PLAN))]
    common = set(sizes[0]) & set(sizes[1])
    assert len(common) > 200 and all(sizes[0][obj] == sizes[1][obj] for obj in common)


def test_the_synthetic_trace_has_the_laws_it_says():
    plan = synthetic.Plan(span_s=20000, rate=10, objects=1000, clients=2000, burst=4.0)
    trace = synthetic.make(plan)
    assert len(trace) == pytest.approx(200_000, rel=0.01)
    assert list(trace.times) == sorted(trace.times) and all(map(wc98.is_known, set(trace.flags)))
    assert 0 <= trace.times[0] - synthetic.START_S and trace.times[-1] - synthetic.START_S < plan.span_s
    asked = sorted(Counter(trace.objects).values(), reverse=True)
    assert asked[0] / asked[9] == pytest.approx(10, rel=0.2) and asked[1] / asked[99] == pytest.approx(50, rel=0.3)
    tenths = Counter((moment - synthetic.START_S) * 20 // plan.span_s for moment in trace.times)
    assert tenths[12] > 2 * tenths[10] and tenths[19] < tenths[12] / 3
    by_client = Counter(trace.clients)
    assert max(by_client.values()) > 0.05 * len(trace) and len(by_client) > 1500
    sizes = sorted(size for size, word in zip(trace.sizes, trace.flags) if wc98.status_of(word) == "200" and
                   wc98.method_of(word) == "GET")
    assert sizes[len(sizes) // 2] < 5000 < sum(sizes) / len(sizes) and sizes[-1] > 200_000


def test_without_a_burst_there_is_none():
    flat = synthetic.Plan(span_s=1000, rate=1, burst=1)
    assert synthetic.shape(flat, 0.62) == pytest.approx(synthetic.shape(flat, 0.38), rel=1e-9)
    assert synthetic.shape(synthetic.Plan(burst=3), 0.64) > 1.7 * synthetic.shape(flat, 0.64)


# ---- prepare ----

def small_trace(*rows):
    """(second, client, object, size[, status[, method]])"""
    trace = wc98.Trace()
    for time_s, client, obj, size, *more in rows:
        status, method = (more + ["200", "GET"][len(more):])[:2]
        trace.append(5000 + time_s, client, obj, size, wc98.flags_of(method, "HTTP/1.0", status, "image", "Plano", 1))
    return trace


def test_every_record_of_the_slice_is_accounted_for():
    for choice in (workload.Slice(seconds=30, compress=20, start="400"),
                   workload.Slice(seconds=50, compress=20, rate=100),
                   workload.Slice(start="busiest", seconds=3, compress=7, rate=50)):
        found = workload.prepare(synthetic.make(PLAN), choice)
        counts = found.counts
        assert counts["in_slice"] == counts["replayed"] + counts["clients_left_out"] + sum(counts["left_out"].values())
        assert counts["replayed"] == len(found.requests) == sum(counts["kinds"].values()) > 100
        assert all(0 <= row[0] < choice.seconds * 1e6 for row in found.requests)
        assert found.requests == sorted(found.requests, key=lambda row: row[0])
        assert {row[2] for row in found.requests} <= set(found.sizes)
        if choice.rate:
            assert counts["clients_left_out"] and counts["requests_per_second"] == pytest.approx(choice.rate, rel=0.1)


def test_times_and_order_are_kept():
    trace = synthetic.make(PLAN)
    found = workload.prepare(trace, workload.Slice(start="100", seconds=50, compress=10))
    usable = [(moment, client, obj) for moment, client, obj, size, word in zip(*trace.columns())
              if workload.reason_of(word, size) is None and 100 <= moment - trace.times[0] < 600]
    assert [(client, obj) for _, client, obj, _, _ in found.requests] == [row[1:] for row in usable]
    for (due_us, *_), (moment, *_) in zip(found.requests, usable):
        assert 0 <= due_us / 1e5 - (moment - trace.times[0] - 100) < 1.00001
    with pytest.raises(wc98.TraceError, match="no record between 5000 and 5060 s"):
        workload.prepare(trace, workload.Slice(start="5000"))


def test_kinds_sizes_and_what_is_left_out():
    found = workload.prepare(small_trace(
        (0, 1, 7, 100), (0, 1, 7, 301), (1, 1, 7, 50, "206"), (1, 1, 7, wc98.NO_SIZE, "304"), (1, 1, 8, 70, "206"),
        (2, 1, 9, wc98.NO_SIZE, "304"), (2, 1, 10, 9999), (2, 1, 11, 0), (3, 1, 7, 5, "404"),
        (3, 1, 7, 5, "200", "POST"), (3, 1, 7, wc98.NO_SIZE, "206"), (3, 1, 12, 600, "206"), (3, 1, 7, 900, "206")),
        workload.Slice(cap_bytes=500))
    assert found.sizes == {7: 200, 8: 70, 9: 1, 10: 500, 11: 0, 12: 500}
    assert Counter((obj, kind, size) for _, _, obj, kind, size in found.requests) == Counter([
        (7, "full", 200), (7, "full", 200), (7, "part", 50), (7, "part", 200), (7, "unchanged", 0), (8, "part", 70),
        (9, "unchanged", 0), (10, "full", 500), (11, "full", 0), (12, "part", 500)])
    counts = found.counts
    assert counts["left_out"] == {"status 404": 1, "method POST": 1, "part without a size": 1}
    assert counts["capped_objects"] == 2 and counts["in_slice"] == 13 and counts["replayed"] == 10
    assert counts["replay_bytes"] == 200 + 200 + 50 + 200 + 70 + 500 + 0 + 500


def test_the_busiest_window():
    trace = small_trace(*((t, 1, 1, 9) for t in [0, 1, 2, 3, 50, 51, 51, 52, 52, 52, 53, 53, 90]))
    assert workload.window(trace, workload.Slice(start="busiest", seconds=3, compress=1)) == (5, 12, 5051)


def test_clients_are_taken_whole_and_always_the_same():
    requests = {client: 10 for client in range(1000)}
    kept = workload.choose_clients(requests, 3000)
    assert len(kept) == 300 and kept == workload.choose_clients(requests, 3000)
    assert kept < workload.choose_clients(requests, 5000)
    assert 7 not in workload.choose_clients({**requests, 7: 2500}, 2000)


@pytest.mark.parametrize("change", [{"start": "x"}, {"start": "-1"}, {"start": "nan"}, {"seconds": 0.0},
                                    {"compress": -2.0}, {"rate": -1.0}, {"cap_bytes": 0}])
def test_a_slice_that_makes_no_sense(change):
    with pytest.raises(wc98.TraceError, match=next(iter(change)).replace("_", "-")):
        workload.prepare(small_trace((0, 1, 1, 1)), workload.Slice(**change))


def test_a_plan_is_read_as_it_was_written(tmp_path):
    found = workload.prepare(synthetic.make(PLAN), workload.Slice(seconds=20))
    path = tmp_path / "plan"
    workload.write_plan(str(path), found)
    assert workload.read_plan(str(path)) == (20, found.requests)
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    for bad in ("", "x\n", text.replace("full", "fool", 1), "".join(lines[:-1]),
                "".join([lines[0], *reversed(lines[1:])]), text[:-3] + " 1 1\n"):
        path.write_text(bad)
        with pytest.raises(wc98.TraceError, match="trace prepare"):
            workload.read_plan(str(path))


def test_sessions_of_httperf():
    requests = [(0, 1, 5, "full", 9), (500_000, 2, 6, "full", 9), (1_250_000, 1, 7, "full", 9),
                (1_300_000, 1, 7, "part", 3), (20_000_000, 1, 8, "full", 9)]
    found, unfit = workload.sessions(requests)
    assert unfit == 1 and [[obj for _, obj in one] for one in found] == [[5, 7], [6], [8]]
    assert workload.session_text(found) == "/o5 think=1.250000\n/o7\n\n/o6\n\n/o8\n\n"


# ---- the experiment ----

def test_the_experiment_replays_the_same_in_all_arms_and_another_trace_in_each_repetition():
    p = exp_trace.EXPERIMENT.quick
    first = exp_trace.make_workload(p, 1)
    assert first.requests == exp_trace.make_workload(p, 1).requests
    assert [row[2] for row in first.requests] != [row[2] for row in exp_trace.make_workload(p, 2).requests]
    assert first.counts["requests_per_second"] == pytest.approx(p["rate"], rel=0.05)
    p = exp_trace.EXPERIMENT.long
    planned = results.per_second([row[0] / 1e6 for row in exp_trace.make_workload(p, 1).requests], p["seconds"])
    assert max(planned) > 2 * p["rate"] and min(planned) < p["rate"] / 2


def test_the_experiment_takes_a_file_and_says_what_is_wrong_with_it(tmp_path):
    wc98.write(str(tmp_path / "t.gz"), synthetic.make(PLAN))
    p = {**exp_trace.EXPERIMENT.quick, "trace": str(tmp_path / "t.gz"), "start": "busiest", "compress": 1.0}
    found = exp_trace.make_workload(p, 1)
    assert len(found.requests) > 50 and "busiest" in exp_trace.EXPERIMENT.caption(p)
    with pytest.raises(LabError, match="No such file"):
        exp_trace.make_workload({**p, "trace": str(tmp_path / "none")}, 1)
    (tmp_path / "bad").write_bytes(b"x" * 19)
    with pytest.raises(LabError, match="accept-damage"):
        exp_trace.make_workload({**p, "trace": str(tmp_path / "bad")}, 1)


def test_figures_show_one_repetition_in_all_arms():
    def run(repetition, rate):
        return {"key": {"repetition": repetition}, "measures": {"requests_per_second": rate}}

    runs = {"none": [run(1, 10), run(2, 20), run(3, 30)], "li": [run(2, 5), run(3, 6)]}
    assert {arm: record["key"]["repetition"] for arm, record in exp_trace.same_repetition(runs).items()} == {
        "none": 2, "li": 2}
    assert exp_trace.same_repetition({"none": []}) == {} == exp_trace.same_repetition({})
