"""What normalises, and where it stands around a sub-layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.models.dropout import Dropout

__all__ = ["BatchNorm", "Normalisation", "PostNorm", "PreNorm", "Residual", "normalisation"]

Columns = Float[Tensor, "batch length width"]
Normalisation = Literal["layer", "rms", "batch", "none"]


class BatchNorm(nn.BatchNorm1d):
    """Per feature (x − mean) / √(variance + ε) · g + b over all columns of the batch (Ioffe and Szegedy 2015).

    For comparison with LayerNorm, and wrong for sequences in the ways it is known for: padded columns count like any
    other, so what stands beside a sentence, and how far it is padded, changes it; and a decoder in training sees
    something of what comes later. Computed with the running mean and variance once trained, which are kept with the
    weights. There it depends on one column alone.
    """

    def forward(self, input: Columns) -> Columns:
        return super().forward(input.flatten(0, -2)).view_as(input) if input.numel() else input


NORMALISATIONS: dict[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": lambda width: nn.RMSNorm(width, eps=1e-6),
    "batch": BatchNorm,
    "none": lambda width: nn.Identity(),
}


def normalisation(kind: Normalisation, width: int) -> nn.Module:
    """What a name means: LayerNorm (Ba et al. 2016), RMSNorm (Zhang and Sennrich 2019), ``BatchNorm``, the identity.

    LayerNorm is (x − mean) / √(variance + 1e-5) · g + b over the features of one column, RMSNorm
    x / √(mean of x² + 1e-6) · g: it neither shifts nor learns a shift.
    """
    return NORMALISATIONS[kind](width)


class Residual(nn.Module, ABC):
    """The frame of a sub-layer f: ``after(x, f(before(x)))``, with ``kind`` of normalisation."""

    def __init__(self, width: int, *, dropout: float, kind: Normalisation = "layer") -> None:
        super().__init__()
        self.norm = normalisation(kind, width)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Columns) -> Columns: ...

    @abstractmethod
    def after(self, x: Columns, y: Columns) -> Columns: ...


class PostNorm(Residual):
    """Norm(x + Dropout(f(x))) (Vaswani et al. 2017, §3.1, §5.4). Needs a warm-up."""

    def before(self, x: Columns) -> Columns:
        return x

    def after(self, x: Columns, y: Columns) -> Columns:
        normed: Tensor = self.norm(x + self.dropout(y))
        return normed


class PreNorm(Residual):
    """x + Dropout(f(Norm(x))) (Xiong et al. 2020); the stack ends with one more norm."""

    def before(self, x: Columns) -> Columns:
        normed: Tensor = self.norm(x)
        return normed

    def after(self, x: Columns, y: Columns) -> Columns:
        return x + self.dropout(y)
