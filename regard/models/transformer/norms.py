"""Normalizations, and residual connections around a sub-layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.norm import RootMeanSquareNorm
from regard.core.reference_mode import in_reference_mode
from regard.models.dropout import Dropout
from regard.native.passes import covers
from regard.native.residual import LayerNormWeights, join, layer_norm

Columns = Float[Tensor, "batch length width"]
Normalization = Literal["layer", "rms", "batch", "none"]


class BatchNorm(nn.BatchNorm1d):
    """Per feature (x − mean) / √(variance + ε) · g + b over all columns of the batch (Ioffe and Szegedy 2015).

    For comparison with LayerNorm, with known faults for sequences: padded columns count like any other, so a result
    depends on the rest of the batch and on its padding, and a decoder in training sees something of later positions.
    In evaluation the running mean and variance are used, which are saved with the weights; a result then depends on
    one column alone.
    """

    def forward(self, input: Columns) -> Columns:
        return super().forward(input.flatten(0, -2)).view_as(input) if input.numel() else input


NORMALIZATIONS: dict[str, Callable[[int, float | None], nn.Module]] = {
    "layer": lambda width, epsilon: nn.LayerNorm(width, eps=epsilon or 1e-5),
    "rms": lambda width, epsilon: RootMeanSquareNorm(width, eps=epsilon or 1e-6),
    "batch": lambda width, epsilon: BatchNorm(width, eps=epsilon or 1e-5),
    "none": lambda width, epsilon: nn.Identity(),
}


def normalization(kind: Normalization, width: int, *, epsilon: float | None = None) -> nn.Module:
    """Normalization by name: LayerNorm (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), ``BatchNorm``, identity.

    LayerNorm is (x − mean) / √(variance + 1e-5) · g + b over the features of one column, RMSNorm
    x / √(mean of x² + 1e-6) · g: it neither shifts nor learns a shift. ``epsilon`` takes the place of these numbers.
    """
    return NORMALIZATIONS[kind](width, epsilon)


class Residual(nn.Module, ABC):
    """Base of residual connections around a part f: ``add(x, dropout(f(before(x))))``.

    ``kind``, ``epsilon``: of normalization.
    """

    def __init__(
        self, width: int, *, dropout: float, kind: Normalization = "layer", epsilon: float | None = None
    ) -> None:
        super().__init__()
        self.norm = normalization(kind, width, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Columns) -> Columns:
        """Input of the part."""

    @abstractmethod
    def join(self, x: Columns, output: Columns) -> Columns:
        """``add(x, dropout(output))``, in one pass over memory in training where there are kernels."""

    @abstractmethod
    def add(self, x: Columns, difference: Columns) -> Columns:
        """Sum of x and the part's output after dropout, normalized after post-norm's fashion."""

    def _by_kernels(self, x: Columns, output: Columns, norm: LayerNormWeights | None) -> Columns | None:
        """``join`` by the kernels, which draw as dropout does; None where they do not take it."""
        if in_reference_mode() or not (covers(x) and covers(output)):
            return None
        drops = self.training and self.dropout.threshold > 0
        draws = self.dropout.draws(output.shape) if drops else None
        return join(x, output, draws, self.dropout.threshold if drops else 0, norm)


class PostNorm(Residual):
    """Norm(x + Dropout(f(x))) (Vaswani et al. 2017, §3.1, §5.4). Needs a warm-up."""

    def before(self, x: Columns) -> Columns:
        return x

    def join(self, x: Columns, output: Columns) -> Columns:
        norm = _layer_norm_weights(self.norm)
        joined = None if norm is None else self._by_kernels(x, output, norm)
        return self.add(x, self.dropout(output)) if joined is None else joined

    def add(self, x: Columns, difference: Columns) -> Columns:
        normed: Tensor = self.norm(x + difference)
        return normed


class PreNorm(Residual):
    """x + Dropout(f(Norm(x))) (Xiong et al. 2020); the stack ends with one more norm."""

    def before(self, x: Columns) -> Columns:
        norm = None if in_reference_mode() else _layer_norm_weights(self.norm)
        normed: Tensor | None = None if norm is None else layer_norm(x, norm)
        return self.norm(x) if normed is None else normed

    def join(self, x: Columns, output: Columns) -> Columns:
        joined = self._by_kernels(x, output, None)
        return self.add(x, self.dropout(output)) if joined is None else joined

    def add(self, x: Columns, difference: Columns) -> Columns:
        return x + difference


class StreamNorm(PreNorm):
    """Dropout(f(Norm(x))), which is added to another stream than x: the frame of ``Reversible`` layers."""


def _layer_norm_weights(norm: nn.Module) -> LayerNormWeights | None:
    """Weights and ε of a LayerNorm; None for any other norm."""
    return LayerNormWeights(norm.weight, norm.bias, norm.eps) if type(norm) is nn.LayerNorm else None
