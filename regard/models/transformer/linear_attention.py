"""Linear attention: a positive feature map instead of the softmax, so time grows linearly with the length."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import elu, pad

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.linear_scan import CHUNK, chunked_scan
from regard.attention.span import Span
from regard.core.state import State


class LinearAttention(Mixer):
    """y_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / (φ(q_i)ᵀ Σ_j φ(k_j)), φ(x) = elu(x) + 1, j ≤ i where ``causal``

    (Katharopoulos et al. 2020, Eq. 5, 9 and 7): the weights are φ(q)·φ(k), without an exponential, so the sums over
    keys are computed once for all queries. Heads are concatenated and projected, as in the paper's code. State, if
    causal: both sums, (rows, heads, d, d + 1), float32 or wider; padding does not change it. It cannot be truncated.
    Cost: 4 · width² + 2 · width · (d + chunk) multiply-adds per position. No weights are computed.

    Args:
        width: features of a position.
        heads: number of heads.
        causal: whether a position sees no later one.
        chunk: number of positions per product, which changes only the order of sums.
    """

    def __init__(self, width: int, *, heads: int, causal: bool, chunk: int = CHUNK) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads must divide width = {width}, got {heads}")
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {chunk}")
        self.heads, self.causal, self.chunk = heads, causal, chunk
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))

    def can(self) -> Abilities:
        return Abilities(
            causal=self.causal,
            cross=False,
            stream="exact" if self.causal else "none",
            weights=False,
            order_free=False,
            normalized=True,
            fused=True,
        )

    def start(self, rows: int) -> State:
        if not self.causal:
            return ()
        weight = self.value.weight
        width = len(weight) // self.heads
        wide = torch.promote_types(weight.dtype, torch.float32)
        return torch.zeros(rows, self.heads, width, width + 1, dtype=wide, device=weight.device)

    def forward(self, x: Float[Tensor, "rows length width"], span: Span, state: State) -> Mixed:
        wide = torch.promote_types(x.dtype, torch.float32)
        query, key, value = (
            part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2).to(wide)
            for part in (self.query, self.key, self.value)
        )
        query = elu(query) + 1
        key = (elu(key) + 1).masked_fill(~span.valid[:, None, :, None], 0)
        value = pad(value, (0, 1), value=1.0)  # the last feature sums the weights
        if self.causal:
            sums, state = chunked_scan(query, key, value, state, chunk=self.chunk)
        else:
            sums = query @ (key.transpose(2, 3) @ value)
        total = sums[..., -1:]
        context = sums[..., :-1] / total.masked_fill(total == 0, 1.0)
        return Mixed(self.output(context.to(x.dtype).transpose(1, 2).flatten(2)), state)
