"""Shape of a mask without its table: everything, causal, a band, blocks, edges.

A structure describes the indices of queries and keys and ignores padding. Padded keys are hidden separately; padded
queries are unconstrained, since their results are not used. ``Bound.structure`` derives the structure, and
``kernel.choose`` names the kernel that computes it without a query × key table.
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
    """Every query may attend to every key."""


@dataclass(frozen=True)
class CausalStructure:
    """Queries and keys are the same positions; query i may attend to keys 0 … i."""


@dataclass(frozen=True)
class BandStructure:
    """Query i attends to no key before i − ``left`` or after i + ``right``, except the ``first`` keys.

    ``left`` and ``right`` may be negative. This is an outer bound: within it the mask itself may hide more.
    """

    left: int
    right: int
    first: int = 0

    @property
    def width(self) -> int:
        """Maximum number of keys that a query may attend to."""
        return self.left + self.right + 1 + self.first


@dataclass(frozen=True)
class BlocksStructure:
    """A pack of sequences: a position attends to its own segment, and if ``causal`` to no later position."""

    causal: bool


@dataclass(frozen=True, eq=False)
class EdgesStructure:
    """Exactly the pairs (query, key) of ``index``, in every row."""

    index: Int[Tensor, "2 edges"]


Structure: TypeAlias = FullStructure | CausalStructure | BandStructure | BlocksStructure | EdgesStructure


class Reach(NamedTuple):
    """Distance to the first and to the last position that a query may attend to, in positions; ∞ for no limit."""

    before: float
    after: float


class IndexOffset(NamedTuple):
    """Position of query 0 minus that of key 0: minimum and maximum over the rows of a batch."""

    minimum: int
    maximum: int


def hides_nothing(reach: Reach, offset: IndexOffset, queries: int, keys: int) -> bool:
    """Return whether every query of every row reaches every key."""
    return reach.before - offset.maximum >= queries - 1 and reach.after + offset.minimum >= keys - 1


def reach_structure(
    reaches: Sequence[Reach], offset: IndexOffset, queries: int, keys: int
) -> FullStructure | CausalStructure | BandStructure:
    """Return the structure of the intersection of ``reaches``, each of which hides at least one key."""
    if not reaches:
        return FullStructure()
    left = min(reach.before for reach in reaches) - offset.minimum
    right = min(reach.after for reach in reaches) + offset.maximum
    if offset == (0, 0) and queries == keys and right == 0 and left >= queries - 1:
        return CausalStructure()
    right = min(right, keys - 1)
    left = max(min(left, queries - 1), -right)
    assert math.isfinite(left + right), "both ends of the band are finite"
    return BandStructure(int(left), int(right))
