"""Linear layers whose matrices are laid out once for the processor's matrix units, in floating point or in 8 bits.

The one file that names torch's own packed operators. Where they are absent (no oneDNN, not a CPU) plain layers compute
the same. For inference alone: none of it is a parameter or gives a gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from regard.models.transformer.feed_forward import FeedForward

__all__ = ["Format", "Int8Linear", "Packed", "PackedLinear", "PackedMatrix", "pack", "pack_layers"]

Format = Literal["float", "int8"]
TYPICAL_ROWS = 64  # what the layout is chosen for; any number works
REGISTER = 32  # whole registers of features: torch's product of bfloat16 and 8 bits reads beyond the end of others
ROUND = 16  # oneDNN prepares a product anew for each number of rows that it meets, and remembers each
ZERO_POINT = 128  # of the rows in 8 bits
STEPS = 8  # from a number of rows to twice as many, where they are many


class PackedMatrix(NamedTuple):
    """W and b of y = x Wᵀ + b."""

    weight: Float[Tensor, "leave enter"]
    bias: Float[Tensor, "leave"] | None = None

    @classmethod
    def of(cls, layer: nn.Linear) -> PackedMatrix:
        return cls(layer.weight.detach(), None if layer.bias is None else layer.bias.detach())


class Packed(ABC):
    """y = x Wᵀ + b."""

    @abstractmethod
    def __call__(self, x: Float[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]: ...

    def rectified(self, x: Float[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]:
        """max(0, y). Not oneDNN's own, which makes 0 of what is not a number and so hides a broken model."""
        return self(x).relu_()

    @abstractmethod
    def onto(
        self, residual: Float[Tensor, "rows leave"], x: Float[Tensor, "rows enter"]
    ) -> Float[Tensor, "rows leave"]:
        """residual + y."""


def pack(matrix: PackedMatrix, format: Format, *, alone: bool = False) -> Packed:
    """``float``: as the matrix is; ``int8``: in 8 bits, to which ``processor.int8_obstacle`` must know no obstacle.

    ``alone``: a row may come by itself, for which the matrix is kept in a second layout.
    """
    return Int8Linear(matrix, alone=alone) if format == "int8" else PackedLinear(matrix, alone=alone)


