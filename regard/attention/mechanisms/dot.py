"""Scaled dot-product attention."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.contract import Abilities, Attended
from regard.attention.kernel import attend
from regard.attention.mask import Bound
from regard.attention.positions.distance_bias import EnergyBias
from regard.attention.score import Score, ScoreTerms
from regard.core.state import State


class Dot(Score):
    """e_ij = q_i·k_j / √d_k, α_ij = exp(e_ij) / Σ_j' exp(e_ij'), c_i = Σ_j α_ij v_j (Vaswani et al. 2017, Eq. 1).

    If the components of q and k are independent, with mean 0 and variance 1, q·k has variance d_k (footnote 4): the
    scale keeps the softmax from saturating. Requires d_q = d_k. No state, no parameters except those of ``bias``. Cost:
    query·key·(d_k + d_v) per head.

    Args:
        scale: None is 1/√d_k; 1 is the unscaled product of Luong et al. 2015 (§3.1).
        bias: b(i, j, head), ALiBi's or T5's bias by distance, which the paper does not use. It is not scaled, and
            several layers may share one.
    """

    def __init__(self, *, scale: float | None = None, bias: EnergyBias | None = None) -> None:
        super().__init__()
        if bias is not None and not isinstance(bias, EnergyBias):
            raise TypeError(f"bias must be an EnergyBias module, got {bias!r}")
        self.scale, self.bias = scale, bias

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=True,
            stream="exact",
            weights=True,
            order_free=self.bias is None,
            normalized=True,
            fused=True,
            same_width=True,
        )

    def energy(
        self, query: Float[Tensor, "batch heads query width"], key: Float[Tensor, "batch heads key width"]
    ) -> Float[Tensor, "batch heads query key"]:
        if self.bias is not None:
            raise ValueError(
                "dot attention with a bias cannot be the score of another mechanism: its energies depend on positions"
            )
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        return scale * torch.einsum("bhtd,bhsd->bhts", query, key)

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
        bias = None if self.bias is None else self.bias(query, bound)
        context, weights = attend(
            query, key, value, bound, scale=self.scale, bias=bias, dropping=self.dropping, need_weights=need_weights
        )
        return Attended(context, weights, state)

    def terms(
        self, query: Float[Tensor, "heads query width"], key: Float[Tensor, "heads key prepared"], bound: Bound
    ) -> ScoreTerms | None:
        scale = 1 / math.sqrt(query.shape[-1]) if self.scale is None else self.scale
        formula = f"q·k / √{query.shape[-1]}" if self.scale is None else f"q·k × {scale:.4g}"
        if self.bias is None:
            return ScoreTerms("product", formula, scale, query, key)
        whole = query.new_zeros(1, len(query), bound.query.valid.shape[1], query.shape[-1])
        bias = self.bias(whole, bound)[0, :, : query.shape[1], : key.shape[1]].detach()
        return ScoreTerms("product", f"{formula} + bias", scale, query, key, bias=bias)
