"""Inputs of encoders and decoders: the base, tokens, and tokens with subword features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import embedding

from regard.attention.positions.absolute import NoPosition, Position
from regard.attention.span import Span
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import END, PAD
from regard.models.dropout import Dropout

Vectors = Float[Tensor, "rows length width"]
Positions = Int[Tensor, "rows length"]


class Embedded(NamedTuple):
    """Output of an input layer, which may have fewer positions than were read.

    Attributes:
        x: (rows, length, width) vectors of the positions.
        span: their positions and padding.
        values: vectors that layers add to the values of their attention; None if the input has no such table.
    """

    x: Vectors
    span: Span
    values: Float[Tensor, "rows length value"] | None = None


class Input(nn.Module, ABC):
    """Base of inputs: Dropout(norm(scale · v + position)) at each position; a subclass computes the vector v.

    Position, dropout and scale are choices of the network that uses the input: its builder calls ``configure``. So is
    the norm, the identity unless the builder calls ``add_norm``.

    Args:
        width: features of a position.
        scale: factor of the vectors, unless the network chooses another.
    """

    def __init__(self, width: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.width, self.scale = width, scale
        self.position: Position = NoPosition()
        self.norm: nn.Module = nn.Identity()
        self.dropout = Dropout(0.0)

    def configure(self, position: Position | None = None, *, dropout: float = 0.0, scale: float | None = None) -> Input:
        """Set the absolute positions, the dropout and the scale (None: unchanged), and return the input."""
        self.position, self.dropout = position or NoPosition(), Dropout(dropout)
        self.scale = self.scale if scale is None else scale
        return self

    def add_values(self, features: int) -> None:
        """Add a table of value vectors with these features. Raises ValueError for inputs without tokens."""
        raise ValueError("value embeddings require an input of tokens, which this input is not")

    def add_norm(self, norm: nn.Module) -> None:
        """Normalize the sum of vectors and positions with ``norm``, as in BERT."""
        self.norm = norm

    def drop_tokens(self, share: float) -> None:
        """Scale for inputs of which this share was masked. Raises ValueError for inputs without tokens."""
        raise ValueError("token dropout requires an input of tokens, which this input is not")

    def hide_end(self) -> None:
        """Treat the end symbol as padding. Raises ValueError for inputs without tokens."""
        raise ValueError("only an input of tokens has an end symbol, and this input is not one")

    def add_segments(self, segments: int) -> None:
        """Add a table of vectors of the texts of a row. Raises ValueError for inputs without tokens."""
        raise ValueError("segments require an input of tokens, which this input is not")

    @property
    def description(self) -> str:
        """Return what the input computes, for the blocks of a network."""
        return "embedding"

    @abstractmethod
    def vectors(self, inputs: Shaped[Tensor, "rows length *features"]) -> Vectors:
        """Return the vector of each position, before scale, position and dropout."""

    def value_vectors(
        self, inputs: Shaped[Tensor, "rows length *features"]
    ) -> Float[Tensor, "rows length value"] | None:
        """Return the vectors that layers add to their values; None without a table of value vectors."""
        return None

    def ranges(self, length: int) -> list[tuple[int, int]]:
        """Return the first input, and the one after the last, that each position of the result is computed from."""
        return [(index, index + 1) for index in range(length)]

    def forward(self, inputs: Shaped[Tensor, "rows length *features"], span: Span) -> Embedded:
        """Embed each input at its position in ``span``."""
        return Embedded(self.embed(inputs, span.position), span, self.value_vectors(inputs))

    def embed(self, inputs: Shaped[Tensor, "rows length *features"], position: Positions) -> Vectors:
        """Return the vectors of inputs at absolute positions, after dropout."""
        return self.finish(self.vectors(inputs), position)

    def finish(self, vectors: Vectors, position: Positions) -> Vectors:
        """Apply scale, position, norm and dropout."""
        return self.dropout(self.norm(self.position(vectors * self.scale, position)))


class TokenInput(Input):
    """Dropout(scale · E[token] + position) (Vaswani et al. 2017, §3.4, §3.5, §5.4).

    E may be shared with the output, which requires a standard deviation of 1/√width. The scale is therefore √width by
    default: cells or layers that read smaller numbers learn slowly. Differs from Bahdanau et al. 2015 and Luong et al.
    2015, who do not share and do not scale (``scale`` 1).

    ``values`` (types, value features), from ``add_values``: a second table that adds to the values of every layer
    (Jordan et al. 2024).

    ``segments`` (segments, width), from ``add_segments``: a vector of each text of a row, which is added to E[token]
    (Devlin et al. 2019, §3). A text ends with END; texts after the last segment share its vector.

    ``token_dropout`` s, from ``drop_tokens``: as in ESM-2's code (Lin et al. 2023). E is multiplied by (1 − s) / (1 −
    share of ``mask`` in the row). The vector of ``mask`` is 0.

    ``reads_end`` is False after ``hide_end``: END is then padding for all that reads the result.

    Args:
        weight: E (types, width).
        mask: token of masked models; None: unknown.
    """

    values: nn.Parameter | None
    segments: nn.Parameter | None

    def __init__(self, weight: nn.Parameter, *, mask: int | None = None) -> None:
        super().__init__(weight.shape[1], scale=math.sqrt(weight.shape[1]))
        self.mask, self.token_dropout, self.reads_end = mask, 0.0, True
        self.register_parameter("values", None)
        self.register_parameter("segments", None)
        self.weight = weight

    def forward(self, inputs: Int[Tensor, "rows length"], span: Span) -> Embedded:
        if not self.reads_end:
            span = span._replace(valid=span.valid & (inputs != END))
        return super().forward(inputs, span)

    def hide_end(self) -> None:
        self.reads_end = False

    def add_values(self, features: int) -> None:
        self.values = nn.Parameter(torch.empty(len(self.weight), features).normal_())

    def add_segments(self, segments: int) -> None:
        self.segments = nn.Parameter(torch.empty(segments, self.width).normal_(std=self.width**-0.5))

    @property
    def description(self) -> str:
        return f"embedding of {pluralize(len(self.weight), 'type')}"

    def vectors(self, inputs: Int[Tensor, "rows length"]) -> Vectors:
        vectors = embedding(inputs, self.weight)
        if self.token_dropout:
            vectors = self._without_masks(vectors, inputs)
        return vectors if self.segments is None else vectors + embedding(self._segment(inputs), self.segments)

    def drop_tokens(self, share: float) -> None:
        self.token_dropout = share

    def _without_masks(self, vectors: Vectors, inputs: Int[Tensor, "rows length"]) -> Vectors:
        if self.mask is None:
            return vectors * (1 - self.token_dropout)
        masked = inputs == self.mask
        share = masked.sum(-1, keepdim=True) / (inputs != PAD).sum(-1, keepdim=True).clamp(min=1)
        factor = (~masked).to(vectors.dtype) * (1 - self.token_dropout) / (1 - share).clamp(min=1e-6)
        return vectors * factor[..., None]

    def _segment(self, inputs: Int[Tensor, "rows length"]) -> Int[Tensor, "rows length"]:
        """Return the segment of each token: the number of texts that end before it, at most that of the last row."""
        assert self.segments is not None
        ends = (inputs == END).long()
        return (ends.cumsum(-1) - ends).clamp(max=len(self.segments) - 1)

    def value_vectors(self, inputs: Int[Tensor, "rows length"]) -> Float[Tensor, "rows length value"] | None:
        return None if self.values is None else embedding(inputs, self.values)


class AffixInput(Input):
    """Dropout(scale · (E[token] + Σ_k F[affix_k]) + position); E, scale, position and dropout are those of ``tokens``.

    F (1 + buckets, width) is one table into which affixes of all types are hashed. An unknown word gets a vector from
    the affixes it shares with known words (Bojanowski et al. 2017, §3.2, with affixes and a shape instead of all
    n-grams). An input holds a token and the buckets of its affixes, from 1; bucket 0 means no affix and adds nothing.

    Args:
        tokens: the input without affixes.
        buckets: the number of rows of F, without row 0.
    """

    def __init__(self, tokens: TokenInput, buckets: int) -> None:
        super().__init__(tokens.width)
        self.tokens = tokens
        self.affixes = nn.Parameter(torch.empty(1 + buckets, self.width).normal_(std=self.width**-0.5))

    def configure(self, position: Position | None = None, *, dropout: float = 0.0, scale: float | None = None) -> Input:
        self.tokens.configure(position, dropout=dropout, scale=scale)
        return self

    def add_values(self, features: int) -> None:
        self.tokens.add_values(features)

    def add_norm(self, norm: nn.Module) -> None:
        self.tokens.add_norm(norm)

    def add_segments(self, segments: int) -> None:
        self.tokens.add_segments(segments)

    def drop_tokens(self, share: float) -> None:
        self.tokens.drop_tokens(share)

    def vectors(self, inputs: Int[Tensor, "rows length numbers"]) -> Vectors:
        buckets = inputs[..., 1:]
        present = (buckets > 0).to(self.affixes.dtype)
        affixes = torch.einsum("rlkw,rlk->rlw", embedding(buckets, self.affixes), present)
        return self.tokens.vectors(inputs[..., 0]) + affixes

    def value_vectors(self, inputs: Int[Tensor, "rows length numbers"]) -> Float[Tensor, "rows length value"] | None:
        return self.tokens.value_vectors(inputs[..., 0])

    def finish(self, vectors: Vectors, position: Positions) -> Vectors:
        return self.tokens.finish(vectors, position)


def embedding_matrix(types: int, width: int, *, std: float | None = None) -> nn.Parameter:
    """Return a matrix (types, width) of normal numbers with standard deviation ``std``; None: 1/√width."""
    return nn.Parameter(torch.empty(types, width).normal_(std=std or width**-0.5))


def text_input(types: int, width: int, *, affixes: int) -> TokenInput | AffixInput:
    """Return an input of tokens with a new matrix, and with ``affixes`` buckets of affixes if positive."""
    tokens = TokenInput(embedding_matrix(types, width))
    return AffixInput(tokens, affixes) if affixes else tokens
