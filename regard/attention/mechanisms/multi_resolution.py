"""Location-aware attention whose heads see the last weights through filters of different widths."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.additive_score import AdditiveScore, uniform
from regard.attention.kernel import Normalise, normaliser, weigh
from regard.attention.mask import Bound
from regard.attention.previous_weights import Filters, Initial, WeightsSoFar, first_look, too_wide
from regard.attention.sequential import Sequential

__all__ = ["MultiResolution"]


class MultiResolution(Sequential):
    """Location-aware attention, head n with filters of half-width F_n = ⌊reach · (n + 1) / heads⌋, n from 0

    (ESPnet's AttMultiHeadMultiResLoc; not from a paper). f_i^n = F^n ∗ α^n_{i−1},
    e_ij^n = w^nᵀ tanh(W^n s_i + V^n h_j + U^n f_ij^n + b^n), α_i^n = softmax(β e_i^n): with 4 heads and ``reach``
    100, widths 51, 101, 151 and 201. A list as ``reach`` gives each head's F_n itself. F^n ``filters[n]``,
    ``channels`` each; U ``location_weight`` (heads, width, channels); W, V, b, w, β, ``own``, ``normalise`` and
    ``initial`` as in location-aware attention.

    Queries are taken in turn; a padded query leaves the state alone. Cost: query·key·width·(channels + 1) per head
    and one convolution a head. Differs from ESPnet in: β is ``sharpening``, 1 unless given; there it is 1/√d_k,
    though 2 for heads of one resolution. Its docstring says that the number of channels varies from head to head; its
    code, and this, varies the width.
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
        reach: int | Sequence[int] = 100,
        sharpening: float = 1.0,
        normalise: Normalise = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__()
        reaches = [reach * (n + 1) // heads for n in range(heads)] if isinstance(reach, int) else list(reach)
        if len(reaches) != heads:
            raise ValueError(f"reach has {len(reaches)} half-widths for {heads} heads")
        self.content = AdditiveScore(
            heads=heads, query_width=query_width, key_width=key_width, width=width, own=own, sharpening=sharpening
        )
        self.filters = nn.ModuleList(Filters(heads=1, channels=channels, reach=each) for each in reaches)
        self.location_weight = uniform(heads, self.content.width, channels)
        self.heads, self.reaches = heads, reaches
        self.first_look, self.normalise = first_look(initial), normaliser(normalise)

    def remark(self, longest: int) -> str | None:
        return too_wide(max(self.reaches), longest)

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> WeightsSoFar:
        return WeightsSoFar(self.first_look(key, bound, self.heads))

    def turn(
        self,
        asked: Float[Tensor, "batch heads 1 width"],
        answered: Float[Tensor, "batch heads key width"],
        bound: Bound,
        state: WeightsSoFar,
    ) -> tuple[Float[Tensor, "batch heads 1 key"], WeightsSoFar]:
        last = state.weights[:, :, None]
        found = torch.cat([head(last[:, n : n + 1]) for n, head in enumerate(self.filters)], 1)
        located = torch.einsum("bhcs,hnc->bhsn", found, self.location_weight)
        weights = weigh(self.content(asked, answered, located), bound, self.normalise)
        return weights, WeightsSoFar(weights.squeeze(2))
