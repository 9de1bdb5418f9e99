# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines of progress that the demonstration shows."""
from measure import Progress


def beat(second, **more):
    return {"second": second, "completed": 0, "mean_ms": 0.0, "in_flight": 57, "errors": 2, **more}


def test_a_second_of_load():
    line = Progress.line("li", beat(7, completed=812, mean_ms=31.2), {"n1": (100, 9)}, {"n1": (380, 12), "n4": None})
    assert line.split() == ["li", "7", "s", "n1", "280/s", "12", "open", "n4", "gone", "812", "req/s", "31", "ms", "2", "errors"]


def test_the_last_seconds_say_what_they_wait_for():
    line = Progress.line("node killed", beat(21, waits_s=12), {"n1": (100, 9)}, {"n1": (100, 0), "n4": None})
    assert "req/s" not in line
    assert line.endswith("no new requests; 57 still wait, up to 12 s (n4 is gone)")
    assert len(line) < 80  # of a terminal
