# SPDX-License-Identifier: GPL-2.0-or-later
"""The time that the host withholds from processes, which time limits do not count: exact with a simulated clock."""
import pytest

import hiccups


class Host:
    """A clock, and for how much longer than asked each sleep lasts."""

    def __init__(self, *late_s):
        self.now_s, self.late_s = 100.0, list(late_s)

    def sleep(self, seconds):
        self.now_s += seconds + self.late_s.pop(0)

    def clock(self):
        return self.now_s


def watched(*late_s):
    host = Host(*late_s)
    found = hiccups.Hiccups(host.sleep, host.clock)
    for _ in late_s:
        found.step()
    return found


def test_what_is_late_is_lost_within_its_span_only():
    found = watched(0, 0.5, 0, 0.2)  # late from 100.02 to 100.52, and from 100.54 to 100.74
    assert found.lost_s(100, 101) == pytest.approx(0.7)
    assert found.lost_s(100.02, 100.12) == pytest.approx(0.1)
    assert found.lost_s(100.42, 100.64) == pytest.approx(0.2)
    for span in ((100.52, 100.54), (99, 100.02), (100.74, 200)):
        assert found.lost_s(*span) == pytest.approx(0)


def test_a_host_that_wakes_at_once_takes_nothing_from_a_limit():
    assert watched(*[0.0009] * 500).lost_s(0, 1000) == 0


def test_what_is_long_over_is_forgotten():
    found = watched(0.5, 2 * hiccups.KEPT_S, 0.25)
    assert found.lengths == [pytest.approx(2 * hiccups.KEPT_S), pytest.approx(0.25)]


def test_a_limit_counts_what_the_host_let_run(monkeypatch):
    """A span that takes 1 s of which the host withheld 0.4 s has taken 0.6 s."""
    found, now_s = watched(0.4), [100.0]
    monkeypatch.setattr(hiccups, "_watcher", found)
    monkeypatch.setattr(hiccups.time, "monotonic", lambda: now_s[0])
    with hiccups.Span() as span:
        now_s[0] = 101.0
    assert (span.took_s, span.lost_s) == (1.0, pytest.approx(0.4))
    assert span.end() == pytest.approx(0.6)
