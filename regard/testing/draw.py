"""Random inputs of laws, all from one ``random.Random``, so that a failure can be replayed or shrunk."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from regard.attention.span import Span


class Draw:
    """Random tensors, spans and sizes. ``source`` may be hypothesis' ``st.randoms()``."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.generator = torch.Generator().manual_seed(source.randrange(2**31))

    def tensor(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal numbers in float64, times ``scale``."""
        return scale * torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def tokens(self, rows: int, length: int, types: int) -> Tensor:
        """Tokens (rows, length) below ``types``."""
        return torch.randint(0, types, (rows, length), generator=self.generator)

    def valid(self, rows: int, length: int, *, least: int = 1) -> Tensor:
        """Mask that marks a prefix of each row, of ``least`` columns or more; at least one row is full."""
        counts = [length, *(self.source.randint(least, length) for _ in range(rows - 1))]
        self.source.shuffle(counts)
        return torch.arange(length) < torch.tensor(counts)[:, None]

    def span(self, rows: int, length: int) -> Span:
        """Span of rows that start at position 0, with padding."""
        return Span.of(self.valid(rows, length))

    def full_span(self, rows: int, length: int, *, packed: bool, placed: bool) -> Span:
        """Span with padding that says all that can be said of columns.

        ``packed``: rows of several documents, the positions of which start at 0; else one document, of ascending
        positions. ``placed``: positions are given.
        """
        first = torch.tensor([[self.source.random() < 0.4 for _ in range(length)] for _ in range(rows)])
        first = first.view(rows, length)
        columns = torch.arange(length).expand(rows, -1)
        restarted = columns - (columns * first).cummax(1).values if length else columns
        given = restarted if packed else columns + first.cumsum(1)
        return self.span(rows, length)._replace(
            segment=first.cumsum(1),
            given_position=given if placed else (),
            visible_until=(given if placed else columns) + self.integer(1, 3),  # in positions: each sees itself
            is_global=torch.tensor([[self.source.random() < 0.3 for _ in range(length)] for _ in range(rows)]).view(
                rows, length
            ),
        )

    def pieces(self, length: int) -> list[slice]:
        """Slices that cut ``length`` columns into pieces of one column or more."""
        cuts = [at for at in range(1, length) if self.source.random() < 0.5]
        return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]

    def rows(self, count: int) -> Tensor:
        """Indices of between 1 and count + 2 rows below ``count``, in any order, with repeats."""
        many = self.source.randint(1, count + 2)
        return torch.tensor([self.source.randrange(count) for _ in range(many)])

    def integer(self, least: int, most: int) -> int:
        """Integer from ``least`` to ``most``, both included."""
        return self.source.randint(least, most)


def piece_of(span: Span, piece: slice) -> Span:
    """Span of some columns of a span; padding takes no position."""
    begin, end, _ = piece.indices(span.valid.shape[1])
    return span.columns(begin, end)._replace(start=span.start + span.valid[:, :begin].sum(1))
