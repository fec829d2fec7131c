"""The journal of a block in work: which lines were begun, and the outputs of those that were done.

Whoever works on a block holds its journal locked. A death lets go of it, and the next one finds in it what was done,
and what the death was in the middle of. Nothing is synced: the journal need not outlive the machine.
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

Lines = tuple[int, int]  # first, and one beyond the last, in the order of work


class Journal:
    """A record of what earlier processes did of a block, which this one goes on writing.

    ``begun`` counts how often earlier ones began lines; ``outputs`` are of lines done; ``failed`` says why one has
    none.
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
            self._file.truncate()  # half a record that a death left

    @classmethod
    @contextmanager
    def claim(cls, path: Path) -> Iterator[Journal]:
        """The journal of a block, locked. BlockingIOError where another process works on the block."""
        with atomic_files.locked(path) as held:
            try:
                same = os.path.samestat(os.fstat(held), path.stat())
            except FileNotFoundError:
                same = False
            if not same:
                raise BlockingIOError("another process has just removed it")
            journal = cls(path)
            with journal._file:
                yield journal

    def begin(self, lines: Lines) -> None:
        """Write down that work on these lines begins, before it does."""
        self._write({"begin": lines})

    def end(self, lines: Lines, outputs: Sequence[str]) -> None:
        """Write down the outputs of these lines."""
        self._write({"end": lines, "outputs": list(outputs)})

    def fail(self, line: int, why: str) -> None:
        """Write down why a line has no output."""
        self._write({"failed": line, "why": why})

    def remove(self) -> None:
        """Delete the journal of a block that is published or given up."""
        atomic_files.remove_file(self.path)

    def _write(self, record: dict[str, Any]) -> None:
        with atomic_files.explain_os_errors(self.path):
            rest = json.dumps(record).encode() + b"\n"
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        if "begin" not in record:  # what this process begins and survives is no death
            self._take(json.loads(json.dumps(record)))

    def _readable(self, line: bytes) -> bool:
        """Take a record in; False for half of one."""
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
