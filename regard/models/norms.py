"""Where normalisation stands around a sub-layer."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from regard.models.dropout import Dropout

__all__ = ["PostNorm", "PreNorm", "Residual"]

Columns = Float[Tensor, "batch length width"]


class Residual(nn.Module, ABC):
    """The frame of a sub-layer f: ``leave(x, f(enter(x)))``."""

    def __init__(self, width: int, *, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def enter(self, x: Columns) -> Columns: ...

    @abstractmethod
    def leave(self, x: Columns, y: Columns) -> Columns: ...


class PostNorm(Residual):
    """LayerNorm(x + Dropout(f(x))) (Vaswani et al. 2017, §3.1, §5.4). Needs a warm-up."""

    def enter(self, x: Columns) -> Columns:
        return x

    def leave(self, x: Columns, y: Columns) -> Columns:
        return self.norm(x + self.dropout(y))


class PreNorm(Residual):
    """x + Dropout(f(LayerNorm(x))) (Xiong et al. 2020); the stack ends with one more LayerNorm."""

    def enter(self, x: Columns) -> Columns:
        return self.norm(x)

    def leave(self, x: Columns, y: Columns) -> Columns:
        return x + self.dropout(y)
