"""Corpora as numbers on disk: cut once, then read through a memory map, whatever their size.

A prepared folder holds, for each side, the pieces of all sentences end to end (``source.tokens``) and where
each begins (``source.offsets``), the line every pair came from (``lines``), and ``corpus.json``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.data.prepared import open_prepared
from regard.errors import DataError

__all__ = ["FORMAT", "Corpora", "Corpus", "Parallel", "Report"]

FORMAT = {"format": "regard-corpus", "version": 1}
Numbers = npt.NDArray[Any]
Count = Annotated[int, Field(ge=0, lt=1 << 60)]
CHECKED = 1 << 20  # offsets looked at at a time


class Report(NamedTuple):
    """Outcome of a preparation: pairs kept, left out or with unknown pieces, and the first line numbers."""

    pairs: int
    blank: int
    long: int
    long_lines: list[int]
    source_unknown: int
    target_unknown: int
    max_length: int
    cropped: int = 0  # sources of which the first max_length pieces are kept


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Report(_Strict):
    pairs: Count
    blank: Count
    long: Count
    long_lines: list[Count]
    source_unknown: Count
    target_unknown: Count
    max_length: Annotated[int, Field(ge=0, lt=1 << 31)]
    cropped: Count = 0


class _Head(_Strict):
    """The contents of ``corpus.json``. ``dtype`` is one of two: for some others numpy follows addresses in a file."""

    name: str
    fingerprint: str
    content: str = ""
    dtype: Literal["<u2", "<u4"]
    source_tokens: Count
    target_tokens: Count
    report: _Report


class _Files(_Strict):
    """The contents of ``files.json``, of a corpus of several files."""

    names: list[str]
    before: list[Count]  # how many lines come before each


class Parallel(Protocol):
    """Pairs of token numbers: one corpus or several end to end."""

    @property
    def source_length(self) -> npt.NDArray[np.int32]: ...
    @property
    def target_length(self) -> npt.NDArray[np.int32]: ...
    def __len__(self) -> int: ...
    def source(self, index: int) -> Numbers: ...
    def target(self, index: int) -> Numbers: ...
    def where(self, index: int) -> str: ...


class Corpus:
    """A prepared corpus. ``source_length`` and ``target_length`` (int32, one a pair) count pieces, no END.

    All of it stays on disk; the lengths are read into memory when they are first asked for. ``longest_source`` counts
    the pieces of the longest source, ``longest`` those of the longest sentence of either side.
    """

    def __init__(self, folder: Path, head: _Head) -> None:
        """For ``Corpus.open``; raises DataError where a file does not hold what ``head`` says."""
        self.folder = folder
        self.report = Report(**head.report.model_dump())
        self.name, self.fingerprint = head.name, head.fingerprint
        self.files = _read_files(folder)
        self.content = head.content  # a sha256 of its text, wherever that lies
        pairs, dtype, whole = self.report.pairs, np.dtype(head.dtype), np.dtype("<i8")
        files = {
            "source.offsets": (whole, pairs + 1), "target.offsets": (whole, pairs + 1), "lines": (whole, pairs),
            "source.tokens": (dtype, head.source_tokens), "target.tokens": (dtype, head.target_tokens),
        }  # fmt: skip
        for name, (kind, count) in files.items():
            _require_size(folder / name, count * kind.itemsize)
        self._source_offsets, self._target_offsets, self._lines, self._source, self._target = (
            _map(folder / name, kind, count) for name, (kind, count) in files.items()
        )
        self.longest_source = self._checked("source.offsets", self._source_offsets, head.source_tokens)
        longest_target = self._checked("target.offsets", self._target_offsets, head.target_tokens)
        self.longest = max(self.longest_source, longest_target)

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open what ``prepare`` wrote. Raises DataError when it is missing, damaged or of another version.

        Nothing is read of the tokens themselves; ``require_types`` does.
        """
        return open_prepared(
            folder / "corpus.json",
            FORMAT,
            lambda head: cls(folder, _Head.model_validate(head)),
            name="corpus",
            damaged=_damaged,
        )

    def _checked(self, name: str, offsets: Numbers, tokens: int) -> int:
        """The longest sentence. DataError where the offsets do not lead from 0 to the last token, rising."""
        path, longest = self.folder / name, 0
        # The range first: a difference of numbers far apart wraps around.
        rising = offsets[0] == 0 and offsets[-1] == tokens
        for at in range(0, len(offsets), CHECKED):
            part = offsets[at : at + CHECKED + 1]
            rising = rising and bool((part >= 0).all() and (part[1:] >= part[:-1]).all())
            longest = max(longest, int(np.diff(part).max(initial=0)))
        if not rising:
            raise _damaged(path, f"its offsets do not rise from 0 to {tokens}")
        if longest > self.report.max_length:
            raise _damaged(path, f"a sentence has more than {self.report.max_length} pieces")
        return longest

    @property
    def unknown_shares(self) -> dict[str, float]:
        """Pieces that the vocabulary does not know, by side, over all pieces of that side."""
        counts = {
            "source": (self.report.source_unknown, self._source),
            "target": (self.report.target_unknown, self._target),
        }
        return {side: unknown / max(len(tokens), 1) for side, (unknown, tokens) in counts.items()}

    @cached_property
    def source_length(self) -> npt.NDArray[np.int32]:
        return np.diff(self._source_offsets).astype(np.int32)

    @cached_property
    def target_length(self) -> npt.NDArray[np.int32]:
        return np.diff(self._target_offsets).astype(np.int32)

    def lengths(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """The longer side of each pair from ``begin`` to before ``end``, END included; nothing is kept in memory."""
        sides = (np.diff(offsets[begin : end + 1]) for offsets in (self._source_offsets, self._target_offsets))
        return np.maximum(*sides) + 1

    def require_types(self, source: int, target: int) -> None:
        """DataError where a token is none of a vocabulary of so many pieces. Reads all of them once."""
        for name, tokens, types in (("source", self._source, source), ("target", self._target, target)):
            if len(tokens) and int(tokens.max()) >= types:
                raise _damaged(self.folder / f"{name}.tokens", f"it holds piece {tokens.max()} of {types}")

    def __len__(self) -> int:
        return self.report.pairs

    def source(self, index: int) -> Numbers:
        """The pieces of the source of one pair, neither BEGIN nor END."""
        return self._source[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> Numbers:
        """The pieces of the target of one pair, neither BEGIN nor END."""
        return self._target[self._target_offsets[index] : self._target_offsets[index + 1]]

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
        raise _damaged(path, "it does not say how many lines come before each file")
    return found


def _require_size(path: Path, wanted: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise _damaged(path, "the file is missing") from error
    if size != wanted:
        raise _damaged(path, f"it has {size} bytes, not {wanted}")


def _map(path: Path, dtype: np.dtype[Any], count: int) -> Numbers:
    if count == 0:
        return np.empty(0, dtype)
    # A plain view of the map: indexing a np.memmap itself is several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))


def _damaged(path: Path, why: str) -> DataError:
    return DataError("the prepared corpus is damaged", where=str(path), why=why, help=f"delete it: rm -r {path.parent}")
