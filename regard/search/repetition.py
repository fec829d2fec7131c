"""Limits of repetition: scores of tokens that an output has already, lowered or forbidden."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.search.contract import LogP


def penalize_seen(scores: LogP, seen: Bool[Tensor, "rows types"], penalty: float) -> LogP:
    """Scores with those of ``seen`` types made lower by a factor (CTRL, Keskar et al. 2019): x · θ, or x / θ if x > 0.

    A log-probability is below 0, so p becomes p^θ before probabilities are made to sum to 1 again. 1 changes nothing;
    below 1 repetition is preferred.
    """
    if penalty == 1.0:
        return scores
    return torch.where(seen, torch.where(scores > 0, scores / penalty, scores * penalty), scores)


def penalize_count(scores: LogP, count: Float[Tensor, "rows types"], frequency: float, presence: float) -> LogP:
    """Scores less ``frequency`` for each time that a type was generated, and ``presence`` once if it was at all.

    As in OpenAI's API: μ − c·α_frequency − (c > 0)·α_presence.
    """
    return scores - count * frequency - (count > 0).to(scores.dtype) * presence


def forbid(scores: LogP, tokens: Sequence[Collection[int]]) -> LogP:
    """Scores with −∞ for the ``tokens`` of each row."""
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
        """The tokens that would end an n-gram which has occurred."""
        return self._followers.get(self._end(), ()) if len(self._tokens) >= self._before else ()

    def _end(self) -> tuple[int, ...]:
        return tuple(self._tokens[len(self._tokens) - self._before :])
