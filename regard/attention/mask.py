"""Who may look at whom: predicates over absolute positions, combined with ``&`` and ``|``, lowered at the border.

``True`` means *may look* everywhere in Regard. (``nn.MultiheadAttention`` means the opposite, additive masks mean
0 and −∞: conversions happen here and nowhere else.)

A ``Mask`` is an expression that knows no tensor of the moment. ``mask.bind(query_span, key_span)`` gives a
``Bound``, whose primitive is ``at(batch, query, key)``; ``dense``, ``sdpa``, ``flex``, ``edges`` and ``varlen`` lower
it to what a kernel wants, and answer ``None`` where that form cannot express it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Int32
from torch import Tensor

__all__ = ["Bound", "Causal", "Edges", "Mask", "Matrix", "Padding", "Segments", "Span", "Varlen", "Window"]

Index = Int[Tensor, "*#shape"]  # rows or columns; the indices of one call broadcast against each other
Allowed = Bool[Tensor, "*#shape"]


class Span(NamedTuple):
    """Which absolute positions a tensor's columns are.

    ``start`` is the position of column 0; column j is position ``start + j``. ``valid`` is False for padding, which
    stands at the end of a row. ``segment`` says which of several packed sentences a column belongs to.
    """

    start: Int[Tensor, "batch"]
    valid: Bool[Tensor, "batch length"]
    segment: Int[Tensor, "batch length"] | None = None

    @property
    def position(self) -> Int[Tensor, "batch length"]:
        """The absolute position of every column."""
        return self.start[:, None] + torch.arange(self.valid.shape[1], device=self.valid.device)

    @property
    def length(self) -> Int[Tensor, "batch"]:
        """The number of valid columns."""
        return self.valid.sum(1)

    @classmethod
    def of(cls, valid: Bool[Tensor, "batch length"]) -> Span:
        """The span of whole sentences: they start at position 0."""
        return cls(valid.new_zeros(valid.shape[0], dtype=torch.int64), valid)


class Varlen(NamedTuple):
    """Sentences laid end to end, as FlashAttention's ragged kernels want them; the first offset is 0."""

    query_offsets: Int32[Tensor, "batch+1"]
    key_offsets: Int32[Tensor, "batch+1"]
    longest_query: int
    longest_key: int
    causal: bool


class Mask(ABC):
    """An expression of predicates; True = may look."""

    @abstractmethod
    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        """Whether column ``i`` of the query span may look at column ``j`` of the key span; indices broadcast."""

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

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.start[batch] + j <= query.start[batch] + i


@dataclass(frozen=True)
class Window(Mask):
    """Restricted self-attention (Vaswani et al. 2017, Table 1): |query position − key position| ≤ ``radius``."""

    radius: int

    def __post_init__(self) -> None:
        if self.radius < 0:
            raise ValueError(f"a window's radius is 0 or more, not {self.radius}")

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return ((key.start[batch] + j) - (query.start[batch] + i)).abs() <= self.radius


@dataclass(frozen=True)
class Padding(Mask):
    """Look at valid keys only. What a padded *query* sees does not matter and is not restricted."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        return key.valid[batch, j]


@dataclass(frozen=True)
class Segments(Mask):
    """Packed sentences: look only within one's own."""

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        if query.segment is None or key.segment is None:
            raise ValueError("Segments needs spans that carry segments")
        return query.segment[batch, i] == key.segment[batch, j]


@dataclass(frozen=True, eq=False)
class Edges(Mask):
    """A graph: ``index`` holds pairs (query, key) that may look, the same for the whole batch."""

    index: Int[Tensor, "2 edges"]

    def at(self, query: Span, key: Span, batch: Index, i: Index, j: Index) -> Allowed:
        table = torch.zeros(query.valid.shape[1], key.valid.shape[1], dtype=torch.bool, device=self.index.device)
        table[self.index[0], self.index[1]] = True
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
    """A mask over the columns of a query and a key tensor. The dense form is computed once and kept."""

    def __init__(self, mask: Mask, query: Span, key: Span) -> None:
        self.mask, self.query, self.key = mask, query, key
        self._dense: Tensor | None = None
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

    def dense(self) -> Bool[Tensor, "batch query key"]:
        """The mask as a table. Cost: batch·query·key bytes."""
        if self._dense is None:
            batch, queries = self.query.valid.shape
            keys, device = self.key.valid.shape[1], self.key.valid.device
            rows, i, j = (torch.arange(n, device=device) for n in (batch, queries, keys))
            dense = self.at(rows[:, None, None], i[None, :, None], j[None, None, :])
            self._dense = dense.expand(batch, queries, keys)
        return self._dense

    def column(self, i: int) -> Bound:
        """The bound of query column ``i`` alone, for mechanisms that take the queries in turn."""
        start, valid, segment = self.query
        span = Span(start + i, valid[:, i : i + 1], None if segment is None else segment[:, i : i + 1])
        column = Bound(_Column(self.mask, self.query, i), span, self.key)
        column._dense = self.dense()[:, i : i + 1]
        return column

    def sdpa(self) -> Bool[Tensor, "batch 1 query key"]:
        """For ``scaled_dot_product_attention``, where True also means may look.

        Its ``is_causal`` is not used: it aligns top left, which is wrong with a cache.
        """
        return self.dense()[:, None]

    def additive(self, dtype: torch.dtype) -> Float[Tensor, "batch 1 query key"]:
        """0 where allowed, the most negative finite number elsewhere."""
        if self._additive is None or self._additive.dtype != dtype:
            blocked = ~self.sdpa()
            self._additive = torch.zeros(blocked.shape, dtype=dtype, device=blocked.device)
            self._additive.masked_fill_(blocked, torch.finfo(dtype).min)
        return self._additive

    def empty(self) -> Bool[Tensor, "batch query"] | None:
        """Queries that may look at nothing; None where there are none. Kept."""
        if self._empty is None:
            empty = ~self.dense().any(2)
            self._empty = (empty if bool(empty.any()) else None,)
        return self._empty[0]

    def flex(self) -> Callable[[Index, Index, Index, Index], Allowed]:
        """The ``mask_mod`` of FlexAttention."""
        return lambda batch, head, i, j: self.at(batch, i, j)

    def edges(self) -> Int[Tensor, "2 edges"] | None:
        """Pairs (query, key) where the mask is a graph and nothing else; None otherwise."""
        parts = [part for part in self.mask.conjuncts() if not isinstance(part, Padding)]
        all_valid = len(parts) == len(self.mask.conjuncts()) or bool(self.key.valid.all())
        if len(parts) == 1 and isinstance(parts[0], Edges) and all_valid:
            return parts[0].index
        return None

    def varlen(self) -> Varlen | None:
        """Ragged form where the mask is padding, causal or not, over whole sentences; None otherwise."""
        kinds = {type(part) for part in self.mask.conjuncts()}
        whole = not bool(self.query.start.any()) and not bool(self.key.start.any())
        if Padding not in kinds or not kinds <= {Padding, Causal} or not whole:
            return None
        causal = Causal in kinds
        if causal and not torch.equal(self.query.length, self.key.length):
            return None
        lengths = (self.query.length, self.key.length)
        offsets = [torch.nn.functional.pad(n.cumsum(0), (1, 0)).to(torch.int32) for n in lengths]
        return Varlen(offsets[0], offsets[1], int(lengths[0].max()), int(lengths[1].max()), causal)
