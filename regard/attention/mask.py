"""Masks: predicates over absolute positions, combined with ``&`` and ``|``.

``True`` means *may attend* everywhere in Regard. (``nn.MultiheadAttention`` means the opposite, and additive masks hold
0 and −∞. Conversions happen in this file only.)

A ``Mask`` is an expression without tensors, except ``Matrix``, which is for studies. Properties of the columns are in
their ``Span``. ``mask.bind(query_span, key_span)`` gives a ``Bound``, whose primitive is ``at(batch, query, key)``.
``structure`` derives the shape of the mask from the expression and the spans, without a table of queries × keys.
``narrow``, ``additive`` and ``dense`` compute the tensor that a kernel needs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.span import Index, Span, common_positions
from regard.attention.structure import (
    BandStructure,
    BlocksStructure,
    CausalStructure,
    EdgesStructure,
    FullStructure,
    IndexOffset,
    Reach,
    Structure,
    hides_nothing,
    reach_structure,
)  # fmt: skip

Allowed = Bool[Tensor, "*#shape"]
BEFORE, NO_OFFSET = Reach(math.inf, 0), IndexOffset(0, 0)


class Mask(ABC):
    """An expression of predicates; True = may attend."""

    @property
    def reach(self) -> Reach | None:
        """Positions around its own that a query may attend to, if these define the mask; otherwise None."""
        return None

    @abstractmethod
    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        """Return whether query column ``i`` may attend to key column ``j`` in row ``batch``; indices broadcast."""

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def bind(self, query: Span, key: Span) -> Bound:
        """Bind the mask to the columns of two tensors."""
        return Bound(self, query, key)

    def conjuncts(self) -> tuple[Mask, ...]:
        """Return the masks whose conjunction is this mask."""
        return (self,)


@dataclass(frozen=True)
class Causal(Mask):
    """Attend to no later position: key position ≤ query position. Positions are absolute, so a cache works."""

    @property
    def reach(self) -> Reach:
        return BEFORE

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        query_position, key_position = common_positions(query, key, batch, i, j)
        return key_position <= query_position


@dataclass(frozen=True)
class Window(Mask):
    """Restricted self-attention (Vaswani et al. 2017, Table 1): |query position − key position| ≤ ``radius``.

    Attributes:
        radius: the maximum distance of a visible key.
        sinks: the number of first positions that are visible to all queries, which a softmax over a window needs (Xiao
            et al. 2023, §3.2).
    """

    radius: int
    sinks: int = 0

    def __post_init__(self) -> None:
        if min(self.radius, self.sinks) < 0:
            raise ValueError(f"a window requires radius ≥ 0 and sinks ≥ 0, got {self.radius} and {self.sinks}")

    @property
    def reach(self) -> Reach | None:
        return None if self.sinks else self.around

    @property
    def around(self) -> Reach:
        """Positions around its own that a query may attend to, without the sinks."""
        return Reach(self.radius, self.radius)

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        query_position, key_position = common_positions(query, key, batch, i, j)
        near = (key_position - query_position).abs() <= self.radius
        return near | (key_position < self.sinks) if self.sinks else near


@dataclass(frozen=True)
class Padding(Mask):
    """Attend to valid keys only. Results of a has_padding *query* are undefined: it sees all valid keys, or none."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.valid[batch, j]


@dataclass(frozen=True)
class Segments(Mask):
    """Packed sentences: attend only within one's own ``Span.segment``."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return query.read("segment")[batch, i] == key.read("segment")[batch, j]


@dataclass(frozen=True)
class VisibleUntil(Mask):
    """Attend to key positions below the query's ``Span.visible_until``: the part of a source that has been read.

    Wait-k (Ma et al. 2019, §3) is ``visible_until`` = position + k.
    """

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.position_at(batch, j) < query.read("visible_until")[batch, i]


@dataclass(frozen=True)
class Global(Mask):
    """Columns of ``Span.is_global`` attend to all and are visible to all (Longformer, Beltagy et al. 2020, §3.1; ETC).

    Combine it with a narrow mask: ``(Window(2) | Global()) & Padding()``.
    """

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return query.read("is_global")[batch, i] | key.read("is_global")[batch, j]


@dataclass(frozen=True)
class Edges(Mask):
    """A graph: the pairs (query, key) in ``edges`` of the query's span may attend, the same for the whole batch."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        pairs = query.edge_list().pairs
        table = torch.zeros(query.valid.shape[1], key.valid.shape[1], dtype=torch.bool, device=pairs.device)
        table[pairs[0], pairs[1]] = True
        return table[i, j]


