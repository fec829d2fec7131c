"""Index of a prepared corpus by length, on disk: finds the pairs of a length without a list of all pairs in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from regard.core.task import Indices
from regard.data.corpus import Corpus
from regard.data.prepared import replacing_folder
from regard.data.ragged import ArrayHead, Ragged, damaged
from regard.errors import DataError

CHUNK = 1 << 20  # pairs sorted at a time


class LengthIndex:
    """``pairs[starts[n] : starts[n + 1]]`` are the pairs, ascending, whose longer side has n tokens including END.

    The files ``by-length/pairs`` and ``by-length/starts`` in the corpus folder are created at first use. One pass
    counts and one sorts, chunk by chunk. Only ``starts`` is held in memory.
    """

    def __init__(self, folder: Path, size: int, longest: int) -> None:
        """Initialize for ``LengthIndex.of``; DataError if the files are missing or belong to another corpus."""
        self.folder, self.size = folder, size
        head = ArrayHead(dtype=_dtype(size), positions=size, rows=longest + 1)
        self._pairs = Ragged.open(folder / "pairs", folder / "starts", head, dtypes=[head.dtype])
        self.starts = self._pairs.offsets

    @classmethod
    def of(cls, corpus: Corpus) -> LengthIndex:
        """Return the index of a corpus; it is created if it is missing or damaged."""
        folder, longest = corpus.folder / "by-length", corpus.longest + 1
        try:
            return cls(folder, len(corpus), longest)
        except DataError:
            pass  # missing or damaged: create it again
        with replacing_folder(folder) as temporary:
            _write(corpus, temporary, longest)
        return cls(folder, len(corpus), longest)

    @property
    def counts(self) -> Indices:
        """Number of pairs of each length from 0, shape (lengths,)."""
        return np.diff(self.starts)

    def pairs(self, length: int, positions: Indices) -> Indices:
        """Return the pairs at these positions among those of a length."""
        pairs = self._pairs[length][positions].astype(np.int64)
        if len(pairs) and int(pairs.max()) >= self.size:
            raise damaged(self.folder / "pairs", f"it names pair {pairs.max():,} of {self.size:,}")
        return pairs


def _write(corpus: Corpus, folder: Path, longest: int) -> None:
    counts, chunks = np.zeros(longest + 1, np.int64), range(0, len(corpus), CHUNK)
    for begin in chunks:
        counts += np.bincount(corpus.lengths(begin, min(begin + CHUNK, len(corpus))), minlength=longest + 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    (folder / "starts").write_bytes(starts.astype("<i8").tobytes())
    pairs = np.memmap(folder / "pairs", _dtype(len(corpus)), mode="w+", shape=(len(corpus),))
    free = starts[:-1].copy()
    for begin in chunks:
        lengths = corpus.lengths(begin, min(begin + CHUNK, len(corpus)))
        order = np.argsort(lengths.astype(np.int32), kind="stable")
        chunk_counts = np.bincount(lengths, minlength=longest + 1)
        within = np.arange(len(order)) - np.repeat(np.cumsum(chunk_counts) - chunk_counts, chunk_counts)
        pairs[np.repeat(free, chunk_counts) + within] = begin + order
        free += chunk_counts
    pairs.flush()


def _dtype(size: int) -> Literal["<u4", "<u8"]:
    return "<u4" if size <= 1 << 32 else "<u8"
