"""Progress on standard error: a bar with the remaining time on a terminal, otherwise a line every 30 seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from regard.core.wording import pluralize_unit

QUIET = 2.0  # seconds before a bar appears
EVERY = 30.0  # seconds between lines without a terminal


@contextmanager
def progress(
    doing: str, total: int | None, *, unit: str = "lines", hidden: bool = False
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of newly finished units.

    Args:
        doing: the verb, such as "translating".
        total: the number of units; None if unknown.
        unit: the name of the unit, in the plural.
        hidden: whether to show no progress.
    """
    if hidden:
        yield lambda count: None
    elif sys.stderr.isatty():
        with _bar(doing, total, unit) as advance:
            yield advance
    else:
        yield _lines(doing, total, unit)


@contextmanager
def _bar(doing: str, total: int | None, unit: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # Results go to standard output, which rich must not redirect to the console of the bar.
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    task = bars.add_task(doing, total=total)
    began, shown = time.monotonic(), False

    def advance(count: int) -> None:
        nonlocal shown
        bars.advance(task, count)
        if not shown and time.monotonic() - began > QUIET:
            shown = True
            bars.start()

    try:
        yield advance
    finally:
        if shown:
            bars.stop()


def _lines(doing: str, total: int | None, unit: str) -> Callable[[int], None]:
    began = printed = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal printed, done
        done += count
        now = time.monotonic()
        if now - printed < EVERY or not done:
            return
        printed = now
        shown = pluralize_unit(done, unit)
        if total:
            shown = f"{done:,} of {pluralize_unit(total, unit)}, {(total - done) / done * (now - began):,.0f} s left"
        typer.echo(f"{doing}: {shown}", err=True)

    return advance
