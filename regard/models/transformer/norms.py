"""Normalisations, and residual connections around a sub-layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.norm import RootMeanSquareNorm
from regard.models.dropout import Dropout

__all__ = ["BatchNorm", "Normalisation", "PostNorm", "PreNorm", "Residual", "normalisation"]

Columns = Float[Tensor, "batch length width"]
Normalisation = Literal["layer", "rms", "batch", "none"]


class BatchNorm(nn.BatchNorm1d):
    """Per feature (x − mean) / √(variance + ε) · g + b over all columns of the batch (Ioffe and Szegedy 2015).

    For comparison with LayerNorm, with known faults for sequences: padded columns count like any other, so a result
    depends on the rest of the batch and on its padding, and a decoder in training sees something of later positions.
    In evaluation the running mean and variance are used, which are saved with the weights; a result then depends on
    one column alone.
    """

    def forward(self, input: Columns) -> Columns:
        return super().forward(input.flatten(0, -2)).view_as(input) if input.numel() else input


NORMALISATIONS: dict[str, Callable[[int, float | None], nn.Module]] = {
    "layer": lambda width, epsilon: nn.LayerNorm(width, eps=epsilon or 1e-5),
    "rms": lambda width, epsilon: RootMeanSquareNorm(width, eps=epsilon or 1e-6),
    "batch": lambda width, epsilon: BatchNorm(width, eps=epsilon or 1e-5),
    "none": lambda width, epsilon: nn.Identity(),
}


def normalisation(kind: Normalisation, width: int, *, epsilon: float | None = None) -> nn.Module:
    """Normalisation by name: LayerNorm (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), ``BatchNorm``, identity.

    LayerNorm is (x − mean) / √(variance + 1e-5) · g + b over the features of one column, RMSNorm
    x / √(mean of x² + 1e-6) · g: it neither shifts nor learns a shift. ``epsilon`` takes the place of these numbers.
    """
    return NORMALISATIONS[kind](width, epsilon)


class Residual(nn.Module, ABC):
    """Base of residual connections around a part f: ``add(x, dropout(f(before(x))))``.

    ``kind``, ``epsilon``: of normalisation.
    """

    def __init__(
        self, width: int, *, dropout: float, kind: Normalisation = "layer", epsilon: float | None = None
    ) -> None:
        super().__init__()
        self.norm = normalisation(kind, width, epsilon=epsilon)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Columns) -> Columns:
        """Input of the part."""

    @abstractmethod
    def add(self, x: Columns, difference: Columns) -> Columns:
        """Sum of x and the part's output after dropout, normalised after post-norm's fashion."""


class PostNorm(Residual):
    """Norm(x + Dropout(f(x))) (Vaswani et al. 2017, §3.1, §5.4). Needs a warm-up."""

    def before(self, x: Columns) -> Columns:
        return x

    def add(self, x: Columns, difference: Columns) -> Columns:
        normed: Tensor = self.norm(x + difference)
        return normed


class PreNorm(Residual):
    """x + Dropout(f(Norm(x))) (Xiong et al. 2020); the stack ends with one more norm."""

    def before(self, x: Columns) -> Columns:
        normed: Tensor = self.norm(x)
        return normed

    def add(self, x: Columns, difference: Columns) -> Columns:
        return x + difference
