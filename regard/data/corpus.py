"""Tokenized corpora on disk: encoded once, then read through a memory map in constant memory.

A prepared folder holds the tokens of all sentences of each side as a ragged array (``source.tokens`` and
``source.offsets``). It also holds the line number of each pair (``lines``), and ``corpus.json``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.data.prepared import PreparedFolder, PreparedHead
from regard.data.ragged import Checked, Count, damaged

FORMAT = {"format": "regard-corpus", "version": 1}
Numbers = npt.NDArray[Any]
SIDES = ("source", "target")


class Report(Checked):
    """Outcome of a preparation: counts of pairs kept, left out or with unknown tokens, and the first line numbers."""

    pairs: Count
    blank: Count
    long: Count
    long_lines: list[Count]
    source_unknown: Count
    target_unknown: Count
    max_length: Annotated[int, Field(ge=0, lt=1 << 31)]
    cropped: Count = 0  # sources truncated to their first max_length tokens


class CorpusHead(PreparedHead):
    """The contents of ``corpus.json``."""

    report: Report

    @classmethod
    def earlier_arrays(cls, head: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """See ``PreparedHead``."""
        pairs, dtype = head["report"]["pairs"], head["dtype"]
        sides = {side: {"dtype": dtype, "positions": head[f"{side}_tokens"], "rows": pairs} for side in SIDES}
        return {**sides, "lines": {"dtype": "<i8", "positions": pairs}}


class _Files(Checked):
    """The contents of ``files.json``, for a corpus of several files."""

    names: list[str]
    before: list[Count]  # number of lines before each file


class Corpus(PreparedFolder):
    """A prepared corpus. ``source_length`` and ``target_length`` (int32, one per pair) count tokens without END.

    The tokens stay on disk; the lengths are loaded into memory at their first use. ``longest_source`` is the length of
    the longest source, ``longest`` that of the longest sentence of either side.
    """

    file = "corpus.json"
    format: ClassVar[Mapping[str, Any]] = FORMAT
    head_type = CorpusHead

    def __init__(self, folder: Path, head: CorpusHead) -> None:
        """Initialize for ``Corpus.open``; raises DataError if a file does not hold what ``head`` states."""
        super().__init__(folder, head)
        self.report = head.report
        self.files = _read_files(folder)
        counts = {head.array(side).rows for side in SIDES} | {head.array("lines").positions}
        if counts != {self.report.pairs}:
            raise damaged(folder / self.file, "its arrays and its pairs differ in number")
        self._source, self._target = (self._open_tokens(side, f"{side}.tokens", f"{side}.offsets") for side in SIDES)
        # ``source`` and ``target`` index these: calling ``Ragged`` would add a tenth to the time of a row.
        self._source_values, self._source_offsets = self._source.values, self._source.offsets
        self._target_values, self._target_offsets = self._target.values, self._target.offsets
        self._lines = self._open_numbers("lines", "<i8")
        self.longest_source = self._source.longest
        self.longest = max(self.longest_source, self._target.longest)
        if self.longest > self.report.max_length:
            raise damaged(folder / self.file, f"a sentence has more than {self.report.max_length} tokens")

    @property
    def unknown_shares(self) -> dict[str, float]:
        """Share of unknown tokens among all tokens of each side."""
        unknown = self.report.source_unknown, self.report.target_unknown
        totals = [max(len(side.values), 1) for side in (self._source, self._target)]
        return {side: count / total for side, count, total in zip(SIDES, unknown, totals, strict=True)}

    @cached_property
    def source_length(self) -> npt.NDArray[np.int32]:
        return self._source.lengths.astype(np.int32)

    @cached_property
    def target_length(self) -> npt.NDArray[np.int32]:
        return self._target.lengths.astype(np.int32)

    def lengths(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Return the longer side of the pairs ``begin`` to ``end`` (exclusive), END included; nothing is cached."""
        sides = (np.diff(side.offsets[begin : end + 1]) for side in (self._source, self._target))
        return np.maximum(*sides) + 1

    def __len__(self) -> int:
        return self.report.pairs

    def source(self, index: int) -> Numbers:
        """Return the tokens of one source, without BEGIN and END."""
        return self._source_values[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> Numbers:
        """Return the tokens of one target, without BEGIN and END."""
        return self._target_values[self._target_offsets[index] : self._target_offsets[index + 1]]

    def line(self, index: int) -> int:
        """Return the line of the pair in its file, from 1; lines of several files are numbered consecutively."""
        return int(self._lines[index])

    def where(self, index: int) -> str:
        """Return ``file:line`` of the pair, for messages."""
        return self.place(self.line(index))

    def place(self, line: int) -> str:
        """Return ``file:line`` for a line number of the corpus."""
        if self.files is None:
            return f"{self.name}:{line}"
        file = max(bisect_left(self.files.before, line) - 1, 0)
        return f"{self.files.names[file]}:{line - self.files.before[file]}"


class Corpora:
    """Several corpora, numbered consecutively: the indices of a mixture refer to them."""

    def __init__(self, parts: Sequence[Corpus]) -> None:
        self.parts = list(parts)
        self.sizes = [len(part) for part in self.parts]
        self._start = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])

    @cached_property
    def source_length(self) -> npt.NDArray[np.int32]:
        return np.concatenate([part.source_length for part in self.parts])

    @cached_property
    def target_length(self) -> npt.NDArray[np.int32]:
        return np.concatenate([part.target_length for part in self.parts])

    @property
    def longest_source(self) -> int:
        return max(part.longest_source for part in self.parts)

    def __len__(self) -> int:
        return int(self._start[-1])

    def source(self, index: int) -> Numbers:
        part, inside = self._find(index)
        return part.source(inside)

    def target(self, index: int) -> Numbers:
        part, inside = self._find(index)
        return part.target(inside)

    def where(self, index: int) -> str:
        part, inside = self._find(index)
        return part.where(inside)

    def _find(self, index: int) -> tuple[Corpus, int]:
        part = int(np.searchsorted(self._start, index, side="right")) - 1
        return self.parts[part], int(index - self._start[part])


def _read_files(folder: Path) -> _Files | None:
    path = folder / "files.json"
    if not path.exists():
        return None
    files = _Files.model_validate(parse_json(read_bytes(path, LARGE)))
    if not files.names or len(files.names) != len(files.before) or files.before != sorted(files.before):
        raise damaged(path, "it lacks the number of lines before each file")
    return files
