"""Mamba-2: a linear recurrence with input-dependent decay, which replaces self-attention."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, silu, softplus

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.linear_scan import CHUNK, chunked_scan
from regard.attention.norm import RootMeanSquareNorm
from regard.attention.span import Span

STEPS = (1e-3, 1e-1)  # initial range of Δ, one per head, evenly spaced in the logarithm (Gu & Dao 2023, §3.6)
RATES = (1.0, 16.0)  # initial range of −A


class Mamba2State(NamedTuple):
    """Last inputs of the convolution, and S of each head, float32 or wider."""

    recent: Float[Tensor, "rows kept features"]
    memory: Float[Tensor, "rows heads state value"]


class Mamba2(Mixer):
    """S_t = exp(Δ_t A) S_{t−1} + Δ_t B_t x_tᵀ, y_t = S_tᵀ C_t + D x_t, out = W_o RMSNorm(y_t ∘ SiLU(W_z u_t))

    x, B, C = SiLU(conv(W u)) with a causal convolution of each feature, Δ_t = softplus(W_Δ u_t + b). Each head
    has one number A < 0, Δ and D (Dao & Gu 2024, §7.1; SSD with a scalar decay, Eq. 8). B and C correspond to keys and
    queries, which all heads share, and x to values: S is linear attention with an input-dependent decay.

    Causal only. State: the last ``kernel`` − 1 inputs and S; padding changes neither. It cannot be truncated. Cost: (3
    · ``expand`` · width + 2 · ``state``) · width multiply-adds per position, and the scan. No weights are computed.

    Args:
        width: features of a position.
        heads: number of heads, which divides ``expand`` · width.
        causal: must be True.
        expand: ``expand`` · width are the features of x.
        state: features of B and C.
        kernel: width of the convolution.
        chunk: number of positions per product, which changes only the order of sums.
    """

    def __init__(
        self, width: int, *, heads: int, causal: bool, expand: int = 2, state: int = 64, kernel: int = 4,
        chunk: int = CHUNK,
    ) -> None:  # fmt: skip
        super().__init__()
        if not causal:
            raise ValueError("mamba2 is causal: use linear, global-local or self-attention in an encoder")
        if min(expand, state, kernel, chunk) < 1:
            raise ValueError("expand, state, kernel and chunk must be 1 or more")
        inner = expand * width
        if inner % heads:
            raise ValueError(f"heads must divide expand · width = {inner}, got {heads}")
        self.heads, self.inner, self.features, self.kernel, self.chunk = heads, inner, state, kernel, chunk
        mixed = inner + 2 * state
        self.gate = nn.Linear(width, inner, bias=False)
        self.mixed = nn.Linear(width, mixed, bias=False)  # x, B, C
        self.step = nn.Linear(width, heads, bias=False)
        bound = 1 / math.sqrt(kernel)
        self.filters = nn.Parameter(torch.empty(mixed, 1, kernel).uniform_(-bound, bound))
        self.filter_bias = nn.Parameter(torch.zeros(mixed))
        steps = torch.linspace(math.log(STEPS[0]), math.log(STEPS[1]), heads).exp()
        self.step_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))  # inverse of softplus
        self.rate = nn.Parameter(torch.linspace(*RATES, heads).log())  # log −A
        self.skip = nn.Parameter(torch.ones(heads))  # D
        self.norm = RootMeanSquareNorm(inner, eps=1e-5)
        self.output = nn.Linear(inner, width, bias=False)

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

    def start(self, rows: int) -> Mamba2State:
        weight = self.output.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        recent = torch.zeros(rows, self.kernel - 1, len(self.filters), dtype=weight.dtype, device=weight.device)
        size = (rows, self.heads, self.features, self.inner // self.heads)
        return Mamba2State(recent, torch.zeros(size, dtype=wide, device=weight.device))

    def forward(self, x: Float[Tensor, "rows length width"], span: Span, state: Mamba2State) -> Mixed:
        wide, padding = torch.promote_types(x.dtype, torch.float32), ~span.valid
        inputs = torch.cat([state.recent.to(x.dtype), self.mixed(x)], 1)
        # Padding is at the end of a row, so the last valid inputs precede index ``length`` of the piece.
        last = span.length[:, None] + torch.arange(self.kernel - 1, device=x.device)
        recent = inputs.take_along_dim(last[..., None], 1)
        filtered = conv1d(inputs.transpose(1, 2), self.filters, self.filter_bias, groups=len(self.filters))
        value, key, query = silu(filtered.transpose(1, 2)).to(wide).split([self.inner, *[self.features] * 2], -1)
        value = value.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        step = softplus(self.step(x).to(wide) + self.step_bias).masked_fill(padding[..., None], 0)
        step = step.transpose(1, 2)  # padding neither adds nor decays
        scanned, memory = chunked_scan(
            query[:, None], key[:, None], value * step[..., None], state.memory, -step * self.rate.exp()[:, None],
            chunk=self.chunk,
        )  # fmt: skip
        scanned = scanned + self.skip[:, None, None] * value
        scanned = scanned.transpose(1, 2).flatten(2).to(x.dtype)
        return Mixed(self.output(self.norm(scanned * silu(self.gate(x)))), Mamba2State(recent, memory))
