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

Features = Float[Tensor, "batch length width"]
Normalization = Literal["layer", "rms", "batch", "none"]


class BatchNorm(nn.BatchNorm1d):
    """Per feature (x − mean) / √(variance + ε) · g + b over all positions of the batch (Ioffe and Szegedy 2015).

    For comparison with LayerNorm, with known faults for sequences: padding counts like any other position, so a result
    depends on the rest of the batch and on its padding. A decoder in training also sees information of later positions.
    In evaluation the running mean and variance are used, which are saved with the weights; a result then depends on one
    position only.
    """

    def forward(self, input: Features) -> Features:
        return super().forward(input.flatten(0, -2)).view_as(input) if input.numel() else input


NORMALIZATIONS: dict[str, Callable[[int, float | None], nn.Module]] = {
    "layer": lambda width, epsilon: nn.LayerNorm(width, eps=epsilon or 1e-5),
    "rms": lambda width, epsilon: RootMeanSquareNorm(width, eps=epsilon or 1e-6),
    "batch": lambda width, epsilon: BatchNorm(width, eps=epsilon or 1e-5),
    "none": lambda width, epsilon: nn.Identity(),
}


def normalization(kind: Normalization, width: int, *, epsilon: float | None = None) -> nn.Module:
    """Return the normalization by name: LayerNorm, RMSNorm, ``BatchNorm`` or identity.

    LayerNorm (Ba et al. 2016) is (x − mean) / √(variance + 1e-5) · g + b over the features of one position. RMSNorm
    (Zhang and Sennrich 2019) is x / √(mean of x² + 1e-6) · g, without centering or bias. ``epsilon`` replaces these
    numbers.
    """
    return NORMALIZATIONS[kind](width, epsilon)


class Residual(nn.Module, ABC):
    """Base of residual connections around a sub-layer f: ``add(x, dropout(f(before(x))))``.

    ``kind``, ``epsilon``: of normalization.
    """

    def __init__(
        self, width: int, *, dropout: float, kind: Normalization = "layer", epsilon: float | None = None
    ) -> None:
        super().__init__()
        self.norm = normalization(kind, width, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Features) -> Features:
        """Return the input of the sub-layer."""

    @abstractmethod
    def join(self, x: Features, output: Features) -> Features:
        """Return ``add(x, dropout(output))``, in training with compiled kernels in one pass over memory."""

    @abstractmethod
    def add(self, x: Features, difference: Features) -> Features:
        """Return the sum of x and the sub-layer's output after dropout, normalized by post-norm."""

    def _by_kernels(self, x: Features, output: Features, norm: LayerNormWeights | None) -> Features | None:
        """Return ``join`` by the kernels, with the same draws as dropout; None if they do not support it."""
        if in_reference_mode() or not (covers(x) and covers(output)):
            return None
        drops = self.training and self.dropout.threshold > 0
        draws = self.dropout.draws(output.shape) if drops else None
        return join(x, output, draws, self.dropout.threshold if drops else 0, norm)


class PostNorm(Residual):
    """Norm(x + Dropout(f(x))) (Vaswani et al. 2017, §3.1, §5.4). Requires a warm-up."""

    def before(self, x: Features) -> Features:
        return x

    def join(self, x: Features, output: Features) -> Features:
        norm = _layer_norm_weights(self.norm)
        joined = None if norm is None else self._by_kernels(x, output, norm)
        return self.add(x, self.dropout(output)) if joined is None else joined

    def add(self, x: Features, difference: Features) -> Features:
        normed: Tensor = self.norm(x + difference)
        return normed


class PreNorm(Residual):
    """x + Dropout(f(Norm(x))) (Xiong et al. 2020); the stack ends with one more norm."""

    def before(self, x: Features) -> Features:
        norm = None if in_reference_mode() else _layer_norm_weights(self.norm)
        normed: Tensor | None = None if norm is None else layer_norm(x, norm)
        return self.norm(x) if normed is None else normed

    def join(self, x: Features, output: Features) -> Features:
        joined = self._by_kernels(x, output, None)
        return self.add(x, self.dropout(output)) if joined is None else joined

    def add(self, x: Features, difference: Features) -> Features:
        return x + difference


class StreamNorm(PreNorm):
    """Dropout(f(Norm(x))), which is added to a stream other than x: the frame of ``Reversible`` layers."""


def _layer_norm_weights(norm: nn.Module) -> LayerNormWeights | None:
    """Return the weights and ε of a LayerNorm; None for any other norm."""
    return LayerNormWeights(norm.weight, norm.bias, norm.eps) if type(norm) is nn.LayerNorm else None
