"""Dot product of tanhs: ESPnet's "dot" attention."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.mask import Bound
from regard.attention.score import ScoreTerms, SoftmaxScore


class TanhDot(SoftmaxScore):
    """e_ij = scale · Σ_d tanh(q_id) tanh(k_jd), α = softmax(e) (ESPnet's AttDot and AttMultiHeadDot).

    Every factor is below 1, so |e| < scale·d_k: with 1/√d_k no weight is more than exp(2√d_k) times another. The
    projections are those of the heads. In ESPnet, both have a bias with one head, and only the query's with several.
    Requires d_q = d_k. No parameters, no state. Cost: query·key·(d_k + d_v) per head and (query + key)·d_k tanhs.
    Differs from "Attention is all you need", which ESPnet's docstring names as its source, in the tanhs.

    Args:
        scale: None is 1/√d_k, as in AttMultiHeadDot; 2 is that of AttDot.
    """

    same_width = True

    def __init__(self, *, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key width"]
    ) -> Float[Tensor, "batch heads query key"]:
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return scale * torch.einsum("bhtd,bhsd->bhts", torch.tanh(query), torch.tanh(key))

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return ScoreTerms("product", f"tanh q · tanh k × {scale:.4g}", scale, query.tanh(), key.tanh())
