"""Line output to the terminal, to a device, or to a file that is replaced once it is complete."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core import atomic_files
from regard.core.resumable_output import ResumableOutput
from regard.core.wording import pluralize_with_verb
from regard.errors import ConfigError


class LineWriter:
    """Writer of lines, in UTF-8 with any locale. It does not resume an interrupted command."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, line: str) -> None:
        """Write one line."""
        self._write(line.encode() + b"\n")

    def skip_committed(self, inputs: list[str]) -> bool:
        """Return whether an interrupted command already wrote the outputs of the next ``inputs``, and skip them."""
        return False

    def commit(self, inputs: list[str]) -> None:
        """Record that the outputs of these ``inputs`` are written."""


class _ResumableWriter(LineWriter):
    def __init__(self, journal: ResumableOutput) -> None:
        super().__init__(journal.write)
        self._journal = journal

    def skip_committed(self, inputs: list[str]) -> bool:
        return self._journal.skip_committed(inputs)

    def commit(self, inputs: list[str]) -> None:
        self._journal.commit(inputs)


@contextmanager
def open_output(
    output: Path | None, source: Path | None, *, job: Mapping[str, Any], resume: bool
) -> Iterator[LineWriter]:
    """Open ``output``, or standard output, for lines; a file is replaced when the block ends.

    If ``source`` and ``output`` are files, committed lines survive an interruption.

    Args:
        output: the output file; None for standard output.
        source: the input file; None for standard input.
        job: the settings that determine the outputs.
        resume: whether to continue after the committed lines; they must belong to the same ``job``.
    """
    if source is not None and output is not None and output.exists() and output.samefile(source):
        raise ConfigError("the output file is also the input file", where=str(output), help="choose another file")
    resumable = (
        output is not None and source is not None and source.is_file() and (output.is_file() or not output.exists())
    )
    if resume and not resumable:
        raise ConfigError(
            "--resume requires an input file and an output file", help="regard translate RUN FILE -o OUT --resume"
        )
    if output is None:
        yield LineWriter(_print)
    elif resumable:
        with _resumable(output, job, resume) as lines:
            yield lines
    else:
        with atomic_files.replacing(output) as opened:

            def write(data: bytes) -> None:
                with atomic_files.explain_os_errors(output):
                    opened.write(data)

            yield LineWriter(write)


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def _resumable(output: Path, job: Mapping[str, Any], resume: bool) -> Iterator[LineWriter]:
    journal = ResumableOutput(output, job, resume=resume)
    if resume:
        print(
            f"resuming after line {journal.inputs:,}" if journal.inputs else "no earlier output: starting at line 1",
            file=sys.stderr,
        )
    try:
        yield _ResumableWriter(journal)
        journal.finish()
    except BaseException:
        journal.close()
        if journal.inputs:
            done = pluralize_with_verb(journal.inputs, "line", "is", "are")
            print(f"{done} done; add --resume to the command to continue", file=sys.stderr)
        raise


def printable(text: str) -> str:
    """Return a text that is safe to print: invisible characters are written as U+NNNN."""
    return "".join(char if char.isprintable() and char != " " else f"U+{ord(char):04X}" for char in text)
