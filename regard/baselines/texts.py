"""Baseline of texts: TF-IDF of words and characters with logistic or ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Linear, Sparse, Targets, fit_linear
from regard.baselines.linear_baseline import LinearBaseline
from regard.baselines.text_features import HashedBlock

Texts = tuple[str, ...]


class TextBaseline(LinearBaseline):
    """TF-IDF of one- and two-word sequences and of two to five characters.

    For two classes, the logits are averaged with those of logistic regression on naive Bayes' log-ratios of the words
    (Wang and Manning 2012). Several texts of an example are joined.
    """

    kind: ClassVar[str] = "texts"
    features_of: ClassVar[str] = "TF-IDF of words and characters"

    def __init__(self) -> None:
        super().__init__()
        self.words, self.characters = HashedBlock.empty("word", 2), HashedBlock.empty("char_wb", 5)

    def learn_features(self, columns: Sequence[Sequence[Texts]]) -> None:
        lines = [" ".join(texts) for texts in columns[0]]
        self.words, self.characters = self.words.learn(lines), self.characters.learn(lines)

    def features(self, columns: Sequence[Sequence[Texts]]) -> Sparse:
        from scipy.sparse import csr_matrix, hstack

        lines = [" ".join(texts) for texts in columns[0]]
        words = self.words.features(lines)
        return csr_matrix(hstack([words, self.characters.features(lines), (words > 0).astype(np.float64)]))

    def fit(self, features: Sparse, targets: Targets, strength: float) -> Linear:
        width = len(self.words.used) + len(self.characters.used)
        plain = fit_linear(features[:, :width], targets, strength)
        presence = features[:, width:]
        if targets.values.ndim == 2 or targets.are_numbers or targets.outputs != 2:
            return Linear(np.hstack([plain.weights, np.zeros((targets.outputs, presence.shape[1]))]), plain.bias)
        ratio = _log_ratio(presence, targets.values)
        bayes = fit_linear(presence.multiply(ratio).tocsr(), targets, strength / 4)
        return Linear(np.hstack([plain.weights, bayes.weights * ratio]) / 2, (plain.bias + bayes.bias) / 2)

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {**self.words.save("words"), **self.characters.save("characters")}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.words, self.characters = self.words.open(arrays, "words"), self.characters.open(arrays, "characters")
        return 2 * len(self.words.used) + len(self.characters.used)


def _log_ratio(presence: Sparse, classes: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return (features,) log of P(feature | class 1) / P(feature | class 0), with one added to each count."""
    counts = [1 + np.asarray(presence[classes == number].sum(0)).ravel() for number in (0, 1)]
    return np.asarray(np.log(counts[1] / counts[1].sum()) - np.log(counts[0] / counts[0].sum()))
