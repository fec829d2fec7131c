"""Where lines go that are made one by one: the terminal, a device, or a file that is there once it is whole."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core import atomic_files
from regard.core.resumable_output import ResumableOutput
from regard.errors import ConfigError

__all__ = ["LineWriter", "open_output", "printable"]


class LineWriter:
    """Lines to write, in UTF-8 whatever the locale; nothing of them is kept from an earlier sitting."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, line: str) -> None:
        self._write(line.encode() + b"\n")

    def skip_committed(self, inputs: list[str]) -> bool:
        """Whether an earlier sitting wrote what these next inputs give."""
        return False

    def commit(self, inputs: list[str]) -> None:
        """What these inputs give is written."""


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
    """Lines to ``output``, or to standard output. A file is replaced when the block ends.

    From a file to a file, what is committed outlives whatever ends the block before its time, and ``resume`` goes on
    with it if it is of the same ``job``.
    """
    if source is not None and output is not None and output.exists() and output.samefile(source):
        raise ConfigError("the output would replace the text it is made from", where=str(output))
    lasting = (
        output is not None and source is not None and source.is_file() and (output.is_file() or not output.exists())
    )
    if resume and not lasting:
        raise ConfigError("--resume goes on from a file to a file", help="regard translate RUN FILE -o OUT --resume")
    if output is None:
        yield LineWriter(_print)
    elif lasting:
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
        print(f"going on after line {journal.inputs:,}" if journal.inputs else "nothing to go on from", file=sys.stderr)
    try:
        yield _ResumableWriter(journal)
        journal.finish()
    except BaseException:
        journal.close()
        if journal.inputs:
            print(f"{journal.inputs:,} lines are done; the same command with --resume goes on", file=sys.stderr)
        raise


def printable(text: str) -> str:
    """As a terminal may be sent it, and a reader can tell it: what cannot be seen by its number."""
    return "".join(sign if sign.isprintable() and sign != " " else f"U+{ord(sign):04X}" for sign in text)
