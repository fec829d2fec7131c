"""Average attention: the gated mean of earlier positions, which replaces a decoder's self-attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.span import Span


class AverageState(NamedTuple):
    """Sum of the positions of each row so far, float32 or wider, and their number."""

    total: Float[Tensor, "rows width"]
    seen: Int[Tensor, "rows"]


class AverageAttention(Mixer):
    """ȳ_j = (1/j) Σ_{k≤j} y_k, g_j = FFN(ȳ_j), [i_j; f_j] = σ(W [y_j; g_j] + b), h_j = i_j ∘ y_j + f_j ∘ g_j

    (Zhang et al. 2018, Eq. 1–4): self-attention whose weights are all 1/j. FFN is two linear maps with ReLU between
    and ``inner`` units; without ``inner``, g = ȳ. The residual connection and norm (their Eq. 5) are the layer's.
    State: sum and count, both without padding. Cost: 4 · width² + 2 · width · ``inner`` per position, all positions
    at once. It returns no weights: all would be 1/j.

    Args:
        width: features of a position.
        inner: units of the feed-forward network; None: there is no such network.
    """

    carries = True

    def __init__(self, width: int, *, inner: int | None = None) -> None:
        super().__init__()
        if inner is not None and inner < 1:
            raise ValueError(f"inner must be at least 1, got {inner}")
        self.width = width
        self.feed_forward = (
            nn.Identity()
            if inner is None
            else nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        )
        self.gate = nn.Linear(2 * width, 2 * width)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=False,
            stream="exact",
            weights=False,
            order_free=False,
            normalized=False,
            fused=True,
        )

    def start(self, rows: int) -> AverageState:
        weight = self.gate.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        total = torch.zeros(rows, self.width, dtype=wide, device=weight.device)
        return AverageState(total, torch.zeros(rows, dtype=torch.int64, device=weight.device))

    def forward(self, x: Float[Tensor, "rows length width"], span: Span, state: AverageState) -> Mixed:
        valid = span.valid
        totals = state.total[:, None] + x.to(state.total.dtype).masked_fill(~valid[..., None], 0).cumsum(1)
        counts = state.seen[:, None] + valid.cumsum(1)
        mean = (totals / counts.clamp_min(1)[..., None]).to(x.dtype)
        g: Tensor = self.feed_forward(mean)
        input_gate, forget_gate = torch.sigmoid(self.gate(torch.cat([x, g], -1))).chunk(2, -1)
        return Mixed(input_gate * x + forget_gate * g, AverageState(totals[:, -1], counts[:, -1]))
