"""Linear layers with matrices laid out once for the processor's matrix units, in floating point or in 8 bits.

The only file that names torch's packed operators; without them (no oneDNN, not a CPU) plain layers compute the same.
For inference alone: no matrix here is a parameter or gets a gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from regard.models.transformer.feed_forward import FeedForward

__all__ = [
    "Format",
    "Int8Linear",
    "Packed",
    "PackedLinear",
    "PackedMatrix",
    "pack",
    "pack_layers",
    "rounded",
    "stacked",
]

Format = Literal["float", "int8"]
TYPICAL_ROWS = 64  # the layout is chosen for so many rows; any number works
REGISTER = 32  # features; torch's product of bfloat16 and 8 bits reads beyond the end of a register that is not full
ROUND = 16  # rows; oneDNN prepares and keeps a product for each number of rows, so few numbers are used
ZERO_POINT = 128  # of the unsigned 8-bit rows
STEPS = 8  # numbers of rows used between a power of two and the next


class PackedMatrix(NamedTuple):
    """W and b of y = x Wᵀ + b."""

    weight: Float[Tensor, "outputs inputs"]
    bias: Float[Tensor, "outputs"] | None = None

    @classmethod
    def of(cls, layer: nn.Linear) -> PackedMatrix:
        return cls(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())

    def map(self, change: Callable[[Tensor], Tensor]) -> PackedMatrix:
        """A matrix with ``change`` applied to W and, where there is one, to b."""
        return PackedMatrix(change(self.weight), None if self.bias is None else change(self.bias))


def stacked(*matrices: PackedMatrix) -> PackedMatrix:
    """Matrices over the same features stacked into one, so that one product computes all."""
    weight = torch.cat([each.weight for each in matrices])
    if all(each.bias is None for each in matrices):
        return PackedMatrix(weight)
    return PackedMatrix(weight, torch.cat([w.new_zeros(len(w)) if b is None else b for w, b in matrices]))


class Packed(ABC):
    """y = x Wᵀ + b."""

    @abstractmethod
    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]: ...

    def relu(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """max(0, y), by torch: oneDNN's own turns NaN into 0 and so hides a broken model."""
        return self(x).relu_()

    @abstractmethod
    def add_to(
        self, residual: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows outputs"]:
        """residual + y."""


def pack(matrix: PackedMatrix, format: Format, *, alone: bool = False) -> Packed:
    """Pack a matrix in its own number format (``float``) or in 8 bits (``int8``; requires no ``int8_obstacle``).

    ``alone``: also keep a second layout for products with a single row.
    """
    return Int8Linear(matrix, alone=alone) if format == "int8" else PackedLinear(matrix, alone=alone)


def _packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    narrow = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or bool(narrow)


class PackedLinear(Packed):
    """A packed matrix in its own number format and on its own device.

    A single row in float32 is multiplied by the unpacked matrix: there packing costs more than it saves.
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

    def add_to(
        self, residual: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows outputs"]:
        if not self.packed:
            return residual + linear(x, self.weight, self.bias)
        if self.plain is not None and len(x) == 1:
            y = torch.addmm(residual, x, self.plain)
            return y if self.bias is None else y.add_(self.bias)
        y = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return y


class Int8Linear(Packed):
    """y_ri = s_r w_i Σ_j x̂_rj Ŵ_ij + b_i, Ŵ and x̂ whole numbers from −127 to 127, W_ij ≈ w_i Ŵ_ij and x_rj ≈ s_r x̂_rj.

    Symmetric quantisation, with one scale an output feature and one a row. A row's largest feature sets its scale, and
    sums of whole numbers are exact, so a row's result does not depend on the rows beside it, to the bit. Takes and
    returns float32.

    Rows in bfloat16 are not quantised and give bfloat16: y_ri = w_i Σ_j x_rj Ŵ_ij + b_i. This is the fastest path for
    one or two rows and the slowest for more; only with ``alone``.
    """

    def __init__(self, matrix: PackedMatrix, *, alone: bool = False) -> None:
        weight, bias = matrix.weight.float(), matrix.bias
        least = (weight.abs().amax(1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
        self.scale = _bfloat16_above(least)
        whole = (weight / self.scale[:, None]).round_().to(torch.int8)
        self.weight = torch.ops.onednn.qlinear_prepack(whole, [TYPICAL_ROWS, whole.shape[1]])
        self.zero = torch.zeros(len(weight), dtype=torch.int64)
        self.bias = None if bias is None else bias.float()
        self.missing = -weight.shape[1] % REGISTER
        self.narrow = pad(whole, (0, self.missing)) if alone else None
        self.narrow_scale = self.scale.bfloat16()
        self.narrow_bias = None if bias is None else bias.bfloat16()

    def __call__(self, x: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        if x.dtype == torch.bfloat16:
            assert self.narrow is not None
            x = pad(x, (0, self.missing)) if self.missing else x
            y: Tensor = torch._weight_int8pack_mm(x, self.narrow, self.narrow_scale)
            return y if self.narrow_bias is None else y.add_(self.narrow_bias)
        product, scale = self._product(x)
        y = product.mul_(scale)
        return y if self.bias is None else y.add_(self.bias)

    def add_to(
        self, residual: Float[Tensor, "rows outputs"], x: Float[Tensor, "rows inputs"]
    ) -> Float[Tensor, "rows outputs"]:
        if x.dtype == torch.bfloat16:
            return self(x).add_(residual)
        product, scale = self._product(x)
        y = torch.addcmul(residual, product, scale)
        return y if self.bias is None else y.add_(self.bias)

    def _product(
        self, x: Float[Tensor, "rows inputs"]
    ) -> tuple[Float[Tensor, "rows outputs"], Float[Tensor, "rows 1"]]:
        """w_i Σ_j x̂_rj Ŵ_ij and s_r."""
        scale = (x.abs().amax(1, keepdim=True) / 127).clamp_min_(torch.finfo(torch.float32).tiny)
        return self.integer_product((x / scale).round_().to(torch.int8)), scale

    def integer_product(self, whole: Int[Tensor, "rows inputs"]) -> Float[Tensor, "rows outputs"]:
        """w_i Σ_j x̂_rj Ŵ_ij for x̂ in int8, which is overwritten.

        oneDNN gets the unsigned x̂ + 128 and the zero point 128, for which the matrix is laid out: with that layout it
        multiplies signed numbers a thousand times as slowly on processors with VNNI but without AMX.
        """
        unsigned = whole.view(torch.uint8).bitwise_xor_(ZERO_POINT)  # the sign bit flipped: 128 more
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, ZERO_POINT, self.weight, self.scale, self.zero, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return y


def _bfloat16_above(x: Float[Tensor, "features"]) -> Float[Tensor, "features"]:
    """The smallest bfloat16 numbers not below x; as scales they make both layouts of a matrix the same."""
    near = x.bfloat16()
    return torch.where(near.float() < x, near.nextafter(torch.full_like(near, torch.inf)), near).float()


class _Layer(nn.Module):
    """A packed matrix as a replacement of ``nn.Linear``, for input of any shape."""

    def __init__(self, matrix: Packed) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, x: Float[Tensor, "*shape inputs"]) -> Float[Tensor, "*shape outputs"]:
        rows = x.flatten(0, -2)
        y = self.matrix(pad(rows, (0, 0, 0, rounded(len(rows)) - len(rows))))
        return y[: len(rows)].unflatten(0, x.shape[:-1])


def rounded(rows: int) -> int:
    """``rows`` rounded up to one of few numbers, since a product is prepared for each number of rows."""
    octave = 1 << (max(rows, 2) - 1).bit_length() - 1  # the power of two below
    return rows + -rows % max(ROUND, octave // STEPS)


def pack_layers(module: nn.Module, format: Format) -> None:
    """Replace every ``nn.Linear`` inside ``module`` by its packed form, and ReLU by its in-place form."""
    if type(module) is FeedForward and module.activation is torch.relu:
        module.activation = torch.relu_
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, _Layer(pack(PackedMatrix.of(child), format)))
        else:
            pack_layers(child, format)
