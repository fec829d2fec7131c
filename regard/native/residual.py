"""End of a residual branch in training, with the kernels: dropout, sum and LayerNorm in one pass per direction."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.native import passes
from regard.native.passes import CHUNK_ROWS, LANES, covers, keep_scale, row_pass


class LayerNormWeights(NamedTuple):
    """Gain g, bias b and ε of a LayerNorm."""

    gain: Float[Tensor, "width"]
    bias: Float[Tensor, "width"]
    epsilon: float


def join(
    x: Float[Tensor, "*rows width"],
    added: Float[Tensor, "*rows width"],
    draws: UInt8[Tensor, "*rows width"] | None,
    threshold: int,
    norm: LayerNormWeights | None,
) -> Float[Tensor, "*rows width"] | None:
    """Return LayerNorm(x + m ∘ added), or the sum without ``norm``; None if the kernels do not support these tensors.

    m is 256 / (256 - threshold) if a byte's draw is at least the threshold, else 0; 1 without draws. Dropout and sum
    are bit-identical to torch's operations; LayerNorm differs by rounding.
    """
    if not (covers(x) and covers(added)) or x.shape != added.shape or x.dtype != added.dtype or x.shape[-1] % LANES:
        return None
    gain, bias, epsilon = norm or (None, None, 0.0)
    joined: Tensor = _Join.apply(x, added, draws, threshold, gain, bias, epsilon)
    return joined


def layer_norm(x: Float[Tensor, "*rows width"], norm: LayerNormWeights) -> Float[Tensor, "*rows width"] | None:
    """Return (x − mean) / √(variance + ε) · g + b over the last dimension; None if the kernels do not support x."""
    if not covers(x) or x.shape[-1] % LANES:
        return None
    normed: Tensor = _Join.apply(x, None, None, 0, *norm)
    return normed


class _Join(torch.autograd.Function):
    """y = (s − mean) r g + b with s = x + m ∘ d and r = 1 / √(variance + ε).

    With h = (s − mean) r and u = g ∘ ∂y: ∂x = r (u − mean(u) − h mean(u ∘ h)), ∂d = m ∘ ∂x, ∂g = Σ ∂y ∘ h, ∂b = Σ ∂y.
    """

    @staticmethod
    def forward(
        context: Any,
        x: Tensor,
        added: Tensor | None,
        draws: Tensor | None,
        threshold: int,
        gain: Tensor | None,
        bias: Tensor | None,
        epsilon: float,
    ) -> Tensor:
        x, width = x.contiguous(), x.shape[-1]
        rows = x.numel() // width
        total = x if added is None else torch.empty_like(x)
        y = total if gain is None else torch.empty_like(x)
        statistics = None if gain is None else torch.empty(2 * rows)
        weights = _wide(gain, bias)
        tensors = {"x": x, "g": None if added is None else added.contiguous(), "draw": draws, "kept": statistics}
        call = row_pass("join", x.dtype, rows, width, **tensors, y=y, **weights)
        if added is not None:
            call.other = total.data_ptr()
        call.threshold, call.scale, call.epsilon = threshold, keep_scale(threshold, x.dtype), epsilon
        passes.run(call, x.numel())
        context.save_for_backward(None if gain is None else total, draws, statistics, gain, bias)
        context.threshold, context.adds = threshold, added is not None
        return y

    @staticmethod
    @once_differentiable
    def backward(
        context: Any, upstream: Tensor
    ) -> tuple[Tensor, Tensor | None, None, None, Tensor | None, Tensor | None, None]:
        total, draws, statistics, gain, bias = context.saved_tensors
        upstream, width = upstream.contiguous(), upstream.shape[-1]
        rows = upstream.numel() // width
        to_x = upstream if gain is None else torch.empty_like(upstream)
        to_added = torch.empty_like(upstream) if draws is not None else to_x if context.adds else None
        if gain is None and draws is None:
            return to_x, to_added, None, None, None, None, None
        parts = None if gain is None else torch.zeros(-(-rows // CHUNK_ROWS), 2, width)
        tensors = {"x": total, "g": upstream, "draw": draws, "kept": statistics, "part": parts}
        call = row_pass("join-back", upstream.dtype, rows, width, **tensors, y=to_x, **_wide(gain, bias))
        if draws is not None and to_added is not None:
            call.other = to_added.data_ptr()
        call.threshold, call.scale = context.threshold, keep_scale(context.threshold, upstream.dtype)
        passes.run(call, upstream.numel())
        to_gain, to_bias = (None, None) if parts is None else parts.sum(0).to(gain.dtype)
        return to_x, to_added, None, None, to_gain, to_bias, None


def _wide(gain: Tensor | None, bias: Tensor | None) -> dict[str, Tensor]:
    """Return the weights of the norm in float32, by the field of the pass."""
    return {} if gain is None or bias is None else {"first": gain.float(), "second": bias.float()}
