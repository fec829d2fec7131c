"""Location-aware attention over the sum of all earlier weights: coverage, seen through filters."""

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

__all__ = ["CoverageLocationAware"]


class CoverageLocationAware(InTurn):
    """C_i = Σ_{i' < i} α_{i'}, f_i = F ∗ C_i, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (ESPnet's AttCovLoc; not from a paper). The sum begins with α_0, which is ``initial``: "uniform" over the valid
    keys, all on the "first", or "nowhere". F ``filters``, ``channels`` a head, 2·``reach`` + 1 wide; U
    ``location_weight`` (heads, width, channels); W, V, b and w are in ``content`` (see ``Perceptron``; ``own`` names
    those of W, V and b that there are, ``width`` is d_q unless given); β ``sharpening`` (ESPnet: 2); ``normalise``
    "sigmoid" takes σ(e) / Σ σ(e) for the softmax.

    Queries are taken in turn; a padded query leaves the state alone. Cost: query·key·width·(channels + 1) per head
    and the convolution. Differs from ESPnet in: several heads; a state of one sum, not a list of all weights.
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
        return weights, Looked(state.weights + weights.squeeze(2))
