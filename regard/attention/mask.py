"""Masks: predicates over absolute positions, combined with ``&`` and ``|``, lowered at the border.

``True`` means *may look* everywhere in Regard. (``nn.MultiheadAttention`` means the opposite, additive masks mean
0 and −∞: conversions happen here and nowhere else.)

A ``Mask`` is an expression that holds no tensor (``Matrix`` apart, for studies): all that is known of columns lies in
their ``Span``. ``mask.bind(query_span, key_span)`` gives a ``Bound``, whose primitive is ``at(batch, query, key)``.
``structure`` names the shape of the mask from the expression and the spans, without a table of queries × keys;
``narrow``, ``additive`` and, last, ``dense`` lower it to what a kernel wants.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.span import EdgeList, Span
from regard.attention.structure import (
    BandStructure,
    BlocksStructure,
    CausalStructure,
    ColumnOffset,
    EdgesStructure,
    FullStructure,
    Reach,
    Structure,
    column_structure,
    hides_nothing,
)  # fmt: skip

Index = Int[Tensor, "*#shape"]  # rows or columns; the indices of one call broadcast against each other
Allowed = Bool[Tensor, "*#shape"]
BEFORE, TOGETHER = Reach(math.inf, 0), ColumnOffset(0, 0)


class Mask(ABC):
    """An expression of predicates; True = may look."""

    @property
    def reach(self) -> Reach | None:
        """Positions around its own that a query may look at, where that says everything; None elsewhere."""
        return None

    @abstractmethod
    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        """Return whether column ``i`` of the query span may look at column ``j`` of the key span; indices broadcast."""

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def bind(self, query: Span, key: Span) -> Bound:
        """The mask over the columns of two tensors."""
        return Bound(self, query, key)

    def conjuncts(self) -> tuple[Mask, ...]:
        """The parts whose conjunction this mask is."""
        return (self,)


@dataclass(frozen=True)
class Causal(Mask):
    """Look at no position after one's own: key position ≤ query position (absolute, so right with a cache)."""

    @property
    def reach(self) -> Reach:
        return BEFORE

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        query_position, key_position = _positions(query, key, batch, i, j)
        return key_position <= query_position


@dataclass(frozen=True)
class Window(Mask):
    """Restricted self-attention (Vaswani et al. 2017, Table 1): |query position − key position| ≤ ``radius``.

    Besides these the first ``sinks`` positions, which a softmax needs to rest on (Xiao et al. 2023, §3.2).
    """

    radius: int
    sinks: int = 0

    def __post_init__(self) -> None:
        if min(self.radius, self.sinks) < 0:
            raise ValueError(f"a window's radius and sinks are 0 or more, not {self.radius} and {self.sinks}")

    @property
    def reach(self) -> Reach | None:
        return None if self.sinks else self.around

    @property
    def around(self) -> Reach:
        """Positions around its own, sinks left aside."""
        return Reach(self.radius, self.radius)

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        query_position, key_position = _positions(query, key, batch, i, j)
        near = (key_position - query_position).abs() <= self.radius
        return near | (key_position < self.sinks) if self.sinks else near


@dataclass(frozen=True)
class Padding(Mask):
    """Look at valid keys only. What a padded *query* sees does not matter: all that is valid, or nothing."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.valid[batch, j]


@dataclass(frozen=True)
class Segments(Mask):
    """Packed sentences: look only within one's own ``Span.segment``."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return query.read("segment")[batch, i] == key.read("segment")[batch, j]


@dataclass(frozen=True)
class VisibleUntil(Mask):
    """Look at key positions below the query's ``Span.visible_until``: as much of a source as has been heard.

    Wait-k (Ma et al. 2019, §3) is ``visible_until`` = position + k.
    """

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.position_at(batch, j) < query.read("visible_until")[batch, i]


@dataclass(frozen=True)
class Global(Mask):
    """Columns of ``Span.is_global`` look at all and are looked at by all (Longformer, Beltagy et al. 2020, §3.1; ETC).

    For use beside a narrow mask: ``(Window(2) | Global()) & Padding()``.
    """

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return query.read("is_global")[batch, i] | key.read("is_global")[batch, j]


