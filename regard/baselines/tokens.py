"""Baseline of tagged tokens: logistic regression on a token, its affixes and its neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.baselines.linear import Sparse
from regard.baselines.linear_baseline import LinearBaseline
from regard.baselines.text_features import BUCKETS, open_buckets, select_buckets, used_buckets

AFFIX = 4  # longest prefix and suffix, in characters
OUTSIDE = "\0"  # the neighbor before the first and after the last token


class TokenBaseline(LinearBaseline):
    """Binary features of each token, hashed: the token, its shape, its affixes, and two neighbors on each side."""

    kind: ClassVar[str] = "tokens"
    features_of: ClassVar[str] = "words, affixes and neighbors"

    def __init__(self) -> None:
        super().__init__()
        self.used = np.zeros(0, np.int64)

    def learn_features(self, columns: Sequence[Sequence[Sequence[str]]]) -> None:
        self.used, _ = used_buckets(_hashed(columns[0]))

    def features(self, columns: Sequence[Sequence[Sequence[str]]]) -> Sparse:
        return select_buckets(_hashed(columns[0]), self.used)

    def row_keys(self, columns: Sequence[Sequence[Sequence[str]]]) -> list[Any]:
        return [tuple(tokens) for tokens in columns[0] for _ in tokens]

    def saved_features(self) -> Mapping[str, npt.NDArray[Any]]:
        return {"used": self.used.astype(np.int32)}

    def open_features(self, arrays: Mapping[str, npt.NDArray[Any]]) -> int:
        self.used = open_buckets(arrays["used"])
        return len(self.used)


def _hashed(sentences: Sequence[Sequence[str]]) -> Sparse:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction import FeatureHasher

    hasher = FeatureHasher(n_features=BUCKETS, input_type="string", alternate_sign=False)
    rows = [features for tokens in sentences for features in token_features(tokens)]
    return hasher.transform(rows) if rows else csr_matrix((0, BUCKETS))


def token_features(tokens: Sequence[str]) -> Iterator[list[str]]:
    """Yield the names of the features of each token."""
    lower = [OUTSIDE, OUTSIDE, *(token.lower() for token in tokens), OUTSIDE, OUTSIDE]
    for place, token in enumerate(tokens, start=2):
        word, before, after = lower[place], lower[place - 1], lower[place + 1]
        yield [
            "bias", f"w={token}", f"l={word}", f"s={_shape(token)}", f"first={place == 2}",
            *(f"p{size}={word[:size]}" for size in range(1, AFFIX + 1)),
            *(f"e{size}={word[-size:]}" for size in range(1, AFFIX + 1)),
            f"b={before}", f"a={after}", f"bb={lower[place - 2]}", f"aa={lower[place + 2]}",
            f"be={before[-3:]}", f"ae={after[-3:]}", f"bw={before} {word}", f"wa={word} {after}",
        ]  # fmt: skip


def _shape(token: str) -> str:
    """Return the kinds of a token's characters, without repetitions: ``Xx`` for a name, ``d-d`` for a range."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in token[:32])
    shape: list[str] = []
    for kind in kinds:
        if shape[-1:] != [kind]:
            shape.append(kind)
    return "".join(shape)
