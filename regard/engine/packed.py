"""Linear layers and output projections with matrices laid out once for the processor's matrix units.

Their formats are float32 and bfloat16. Only this file calls torch's packed operators. Without them (no oneDNN, not a
CPU), plain layers compute the same. For inference only: no matrix here is a parameter or receives a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from regard.models.copying import Pointed, mixture
from regard.models.transformer.feed_forward import FeedForward
from regard.search.contract import Reduce

TYPICAL_ROWS = 64  # the layout is optimized for this number of rows; any number works
ROUND = 16  # rows; oneDNN compiles and caches a product for each number of rows, hence rows are padded to a few numbers
STEPS = 8  # padded numbers of rows between a power of two and the next
# Rows per pass over the output projection, and rows whose probabilities are computed and reduced together.
PROJECTED, REDUCED = 64, 16


class PackedMatrix(NamedTuple):
    """W and b of y = x Wᵀ + b."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, "outputs"] | None = None

    @classmethod
    def of(cls, layer: nn.Linear) -> PackedMatrix:
        return cls(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

    def map(self, change: Callable[[Tensor], Tensor]) -> PackedMatrix:
        """Return a matrix with ``change`` applied to W and, if present, to b."""
        return PackedMatrix(change(self.weight), None if self.bias is None else change(self.bias))


def stacked(*matrices: PackedMatrix) -> PackedMatrix:
    """Stack matrices over the same features into one, to compute them all with one product."""
    weight = torch.cat([matrix.weight for matrix in matrices])
    if all(matrix.bias is None for matrix in matrices):
        return PackedMatrix(weight)
    return PackedMatrix(weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in matrices]))


def _packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    narrow = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or bool(narrow)


class PackedLinear:
    """y = x Wᵀ + b with a packed matrix, in its own number format and on its own device.

    ``alone``: also store the unpacked matrix, which multiplies a single row in float32: for it, packing costs more than
    it saves.
    """

    def __init__(self, matrix: PackedMatrix, *, alone: bool = False) -> None:
        weight, self.bias = matrix
        self.packed = _packable(weight)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS) if self.packed else weight
        self.plain = weight.t() if alone and self.packed and weight.dtype == torch.float32 else None

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        if not self.packed:
            return linear(x, self.weight, self.bias)
        if self.plain is not None and len(x) == 1:
            return x.mm(self.plain) if self.bias is None else torch.addmm(self.bias, x, self.plain)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y

    def relu(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """Return max(0, y), computed by torch: oneDNN's own ReLU maps NaN to 0 and so hides a broken model."""
        return self(x).relu_()

    def add_to(
        self, residual: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows outputs"]:
        """Return residual + y."""
        if not self.packed:
            return residual + linear(x, self.weight, self.bias)
        if self.plain is not None and len(x) == 1:
            y = torch.addmm(residual, x, self.plain)
            return y if self.bias is None else y.add_(self.bias)
        y = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return y


class _Layer(nn.Module):
    """A packed matrix as a replacement for ``nn.Linear``, for input of any shape."""

    def __init__(self, matrix: PackedLinear) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        rows = x.flatten(0, -2)
        y = self.matrix(pad(rows, (0, 0, 0, rounded(len(rows)) - len(rows))))
        return y[: len(rows)].unflatten(0, x.shape[:-1])


def rounded(rows: int) -> int:
    """Round ``rows`` up to one of few numbers, because a product is compiled for each number of rows."""
    octave = 1 << (max(rows, 2) - 1).bit_length() - 1  # the power of two below
    return rows + -rows % max(ROUND, octave // STEPS)


def pack_layers(module: nn.Module, unchanged: nn.Module | None = None) -> None:
    """Replace every ``nn.Linear`` in ``module`` by its packed form, and ReLU by its in-place form.

    ``unchanged``: a part that keeps its layers, such as an input of frames, which reads their dtype.
    """
    if type(module) is FeedForward and module.activation is torch.relu:
        module.activation = torch.relu_
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, _Layer(PackedLinear(PackedMatrix.of(child))))
        elif child is not unchanged:
            pack_layers(child, unchanged)


class FastHead:
    """A packed output projection that computes in ``dtype``."""

    def __init__(
        self, weight: Float[Tensor, "types width"], bias: Float[Tensor, "types"] | None, dtype: torch.dtype
    ) -> None:
        output = PackedMatrix(weight.detach().to(dtype, copy=True), None if bias is None else bias.detach().to(dtype))
        self.projection = PackedLinear(output, alone=True)

    def log_probabilities(self, features: Float[Tensor, "padded width"], count: int) -> Float[Tensor, "{count} types"]:
        """Return log-probabilities of the first ``count`` rows, in float32 or wider."""
        (log_p_rows,) = self.reduce(features, count, lambda log_p, rows: (log_p,))
        return log_p_rows

    def reduce(
        self, features: Float[Tensor, "padded width"], count: int, reduce: Reduce, pointed: Pointed | None = None
    ) -> tuple[Tensor, ...]:
        """Apply ``reduce`` to the first ``count`` rows, a few at a time, to stay within the processor's cache.

        ``pointed``: of each row, if outputs copy source tokens.
        """
        parts = []
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(REDUCED)):
                rows = slice(start + number * REDUCED, start + number * REDUCED + len(piece))
                if pointed is None:
                    log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                else:
                    log_p = mixture(piece, Pointed(*(part[rows] for part in pointed)))
                parts.append(reduce(log_p, rows))
        return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))
