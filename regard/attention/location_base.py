"""Bases of mechanisms whose score depends on the attention weights of earlier queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalize, normalizer, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import (
    Filters,
    Initial,
    PreviousWeights,
    at_least_float32,
    initial_weights,
    width_warning,
)
from regard.attention.sequential import Sequential


class LocationMechanism(Sequential):
    """e_ij = wᵀ tanh(W s_i + V h_j + x_ij + b), α_i = softmax(β e_i), x_i = location(m_{i−1}),

    m_i = update_memory(m_{i−1}, α_i), m_0 = α_0. A subclass implements ``location`` and ``update_memory``.

    ``heads``, ``query_width``, ``key_width``: number of heads, and features of a query and of a key per head.
    ``width``: hidden units of the score; None: ``query_width``.
    ``reach``: keys on either side that the widest filter sees; 0: no filters.
    ``learned``: which of W ("query"), V ("key") and b ("bias") exist (see ``AdditiveScore``).
    ``sharpening``: β. ``normalize``: "softmax", or "sigmoid" for σ(e) / Σ σ(e).
    ``initial``: α_0, "uniform" over the valid keys, all on the "first", or "nowhere", 0.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None,
        reach: int,
        learned: Collection[str],
        sharpening: float,
        normalize: Normalize,
        initial: Initial,
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, learned=learned,
            sharpening=sharpening,
        )  # fmt: skip
        self.heads, self.reach = heads, reach
        self.initial_weights, self.normalize = initial_weights(initial), normalizer(normalize)

    def warning(self, longest: int) -> str | None:
        return width_warning(self.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> PreviousWeights:
        return PreviousWeights(at_least_float32(self.initial_weights(key, bound, self.heads)))

    def step(
        self,
        query: Float[Tensor, "batch heads 1 width"],
        key: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: PreviousWeights,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], PreviousWeights]:
        previous = state.weights.to(query.dtype)
        weights = self.weigh(self.content(query, key, self.location(previous)), bound, previous)
        return weights, PreviousWeights(self.update_memory(state.weights, weights.squeeze(2)))

    @abstractmethod
    def location(self, previous: Float[Tensor, "batch heads *past key"]) -> Float[Tensor, "batch heads key width"]:
        """Return x of every key, the third term of the score, from the memory of earlier weights."""

    @abstractmethod
    def update_memory(
        self, before: Float[Tensor, "batch heads *past key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads *past key"]:
        """Return the memory for the next query, from the memory before this query and this query's weights."""

    def weigh(
        self,
        energy: Float[Tensor, "batch heads 1 key"],
        bound: Bound,
        previous: Float[Tensor, "batch heads *past key"],
    ) -> Float[Tensor, "batch heads 1 key"]:
        """Return the weights from the energies of one query: ``normalize`` over the allowed keys."""
        return weigh(energy, bound, self.normalize)


class FilteredLocation(LocationMechanism):
    """x_i = U (F ∗ m_{i−1}): location-aware attention without ``update_memory``.

    F ``filters``, ``channels`` per head, 2·``reach`` + 1 wide; U ``location_weight`` (heads, width, channels). The
    other options are those of ``LocationMechanism``.
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        learned: Collection[str] = ("query", "key", "bias"),
        channels: int = 10,
        reach: int = 100,
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__(
            heads=heads, query_width=query_width, key_width=key_width, width=width, reach=reach, learned=learned,
            sharpening=sharpening, normalize=normalize, initial=initial,
        )  # fmt: skip
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.location_weight = uniform(heads, self.content.width, channels)

    def location(self, previous: Float[Tensor, "batch heads key"]) -> Float[Tensor, "batch heads key width"]:
        return torch.einsum("bhcs,hnc->bhsn", self.filters(previous[:, :, None]), self.location_weight)
