"""Simpler simple recurrent unit (SSRU): one vector per layer holds a decoder's past, instead of self-attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.span import Span


class SimpleRecurrent(Mixer):
    """f_t = σ(W_f x_t + b_f), c_t = f_t ∘ c_{t−1} + (1 − f_t) ∘ W x_t, h_t = ReLU(c_t), with c_0 = 0 (Kim et al. 2019).

    c decays exponentially, at a rate that each component computes from x; the residual connection and norm around it
    are the layer's. State: c, float32 or wider, since a small 1 − f would vanish in bfloat16; padding does not change
    it. Cost: 2 · width² per position in two products over all positions; only the elementwise recurrence of c runs
    position by position. It returns no weights. W has no bias.

    Args:
        width: features of a position.
    """

    carries = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.forget, self.value = nn.Linear(width, width), nn.Linear(width, width, bias=False)

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

    def start(self, rows: int) -> Float[Tensor, "{rows} width"]:
        weight = self.value.weight
        return torch.zeros(rows, weight.shape[0], dtype=_wide(weight), device=weight.device)

    def forward(self, x: Float[Tensor, "rows length width"], span: Span, state: Float[Tensor, "rows width"]) -> Mixed:
        wide = _wide(x)
        keep = torch.sigmoid(self.forget(x).to(wide))
        new = (1 - keep) * self.value(x).to(wide)
        padding = ~span.valid[..., None]
        keep, new = keep.masked_fill(padding, 1), new.masked_fill(padding, 0)
        cells = []
        for factor, added in zip(keep.unbind(1), new.unbind(1), strict=True):
            state = torch.addcmul(added, factor, state)
            cells.append(state)
        return Mixed(torch.relu(torch.stack(cells, 1)).to(x.dtype), state)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
