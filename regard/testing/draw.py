"""Random inputs of laws, all from one ``random.Random``, so that a failure can be replayed or shrunk."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.mask import Span

__all__ = ["Draw", "piece_of", "rows_of", "stacked"]


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
    segment = None if span.segment is None else span.segment[:, piece]
    return Span(span.start + span.valid[:, : piece.start].sum(1), span.valid[:, piece], segment)


def rows_of(span: Span, rows: Tensor) -> Span:
    """Span of some rows."""
    return Span(span.start[rows], span.valid[rows])


def stacked(spans: Sequence[Span]) -> Span:
    """Span of the rows of several spans of one length."""
    return Span(torch.cat([span.start for span in spans]), torch.cat([span.valid for span in spans]))
