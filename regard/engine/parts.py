"""Parts of a fast layer other than attention: norms, residual frames and feed-forwards over rows of features."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.engine.packed import PackedLinear, PackedMatrix, stacked
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.norms import PostNorm, Residual

Rows = Float[Tensor, "rows width"]


def padded(x: Float[Tensor, "rows *width"], rows: int) -> Float[Tensor, "{rows} *width"]:
    """Append rows of zeros to ``x``, up to ``rows`` rows."""
    missing = rows - len(x)
    return pad(x, (0, 0) * (x.dim() - 1) + (0, missing)) if missing else x


def norm(layer: nn.Module, scale: float = 1.0) -> Callable[[Tensor], Tensor]:
    """Return a norm as a function, without the cost of a module call; its gains are multiplied by ``scale``."""
    if type(layer) is nn.LayerNorm:
        weight, bias = layer.weight.detach() * scale, layer.bias.detach() * scale
        return lambda x: torch.layer_norm(x, layer.normalized_shape, weight, bias, layer.eps)
    if isinstance(layer, nn.RMSNorm):
        gains = layer.weight.detach() * scale
        scales = {dtype: gains.to(dtype) for dtype in (layer.weight.dtype, torch.float32)}
        return _RootMeanSquare(scales, layer.normalized_shape[0], layer.eps)
    return _same if type(layer) is nn.Identity else layer


class _RootMeanSquare:
    """x / √(mean of x² + ε) · g in half the operations of torch's implementation, which has no kernel for CPUs."""

    def __init__(self, gains: dict[torch.dtype, Tensor], width: int, epsilon: float | None) -> None:
        self.gains, self.share, self.epsilon = gains, 1 / width, epsilon

    def __call__(self, x: Tensor) -> Tensor:
        gains = self.gains[x.dtype]
        if self.epsilon is None or x.dtype == torch.bfloat16 or not x.shape[0]:
            return torch.rms_norm(x, gains.shape, gains, self.epsilon)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * length.mul_(length).mul_(self.share).add_(self.epsilon).rsqrt_() * gains


def _same(x: Tensor) -> Tensor:
    return x


class Start:
    """λ x + μ e for a layer with a residual from the embedded tokens e, else x."""

    def __init__(self, mix: Float[Tensor, "2"] | None) -> None:
        self.mix: tuple[float, float] | None = None if mix is None else tuple(mix.detach().tolist())

    def __call__(self, x: Rows, embedded: Rows) -> Rows:
        return x if self.mix is None else torch.add(x * self.mix[0], embedded, alpha=self.mix[1])


class Frame:
    """Residual frame without dropout: a norm before the branch or after the sum."""

    def __init__(self, frame: Residual) -> None:
        post, normed = isinstance(frame, PostNorm), norm(frame.norm)
        self.before: Callable[[Rows], Rows] = _same if post else normed
        self.after: Callable[[Rows], Rows] = normed if post else _same


class _FeedForward:
    """Two packed matrices around an activation."""

    def __init__(self, layer: FeedForward) -> None:
        self.up, self.down = (PackedLinear(PackedMatrix.of(x), alone=True) for x in (layer.up, layer.down))
        self.activation = layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        rectifies = self.activation is torch.relu
        inner = self.up.relu(x) if rectifies else self.activation(self.up(x))
        return self.down.add_to(residual, inner)


class _GatedFeedForward:
    """A gated feed-forward with its first two matrices stacked into one."""

    def __init__(self, layer: GatedFeedForward) -> None:
        self.up = PackedLinear(stacked(PackedMatrix.of(layer.gate), PackedMatrix.of(layer.up)), alone=True)
        self.down, self.activation = PackedLinear(PackedMatrix.of(layer.down), alone=True), layer.activation

    def __call__(self, x: Rows, residual: Rows) -> Rows:
        gate, inner = self.up(x).chunk(2, 1)
        return self.down.add_to(residual, self.activation(gate) * inner)


def feed_forward(layer: FeedForward | GatedFeedForward) -> Callable[[Rows, Rows], Rows]:
    """Return the feed-forward with packed matrices: (x, residual) to residual + FFN(x)."""
    return _FeedForward(layer) if isinstance(layer, FeedForward) else _GatedFeedForward(layer)
