"""Baseline of translation: the target of the training pair whose source is nearest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from regard.baselines.packed_texts import divides, packed_texts, unpacked_texts
from regard.core.baseline import Floats, SavedBaseline

EAST_ASIAN = "\u3040-\u30ff\u3400-\u9fff"  # a character of these is a word
WORD = re.compile(rf"[{EAST_ASIAN}]|[^\W{EAST_ASIAN}]+|[^\w\s]")
FEW_WORDS, MANY_WORDS = 2, 50  # of a source, on average: below characters are compared, above words without pairs
LENGTHS = (2, 3, 4)  # of n-grams of characters
MAX_GRAMS = 2_000_000  # n-grams of all pairs, each once in a pair; of more, pairs at equal distances are read
SAMPLED = 1000  # pairs by which the number of n-grams is estimated
Numbers = npt.NDArray[np.int64]
Features = Literal["n-grams of characters", "words and pairs of words", "words"]


class NearestBaseline:
    """The target of the source with the highest cosine; its fallback below ``threshold``.

    The features are words and pairs of words. They are n-grams of characters if sources have less than ``FEW_WORDS``
    words on average, and words if they have more than ``MANY_WORDS``. Their weights are TF-IDF, as in scikit-learn with
    ``sublinear_tf``. Cost: the pairs that share a feature.
    """

    kind: ClassVar[str] = "nearest"

    def __init__(self) -> None:
        self.compared: Features = "words"
        self.threshold = 0.0
        self.features: dict[str, int] = {}  # column of each n-gram
        self.idf = np.zeros(0)
        self.starts, self.rows, self.weights = np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0)  # by column
        self.targets: list[str] = []

    @property
    def description(self) -> str:
        rest = f", if its cosine is at least {self.threshold:g}; else the first sentence" if self.threshold else ""
        return f"target of the nearest source by TF-IDF of {self.compared}{rest}"

    def learn(self, sources: Sequence[str], targets: Sequence[str]) -> list[int]:
        """Read the pairs, or a sample of them, and return their indices."""
        step = max(len(sources) // SAMPLED, 1)
        sample = [len(_words(source)) for source in sources[::step]]
        self.compared = _features(float(np.mean(sample)) if sample else 0)
        grams = sum(len({*self._grams(source)}) for source in sources[::step]) * step
        number = min(max(len(sources) * MAX_GRAMS // max(grams, 1), 1), len(sources))
        read: list[int] = (np.arange(number) * len(sources) // max(number, 1)).tolist()
        self.features, self.targets = {}, [targets[pair] for pair in read]
        counts = [Counter(self._grams(sources[pair])) for pair in read]
        rows = np.repeat(np.arange(len(counts)), [len(row) for row in counts])
        columns = np.array([self.features.setdefault(gram, len(self.features)) for row in counts for gram in row], int)
        frequency = np.array([count for row in counts for count in row.values()], np.float64)
        sources_with = np.bincount(columns, minlength=len(self.features))
        self.idf = np.log((1 + len(counts)) / (1 + sources_with)) + 1
        weights = (1 + np.log(frequency)) * self.idf[columns]
        weights /= np.sqrt(np.bincount(rows, weights**2, len(counts)))[rows]
        order = np.argsort(columns, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(sources_with)])
        self.rows, self.weights = rows[order], weights[order]
        return read

    def _grams(self, source: str) -> list[str]:
        words = _words(source)
        if self.compared == "words":
            return words
        if self.compared == "words and pairs of words":
            return words + [f"{one} {other}" for one, other in pairwise(words)]
        edged = [f"<{word}>" for word in words]
        return [word[start : start + n] for word in edged for n in LENGTHS for start in range(len(word) - n + 1)]

    def nearest(self, sources: Sequence[str], *, own: bool = False) -> tuple[Numbers, Floats]:
        """Return (sources,) the pair whose source is nearest, the first of equal ones, and the cosine.

        ``own``: the sources are those of the first pairs; the pair of a source itself is left out.
        """
        pairs, cosines = np.zeros(len(sources), np.int64), np.zeros(len(sources))
        for number, source in enumerate(sources):
            scores = self._cosines(source)
            if own:
                scores[number] = -1
            pairs[number] = scores.argmax()
            cosines[number] = scores[pairs[number]]
        return pairs, cosines

    def _cosines(self, source: str) -> Floats:
        """Return (pairs,) the cosine of each source of a pair; n-grams without a feature have no weight."""
        counts = Counter(self._grams(source))
        known = {self.features[gram]: count for gram, count in counts.items() if gram in self.features}
        columns = np.array(list(known), np.int64)
        weights = (1 + np.log(np.array(list(known.values()), np.float64))) * self.idf[columns]
        weights /= max(float(np.sqrt((weights**2).sum())), 1e-12)
        parts = [slice(*self.starts[column : column + 2]) for column in columns]
        rows = np.concatenate([self.rows[part] for part in parts] or [np.zeros(0, np.int64)])
        products = [self.weights[part] * weight for part, weight in zip(parts, weights, strict=True)]
        return np.bincount(rows, np.concatenate(products or [np.zeros(0)]), len(self.targets)).astype(np.float64)

    def outputs(self, sources: Sequence[str], fallback: Callable[[str], str]) -> list[str]:
        """Return the output of each source; ``fallback``: of a source, if no pair is near."""
        pairs, cosines = self.nearest(sources)
        return [
            self.targets[pair] if cosine >= self.threshold else fallback(source)
            for source, pair, cosine in zip(sources, pairs, cosines, strict=True)
        ]

    def save(self) -> SavedBaseline:
        arrays: dict[str, npt.NDArray[Any]] = {
            "idf": self.idf.astype(np.float32), "starts": self.starts, "rows": self.rows.astype(np.int32),
            "weights": self.weights.astype(np.float32),
        }  # fmt: skip
        arrays |= packed_texts("features", list(self.features)) | packed_texts("targets", self.targets)
        settings = {"compared": self.compared, "threshold": self.threshold}
        return SavedBaseline(arrays, settings, private=True)

    def open(self, saved: SavedBaseline) -> Self:
        arrays, features = saved.arrays, unpacked_texts(saved.arrays, "features")
        self.compared, self.threshold = saved.settings["compared"], float(saved.settings["threshold"])
        self.features, self.targets = (
            {gram: column for column, gram in enumerate(features)},
            unpacked_texts(arrays, "targets"),
        )
        self.starts, self.rows = (arrays[name].astype(np.int64) for name in ("starts", "rows"))
        self.idf, self.weights = (arrays[name].astype(np.float64) for name in ("idf", "weights"))
        if not 0 <= self.threshold <= 2 or self.compared not in get_args(Features):
            raise ValueError("the settings are damaged")
        if not self.targets or len(self.features) != len(features):
            raise ValueError("the pairs or their features are damaged")
        if self.idf.shape != (len(features),) or self.starts.shape != (len(features) + 1,):
            raise ValueError("each feature needs a weight and its pairs")
        if self.rows.ndim != 1 or self.rows.shape != self.weights.shape or not divides(self.starts, len(self.rows)):
            raise ValueError("the pairs of a feature are incomplete")
        if not ((self.rows >= 0) & (self.rows < len(self.targets))).all():
            raise ValueError("a pair of a feature does not exist")
        if not all(np.isfinite(values).all() for values in (self.idf, self.weights)):
            raise ValueError("a weight is not a finite number")
        return self


def _features(words: float) -> Features:
    """Return the features for sources with this mean number of words."""
    if words < FEW_WORDS:
        return "n-grams of characters"
    return "words and pairs of words" if words <= MANY_WORDS else "words"


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
