"""Coverage through filters: location-aware attention over the sum of all earlier weights."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.attention.location_base import FilteredLocation


class CoverageLocationAware(FilteredLocation):
    """C_i = α_0 + Σ_{i' < i} α_{i'}, f_i = F ∗ C_i, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (ESPnet's AttCovLoc; not from a paper). α_0 is ``initial``: "uniform" over the valid
    keys, all on the "first", or "nowhere". F ``filters``, ``channels`` per head, 2·``reach`` + 1 wide; U
    ``location_weight`` (heads, width, channels); W, V, b and w are in ``content`` (see ``AdditiveScore``; ``learned``
    lists which of W, V and b exist; default of ``width``: d_q); β ``sharpening`` (ESPnet: 2); ``normalize``
    "sigmoid" uses σ(e) / Σ σ(e) instead of the softmax.

    Queries are processed one by one; a padded query does not change the state. Cost: query·key·width·(channels + 1)
    per head and the convolution. Differs from ESPnet in: several heads; a state of one sum, not a list of all weights.
    """

    def update_memory(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return before + now
