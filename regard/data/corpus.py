"""Corpora as numbers on disk: cut once, then read through a memory map, whatever their size.

A prepared folder holds, for each side, the pieces of all sentences as a ragged array (``source.tokens`` and
``source.offsets``), the line that every pair came from (``lines``), and ``corpus.json``.
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
    """Outcome of a preparation: pairs kept, left out or with unknown pieces, and the first line numbers."""

    pairs: Count
    blank: Count
    long: Count
    long_lines: list[Count]
    source_unknown: Count
    target_unknown: Count
    max_length: Annotated[int, Field(ge=0, lt=1 << 31)]
    cropped: Count = 0  # sources of which the first max_length pieces are kept


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
    """The contents of ``files.json``, of a corpus of several files."""

    names: list[str]
    before: list[Count]  # how many lines come before each


class Corpus(PreparedFolder):
    """A prepared corpus. ``source_length`` and ``target_length`` (int32, one a pair) count pieces, no END.

    All of it stays on disk; the lengths are read into memory at their first use. ``longest_source`` counts
    the pieces of the longest source, ``longest`` those of the longest sentence of either side.
    """

    file = "corpus.json"
    format: ClassVar[Mapping[str, Any]] = FORMAT
    head_type = CorpusHead

    def __init__(self, folder: Path, head: CorpusHead) -> None:
        """For ``Corpus.open``; raises DataError where a file does not hold what ``head`` says."""
        super().__init__(folder, head)
        self.report = head.report
        self.files = _read_files(folder)
        counts = {head.array(side).rows for side in SIDES} | {head.array("lines").positions}
        if counts != {self.report.pairs}:
            raise damaged(folder / self.file, "its arrays do not have as many rows as there are pairs")
        self._source, self._target = (self._open_tokens(side, f"{side}.tokens", f"{side}.offsets") for side in SIDES)
        # ``source`` and ``target`` index these: a call of ``Ragged`` would take a tenth of the time of a row.
        self._source_values, self._source_offsets = self._source.values, self._source.offsets
        self._target_values, self._target_offsets = self._target.values, self._target.offsets
        self._lines = self._open_numbers("lines", "<i8")
        self.longest_source = self._source.longest
        self.longest = max(self.longest_source, self._target.longest)
        if self.longest > self.report.max_length:
            raise damaged(folder / self.file, f"a sentence has more than {self.report.max_length} pieces")

    @property
    def unknown_shares(self) -> dict[str, float]:
        """Pieces that the vocabulary does not know, by side, over all pieces of that side."""
        unknown = self.report.source_unknown, self.report.target_unknown
        pieces = [max(len(side.values), 1) for side in (self._source, self._target)]
        return {side: count / number for side, count, number in zip(SIDES, unknown, pieces, strict=True)}

    @cached_property
    def source_length(self) -> npt.NDArray[np.int32]:
        return self._source.lengths.astype(np.int32)

    @cached_property
    def target_length(self) -> npt.NDArray[np.int32]:
        return self._target.lengths.astype(np.int32)

    def lengths(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """The longer side of each pair from ``begin`` to before ``end``, END included; nothing is kept in memory."""
        sides = (np.diff(side.offsets[begin : end + 1]) for side in (self._source, self._target))
        return np.maximum(*sides) + 1

    def __len__(self) -> int:
        return self.report.pairs

    def source(self, index: int) -> Numbers:
        """The pieces of the source of one pair, neither BEGIN nor END."""
        return self._source_values[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> Numbers:
        """The pieces of the target of one pair, neither BEGIN nor END."""
        return self._target_values[self._target_offsets[index] : self._target_offsets[index + 1]]

    def line(self, index: int) -> int:
        """The line of the pair in its file, from 1; those of several files are numbered through."""
        return int(self._lines[index])

    def where(self, index: int) -> str:
        """``file:line`` of the pair, for messages."""
        return self.place(self.line(index))

    def place(self, line: int) -> str:
        """``file:line`` of a line of the corpus."""
        if self.files is None:
            return f"{self.name}:{line}"
        at = max(bisect_left(self.files.before, line) - 1, 0)
        return f"{self.files.names[at]}:{line - self.files.before[at]}"


class Corpora:
    """Several corpora end to end, numbered through: what the indices of a mixture point into."""

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
    found = _Files.model_validate(parse_json(read_bytes(path, LARGE)))
    if not found.names or len(found.names) != len(found.before) or found.before != sorted(found.before):
        raise damaged(path, "it does not say how many lines come before each file")
    return found
