"""Location-aware attention but for what is remembered: the last look, or all of them together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, WeightsSoFar, first_look, too_wide, wide
from regard.attention.sequential import Sequential

__all__ = ["LocationBase"]


class LocationBase(Sequential):
    """f_i = F ∗ m_{i−1}, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i), m_i = remember(m_{i−1}, α_i)

    with m_0 = α_0. What remains to be written is ``remember``.
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
        sharpening: float = 1.0,
        normalise: Normalise = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.heads, self.first_look, self.normalise = heads, first_look(initial), normaliser(normalise)

    def remark(self, longest: int) -> str | None:
        return too_wide(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> WeightsSoFar:
        return WeightsSoFar(wide(self.first_look(key, bound, self.heads)))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: WeightsSoFar,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], WeightsSoFar]:
        found = self.filters(state.weights[:, :, None].to(asked.dtype))
        located = torch.einsum("bhcs,hnc->bhsn", found, self.location_weight)
        weights = weigh(self.content(asked, answered, located), bound, self.normalise)
        return weights, WeightsSoFar(self.remember(state.weights, weights.squeeze(2)))

    @abstractmethod
    def remember(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        """What the next query's filters see, from what this one's saw and the weights it got."""
