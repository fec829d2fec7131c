"""Baseline of two texts: how much their words overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.dense_baseline import DenseBaseline
from regard.baselines.linear import Sparse
from regard.baselines.text_features import HashedBlock
from regard.core.baseline import Floats

Texts = tuple[str, ...]
OVERLAPS, COSINES = 15, 2  # features of ``_overlap``, and of the two kinds of n-grams
FEATURES = OVERLAPS + COSINES
NEGATIONS = frozenset("no not n't nobody nothing without never none isn't nor".split())


class PairBaseline(DenseBaseline):
    """Overlap of two texts: shared words and pairs of words, lengths, negations, and cosines of TF-IDF.

    The logits or the number are linear in these features and in their products of two, all standardized.
    """

    kind: ClassVar[str] = "text pairs"
    features_of: ClassVar[str] = "overlap of the two texts"

    def __init__(self) -> None:
        super().__init__()
        self.words, self.characters = HashedBlock.empty("word", 1), HashedBlock.empty("char_wb", 5)

    def learn_features(self, columns: Sequence[Sequence[Texts]]) -> None:
        lines = [text for texts in columns[0] for text in texts]
        self.words, self.characters = self.words.learn(lines), self.characters.learn(lines)
        super().learn_features(columns)

    def features(self, columns: Sequence[Sequence[Texts]]) -> Sparse:
        from scipy.sparse import csr_matrix

        table = self.standardized(columns)
        first, second = np.triu_indices(table.shape[1])
        return csr_matrix(np.hstack([table, np.clip(table[:, first] * table[:, second], -9, 9)]))

    def table(self, columns: Sequence[Sequence[Texts]]) -> Floats:
        blocks, pairs = (self.words, self.characters), columns[0]
        firsts, seconds = [texts[0] for texts in pairs], [texts[1] for texts in pairs]
        cosines = [
            np.asarray(block.features(firsts).multiply(block.features(seconds)).sum(1)).ravel() for block in blocks
        ]
        overlaps = np.array([_overlap(first, second) for first, second in pairs], float).reshape(-1, OVERLAPS)
        return np.column_stack([overlaps, *cosines])

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**self.words.save("words"), **self.characters.save("characters"), **super().saved_features()}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.words, self.characters = self.words.open(arrays, "words"), self.characters.open(arrays, "characters")
        if super().open_features(arrays) != FEATURES:
            raise ValueError(f"the scale needs {FEATURES} features")
        return FEATURES + FEATURES * (FEATURES + 1) // 2


def _overlap(first: str, second: str) -> list[float]:
    """Return the features of the words of a pair of texts, of each text and of both."""
    words, other_words = first.lower().split(), second.lower().split()
    types, other_types = set(words), set(other_words)
    shared, union = len(types & other_types), max(len(types | other_types), 1)
    pairs, other_pairs = set(pairwise(words)), set(pairwise(other_words))
    negated, other_negated = bool(types & NEGATIONS), bool(other_types & NEGATIONS)
    longer, contrary = len(words) - len(other_words), negated != other_negated
    return [
        shared / union, shared / max(len(types), 1), shared / max(len(other_types), 1), len(types - other_types),
        len(other_types - types), longer, abs(longer), negated, other_negated, contrary, negated and other_negated,
        len(pairs & other_pairs) / max(len(pairs | other_pairs), 1), contrary * shared / union,
        sorted(words) == sorted(other_words), types >= other_types,
    ]  # fmt: skip
