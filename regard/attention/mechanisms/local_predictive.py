"""Luong's local attention with a predicted center (local-p)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention.contract import Abilities
from regard.attention.kernel import Energy, masked_softmax
from regard.attention.mask import Bound
from regard.attention.score import ReweightedScore, Score


class LocalPredictive(ReweightedScore):
    """p_i = S · sigmoid(v_pᵀ tanh(W_p q_i)), α_ij = align(q_i, k_j) · exp(−(j − p_i)² / (2σ²)), σ = D/2.

    (Luong et al. 2015, Eq. 9 and 10 of the arXiv version). S is the number of valid keys of the row, j the key's
    position from 0, align the softmax of ``score`` over the allowed keys with |j − p_i| ≤ D, ``window`` = D. The
    weights are *not* normalized again: they sum to at most 1. W_p and v_p get a gradient through the Gaussian
    only; the edge of the window is piecewise constant in p_i.

    ``center`` is W_p (heads, d_q, d_q), ``direction`` v_p (heads, d_q). No state. Cost: that of ``score``, over all
    keys: the window saves no work here. Differs from the paper in: p_i is predicted per head.

    Args:
        score: the mechanism that computes the energies.
        heads: number of heads, each with its own parameters.
        query_width: d_q, features of a query per head.
        window: D, the number of keys on either side of p_i.
    """

    def __init__(self, score: Score, *, heads: int, query_width: int, window: float = 10) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}: a narrower one may contain no key")
        self.score, self.window = score, window
        self.center = nn.Parameter(torch.empty(heads, query_width, query_width))
        self.direction = nn.Parameter(torch.empty(heads, query_width))
        for parameter in (self.center, self.direction):
            nn.init.uniform_(parameter, -0.1, 0.1)

    def can(self) -> Abilities:
        # A causal query cannot know the length of the whole sequence, which p_t requires.
        return Abilities(
            causal=False,
            cross=True,
            stream="exact",
            weights=True,
            order_free=True,
            normalized=False,
            fused=False,
            may_see_nothing=True,
            same_width=self.score.can().same_width,
        )

    def predict(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Float[Tensor, "batch heads query"]:
        """Return p_t, in [0, S]."""
        hidden = torch.tanh(torch.einsum("bhtd,hed->bhte", query, self.center))
        share = torch.sigmoid(torch.einsum("bhte,he->bht", hidden, self.direction))
        return bound.key_length[:, None, None] * share

    def normalizer(
        self, query: Float[Tensor, "batch heads query width"], bound: Bound
    ) -> Callable[[Energy, Bool[Tensor, "batch 1 query key"]], Energy]:
        distance = bound.key.position[:, None, None, :] - self.predict(query, bound)[..., None]

        def align(
            energy: Float[Tensor, "batch heads query key"], allowed: Bool[Tensor, "batch #heads query key"]
        ) -> Float[Tensor, "batch heads query key"]:
            near = distance.abs() <= self.window
            return masked_softmax(energy, allowed & near) * torch.exp(-2 * (distance / self.window) ** 2)

        return align
