"""Location-aware attention over the last few looks, not the last alone."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, WeightsSoFar, first_look, too_wide
from regard.attention.sequential import Sequential

__all__ = ["LocationAware2D"]


class LocationAware2D(Sequential):
    """f_i = F ∗ (α_{i−P}, …, α_{i−1}), e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (ESPnet's AttLoc2D; not from a paper). P is ``past`` (ESPnet: 5); before the first query all P looks are α_0,
    which is ``initial``: "uniform" over the valid keys, all on the "first", or "nowhere". F ``filters``
    (heads·channels, P, 2·``reach`` + 1), the newest look last, so that direction and speed can be seen; U
    ``location_weight`` (heads, width, channels); W, V, b and w are in ``content`` (see ``AdditiveScore``; ``own`` names
    those of W, V and b that there are, ``width`` is d_q unless given); β ``sharpening`` (ESPnet: 2); ``normalise``
    "sigmoid" takes σ(e) / Σ σ(e) for the softmax. With P = 1 it is location-aware attention.

    Queries are taken in turn; a padded query leaves the state alone. Cost: as location-aware attention, with P times
    its convolution and state. Differs from ESPnet in: several heads.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        own: Collection[str] = ("query", "key", "bias"),
        channels: int = 10,
        reach: int = 100,
        past: int = 5,
        sharpening: float = 1.0,
        normalise: Normalise = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = Filters(heads=heads, channels=channels, reach=reach, past=past)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.heads, self.past, self.first_look, self.normalise = heads, past, first_look(initial), normaliser(normalise)

    def remark(self, longest: int) -> str | None:
        return too_wide(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> WeightsSoFar:
        return WeightsSoFar(self.first_look(key, bound, self.heads)[:, :, None].expand(-1, -1, self.past, -1))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: WeightsSoFar,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], WeightsSoFar]:
        located = torch.einsum("bhcs,hnc->bhsn", self.filters(state.weights), self.location_weight)
        weights = weigh(self.content(asked, answered, located), bound, self.normalise)
        return weights, WeightsSoFar(torch.cat([state.weights, weights], 2)[:, :, 1:])
