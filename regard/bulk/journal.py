"""The journal of a block in work: the lines that were begun, and the outputs of finished lines.

A process that works on a block keeps its journal locked. If it dies the lock is released, and the next process reads
finished outputs and the lines during which the process died. Nothing is synced: the journal need not survive a crash
of the machine.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core import atomic_files

Lines = tuple[int, int]  # first, and one past the last, in the order of work


class Journal:
    """A record of the work of earlier processes on a block, which this one continues.

    Attributes:
        begun: how often earlier processes began a range of lines without an end.
        outputs: of finished ranges.
        failed: the reason for each line without an output.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun: Counter[Lines] = Counter()
        self.outputs: dict[Lines, list[str]] = {}
        self.failed: dict[int, str] = {}
        with atomic_files.explain_os_errors(path):
            self._file = path.open("r+b")
            whole = 0
            for line in self._file:
                if not self._readable(line):
                    break
                whole += len(line)
            self._file.seek(whole)
            self._file.truncate()  # an incomplete record of a dead process

    @classmethod
    @contextmanager
    def claim(cls, path: Path) -> Iterator[Journal]:
        """Lock and open the journal of a block. Raises BlockingIOError if another process works on the block."""
        with atomic_files.locked(path) as descriptor:
            try:
                same = os.path.samestat(os.fstat(descriptor), path.stat())
            except FileNotFoundError:
                same = False
            if not same:
                raise BlockingIOError("another process has just removed it")
            journal = cls(path)
            with journal._file:
                yield journal

    def begin(self, lines: Lines) -> None:
        """Record that work on these lines is about to begin."""
        self._write({"begin": lines})

    def end(self, lines: Lines, outputs: Sequence[str]) -> None:
        """Record the outputs of these lines."""
        self._write({"end": lines, "outputs": list(outputs)})

    def fail(self, line: int, why: str) -> None:
        """Record why a line has no output."""
        self._write({"failed": line, "why": why})

    def remove(self) -> None:
        """Delete the journal of a block that is published or given up."""
        atomic_files.remove_file(self.path)

    def _write(self, record: dict[str, Any]) -> None:
        with atomic_files.explain_os_errors(self.path):
            rest = json.dumps(record).encode() + b"\n"
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        if "begin" not in record:  # a range that this process survives is not a death
            self._take(json.loads(json.dumps(record)))

    def _readable(self, line: bytes) -> bool:
        """Apply a record; return False if it is incomplete."""
        try:
            self._take(json.loads(line))
        except (ValueError, KeyError, TypeError):
            return False
        return line.endswith(b"\n")

    def _take(self, record: dict[str, Any]) -> None:
        if "begin" in record:
            self.begun[_lines(record["begin"])] += 1
        elif "end" in record:
            self.outputs[_lines(record["end"])] = record["outputs"]
        else:
            self.failed[record["failed"]] = record["why"]


def _lines(pair: Sequence[int]) -> Lines:
    first, end = pair
    return first, end
