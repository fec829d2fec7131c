"""Shape of a mask without its table: everything, causal, a band, blocks, edges.

A structure speaks of columns and leaves padding aside: keys that are padding are hidden besides, and queries that are
padding are free, since nobody reads them. ``Bound.structure`` finds the structure, ``kernel.choose`` names the kernel
that needs no query × key table for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class FullStructure:
    """Every query may look at every key."""


@dataclass(frozen=True)
class CausalStructure:
    """Query and key columns are the same positions; query column i may look at key columns 0 … i."""


@dataclass(frozen=True)
class BandStructure:
    """Query column i looks at no key column before i − ``left`` or after i + ``right``; either may be negative.

    Besides these at none but the ``first`` key columns. An outer bound: within it the mask itself may hide more.
    """

    left: int
    right: int
    first: int = 0

    @property
    def width(self) -> int:
        """Key columns that a query column may look at, at most."""
        return self.left + self.right + 1 + self.first


@dataclass(frozen=True)
class BlocksStructure:
    """A pack of sequences: a column looks at columns of its own segment, if ``causal`` at none after itself."""

    causal: bool


@dataclass(frozen=True, eq=False)
class EdgesStructure:
    """The pairs (query, key) of ``index`` and no others, in every row."""

    index: Int[Tensor, "2 edges"]


Structure: TypeAlias = FullStructure | CausalStructure | BandStructure | BlocksStructure | EdgesStructure


class Reach(NamedTuple):
    """Distance to the first and to the last position that a query may look at, in positions; ∞ for no limit."""

    before: float
    after: float


class ColumnOffset(NamedTuple):
    """Position of query column 0 minus that of key column 0: the least and the most over the rows of a batch."""

    least: int
    most: int


def hides_nothing(reach: Reach, offset: ColumnOffset, queries: int, keys: int) -> bool:
    """Return whether every query column of every row reaches every key column."""
    return reach.before - offset.most >= queries - 1 and reach.after + offset.least >= keys - 1


def column_structure(
    reaches: Sequence[Reach], offset: ColumnOffset, queries: int, keys: int
) -> FullStructure | CausalStructure | BandStructure:
    """The structure of all ``reaches`` together, where none of them hides nothing."""
    if not reaches:
        return FullStructure()
    left = min(reach.before for reach in reaches) - offset.least
    right = min(reach.after for reach in reaches) + offset.most
    if offset == (0, 0) and queries == keys and right == 0 and left >= queries - 1:
        return CausalStructure()
    right = min(right, keys - 1)
    left = max(min(left, queries - 1), -right)
    assert math.isfinite(left + right), "both ends lie within the columns"
    return BandStructure(int(left), int(right))
