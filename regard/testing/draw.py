"""Random inputs of a law: everything comes from one ``random.Random``, so a failure can be replayed or shrunk."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.mask import Span

__all__ = ["Draw", "piece_of", "rows_of", "stacked"]


class Draw:
    """Draws what a law needs. ``source`` may be hypothesis' ``st.randoms()``."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.generator = torch.Generator().manual_seed(source.randrange(2**31))

    def tensor(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Normal numbers, float64."""
        return scale * torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def tokens(self, rows: int, length: int, types: int) -> Tensor:
        return torch.randint(0, types, (rows, length), generator=self.generator)

    def valid(self, rows: int, length: int, *, least: int = 1) -> Tensor:
        """A prefix of each row, of ``least`` columns or more; at least one row is full."""
        counts = [length, *(self.source.randint(least, length) for _ in range(rows - 1))]
        self.source.shuffle(counts)
        return torch.arange(length) < torch.tensor(counts)[:, None]

    def span(self, rows: int, length: int) -> Span:
        return Span.of(self.valid(rows, length))

    def pieces(self, length: int) -> list[slice]:
        """``length`` columns cut into pieces of one column or more."""
        cuts = [at for at in range(1, length) if self.source.random() < 0.5]
        return [slice(a, b) for a, b in zip([0, *cuts], [*cuts, length], strict=True)]

    def rows(self, count: int) -> Tensor:
        """Between 1 and count + 2 rows in any order, repeats allowed."""
        many = self.source.randint(1, count + 2)
        return torch.tensor([self.source.randrange(count) for _ in range(many)])

    def integer(self, least: int, most: int) -> int:
        return self.source.randint(least, most)


def piece_of(span: Span, piece: slice) -> Span:
    """The span of some columns of a span, where padding takes no position."""
    segment = None if span.segment is None else span.segment[:, piece]
    return Span(span.start + span.valid[:, : piece.start].sum(1), span.valid[:, piece], segment)


def rows_of(span: Span, rows: Tensor) -> Span:
    """The span of some rows."""
    return Span(span.start[rows], span.valid[rows])


def stacked(spans: Sequence[Span]) -> Span:
    """Rows of several spans of one length, one below the other."""
    return Span(torch.cat([span.start for span in spans]), torch.cat([span.valid for span in spans]))
