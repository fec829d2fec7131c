"""Progress goes to standard error: a bar on a terminal after a while, a line now and then elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from regard.commands import progress


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_every_half_minute_with_the_time_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("translating", 1000) as advance:
        for _ in range(7):
            clock.now += 10
            advance(100)
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == [
        "translating: 300 of 1,000 lines, 70 s left",
        "translating: 600 of 1,000 lines, 40 s left",
    ]


def test_a_first_part_that_takes_long_tells_nothing_yet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """A slow machine may have none done when the first line is due."""
    with progress.progress("translating", 1000) as advance:
        clock.now += 31
        advance(0)
        assert capsys.readouterr().err == ""
        clock.now += 9
        advance(100)
    assert capsys.readouterr().err == "translating: 100 of 1,000 lines, 360 s left\n"


def test_without_a_total_it_counts(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("reading", None, unit="pairs") as advance:
        clock.now += 31
        advance(5)
    assert capsys.readouterr().err == "reading: 5 pairs\n"


@pytest.mark.parametrize(("seconds", "shown"), [(1.0, False), (2.5, True)])
def test_a_bar_appears_only_when_it_takes_long(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float, shown: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress("translating", 10) as advance:
        output = sys.stdout
        clock.now += seconds
        advance(5)
        assert sys.stdout is output  # results are never diverted to the bar
    assert ("translating" in terminal.getvalue()) is shown


def test_hidden_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress("translating", 10, hidden=True) as advance:
        clock.now += 100
        advance(10)
    assert capsys.readouterr().err == ""
