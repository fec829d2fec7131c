"""The pairs of a prepared corpus by length, on disk: which have a length, without a list of all in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.core.atomic_files import commit_folder, explain_os_errors, hidden_sibling
from regard.core.task import Indices
from regard.data.corpus import Corpus
from regard.errors import DataError

__all__ = ["LengthIndex"]

CHUNK = 1 << 20  # pairs sorted at a time


class LengthIndex:
    """``pairs[starts[n] : starts[n + 1]]`` are the pairs whose longer side has n pieces, END included, rising.

    Two files beside the prepared corpus, ``by-length/pairs`` and ``by-length/starts``, made when they are first asked
    for: one pass to count, one to sort, a chunk at a time. Only ``starts`` is held in memory.
    """

    def __init__(self, folder: Path, size: int, longest: int) -> None:
        """For ``LengthIndex.of``; DataError where the files are missing or are not of such a corpus."""
        self.folder, self.size = folder, size
        self.starts = np.asarray(_map(folder / "starts", np.dtype("<i8"), longest + 2))
        if self.starts[0] != 0 or self.starts[-1] != size or (self.starts[1:] < self.starts[:-1]).any():
            raise _damaged(folder / "starts", f"it does not rise from 0 to {size}")
        self._pairs = _map(folder / "pairs", _dtype(size), size)

    @classmethod
    def of(cls, corpus: Corpus) -> LengthIndex:
        """The index of a corpus, opened or made."""
        folder, longest = corpus.folder / "by-length", corpus.longest + 1
        try:
            return cls(folder, len(corpus), longest)
        except DataError:
            pass  # missing or damaged: made anew
        with explain_os_errors(folder):
            temporary = hidden_sibling(folder, "tmp")
            shutil.rmtree(temporary, ignore_errors=True)  # left there by a kill
            temporary.mkdir()
            _write(corpus, temporary, longest)
            commit_folder(temporary, folder)
        return cls(folder, len(corpus), longest)

    @property
    def counts(self) -> Indices:
        """(lengths,): how many pairs have each length, from 0."""
        return np.diff(self.starts)

    def pairs(self, length: int, places: Indices) -> Indices:
        """The pairs in these places among those of a length."""
        found = self._pairs[self.starts[length] + places].astype(np.int64)
        if len(found) and int(found.max()) >= self.size:
            raise _damaged(self.folder / "pairs", f"it names pair {found.max():,} of {self.size:,}")
        return found


def _write(corpus: Corpus, folder: Path, longest: int) -> None:
    counts, chunks = np.zeros(longest + 1, np.int64), range(0, len(corpus), CHUNK)
    for at in chunks:
        counts += np.bincount(corpus.lengths(at, min(at + CHUNK, len(corpus))), minlength=longest + 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    (folder / "starts").write_bytes(starts.astype("<i8").tobytes())
    pairs = np.memmap(folder / "pairs", _dtype(len(corpus)), mode="w+", shape=(len(corpus),))
    free = starts[:-1].copy()
    for at in chunks:
        lengths = corpus.lengths(at, min(at + CHUNK, len(corpus)))
        order = np.argsort(lengths.astype(np.int32), kind="stable")
        here = np.bincount(lengths, minlength=longest + 1)
        within = np.arange(len(order)) - np.repeat(np.cumsum(here) - here, here)
        pairs[np.repeat(free, here) + within] = at + order
        free += here
    pairs.flush()


def _dtype(size: int) -> np.dtype[np.integer]:
    return np.dtype("<u4" if size <= 1 << 32 else "<u8")


def _map(path: Path, dtype: np.dtype[np.integer], count: int) -> npt.NDArray[np.integer]:
    size = path.stat().st_size if path.is_file() else -1
    if size != count * dtype.itemsize:
        raise _damaged(path, f"it has {size} bytes, not {count * dtype.itemsize}")
    # A plain view of the map: indexing a np.memmap itself is several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        "the index of the corpus by length is damaged", where=str(path), why=why, help=f"rm -r {path.parent}"
    )
