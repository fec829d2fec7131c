"""Absolute positions added to embeddings: sinusoids and learned tables."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.wording import pluralize


def sinusoids(
    position: Int[Tensor, "*shape"], width: int, *, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape {width}"]:
    """PE(p, 2i) = sin(p·ω_i), PE(p, 2i+1) = cos(p·ω_i), ω_i = 10000^(−2i/width) (Vaswani et al. 2017, §3.5).

    Computed in float64, so large positions are exact. PE(p+k) is a rotation of PE(p) that depends on k alone.
    tensor2tensor and Marian differ from the paper: all sines precede all cosines, and the exponent is divided by
    width/2 − 1.

    Args:
        position: positions, of any shape.
        width: features of a vector, an even number.
        dtype: of the result.
    """
    if width % 2:
        raise ValueError(f"the width of sinusoidal positions must be even, got {width}")
    exponent = torch.arange(0, width, 2, dtype=torch.float64, device=position.device) / width
    angle = position.to(torch.float64)[..., None] * torch.exp(-math.log(10000.0) * exponent)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(dtype)


class Position(nn.Module, ABC):
    """Base of modules that add absolute positions to embeddings. ``longest``: number of positions; None: unlimited."""

    longest: int | None = None

    @abstractmethod
    def forward(
        self, embedded: Float[Tensor, "batch length width"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]: ...


class NoPosition(Position):
    """No positions: the embeddings are unchanged, so an encoder is permutation-equivariant."""

    def forward(
        self, embedded: Float[Tensor, "batch length width"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        return embedded


class SinusoidalPosition(Position):
    """Adds ``sinusoids``: no parameters, any length. The table of the first positions is computed once.

    Args:
        width: features of an embedding, an even number.
        table: the number of first positions that are computed once.
    """

    table: Float[Tensor, "longest width"]

    def __init__(self, width: int, *, table: int = 512) -> None:
        super().__init__()
        self.width = width
        if (
            torch.get_default_device().type == "meta"
        ):  # only sizes are needed, and computing on meta imports torch's compiler
            self.register_buffer("table", torch.empty(table, width), persistent=False)
        else:
            self.register_buffer("table", sinusoids(torch.arange(table), width), persistent=False)

    def forward(
        self, embedded: Float[Tensor, "batch length width"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        if position.numel() and int(position.max()) >= len(self.table):
            return embedded + sinusoids(position, self.width).to(embedded.dtype)
        return embedded + self.table[position].to(embedded.dtype)


class LearnedPosition(Position):
    """Adds row p of a learned table (Vaswani et al. 2017, Table 3 row E).

    Positions beyond the table raise ValueError.

    Args:
        width: features of an embedding.
        longest: the number of rows of the table.
    """

    def __init__(self, width: int, *, longest: int) -> None:
        super().__init__()
        self.table, self.longest = nn.Parameter(torch.empty(longest, width).normal_(std=width**-0.5)), longest

    def forward(
        self, embedded: Float[Tensor, "batch length width"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length width"]:
        if position.numel() and int(position.max()) >= len(self.table):
            raise ValueError(
                f"position {int(position.max())} is outside the learned table of {pluralize(len(self.table), 'row')}"
            )
        return embedded + self.table[position].to(embedded.dtype)


def max_positions(net: nn.Module) -> int | None:
    """Return the smallest number of positions of any learned table in a network; None if unlimited."""
    limits = [part.longest for part in net.modules() if isinstance(part, Position) and part.longest is not None]
    return min(limits, default=None)
