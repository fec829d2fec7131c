"""Components of convolutional models: weight-normalized maps, gated convolutions, scaled sums."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import conv1d, glu, linear

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.span import Span
from regard.models.dropout import Dropout

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two
GATE = 4.0  # factor by which a gated linear unit lowers the variance of its input (Gehring et al. 2017, appendix A.2)


class Convolution(nn.Module):
    """y_i = W [x_i; …; x_{i+k−1}] + b with each row of W = g · v / ‖v‖ (weight normalization, Salimans & Kingma 2016).

    v is ``direction`` and g is ``length``: norm and direction of a row are learned separately. There is no padding: the
    output has ``kernel`` − 1 fewer positions. A kernel of 1 is a linear map. W starts with independent components of
    variance ``gain`` / (kernel · in_width), b at 0; ``gain`` is then the factor of the variance. Cost: kernel ·
    in_width · out_width per position, and the same once per call for ‖v‖.
    """

    def __init__(self, in_width: int, out_width: int, *, kernel: int = 1, gain: float = 1.0) -> None:
        super().__init__()
        self.kernel = kernel
        start = torch.empty(out_width, in_width, kernel).normal_(std=math.sqrt(gain / (kernel * in_width)))
        self.direction = nn.Parameter(start)
        self.length = nn.Parameter(torch.linalg.vector_norm(start, dim=(1, 2)))
        self.bias = nn.Parameter(torch.zeros(out_width))

    @property
    def weight(self) -> Float[Tensor, "out_width in_width kernel"]:
        """W, in the layout of ``nn.Conv1d``."""
        norm = torch.linalg.vector_norm(self.direction, dim=(1, 2))
        return self.direction * (self.length / norm)[:, None, None]

    def forward(
        self, x: Float[Tensor, "rows length in_width"]
    ) -> Float[Tensor, "rows {x.shape[1]-self.kernel+1} out_width"]:
        if self.kernel == 1:
            return linear(x, self.weight[:, :, 0], self.bias)
        return conv1d(x.transpose(1, 2), self.weight, self.bias).transpose(1, 2)


def gain(dropout: float, *, gated: bool = False) -> float:
    """Return the factor of the variance that a map needs after ``dropout``, which raises it, and before a gate."""
    return (1 - dropout) * (GATE if gated else 1.0)


def residual(in_width: int, width: int) -> nn.Module:
    """Return the residual connection of a layer: the identity, or a linear map if the width changes."""
    return nn.Identity() if in_width == width else Convolution(in_width, width)


def scale_gradient(x: Float[Tensor, "*shape"], factor: float) -> Float[Tensor, "*shape"]:
    """Return x with a gradient that is multiplied by ``factor`` in the backward pass."""
    if not x.requires_grad:
        return x
    same = x.view_as(x)
    same.register_hook(lambda gradient: gradient * factor)
    return same


class GatedConvolution(Mixer):
    """v(W [x_{i−k+1}, …, x_i] + b) with the gated linear unit v([A; B]) = A ⊗ σ(B) (Gehring et al. 2017, §3.2).

    Causal: a position sees itself and ``kernel`` − 1 previous positions, zeros before the first. State: the last
    ``kernel`` − 1 inputs; padding does not change it. ``in_width``: width of x, if not ``width``; ``dropout`` is
    applied to x. Cost: 2 · kernel · in_width · width per position.
    """

    def __init__(self, width: int, *, kernel: int, in_width: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.kernel, self.in_width, self.dropout = kernel, in_width or width, Dropout(dropout)
        self.convolution = Convolution(self.in_width, 2 * width, kernel=kernel, gain=gain(dropout, gated=True))

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

    def start(self, rows: int) -> Float[Tensor, "{rows} {self.kernel}-1 {self.in_width}"]:
        return self.convolution.direction.new_zeros(rows, self.kernel - 1, self.in_width)

    def forward(
        self,
        x: Float[Tensor, "rows length in_width"],
        span: Span,
        state: Float[Tensor, "rows {self.kernel}-1 in_width"],
    ) -> Mixed:
        inputs = torch.cat([state, self.dropout(x)], 1)
        last = span.length[:, None] + torch.arange(self.kernel - 1, device=x.device)
        past = inputs.gather(1, last[..., None].expand(-1, -1, x.shape[2]))
        return Mixed(glu(self.convolution(inputs), -1), past)