@dataclass(frozen=True, eq=False)
class Matrix(Mask):
    """The explicit matrix M of 0 and −∞, of one row or of the batch, indexed by column."""

    matrix: Float[Tensor, "query key"] | Float[Tensor, "batch query key"]

    def __post_init__(self) -> None:
        if not bool(((self.matrix == 0) | (self.matrix == float("-inf"))).all()):
            raise ValueError("a mask matrix may contain only 0 and −∞: pass a finite bias to the score")

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        allowed = self.matrix == 0
        return allowed[i, j] if allowed.dim() == 2 else allowed[batch, i, j]


@dataclass(frozen=True)
class Both(Mask):
    """Conjunction of two masks: ``left & right``.

    Attributes:
        left: a mask.
        right: a mask.
    """

    left: Mask
    right: Mask

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.left.at(query, key, batch, i, j) & self.right.at(query, key, batch, i, j)

    def conjuncts(self) -> tuple[Mask, ...]:
        return self.left.conjuncts() + self.right.conjuncts()


@dataclass(frozen=True)
class Either(Mask):
    """Disjunction of two masks: ``left | right``.

    Attributes:
        left: a mask.
        right: a mask.
    """

    left: Mask
    right: Mask

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.left.at(query, key, batch, i, j) | self.right.at(query, key, batch, i, j)


@dataclass(frozen=True, eq=False)
class _Column(Mask):
    """``mask`` for query column ``offset`` of ``whole``, where the query span is that column alone."""

    mask: Mask
    whole: Span
    offset: int

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.mask.at(self.whole, key, batch, i + self.offset, j)


