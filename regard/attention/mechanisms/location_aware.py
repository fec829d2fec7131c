"""Location-aware attention (Chorowski): the score of a key includes the previous weights around that key."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.attention.location_base import FilteredLocation


class LocationAware(FilteredLocation):
    """f_i = F ∗ α_{i−1}, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (Chorowski et al. 2015, Eq. 8 to 10). W, V, b and w are in ``content`` (see ``AdditiveScore``; ``learned`` names
    those of W, V and b that exist; default of ``width``: d_q); F ``filters``, ``channels`` per head, 2·``reach`` + 1
    wide; U ``location_weight`` (heads, width, channels); β ``sharpening``. ``normalize`` "sigmoid" uses
    σ(e) / Σ σ(e) instead of the softmax ("smoothing", §2.3). α_0 is ``initial``: "uniform" over the valid keys, as in
    ESPnet, all on the "first", or "nowhere", 0.

    Queries are processed one by one; a padded query does not change the state. Cost: query·key·width·(channels + 1)
    per head and the convolution, one step per query. Differs from the paper in: several heads, each with its own
    filters. ESPnet's AttLoc is one head with β = 2. Its AttMultiHeadLoc has ``learned = ()``, because the heads
    project, and also β = 2, whereas its other multi-head classes have 1/√d_k.
    """

    def update_memory(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return now
