"""Coverage attention: it sees how much each key has been looked at so far."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Initial, WeightsSoFar, first_look, wide
from regard.attention.sequential import Sequential

__all__ = ["Coverage"]


class Coverage(Sequential):
    """C_ij = Σ_{i' < i} α_{i'j}, e_ij = wᵀ tanh(W s_i + V h_j + c C_ij + b), α_i = softmax(β e_i)

    (See, Liu & Manning 2017, Eq. 10 and 11, recalled and not checked; ESPnet's AttCov). The sum begins with α_0,
    which is ``initial``: "uniform" over the valid keys (ESPnet), all on the "first", or "nowhere", 0 (the paper). c
    ``coverage_weight`` (heads, width); W, V, b and w are in ``content`` (see ``AdditiveScore``; ``own`` names those of
    W, V and b that there are, ``width`` is d_q unless given); β ``sharpening`` (ESPnet: 2); ``normalise`` "sigmoid"
    takes σ(e) / Σ σ(e) for the softmax.

    Queries are taken in turn; a padded query leaves the state alone. Cost: 2·query·key·width per head, in as many
    steps as there are queries. Differs from the paper in: several heads; its coverage loss is not here. Differs from
    ESPnet in: a state of one sum, not a list of all weights added up anew at each step; no second bias beside c.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        own: Collection[str] = ("query", "key", "bias"),
        sharpening: float = 1.0,
        normalise: Normalise = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.coverage_weight = uniform(heads, self.content.width)
        self.heads, self.first_look, self.normalise = heads, first_look(initial), normaliser(normalise)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> WeightsSoFar:
        return WeightsSoFar(wide(self.first_look(key, bound, self.heads)))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: WeightsSoFar,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], WeightsSoFar]:
        seen = state.weights.to(asked.dtype)
        covered = torch.einsum("bhs,hn->bhsn", seen, self.coverage_weight)
        weights = weigh(self.content(asked, answered, covered), bound, self.normalise)
        return weights, WeightsSoFar(state.weights + weights.squeeze(2))
