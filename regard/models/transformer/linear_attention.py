"""Linear attention: a positive feature map in place of the softmax, so that time grows with the length alone."""

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
    """y_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j), φ(x) = elu(x) + 1, j ≤ i where ``causal``

    (Katharopoulos et al. 2020, Eq. 5, 9 and 7): the weights φ(q)·φ(k) are those of attention without the exponential,
    which is what lets the sums over keys be formed once. Heads are concatenated and projected, as in the paper's code.
    ``chunk``: columns that are multiplied at once, which changes the order of sums only.
    State, where causal: both sums, (rows, heads, d, d + 1), float32 or wider; padded columns leave it alone. It cannot
    be truncated. Cost: 4 · width² + 2 · width · (d + chunk) multiply-adds a position. No weights are formed.
    """

    def __init__(self, width: int, *, heads: int, causal: bool, chunk: int = CHUNK) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"heads = {heads} does not divide width = {width}")
        if chunk < 1:
            raise ValueError(f"chunk = {chunk}: a chunk has at least one column")
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
            found, state = chunked_scan(query, key, value, state, chunk=self.chunk)
        else:
            found = query @ (key.transpose(2, 3) @ value)
        total = found[..., -1:]
        context = found[..., :-1] / total.masked_fill(total == 0, 1.0)
        return Mixed(self.output(context.to(x.dtype).transpose(1, 2).flatten(2)), state)