class Bound:
    """A mask over the columns of a query and a key tensor. Computed tables are cached.

    Args:
        mask: the mask.
        query: the columns of the queries.
        key: the columns of the keys.
    """

    def __init__(self, mask: Mask, query: Span, key: Span) -> None:
        self.mask, self.query, self.key = mask, query, key
        self._dense: Tensor | None = None  # size 1 along dimensions that it does not depend on
        self._additive: Tensor | None = None
        self._empty: tuple[Tensor | None] | None = None

    @property
    def query_position(self) -> Int[Tensor, "batch query"]:
        """Absolute positions of the queries, for mechanisms that need them (Luong's local attention)."""
        return self.query.position

    @property
    def key_length(self) -> Int[Tensor, "batch"]:
        """The number of valid keys."""
        return self.key.length

    def at(self, batch: Index, i: Index, j: Index) -> Allowed:
        """Return whether column ``i`` may attend to column ``j`` in row ``batch``; indices broadcast."""
        return self.mask.at(self.query, self.key, batch, i, j)

    @property
    def has_given_positions(self) -> bool:
        """Return whether positions are given explicitly, so one column does not determine those of others."""
        return any(isinstance(span.given_position, Tensor) for span in (self.query, self.key))

    def _consecutive(self) -> bool:
        """Return whether given positions increase by 1 per column as far as a query may attend. Reads the columns.

        If so, reaches in positions equal reaches in columns, as in a pack whose documents restart at 0.
        """
        if not self.same_columns:
            return False
        conjuncts = self.mask.conjuncts()
        return self.key.is_consecutive(by_segment=Segments() in conjuncts, valid_only=Padding() in conjuncts)

    @cached_property
    def offset(self) -> IndexOffset | None:
        """Distance between the columns of queries and keys; None where computing it costs more than it saves.

        Spans with the same ``start`` tensor are not read. Given positions are read only if queries and keys are the
        same columns. For a single query, a step of decoding, a table is as small as the work it would save.
        """
        if self.has_given_positions:
            return NO_OFFSET if self._consecutive() else None
        if self.query.start is self.key.start or not len(self.key.start):
            return NO_OFFSET
        if self.query.valid.shape[1] == 1:
            return None
        offset = self.query.start - self.key.start
        return IndexOffset(int(offset.min()), int(offset.max()))

    @cached_property
    def parts(self) -> tuple[Mask, ...]:
        """Conjuncts of the mask, without those that hide no column, such as a window wider than the sequence."""
        return tuple(part for part in self.mask.conjuncts() if not self._hides_nothing(part.reach))

    def _hides_nothing(self, reach: Reach | None) -> bool:
        if reach is None or self.has_given_positions or self.offset is None:
            return False
        return hides_nothing(reach, self.offset, self.query.valid.shape[1], self.key.valid.shape[1])

    @cached_property
    def masks_padding(self) -> bool:
        """True if padded keys are hidden."""
        return any(isinstance(part, Padding) for part in self.parts)

    @cached_property
    def has_padding(self) -> bool:
        """True if a key is hidden because it is padding. Reads the columns."""
        return self.masks_padding and not bool(self.key.valid.all())

    @cached_property
    def same_columns(self) -> bool:
        """True if queries and keys are the same columns of the same sequences. May read the columns."""
        query, key = self.query, self.key
        if query is key:
            return True
        same_positions = (
            torch.equal(query.position, key.position) if self.has_given_positions else self.offset == NO_OFFSET
        )
        return same_positions and query.equal_except_positions(key)

    def structure(self) -> Structure | None:
        """Return the shape of the mask without padding and without building a table; None for an unknown shape."""
        other_parts: list[Mask] = []
        reaches: list[Reach] = []
        sinks = 0
        for part in self.parts:
            if (reach := part.reach) is not None:
                reaches.append(reach)
            elif isinstance(part, Window):
                reaches.append(part.around)
                sinks = max(sinks, part.sinks)
            elif not isinstance(part, Padding):
                other_parts.append(part)
        if (reaches and self.offset is None) or (sinks and self.has_given_positions):
            return None
        sizes = (self.query.valid.shape[1], self.key.valid.shape[1])
        structure = reach_structure(reaches, self.offset or NO_OFFSET, *sizes)
        if isinstance(structure, CausalStructure) and self.masks_padding and not self.same_columns:
            # A query that is valid where the key of its column is padding must not see that key.
            structure = BandStructure(sizes[0] - 1, 0)
        if sinks and isinstance(structure, BandStructure):
            first = sinks - (int(self.key.start.min()) if len(self.key.start) else 0)
            structure = replace(structure, first=min(max(first, 0), sizes[1]))
        if not other_parts or isinstance(structure, BandStructure):
            return structure
        if all(isinstance(part, Segments) for part in other_parts):
            return BlocksStructure(causal=isinstance(structure, CausalStructure))
        if isinstance(structure, FullStructure) and len(other_parts) == 1 and isinstance(other_parts[0], Edges):
            return EdgesStructure(self.query.edge_list().pairs)
        return None

    def narrow(self) -> Bool[Tensor, "#batch #query key"]:
        """Return the mask with size 1 along rows or queries that it does not depend on.

        For padding alone this is one row of keys.
        """
        if self._dense is None:
            other_parts = [part for part in self.parts if not isinstance(part, Padding)]
            allowed = self.key.valid[:, None] if self.masks_padding else None
            if other_parts or allowed is None:
                (batch, queries), keys = self.query.valid.shape, self.key.valid.shape[1]
                device = self.key.valid.device
                rows, i, j = (torch.arange(n, device=device) for n in (batch, queries, keys))
                for part in other_parts:
                    visible = part.at(self.query, self.key, rows[:, None, None], i[None, :, None], j[None, None, :])
                    allowed = visible if allowed is None else visible & allowed
                if allowed is None:
                    allowed = torch.ones(1, 1, keys, dtype=torch.bool, device=device)
            self._dense = allowed
        return self._dense

    def dense(self) -> Bool[Tensor, "batch query key"]:
        """Return the mask as a table. Cost: up to batch·query·key bytes."""
        return self.narrow().expand(*self.query.valid.shape, self.key.valid.shape[1])

    def column(self, i: int) -> Bound:
        """Return the bound of query column ``i`` alone, for mechanisms that process queries one by one."""
        column = Bound(_Column(self.mask, self.query, i), self.query.columns(i, i + 1), self.key)
        column._dense = self.dense()[:, i : i + 1]
        return column

    def sdpa(self) -> Bool[Tensor, "batch 1 query key"]:
        """Return the table with a dimension for the heads, for torch's attention, where True also means may attend."""
        return self.dense()[:, None]

    def additive(self, dtype: torch.dtype) -> Float[Tensor, "#batch 1 #query key"]:
        """Return 0 where allowed, the most negative finite number elsewhere; as small as ``narrow``."""
        if self._additive is None or self._additive.dtype != dtype:
            blocked = ~self.narrow()[:, None]
            self._additive = torch.zeros(blocked.shape, dtype=dtype, device=blocked.device)
            self._additive.masked_fill_(blocked, torch.finfo(dtype).min)
        return self._additive

    def empty(self) -> Bool[Tensor, "#batch #query"] | None:
        """Return the queries that may attend to no key; None if every query may attend. Cached."""
        if self._empty is None:
            empty = ~self.narrow().any(2)
            self._empty = (empty if bool(empty.any()) else None,)
        return self._empty[0]


def limited(mask: Mask, query: Span) -> Mask:
    """Return the mask, with ``VisibleUntil`` where the span of the queries has that field."""
    if not isinstance(query.visible_until, Tensor) or VisibleUntil() in mask.conjuncts():
        return mask
    return mask & VisibleUntil()
