"""Random inputs for laws, all from one ``random.Random``, so failures can be replayed or shrunk."""

from __future__ import annotations

import random

import torch
from torch import Tensor

from regard.attention.span import Span


class Draw:
    """Random tensors, spans and sizes.

    Args:
        source: of random numbers: ``random.Random``, or Hypothesis' ``st.randoms()``.
    """

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.generator = torch.Generator().manual_seed(source.randrange(2**31))

    def tensor(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Return standard normal numbers in float64, times ``scale``."""
        return scale * torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def tokens(self, rows: int, length: int, types: int) -> Tensor:
        """Return tokens (rows, length) below ``types``."""
        return torch.randint(0, types, (rows, length), generator=self.generator)

    def valid(self, rows: int, length: int, *, least: int = 1) -> Tensor:
        """Return a mask of a prefix of each row, at least ``least`` positions long; at least one row is full."""
        counts = [length, *(self.source.randint(least, length) for _ in range(rows - 1))]
        self.source.shuffle(counts)
        return torch.arange(length) < torch.tensor(counts)[:, None]

    def span(self, rows: int, length: int) -> Span:
        """Return a span of rows that start at position 0, with padding."""
        return Span.of(self.valid(rows, length))

    def full_span(self, rows: int, length: int, *, packed: bool, placed: bool) -> Span:
        """Return a span with padding and all optional fields.

        ``packed``: rows have several documents, whose positions start at 0; otherwise one document with ascending
        positions. ``placed``: whether positions are given.
        """
        first = torch.tensor([[self.source.random() < 0.4 for _ in range(length)] for _ in range(rows)])
        first = first.view(rows, length)
        indices = torch.arange(length).expand(rows, -1)
        restarted = indices - (indices * first).cummax(1).values if length else indices
        positions = restarted if packed else indices + first.cumsum(1)
        return self.span(rows, length)._replace(
            segment=first.cumsum(1),
            given_position=positions if placed else (),
            visible_until=(positions if placed else indices)
            + self.integer(1, 3),  # in positions: each position sees itself
            is_global=torch.tensor([[self.source.random() < 0.3 for _ in range(length)] for _ in range(rows)]).view(
                rows, length
            ),
        )

    def pieces(self, length: int) -> list[slice]:
        """Return slices that split ``length`` positions into pieces of at least one."""
        cuts = [position for position in range(1, length) if self.source.random() < 0.5]
        return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]

    def rows(self, count: int) -> Tensor:
        """Return between 1 and count + 2 indices below ``count``, in any order, with repetitions."""
        number = self.source.randint(1, count + 2)
        return torch.tensor([self.source.randrange(count) for _ in range(number)])

    def integer(self, least: int, largest: int) -> int:
        """Return an integer from ``least`` to ``largest``, both included."""
        return self.source.randint(least, largest)


def piece_of(span: Span, piece: slice) -> Span:
    """Return the span of a slice of positions of a span; padding occupies no position."""
    begin, end, _ = piece.indices(span.valid.shape[1])
    return span.columns(begin, end)._replace(start=span.start + span.valid[:, :begin].sum(1))
