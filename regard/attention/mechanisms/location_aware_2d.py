"""Location-aware attention over the weights of the last few queries."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import uniform
from regard.attention.kernel import Normalize
from regard.attention.location_base import LocationMechanism
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, PreviousWeights


class LocationAware2D(LocationMechanism):
    """f_i = F ∗ (α_{i−P}, …, α_{i−1}), e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (ESPnet's AttLoc2D; not from a paper). F ``filters`` (heads·channels, P, 2·``reach`` + 1), the newest weights last,
    which shows direction and speed; U ``location_weight`` (heads, width, channels); W, V, b and w are in
    ``content`` (see ``AdditiveScore``). With P = 1 it is location-aware attention.

    Queries are processed one by one; a padded query does not change the state. Cost: that of location-aware attention
    with P times its convolution and state. Differs from ESPnet in: several heads.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: hidden units; None: d_q.
        learned: which of W ("query"), V ("key") and b ("bias") exist.
        channels: filters per head.
        reach: half of a filter's width, which is 2·reach + 1 keys.
        past: P, number of previous queries (ESPnet: 5).
        sharpening: β (ESPnet: 2).
        normalize: "softmax", or "sigmoid" for σ(e) / Σ σ(e).
        initial: α_0, used for all P weights before the first query: "uniform" over the valid keys, all on the "first",
            or "nowhere".
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
        past: int = 5,
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__(
            heads=heads, query_width=query_width, key_width=key_width, width=width, reach=reach, learned=learned,
            sharpening=sharpening, normalize=normalize, initial=initial,
        )  # fmt: skip
        self.filters = Filters(heads=heads, channels=channels, reach=reach, past=past)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.past = past

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> PreviousWeights:
        weights = super().start(key, bound).weights
        return PreviousWeights(weights[:, :, None].expand(-1, -1, self.past, -1))

    def location(self, previous: Float[Tensor, "batch heads past key"]) -> Float[Tensor, "batch heads key width"]:
        return torch.einsum("bhcs,hnc->bhsn", self.filters(previous), self.location_weight)

    def update_memory(
        self, before: Float[Tensor, "batch heads past key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads past key"]:
        return torch.cat([before, now[:, :, None]], 2)[:, :, 1:]
