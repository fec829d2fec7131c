"""Location-aware attention (Chorowski): the score of a key includes the last weights around that key."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.attention.location_base import FilteredLocation


class LocationAware(FilteredLocation):
    """f_i = F ∗ α_{i−1}, e_ij = wᵀ tanh(W s_i + V h_j + U f_ij + b), α_i = softmax(β e_i)

    (Chorowski et al. 2015, Eq. 8 to 10). W, V, b and w are in ``content`` (see ``AdditiveScore``; ``learned`` names
    those of W, V and b that exist, ``width`` is d_q unless given); F ``filters``, ``channels`` a head, 2·``reach`` + 1
    wide; U ``location_weight`` (heads, width, channels); β ``sharpening``. ``normalize`` "sigmoid" takes
    σ(e) / Σ σ(e) for the softmax ("smoothing", §2.3). α_0 is ``initial``: "uniform" over the valid keys, as ESPnet
    has it, all on the "first", or "nowhere", 0.

    Queries are taken in turn; a padded query leaves the state alone. Cost: query·key·width·(channels + 1) per head
    and the convolution, in as many steps as there are queries. Differs from the paper in: several heads, each with
    its own filters. ESPnet's AttLoc is one head with β = 2; its AttMultiHeadLoc has ``learned = ()``, because
    the heads project, and β = 2 again where its other multi-head classes have 1/√d_k.
    """

    def remember(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return now
