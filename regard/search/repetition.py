"""Limits of repetition: lower or forbid the scores of tokens that an output already contains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.search.contract import LogP


def penalize_seen(scores: LogP, seen: Bool[Tensor, "rows types"], penalty: float) -> LogP:
    """Lower the scores of ``seen`` types by a factor (CTRL, Keskar et al. 2019): x · θ, or x / θ if x > 0.

    A log-probability is below 0, so p becomes p^θ before normalization. θ = 1 has no effect; θ < 1 favors repetition.
    """
    if penalty == 1.0:
        return scores
    return torch.where(seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)


def penalize_count(scores: LogP, count: Float[Tensor, "rows types"], frequency: float, presence: float) -> LogP:
    """Subtract ``frequency`` for each occurrence of a type, and ``presence`` once if it occurred.

    As in OpenAI's API: μ − c·α_frequency − (c > 0)·α_presence.
    """
    return scores - count * frequency - (count > 0).to(scores.dtype) * presence


def forbid(scores: LogP, tokens: Sequence[Collection[int]]) -> LogP:
    """Return the scores with −∞ for the ``tokens`` of each row."""
    pairs = [(row, token) for row, own in enumerate(tokens) for token in own]
    if not pairs:
        return scores
    row, token = torch.tensor(pairs, device=scores.device).unbind(1)
    return scores.index_put((row, token), scores.new_tensor(-math.inf))


class Ngrams:
    """The n-grams of an output so far, and the tokens that would repeat one of them."""

    def __init__(self, n: int, tokens: Iterable[int] = ()) -> None:
        self._before = n - 1
        self._tokens: list[int] = []
        self._followers: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        """Append a token to the output."""
        if len(self._tokens) >= self._before:
            self._followers[self._end()].add(token)
        self._tokens.append(token)

    def repeating(self) -> Collection[int]:
        """Return the tokens that would complete an n-gram that has already occurred."""
        return self._followers.get(self._end(), ()) if len(self._tokens) >= self._before else ()

    def _end(self) -> tuple[int, ...]:
        return tuple(self._tokens[len(self._tokens) - self._before :])
