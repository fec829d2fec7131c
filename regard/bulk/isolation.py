"""Outputs of the lines of a block, each distinct line once; a line that raises or kills is cornered by halves.

A chunk that raises is cut in two, and so on until a line stands alone. A chunk that was begun and never ended, as the
journal says, was the end of the process, and is cut in the same way; a line alone is given up after two deaths, since
one may be chance. Such lines are set aside and have a blank output; all others have what they have without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch

from regard.bulk.block_file import SetAside
from regard.bulk.journal import Journal
from regard.bulk.work import Work
from regard.core.wording import pluralize
from regard.errors import DataError, RegardError

CHUNK = 1024  # distinct lines of like length in one call of the work
DEATHS = 2  # of a line alone, until it is given up
MANY = 20  # failed lines of a block, more than half of those tried: then it is no matter of lines

# What breaks an accelerator for the rest of the process is no verdict on the lines that come after.
_BROKEN: tuple[type[Exception], ...] = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


class BlockOutputs(NamedTuple):
    """One output a line, the lines that have none, and how many different lines there were."""

    outputs: list[str]
    aside: list[SetAside]
    distinct: int


def work_on_block(
    raw: Sequence[bytes], work: Work, journal: Journal, *, name: str, first: int,
    report: Callable[[int], None] = lambda done: None,
) -> BlockOutputs:  # fmt: skip
    """The outputs of these lines of the input ``name``, of which ``first`` is the number of the first.

    ``report`` is told how many of them are done. DataError where most lines fail.
    """
    texts, unreadable = _decoded(raw)
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        if text is not None:
            places.setdefault(text, []).append(place)
    lines = sorted(places, key=lambda line: -len(line))
    answers: dict[int, str] = {}
    done, failed = len(unreadable), len(unreadable)
    for start, end in _chunks(len(lines)):
        for found in _isolated(lines, (start, end), work, journal):
            answers |= found
            done += sum(len(places[lines[index]]) for index in found)
            failed += sum(len(places[lines[index]]) for index in found if index in journal.failed)
            report(done)
            _require_few(failed, done, journal, name, first)
    outputs, aside = [""] * len(raw), []
    for index, line in enumerate(lines):
        for place in places[line]:
            if index in journal.failed:
                aside.append(SetAside(first + place, journal.failed[index], line))
            else:
                outputs[place] = work.numbered(answers[index], first + place)
    _require_few(failed, done, journal, name, first)
    aside += [SetAside(first + at, why, raw[at].decode("utf-8", "backslashreplace")) for at, why in unreadable.items()]
    return BlockOutputs(outputs, sorted(aside), len(lines) + len(unreadable))


def _decoded(raw: Sequence[bytes]) -> tuple[list[str | None], dict[int, str]]:
    """The text of each line, and why one has none."""
    texts: list[str | None] = []
    unreadable: dict[int, str] = {}
    for place, line in enumerate(raw):
        try:
            texts.append(line.decode())
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            unreadable[place] = f"not UTF-8: byte {error.start + 1} of the line is 0x{byte:02x}: {error.reason}"
            texts.append(None)
    return texts, unreadable


def _chunks(number: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + CHUNK, number)) for start in range(0, number, CHUNK))


def _isolated(lines: Sequence[str], chunk: tuple[int, int], work: Work, journal: Journal) -> Iterator[dict[int, str]]:
    """The outputs of a chunk by index, part by part; a line that failed has "", and its reason in the journal."""
    start, end = chunk
    alone, deaths = end - start == 1, journal.begun[chunk]
    if chunk in journal.outputs:
        yield dict(zip(range(start, end), journal.outputs[chunk], strict=True))
        return
    if alone and start not in journal.failed and deaths >= DEATHS:
        journal.fail(start, f"the process died {pluralize(deaths, 'time')} while it worked on this line alone")
    if not (alone and start in journal.failed) and (alone or not deaths):
        journal.begin(chunk)
        try:
            outputs = work(lines[start:end])
            _require_lines(outputs, end - start)
        except _BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a line makes the model raise, the job goes on
            if alone:
                journal.fail(start, _reason(error))
        else:
            journal.end(chunk, outputs)
            yield dict(zip(range(start, end), outputs, strict=True))
            return
    if alone:
        yield {start: ""}
        return
    middle = (start + end) // 2
    yield from _isolated(lines, (start, middle), work, journal)
    yield from _isolated(lines, (middle, end), work, journal)


def _require_lines(outputs: Sequence[str], wanted: int) -> None:
    """ValueError unless there are so many outputs, each of which can be written as one line of UTF-8."""
    if len(outputs) != wanted:
        raise ValueError(f"{pluralize(len(outputs), 'output')} for {pluralize(wanted, 'line')}")
    whole = "\n".join(outputs).encode()
    if whole.count(b"\n") != wanted - 1:
        raise ValueError("an output has several lines")


def _reason(error: Exception) -> str:
    if isinstance(error, RegardError):
        return error.what + (f": {error.why}" if error.why else "")
    return f"{type(error).__name__}: {error}"


def _require_few(failed: int, tried: int, journal: Journal, name: str, first: int) -> None:
    """DataError where most of the lines tried so far failed; the journal is then removed: nothing is decided."""
    if failed < MANY or 2 * failed <= tried:
        return
    journal.remove()
    reason = next(iter(journal.failed.values()), "not UTF-8")
    raise DataError(
        f"{failed:,} of {pluralize(tried, 'line')} failed, so that the job stops",
        where=f"{name}:{first}",
        why=f"such as: {reason}",
        help="a few failing lines are set aside; this is something else: the file, the settings or the machine",
    )
