"""Inputs of encoders and decoders: what a batch holds to vectors, one a column."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.attention.mask import Span
from regard.attention.positions.absolute import NoPosition, Position
from regard.models.dropout import Dropout

__all__ = ["Embedded", "Input", "TokenInput"]


class Embedded(NamedTuple):
    """Vectors of the columns, and the columns: an input that subsamples gives fewer than it was given.

    ``values``: what layers add to the values of their attention, where the input has a table of that.
    """

    x: Float[Tensor, "rows columns width"]
    span: Span
    values: Float[Tensor, "rows columns value"] | None = None


class Input(nn.Module, ABC):
    """Base of inputs: tokens now; frames, patches and nodes are files of their own. ``width``: features of a column."""

    width: int

    @abstractmethod
    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Embedded:
        """Vectors of these inputs; ``span`` says their positions and padding."""


class TokenInput(Input):
    """Dropout(scale · E[token] + position) (Vaswani et al. 2017, §3.4, §3.5, §5.4).

    ``weight`` E (types, width) may be shared with the output, which wants a standard deviation of 1/√width, so that
    ``scale`` is √width unless given: cells or layers that are fed with smaller numbers learn slowly. Differs from
    Bahdanau et al. 2015 and Luong et al. 2015, who do not share, and do not scale (``scale`` 1).

    ``values`` (types, value features): a second table, looked up for the values of every layer (Jordan et al. 2024).
    """

    def __init__(
        self,
        weight: nn.Parameter,
        position: Position | None = None,
        *,
        dropout: float = 0.0,
        scale: float | None = None,
        values: nn.Parameter | None = None,
    ) -> None:
        super().__init__()
        self.values = values
        self.weight, self.position, self.dropout = weight, position or NoPosition(), Dropout(dropout)
        self.width = weight.shape[1]
        self.scale = math.sqrt(self.width) if scale is None else scale

    def forward(self, inputs: Int[Tensor, "rows length"], span: Span) -> Embedded:
        values = None if self.values is None else nn.functional.embedding(inputs, self.values)
        return Embedded(self.embed(inputs, span.position), span, values)

    def embed(
        self, tokens: Int[Tensor, "rows length"], position: Int[Tensor, "rows length"]
    ) -> Float[Tensor, "rows length width"]:
        """Vectors of tokens at absolute positions."""
        return self.place(nn.functional.embedding(tokens, self.weight), position)

    def place(
        self, x: Float[Tensor, "rows length width"], position: Int[Tensor, "rows length"]
    ) -> Float[Tensor, "rows length width"]:
        """Scaled vectors with their positions, after dropout."""
        return self.dropout(self.position(x * self.scale, position))