@dataclass(frozen=True)
class Edges(Mask):
    """A graph: the pairs (query, key) in ``edges`` of the query's span may look, the same for the whole batch."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        pairs = _edges(query).pairs
        table = torch.zeros(query.valid.shape[1], key.valid.shape[1], dtype=torch.bool, device=pairs.device)
        table[pairs[0], pairs[1]] = True
        return table[i, j]


@dataclass(frozen=True, eq=False)
class Matrix(Mask):
    """The explicit matrix M of 0 and −∞, of one row or of the batch, indexed by column."""

    matrix: Float[Tensor, "query key"] | Float[Tensor, "batch query key"]

    def __post_init__(self) -> None:
        if not bool(((self.matrix == 0) | (self.matrix == float("-inf"))).all()):
            raise ValueError("a mask matrix holds only 0 and −∞; a finite bias belongs to the score, not to the mask")

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        allowed = self.matrix == 0
        return allowed[i, j] if allowed.dim() == 2 else allowed[batch, i, j]


@dataclass(frozen=True)
class Both(Mask):
    left: Mask
    right: Mask

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.left.at(query, key, batch, i, j) & self.right.at(query, key, batch, i, j)

    def conjuncts(self) -> tuple[Mask, ...]:
        return self.left.conjuncts() + self.right.conjuncts()


@dataclass(frozen=True)
class Either(Mask):
    left: Mask
    right: Mask

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.left.at(query, key, batch, i, j) | self.right.at(query, key, batch, i, j)


@dataclass(frozen=True, eq=False)
class _Column(Mask):
    """``mask`` as query column ``offset`` of ``whole`` sees it, where the query span is that column alone."""

    mask: Mask
    whole: Span
    offset: int

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return self.mask.at(self.whole, key, batch, i + self.offset, j)


class Bound:
    """A mask over the columns of a query and a key tensor. What is computed is computed once and kept."""

    def __init__(self, mask: Mask, query: Span, key: Span) -> None:
        self.mask, self.query, self.key = mask, query, key
        self._dense: Tensor | None = None  # with size 1 along what it does not depend on
        self._additive: Tensor | None = None
        self._empty: tuple[Tensor | None] | None = None

    @property
    def query_position(self) -> Int[Tensor, "batch query"]:
        """Absolute positions, for mechanisms that need them (Luong's local attention)."""
        return self.query.position

    @property
    def key_length(self) -> Int[Tensor, "batch"]:
        """The number of valid keys."""
        return self.key.length

    def at(self, batch: Index, i: Index, j: Index) -> Allowed:
        """The primitive: may column ``i`` look at column ``j`` in row ``batch``? Indices broadcast."""
        return self.mask.at(self.query, self.key, batch, i, j)

    @property
    def placed(self) -> bool:
        """Return whether positions are given, so that no column tells those of others."""
        return any(isinstance(span.given_position, Tensor) for span in (self.query, self.key))

    def _runs(self) -> bool:
        """Whether given positions go up by 1 from column to column as far as a query may look. Looks at the columns.

        Then reaches in positions are reaches in columns, as in a pack whose documents restart at 0.
        """
        if not self.same_columns:
            return False
        span, conjuncts = self.key, self.mask.conjuncts()
        follows = span.position.diff(dim=1) == 1
        if Segments() in conjuncts:
            steps = span.read("segment").diff(dim=1)
            follows = (follows & (steps == 0)) | (steps > 0)
        if Padding() in conjuncts:
            follows = follows | ~(span.valid[:, 1:] & span.valid[:, :-1])
        return bool(follows.all())

    @cached_property
    def offset(self) -> ColumnOffset | None:
        """Distance between the columns of queries and keys; None where finding it costs more than it saves.

        Spans with one ``start`` are not looked at, and given positions only where both are the same columns. For a
        single query, a step of decoding, a table is as small as what it would save.
        """
        if self.placed:
            return TOGETHER if self._runs() else None
        if self.query.start is self.key.start or not len(self.key.start):
            return TOGETHER
        if self.query.valid.shape[1] == 1:
            return None
        apart = self.query.start - self.key.start
        return ColumnOffset(int(apart.min()), int(apart.max()))

    @cached_property
    def parts(self) -> tuple[Mask, ...]:
        """Conjuncts of the mask without those that hide no column, as a window wider than the sequence."""
        return tuple(part for part in self.mask.conjuncts() if not self._hides_nothing(part.reach))

    def _hides_nothing(self, reach: Reach | None) -> bool:
        if reach is None or self.placed or self.offset is None:
            return False
        return hides_nothing(reach, self.offset, self.query.valid.shape[1], self.key.valid.shape[1])

    @cached_property
    def pads(self) -> bool:
        """Return whether keys that are padding are hidden."""
        return any(isinstance(part, Padding) for part in self.parts)

    @cached_property
    def padded(self) -> bool:
        """Return whether some key is hidden because it is padding. Looks at the columns."""
        return self.pads and not bool(self.key.valid.all())

    @cached_property
    def same_columns(self) -> bool:
        """Return whether queries and keys are the same columns of the same sequences."""
        query, key = self.query, self.key
        if query is key:
            return True
        together = torch.equal(query.position, key.position) if self.placed else self.offset == TOGETHER
        return together and query.same_but_for_positions(key)

    def structure(self) -> Structure | None:
        """The mask by its shape, padding left aside, and without a table; None where it has none that is known."""
        others: list[Mask] = []
        reaches: list[Reach] = []
        sinks = 0
        for part in self.parts:
            if (reach := part.reach) is not None:
                reaches.append(reach)
            elif isinstance(part, Window):
                reaches.append(part.around)
                sinks = max(sinks, part.sinks)
            elif not isinstance(part, Padding):
                others.append(part)
        if (reaches and self.offset is None) or (sinks and self.placed):
            return None
        sizes = (self.query.valid.shape[1], self.key.valid.shape[1])
        found = column_structure(reaches, self.offset or TOGETHER, *sizes)
        if isinstance(found, CausalStructure) and self.pads and not self.same_columns:
            # A query that is valid where the key of its column is padding must not see that key.
            found = BandStructure(sizes[0] - 1, 0)
        if sinks and isinstance(found, BandStructure):
            first = sinks - (int(self.key.start.min()) if len(self.key.start) else 0)
            found = replace(found, first=min(max(first, 0), sizes[1]))
        if not others or isinstance(found, BandStructure):
            return found
        if all(isinstance(part, Segments) for part in others):
            return BlocksStructure(causal=isinstance(found, CausalStructure))
        if isinstance(found, FullStructure) and len(others) == 1 and isinstance(others[0], Edges):
            return EdgesStructure(_edges(self.query).pairs)
        return None

    def narrow(self) -> Bool[Tensor, "#batch #query key"]:
        """The mask with size 1 along rows or queries that it does not depend on: padding alone is one row of keys."""
        if self._dense is None:
            others = [part for part in self.parts if not isinstance(part, Padding)]
            allowed = self.key.valid[:, None] if self.pads else None
            if others or allowed is None:
                (batch, queries), keys = self.query.valid.shape, self.key.valid.shape[1]
                device = self.key.valid.device
                rows, i, j = (torch.arange(n, device=device) for n in (batch, queries, keys))
                for part in others:
                    more = part.at(self.query, self.key, rows[:, None, None], i[None, :, None], j[None, None, :])
                    allowed = more if allowed is None else more & allowed
                if allowed is None:
                    allowed = torch.ones(1, 1, keys, dtype=torch.bool, device=device)
            self._dense = allowed
        return self._dense

    def dense(self) -> Bool[Tensor, "batch query key"]:
        """The mask as a table. Cost: up to batch·query·key bytes."""
        return self.narrow().expand(*self.query.valid.shape, self.key.valid.shape[1])

    def column(self, i: int) -> Bound:
        """The bound of query column ``i`` alone, for mechanisms that take the queries in turn."""
        column = Bound(_Column(self.mask, self.query, i), self.query.columns(i, i + 1), self.key)
        column._dense = self.dense()[:, i : i + 1]
        return column

    def sdpa(self) -> Bool[Tensor, "batch 1 query key"]:
        """The table with a dimension for the heads, where True also means may look."""
        return self.dense()[:, None]

    def additive(self, dtype: torch.dtype) -> Float[Tensor, "#batch 1 #query key"]:
        """0 where allowed, the most negative finite number elsewhere; as small as ``narrow``."""
        if self._additive is None or self._additive.dtype != dtype:
            blocked = ~self.narrow()[:, None]
            self._additive = torch.zeros(blocked.shape, dtype=dtype, device=blocked.device)
            self._additive.masked_fill_(blocked, torch.finfo(dtype).min)
        return self._additive

    def empty(self) -> Bool[Tensor, "#batch #query"] | None:
        """Queries that may look at nothing; None where there are none. Kept."""
        if self._empty is None:
            empty = ~self.narrow().any(2)
            self._empty = (empty if bool(empty.any()) else None,)
        return self._empty[0]


def limited(mask: Mask, query: Span) -> Mask:
    """Return the mask, with ``VisibleUntil`` where the span of the queries has that field."""
    if not isinstance(query.visible_until, Tensor) or VisibleUntil() in mask.conjuncts():
        return mask
    return mask & VisibleUntil()


def _positions(query: Span, key: Span, batch: Index, i: Index, j: Index) -> tuple[Index, Index]:
    """Positions of query columns ``i`` and key columns ``j``, from wherever both spans are counted."""
    given = isinstance(query.given_position, Tensor) or isinstance(key.given_position, Tensor)
    if query.start is key.start and not given:
        return i, j
    return query.position_at(batch, i), key.position_at(batch, j)


def _edges(span: Span) -> EdgeList:
    if not isinstance(span.edges, EdgeList):
        raise ValueError("the mask reads Span.edges, and this span has none")
    return span.edges
