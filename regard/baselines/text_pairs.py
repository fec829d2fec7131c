"""Baseline of two texts: how much their words overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse
from regard.baselines.linear_baseline import LinearBaseline
from regard.baselines.text_features import HashedBlock

Texts = tuple[str, ...]
NEGATIONS = frozenset("no not n't nobody nothing without never none isn't nor".split())


class PairBaseline(LinearBaseline):
    """Overlap of two texts: shared words and pairs of words, lengths, negations, and cosines of TF-IDF.

    The logits or the number are linear in these features and in their products of two, all standardized.
    """

    kind: ClassVar[str] = "text pairs"
    features_of: ClassVar[str] = "overlap of the two texts"

    def __init__(self) -> None:
        super().__init__()
        self.words, self.characters = HashedBlock.empty("word", 1), HashedBlock.empty("char_wb", 5)
        self.scale = np.zeros((2, 0))  # mean and deviation of each feature

    def learn_features(self, columns: Sequence[Sequence[Texts]]) -> None:
        lines = [text for texts in columns[0] for text in texts]
        self.words, self.characters = self.words.learn(lines), self.characters.learn(lines)
        table = self._table(columns[0])
        self.scale = np.stack([table.mean(0), table.std(0) + 1e-9])

    def features(self, columns: Sequence[Sequence[Texts]]) -> Sparse:
        from scipy.sparse import csr_matrix

        table = (self._table(columns[0]) - self.scale[0]) / self.scale[1]
        first, second = np.triu_indices(table.shape[1])
        return csr_matrix(np.hstack([table, np.clip(table[:, first] * table[:, second], -9, 9)]))

    def _table(self, pairs: Sequence[Texts]) -> npt.NDArray[np.float64]:
        """Return (pairs, features)."""
        blocks = self.words, self.characters
        firsts, seconds = [texts[0] for texts in pairs], [texts[1] for texts in pairs]
        cosines = [
            np.asarray(block.features(firsts).multiply(block.features(seconds)).sum(1)).ravel() for block in blocks
        ]
        overlaps = np.array([_overlap(one, other) for one, other in zip(firsts, seconds, strict=True)])
        return np.column_stack([overlaps.reshape(len(pairs), -1), *cosines]) if pairs else np.zeros((0, 17))

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**self.words.save("words"), **self.characters.save("characters"), "scale": self.scale}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.words, self.characters = self.words.open(arrays, "words"), self.characters.open(arrays, "characters")
        self.scale = arrays["scale"].astype(np.float64)
        if self.scale.shape != (2, 17) or not (np.isfinite(self.scale).all() and (self.scale[1] > 0).all()):
            raise ValueError("the scale needs a finite mean and a deviation above 0 for each feature")
        return 17 + 17 * 18 // 2


def _overlap(first: str, second: str) -> list[float]:
    """Return 15 features of a pair of texts, symmetric firsts and those of each side."""
    one, other = first.lower().split(), second.lower().split()
    words, seconds = set(one), set(other)
    shared, union = len(words & seconds), max(len(words | seconds), 1)
    pairs, other_pairs = set(pairwise(one)), set(pairwise(other))
    negated, other_negated = bool(words & NEGATIONS), bool(seconds & NEGATIONS)
    both = len(pairs & other_pairs) / max(len(pairs | other_pairs), 1)
    return [
        shared / union, shared / max(len(words), 1), shared / max(len(seconds), 1), len(words - seconds),
        len(seconds - words), len(one) - len(other), abs(len(one) - len(other)), negated, other_negated,
        negated != other_negated, negated and other_negated, both,
        (negated != other_negated) * shared / union, sorted(one) == sorted(other), words >= seconds,
    ]  # fmt: skip
