"""Coverage attention: the score of a key includes the sum of all earlier weights of the key."""

from __future__ import annotations

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.additive_score import uniform
from regard.attention.kernel import Normalize
from regard.attention.location_base import LocationMechanism
from regard.attention.previous_weights import Initial


class Coverage(LocationMechanism):
    """C_ij = α_0j + Σ_{i' < i} α_{i'j}, e_ij = wᵀ tanh(W s_i + V h_j + c C_ij + b), α_i = softmax(β e_i)

    (See, Liu & Manning 2017, Eq. 10 and 11, recalled and not checked; ESPnet's AttCov). c ``coverage_weight`` (heads,
    width); W, V, b and w are in ``content`` (see ``AdditiveScore``).

    Queries are processed one by one; a padded query does not change the state. State: the sum, (heads, key), float32
    or wider. Cost: 2·query·key·width per head, one step per query. Differs from the paper in: several heads; no
    coverage loss. Differs from ESPnet in: a state of one sum, not a list of all weights that is summed again at each
    step; no second bias in addition to c.

    Args:
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        key_width: d_k, features of a key per head.
        width: hidden units; None: d_q.
        learned: which of W ("query"), V ("key") and b ("bias") exist.
        sharpening: β (ESPnet: 2).
        normalize: "softmax", or "sigmoid" for σ(e) / Σ σ(e).
        initial: α_0, the start of the sum: "uniform" over the valid keys (ESPnet), all on the "first", or "nowhere", 0
            (the paper).
    """

    def __init__(
        self,
        *,
        heads: int,
        query_width: int,
        key_width: int,
        width: int | None = None,
        learned: Collection[str] = ("query", "key", "bias"),
        sharpening: float = 1.0,
        normalize: Normalize = "softmax",
        initial: Initial = "uniform",
    ) -> None:
        super().__init__(
            heads=heads, query_width=query_width, key_width=key_width, width=width, reach=0, learned=learned,
            sharpening=sharpening, normalize=normalize, initial=initial,
        )  # fmt: skip
        self.coverage_weight = uniform(heads, self.content.width)

    def location(self, previous: Float[Tensor, "batch heads key"]) -> Float[Tensor, "batch heads key width"]:
        return torch.einsum("bhs,hn->bhsn", previous, self.coverage_weight)

    def update_memory(
        self, before: Float[Tensor, "batch heads key"], now: Float[Tensor, "batch heads key"]
    ) -> Float[Tensor, "batch heads key"]:
        return before + now