def _packable(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    narrow = weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 or bool(narrow)


class PackedLinear(Packed):
    """In the number format and on the device of the matrix.

    A row alone in float32 is multiplied as the matrix stands: there packing costs more than it saves.
    """

    def __init__(self, matrix: PackedMatrix, *, alone: bool = False) -> None:
        weight, self.bias = matrix
        self.packed = _packable(weight)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight, TYPICAL_ROWS) if self.packed else weight
        self.plain = weight.t() if alone and self.packed and weight.dtype == torch.float32 else None

    def __call__(self, x: Float[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]:
        if not self.packed:
            return linear(x, self.weight, self.bias)
        if self.plain is not None and len(x) == 1:
            return x.mm(self.plain) if self.bias is None else torch.addmm(self.bias, x, self.plain)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return y

    def onto(
        self, residual: Float[Tensor, "rows leave"], x: Float[Tensor, "rows enter"]
    ) -> Float[Tensor, "rows leave"]:
        if not self.packed:
            return residual + linear(x, self.weight, self.bias)
        if self.plain is not None and len(x) == 1:
            y = torch.addmm(residual, x, self.plain)
            return y if self.bias is None else y.add_(self.bias)
        y = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")
        return y


class Int8Linear(Packed):
    """y_ri = s_r w_i Σ_j x̂_rj Ŵ_ij + b_i, Ŵ and x̂ whole numbers from −127 to 127, W_ij ≈ w_i Ŵ_ij and x_rj ≈ s_r x̂_rj.

    Symmetric, one scale an output feature and one a row. A row's own largest feature sets its scale, and sums of whole
    numbers are exact, so what a row gives does not depend on the rows beside it, to the bit. Takes and gives float32.

    Rows in bfloat16 stay as they are, and so does what they give: y_ri = w_i Σ_j x_rj Ŵ_ij + b_i. For a row or two that
    is the quickest there is, and for more the slowest; only with ``alone``.
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

    def __call__(self, x: Float[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]:
        if x.dtype == torch.bfloat16:
            assert self.narrow is not None
            x = pad(x, (0, self.missing)) if self.missing else x
            y: Tensor = torch._weight_int8pack_mm(x, self.narrow, self.narrow_scale)
            return y if self.narrow_bias is None else y.add_(self.narrow_bias)
        product, scale = self._product(x)
        y = product.mul_(scale)
        return y if self.bias is None else y.add_(self.bias)

    def onto(
        self, residual: Float[Tensor, "rows leave"], x: Float[Tensor, "rows enter"]
    ) -> Float[Tensor, "rows leave"]:
        if x.dtype == torch.bfloat16:
            return self(x).add_(residual)
        product, scale = self._product(x)
        y = torch.addcmul(residual, product, scale)
        return y if self.bias is None else y.add_(self.bias)

    def _product(self, x: Float[Tensor, "rows enter"]) -> tuple[Float[Tensor, "rows leave"], Float[Tensor, "rows 1"]]:
        """w_i Σ_j x̂_rj Ŵ_ij and s_r."""
        scale = (x.abs().amax(1, keepdim=True) / 127).clamp_min_(torch.finfo(torch.float32).tiny)
        return self.sums((x / scale).round_().to(torch.int8)), scale

    def sums(self, whole: Int[Tensor, "rows enter"]) -> Float[Tensor, "rows leave"]:
        """w_i Σ_j x̂_rj Ŵ_ij of x̂ in int8, which is overwritten.

        oneDNN gets x̂ + 128 without a sign and the zero point 128, for which the matrix is laid out: signed numbers with
        that layout it multiplies one by one, a thousand times as slowly, on processors with VNNI but without AMX.
        """
        unsigned = whole.view(torch.uint8).bitwise_xor_(ZERO_POINT)  # the sign bit flipped: 128 more
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            unsigned, 1.0, ZERO_POINT, self.weight, self.scale, self.zero, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return y


def _bfloat16_above(x: Float[Tensor, "outputs"]) -> Float[Tensor, "outputs"]:
    """The least numbers of bfloat16 that are not below x: with them as scales both forms of a matrix are the same."""
    near = x.bfloat16()
    return torch.where(near.float() < x, near.nextafter(torch.full_like(near, torch.inf)), near).float()


class _Layer(nn.Module):
    """A packed matrix in the place of an ``nn.Linear``, for input of any shape."""

    def __init__(self, matrix: Packed) -> None:
        super().__init__()
        self.matrix = matrix

    def forward(self, x: Float[Tensor, "*shape enter"]) -> Float[Tensor, "*shape leave"]:
        rows = x.flatten(0, -2)
        y = self.matrix(pad(rows, (0, 0, 0, _rounded(len(rows)) - len(rows))))
        return y[: len(rows)].unflatten(0, x.shape[:-1])


def _rounded(rows: int) -> int:
    """At least ``rows``, and one of few: otherwise texts of all lengths would have a product prepared each."""
    octave = 1 << (max(rows, 2) - 1).bit_length() - 1  # the power of two below
    return rows + -rows % max(ROUND, octave // STEPS)


def pack_layers(module: nn.Module, format: Format) -> None:
    """Replace every ``nn.Linear`` inside ``module`` by its packed form; what a layer gives is rectified in place."""
    if type(module) is FeedForward and module.activation is torch.relu:
        module.activation = torch.relu_
    for name, child in module.named_children():
        if type(child) is nn.Linear:
            setattr(module, name, _Layer(pack(PackedMatrix.of(child), format)))
        else:
            pack_layers(child, format)
