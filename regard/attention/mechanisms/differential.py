"""Differential attention: the difference of two softmax maps."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.contract import Abilities, Attended, Mechanism
from regard.attention.kernel import attend
from regard.attention.mask import Bound
from regard.core.state import State


class Differential(Mechanism):
    """A₁ = softmax(q₁ k₁ᵀ / √d), A₂ = softmax(q₂ k₂ᵀ / √d), c = (A₁ − λ A₂) v (Ye et al. 2025, Eq. 1).

    q₁ and q₂ are two halves of a head's query, d features each, and k₁ and k₂ of its key. The subtraction removes
    weight that both maps give to all keys. λ = exp(a₁·b₁) − exp(a₂·b₂) + λ₀ (Eq. 2), the vectors a, b (d,) learned, one
    λ for all heads. The difference of weights sums to 1 − λ, and some are negative. The paper normalizes each head's
    context (Eq. 3): ``normalize_context`` of ``MultiHead``, key `context_norm`.

    Requires d_q = d_k. No state. Cost: twice the products with values of dot, on its fused path. A head is as wide as
    two heads of dot, so halve ``heads`` for a comparison. Differs from the paper in: λ₀ is one number, not 0.8 − 0.6
    exp(−0.3 (l − 1)) for layer l; the context is not multiplied by 1 − λ₀, since W^O follows; the halves alternate by
    pairs of features, which gives both the same range of rotary frequencies.

    Args:
        query_width: d_q, features of a query per head: 2 d, a multiple of 4.
        start: λ₀, from 0 to below 1.
    """

    def __init__(self, *, query_width: int, start: float = 0.8) -> None:
        super().__init__()
        if query_width % 4:
            raise ValueError(f"the width of a differential head must be a multiple of 4, got {query_width}")
        if not 0 <= start < 1:
            raise ValueError(f"start must be in [0, 1), got {start}")
        self.start_value = start
        self.vectors = nn.Parameter(torch.empty(4, query_width // 2).normal_(std=0.1))  # a₁, b₁, a₂, b₂

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=True,
            normalized=False,
            fused=True,
            same_width=True,
            signed=True,
        )

    def factor(self) -> Float[Tensor, ""]:
        """Return λ, the factor of the second map."""
        first, second = (self.vectors[i] @ self.vectors[i + 1] for i in (0, 2))
        return torch.exp(first) - torch.exp(second) + self.start_value

    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch key_heads key width"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        factor, scale = self.factor(), 1 / math.sqrt(query.shape[-1] // 2)
        maps = [
            attend(q, k, value, bound, scale=scale, dropping=self.dropping, need_weights=need_weights)
            for q, k in zip(_halves(query), _halves(key), strict=True)
        ]
        (context, weights), (other, other_weights) = maps
        difference = weights - factor * other_weights if weights is not None and other_weights is not None else None
        return Attended(context - factor * other, difference, state)


def _halves(
    x: Float[Tensor, "batch heads length width"],
) -> tuple[Float[Tensor, "batch heads length half"], Float[Tensor, "batch heads length half"]]:
    """Return features 0, 1, 4, 5, 8, 9 … and 2, 3, 6, 7, 10, 11 …"""
    pairs = x.unflatten(-1, (-1, 2, 2))
    return pairs[..., 0, :].flatten(-2), pairs[..., 1, :].flatten(-2)
