"""Outputs of the lines of a block, each distinct line once; a failing line is isolated by bisection.

A chunk that raises is halved until a single line is left. A chunk that the journal has as begun and not ended killed
its process, and is halved in the same way. A single line is given up after two deaths, because one may be chance. Such
lines are quarantined and have a blank output; the outputs of all other lines do not change.
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

CHUNK = 1024  # distinct lines of similar length in one call of the work
DEATHS = 2  # of a single line, until it is given up
MANY = 20  # failed lines of a block; if they are also more than half of those tried, the job stops

# These errors break the accelerator for the rest of the process, so later lines must not be blamed.
_BROKEN: tuple[type[Exception], ...] = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()


class BlockOutputs(NamedTuple):
    """One output for each line, the quarantined lines, and the number of distinct lines."""

    outputs: list[str]
    aside: list[SetAside]
    distinct: int


def work_on_block(
    raw: Sequence[bytes], work: Work, journal: Journal, *, name: str, first: int,
    report: Callable[[int], None] = lambda done: None,
) -> BlockOutputs:  # fmt: skip
    """Compute the outputs of a block.

    Args:
        raw: lines of the block without their ends.
        work: computes outputs.
        journal: of the block, locked by this process.
        name: of the input, for messages.
        first: number of the first line in the input.
        report: called with the number of finished lines.

    Raises:
        DataError: most lines fail.
    """
    texts, unreadable = _decoded(raw)
    numbers: dict[str, list[int]] = {}  # of the lines with each text
    for number, text in enumerate(texts):
        if text is not None:
            numbers.setdefault(text, []).append(number)
    lines = sorted(numbers, key=lambda line: -len(line))
    answers: dict[int, str] = {}
    done, failed = len(unreadable), len(unreadable)
    for start, end in _chunks(len(lines)):
        for outputs_by_index in _isolated(lines, (start, end), work, journal):
            answers |= outputs_by_index
            done += sum(len(numbers[lines[index]]) for index in outputs_by_index)
            failed += sum(len(numbers[lines[index]]) for index in outputs_by_index if index in journal.failed)
            report(done)
            _require_few(failed, done, journal, name, first)
    outputs, aside = [""] * len(raw), []
    for index, line in enumerate(lines):
        for number in numbers[line]:
            if index in journal.failed:
                aside.append(SetAside(first + number, journal.failed[index], line))
            else:
                outputs[number] = work.numbered(answers[index], first + number)
    _require_few(failed, done, journal, name, first)
    aside += [
        SetAside(first + number, why, raw[number].decode("utf-8", "backslashreplace"))
        for number, why in unreadable.items()
    ]
    return BlockOutputs(outputs, sorted(aside), len(lines) + len(unreadable))


def _decoded(raw: Sequence[bytes]) -> tuple[list[str | None], dict[int, str]]:
    """Return the text of each line, and the reason for each line that is not UTF-8."""
    texts: list[str | None] = []
    unreadable: dict[int, str] = {}
    for number, line in enumerate(raw):
        try:
            texts.append(line.decode())
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            unreadable[number] = f"not UTF-8: byte {error.start + 1} of the line is 0x{byte:02x}: {error.reason}"
            texts.append(None)
    return texts, unreadable


def _chunks(number: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + CHUNK, number)) for start in range(0, number, CHUNK))


def _isolated(lines: Sequence[str], chunk: tuple[int, int], work: Work, journal: Journal) -> Iterator[dict[int, str]]:
    """Yield the outputs of a chunk by index, in parts; a failed line has "", and its reason is in the journal."""
    start, end = chunk
    alone, deaths = end - start == 1, journal.begun[chunk]
    if chunk in journal.outputs:
        yield dict(zip(range(start, end), journal.outputs[chunk], strict=True))
        return
    if alone and start not in journal.failed and deaths >= DEATHS:
        journal.fail(start, f"the process died {pluralize(deaths, 'time')} while it processed this line alone")
    if not (alone and start in journal.failed) and (alone or not deaths):
        journal.begin(chunk)
        try:
            outputs = work(lines[start:end])
            _require_lines(outputs, end - start)
        except _BROKEN:
            raise
        except Exception as error:  # noqa: BLE001 - any exception of a line must not stop the job
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


def _require_lines(outputs: Sequence[str], count: int) -> None:
    """Raise ValueError unless there are ``count`` outputs, each writable as one line of UTF-8."""
    if len(outputs) != count:
        raise ValueError(f"{pluralize(len(outputs), 'output')} for {pluralize(count, 'line')}")
    whole = "\n".join(outputs).encode()
    if whole.count(b"\n") != count - 1:
        raise ValueError("an output has several lines")


def _reason(error: Exception) -> str:
    if isinstance(error, RegardError):
        return error.what + (f": {error.why}" if error.why else "")
    return f"{type(error).__name__}: {error}"


def _require_few(failed: int, tried: int, journal: Journal, name: str, first: int) -> None:
    """Raise DataError if most lines so far failed, and remove the journal: a new attempt starts from nothing."""
    if failed < MANY or 2 * failed <= tried:
        return
    journal.remove()
    reason = next(iter(journal.failed.values()), "not UTF-8")
    raise DataError(
        f"the job stops: {failed:,} of {pluralize(tried, 'line')} failed",
        where=f"{name}:{first}",
        why=f"for example: {reason}",
        help="a few failing lines are quarantined; this many points to the file, the settings or the machine",
    )
