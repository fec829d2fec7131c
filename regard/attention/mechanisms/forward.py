"""Forward attention: from one query to the next, weight stays on a key or moves to the next key."""

from __future__ import annotations

from collections.abc import Collection

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.kernel import weigh
from regard.attention.location_base import FilteredLocation
from regard.attention.mask import Bound

FLOOR = 1e-6  # minimum weight of an allowed key before the last division, as in ESPnet


class Forward(FilteredLocation):
    """y_i = softmax(β e_i); α̂_ij = (α_{i−1,j} + α_{i−1,j−1}) y_ij; α_i = α̂_i / Σ_j α̂_ij; α_0 = (1, 0, 0, …)

    (Zhang, Ling & Dai 2018, "forward attention"; the equation numbers were not checked). e is that of
    location-aware attention, as in ESPnet's AttForward: e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), f_i = F ∗ α_{i−1}.
    α̂ is at least ``FLOOR`` for every allowed key: no gradient is 0/0, and weight can return to any position.
    F ``filters`` and U ``location_weight`` (heads, width, channels); W, V, b and w are in ``content`` (see
    ``AdditiveScore``).

    Queries are processed one by one; a padded query does not change the state. Cost: that of location-aware attention.
    Differs from ESPnet in: several heads; masked keys have weight 0 (ESPnet's floor leaves about 1e-6 on every frame
    of padding, so a result depends on the rest of the batch); no transition agent (AttForwardTA).

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: hidden units; None: d_q.
        learned: which of W ("query"), V ("key") and b ("bias") exist.
        channels: filters per head.
        reach: half of a filter's width, which is 2·reach + 1 keys.
        sharpening: β, 1 in ESPnet.
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
    ) -> None:
        super().__init__(
            heads=heads, query_width=query_width, key_width=key_width, width=width, learned=learned,
            channels=channels, reach=reach, sharpening=sharpening, initial="first",
        )  # fmt: skip

    def weigh(
        self, energy: Float[Tensor, "batch heads 1 key"], bound: Bound, previous: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads 1 key"]:
        reached = previous + pad(previous, (1, 0))[..., :-1]
        return _normalized(reached[:, :, None] * weigh(energy, bound), bound.sdpa())

    def update_memory(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return now


def _normalized(
    unnormalized: Float[Tensor, "batch heads 1 key"], allowed: Bool[Tensor, "batch 1 1 key"]
) -> Float[Tensor, "batch heads 1 key"]:
    """Return weights divided by their sum: before, at least ``FLOOR`` where allowed and 0 elsewhere."""
    floored = unnormalized.clamp_min(FLOOR).masked_fill(~allowed, 0.0)
    total = floored.sum(-1, keepdim=True)
    return floored / total.masked_fill(total == 0, 1.0)
