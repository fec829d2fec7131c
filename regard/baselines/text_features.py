"""Sparse features of texts: TF-IDF of hashed words and characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse

BUCKETS = 1 << 22  # of each kind of n-gram; n-grams that share a bucket are one feature
WORD = r"(?u)\w+|[^\w\s]"
MAX_FEATURES = 1 << 18  # used buckets of each kind, the most frequent ones


class HashedBlock(NamedTuple):
    """One kind of n-grams, as TF-IDF: (1 + log count) · idf, divided by the norm of the row.

    ``used``: (features,) the buckets with a feature, ascending. ``idf``: (features,) log((1 + rows)/(1 + rows with it))
    + 1, as in scikit-learn.
    """

    analyzer: str  # word or char_wb
    longest: int  # n-grams of 1 or 2 … ``longest`` words or characters
    used: npt.NDArray[np.int64]
    idf: npt.NDArray[np.float64]

    @classmethod
    def empty(cls, analyzer: str, longest: int) -> HashedBlock:
        """Return a block without features, on which ``learn`` and ``open`` are called."""
        return cls(analyzer, longest, np.zeros(0, np.int64), np.zeros(0))

    def learn(self, texts: Sequence[str]) -> HashedBlock:
        """Return the block whose buckets these texts use."""
        counts = hashed_counts(self.analyzer, self.longest, texts)
        used, rows_with = used_buckets(counts)
        return self._replace(used=used, idf=np.log((1 + len(texts)) / (1 + rows_with)) + 1)

    def save(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that ``open`` reads under this name."""
        return {f"{name}.used": self.used.astype(np.int32), f"{name}.idf": self.idf.astype(np.float32)}

    def open(self, arrays: Mapping[str, npt.NDArray[Any]], name: str) -> HashedBlock:
        """Return the saved block; ValueError if its arrays are wrong."""
        used, idf = open_buckets(arrays[f"{name}.used"]), arrays[f"{name}.idf"].astype(np.float64)
        if used.shape != idf.shape or not np.isfinite(idf).all():
            raise ValueError(f"{name} needs a finite weight of each bucket")
        return self._replace(used=used, idf=idf)

    def features(self, texts: Sequence[str]) -> Sparse:
        """Return (texts, features)."""
        from scipy.sparse import diags
        from sklearn.preprocessing import normalize

        table = select_buckets(hashed_counts(self.analyzer, self.longest, texts), self.used)
        table.data = 1 + np.log(table.data)
        return normalize(table @ diags(self.idf), copy=False)


def used_buckets(counts: Sparse) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the buckets that rows use, ascending, and the number of rows with each.

    Only the ``MAX_FEATURES`` most frequent ones if there are more.
    """
    rows_with = np.bincount(counts.indices, minlength=BUCKETS)
    used = np.flatnonzero(rows_with)
    if len(used) > MAX_FEATURES:
        used = np.sort(used[np.argsort(-rows_with[used], kind="stable")[:MAX_FEATURES]])
    return used, rows_with[used]


def open_buckets(saved: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return saved buckets; ValueError if they are not ascending."""
    used = saved.astype(np.int64)
    if used.ndim != 1 or (np.diff(used) <= 0).any():
        raise ValueError("the buckets are not ascending")
    return used


def select_buckets(counts: Sparse, used: npt.NDArray[np.int64]) -> Sparse:
    """Return (rows, used) the counts of these buckets."""
    from scipy.sparse import csr_matrix

    shape = (counts.shape[0], len(used))
    if not len(used):
        return csr_matrix(shape)
    column = np.minimum(np.searchsorted(used, counts.indices), len(used) - 1)
    known = used[column] == counts.indices
    rows = np.repeat(np.arange(shape[0]), np.diff(counts.indptr))[known]
    return csr_matrix((counts.data[known], (rows, column[known])), shape=shape)


def hashed_counts(analyzer: str, longest: int, texts: Sequence[str]) -> Sparse:
    """Return (texts, BUCKETS) the counts of n-grams in lower case."""
    from sklearn.feature_extraction.text import HashingVectorizer

    options: Mapping[str, Any] = {"token_pattern": WORD} if analyzer == "word" else {}
    lengths = (1 if analyzer == "word" else 2, longest)
    return HashingVectorizer(
        analyzer=analyzer, ngram_range=lengths, n_features=BUCKETS, norm=None, alternate_sign=False, **options
    ).transform(texts)
