"""Location-aware attention with filters of a different width in each head."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive_score import uniform
from regard.attention.kernel import Normalize
from regard.attention.location_base import LocationMechanism
from regard.attention.previous_weights import Filters, Initial


class MultiResolution(LocationMechanism):
    """F_n = ⌊reach · (n + 1) / heads⌋: location-aware attention, head n with filters of half-width F_n, n from 0

    (ESPnet's AttMultiHeadMultiResLoc; not from a paper). In each head f_i = F ∗ α_{i−1},
    e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i). F of head n is ``filters[n]``; U
    ``location_weight`` (heads, width, channels); W, V, b and w are in ``content`` (see ``AdditiveScore``).

    Queries are processed one by one; a padded query does not change the state. Cost: query·key·width·(channels + 1)
    and one convolution per head. Differs from ESPnet in: β is 1 by default; ESPnet has 1/√d_k, and 2 for heads of one
    resolution. According to ESPnet's docstring the number of channels varies from head to head; its code, like this
    class, varies the width.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: hidden units; None: d_q.
        learned: which of W ("query"), V ("key") and b ("bias") exist.
        channels: filters of each head.
        reach: the half-width of the last head's filters, in keys: with 4 heads and 100, widths are 51, 101, 151 and
            201. A list sets F_n of each head.
        sharpening: β.
        normalize: "softmax", or "sigmoid" for σ(e) / Σ σ(e).
        initial: α_0, "uniform" over the valid keys, all on the "first", or "nowhere", 0.
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
        reach: int | Sequence[int] = 100,
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        reaches = [reach * (n + 1) // heads for n in range(heads)] if isinstance(reach, int) else list(reach)
        if len(reaches) != heads:
            raise ValueError(f"reach requires one half-width per head: got {len(reaches)} for {heads} heads")
        super().__init__(
            heads=heads, query_width=query_width, key_width=key_width, width=width, reach=max(reaches), learned=learned,
            sharpening=sharpening, normalize=normalize, initial=initial,
        )  # fmt: skip
        self.filters = nn.ModuleList(Filters(heads=1, channels=channels, reach=half_width) for half_width in reaches)
        self.location_weight = uniform(heads, self.content.width, channels)

    def location(self, previous: Float[Tensor, "batch heads key"]) -> Float[Tensor, "batch heads key width"]:
        weights = previous[:, :, None]
        features = torch.cat([head(weights[:, n : n + 1]) for n, head in enumerate(self.filters)], 1)
        return torch.einsum("bhcs,hnc->bhsn", features, self.location_weight)

    def update_memory(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return now
