"""Chorowski's location-aware attention: it sees where it looked last."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.inturn import InTurn
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.looked import Filters, Initial, Looked, first_look, too_wide
from regard.attention.mask import Bound
from regard.attention.perceptron import Perceptron, uniform

__all__ = ["LocationAware"]


class LocationAware(InTurn):
    """f_i = F ∗ α_{i−1}, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (Chorowski et al. 2015, Eq. 8 to 10). W, V, b and w are in ``content`` (see ``Perceptron``; ``own`` names those
    of W, V and b that there are, ``width`` is d_q unless given); F ``filters``, ``channels`` a head, 2·``reach`` + 1
    wide; U ``location_weight`` (heads, width, channels); β ``sharpening``. ``normalise`` "sigmoid" takes
    σ(e) / Σ σ(e) for the softmax ("smoothing", §2.3). α_0 is ``initial``: "uniform" over the valid keys, as ESPnet
    has it, all on the "first", or "nowhere", 0.

    Queries are taken in turn; a padded query leaves the state alone. Cost: query·key·width·(channels + 1) per head
    and the convolution, in as many steps as there are queries. Differs from the paper in: several heads, each with
    its own filters. ESPnet's AttLoc is one head with β = 2; its AttMultiHeadLoc has ``own = ()``, for its heads
    project, and β = 2 again where its other multi-head classes have 1/√d_k.
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
        self.content = Perceptron(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = Filters(heads=heads, channels=channels, reach=reach)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.heads, self.first_look, self.normalise = heads, first_look(initial), normaliser(normalise)

    def remark(self, longest: int) -> str | None:
        return too_wide(self.filters.reach, longest)

    def start(self, key: Float[Tensor, "batch key_heads key key_width"], bound: Bound) -> Looked:
        return Looked(self.first_look(key, bound, self.heads))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: Looked,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], Looked]:
        found = self.filters(state.weights[:, :, None])
        located = torch.einsum("bhcs,hnc->bhsn", found, self.location_weight)
        weights = weigh(self.content(asked, answered, located), bound, self.normalise)
        return weights, Looked(weights.squeeze(2))
