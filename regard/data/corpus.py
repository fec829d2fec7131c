"""Corpora as numbers on disk: cut once, then read through a memory map, whatever their size.

A prepared folder holds, for each side, the pieces of all sentences end to end (``source.tokens``) and where
each begins (``source.offsets``), the line every pair came from (``lines``), and ``corpus.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from regard.errors import DataError, StorageError

__all__ = ["FORMAT", "Corpora", "Corpus", "Parallel", "Report"]

FORMAT = {"format": "regard-corpus", "version": 1}
Numbers = npt.NDArray[Any]


class Report(NamedTuple):
    """What preparation did: pairs kept, and what was left out or unknown, with the first line numbers."""

    pairs: int
    blank: int
    long: int
    long_lines: list[int]
    source_unknown: int
    target_unknown: int
    max_length: int


class Parallel(Protocol):
    """What batches are made of: one corpus or several end to end."""

    source_length: npt.NDArray[np.int32]
    target_length: npt.NDArray[np.int32]

    def __len__(self) -> int: ...
    def source(self, index: int) -> Numbers: ...
    def target(self, index: int) -> Numbers: ...
    def where(self, index: int) -> str: ...


class Corpus:
    """A prepared corpus. ``source_length`` and ``target_length`` (int32, one a pair) count pieces, no END.

    Twelve bytes of memory a pair; the tokens stay on disk.
    """

    def __init__(self, folder: Path, head: dict[str, Any]) -> None:
        """For ``Corpus.open``; raises DataError when a file has not the size that ``head`` says."""
        self.folder = folder
        self.report = Report(**head["report"])
        self.name: str = head["name"]
        self.fingerprint: str = head["fingerprint"]
        self.content: str = head.get("content", "")  # a sha256 of its text, wherever that lies
        pairs, dtype = self.report.pairs, np.dtype(head["dtype"])
        self._source_offsets = _map(folder / "source.offsets", np.dtype(np.int64), pairs + 1)
        self._target_offsets = _map(folder / "target.offsets", np.dtype(np.int64), pairs + 1)
        self._source = _map(folder / "source.tokens", dtype, head["source_tokens"])
        self._target = _map(folder / "target.tokens", dtype, head["target_tokens"])
        self._lines = _map(folder / "lines", np.dtype(np.int64), pairs)
        self.source_length = np.diff(self._source_offsets).astype(np.int32)
        self.target_length = np.diff(self._target_offsets).astype(np.int32)

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open what ``prepare`` wrote. Raises DataError when it is missing, damaged or of another version."""
        path = folder / "corpus.json"
        try:
            head = json.loads(path.read_text(encoding="utf-8"))
            if {key: head[key] for key in FORMAT} != FORMAT:
                raise _damaged(path, "it has another format or version")
            return cls(folder, head)
        except FileNotFoundError as error:
            raise DataError("There is no prepared corpus here.", where=str(folder)) from error
        except OSError as error:
            raise StorageError("The prepared corpus cannot be read.", where=str(folder), why=error.strerror) from error
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path, str(error)) from error

    def __len__(self) -> int:
        return self.report.pairs

    def source(self, index: int) -> Numbers:
        """The pieces of the source of one pair, neither BEGIN nor END."""
        return self._source[self._source_offsets[index] : self._source_offsets[index + 1]]

    def target(self, index: int) -> Numbers:
        """The pieces of the target of one pair, neither BEGIN nor END."""
        return self._target[self._target_offsets[index] : self._target_offsets[index + 1]]

    def line(self, index: int) -> int:
        """The line of the pair in its file, from 1."""
        return int(self._lines[index])

    def where(self, index: int) -> str:
        """``file:line`` of the pair, for messages."""
        return f"{self.name}:{self.line(index)}"


class Corpora:
    """Several corpora end to end, numbered through: what the indices of a mixture point into."""

    def __init__(self, parts: Sequence[Corpus]) -> None:
        self.parts = list(parts)
        self.sizes = [len(part) for part in self.parts]
        self._start = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        self.source_length = np.concatenate([part.source_length for part in self.parts])
        self.target_length = np.concatenate([part.target_length for part in self.parts])

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


def _map(path: Path, dtype: np.dtype[Any], count: int) -> Numbers:
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise _damaged(path, "the file is missing") from error
    if size != count * dtype.itemsize:
        raise _damaged(path, f"it has {size} bytes, not {count * dtype.itemsize}")
    if count == 0:
        return np.empty(0, dtype)
    # A plain view of the map: indexing a np.memmap itself is several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        "The prepared corpus is damaged.", where=str(path), why=why, help=f"delete it: rm -r {path.parent}"
    )
