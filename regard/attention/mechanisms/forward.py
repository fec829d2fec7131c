"""Forward attention: from one query to the next it stays where it was or moves on by one key."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, WeightsSoFar, first_look, too_wide
from regard.attention.sequential import Sequential

__all__ = ["FLOOR", "Forward"]

FLOOR = 1e-6  # the least weight of an allowed key before the last division; ESPnet's


class Forward(Sequential):
    """y_i = softmax(β e_i), α̂_ij = (α_{i−1,j} + α_{i−1,j−1}) y_ij, α_i = α̂_i / Σ α̂_i, α_0 = (1, 0, 0, …)

    (Zhang, Ling & Dai 2018, "forward attention"; the equation numbers were not checked). e is that of
    location-aware attention, as in ESPnet's AttForward: e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), f_i = F ∗ α_{i−1}.
    α̂ is at least ``FLOOR`` for every allowed key, so that no gradient is 0/0 and a lost place can be found again.
    F ``filters``, ``channels`` a head, 2·``reach`` + 1 wide; U ``location_weight`` (heads, width, channels); W, V, b
    and w are in ``content`` (see ``AdditiveScore``; ``own`` names those of W, V and b that there are, ``width`` is d_q
    unless given); β ``sharpening``, 1 in ESPnet.

    Queries are taken in turn; a padded query leaves the state alone. Cost: as location-aware attention. Differs from
    ESPnet in: several heads; masked keys have weight 0, where ESPnet's floor leaves about 1e-6 on every frame of
    padding, so that a result there depends on the batch. Its transition agent (AttForwardTA) is not here.
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
    ) -> None:
        super().__init__()
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.heads = heads

    def remark(self, longest: int) -> str | None:
        return too_wide(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> WeightsSoFar:
        return WeightsSoFar(first_look("first")(key, bound, self.heads))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: WeightsSoFar,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], WeightsSoFar]:
        found = self.filters(state.weights[:, :, None])
        located = torch.einsum("bhcs,hnc->bhsn", found, self.location_weight)
        content = weigh(self.content(asked, answered, located), bound)
        moved = state.weights + pad(state.weights, (1, 0))[..., :-1]
        weights = _share(moved[:, :, None] * content, bound.sdpa())
        return weights, WeightsSoFar(weights.squeeze(2))


def _share(
    unnormalised: Float[Tensor, "batch heads 1 key"], allowed: Bool[Tensor, "batch 1 1 key"]
) -> Float[Tensor, "batch heads 1 key"]:
    """Over its sum; at least ``FLOOR`` before, where allowed, and 0 elsewhere."""
    floored = unnormalised.clamp_min(FLOOR).masked_fill(~allowed, 0.0)
    total = floored.sum(-1, keepdim=True)
    return floored / total.masked_fill(total == 0, 1.0)
