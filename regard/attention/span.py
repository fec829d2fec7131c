"""Spans: positions, padding and mask fields of the elements of a tensor, without their contents.

A span is a state: dimension 0 of each field is the row, and ``select``, ``repeat``, ``join`` and ``truncate`` of
``regard.core.state`` work on it. Names of dimensions: **batch** (rows) and **length** (elements of a row). An element
has an index in the tensor, its column, and an absolute position in the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from jaxtyping import Bool, Float64, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

OPTIONAL = (
    "segment",
    "given_position",
    "visible_until",
    "is_global",
    "decay",
)  # fields with one entry per column that may be ()

Index = Int[Tensor, "*#shape"]  # rows or columns; the indices of one call broadcast against each other


class EdgeList(NamedTuple):
    """Pairs (query column, key column) of one graph, the same in every row.

    A graph is one batch: its rows cannot be reordered, repeated, joined or shortened (TypeError).

    Attributes:
        pairs: (2, edges) the query columns and the key columns.
    """

    pairs: Int[Tensor, "2 edges"]

    def refuse(self) -> NoReturn:
        raise TypeError("a span with edges is one graph: its rows and columns cannot be selected, joined or moved")

    def select(self, rows: Int[Tensor, "rows"]) -> NoReturn:
        self.refuse()

    def repeat(self, times: int) -> NoReturn:
        self.refuse()

    def truncate(self, length: Int[Tensor, "batch"]) -> NoReturn:
        self.refuse()

    def join(self, states: Sequence[EdgeList]) -> NoReturn:
        self.refuse()


class Span(NamedTuple):
    """Positions, padding and inputs of masks and biases, for every column of a tensor; an unknown field is ().

    Attributes:
        start: position of column 0; column j is position ``start + j``.
        valid: False for padding, which is at the end of a row.
        segment: number of the document, in a row that packs several.
        given_position: positions that are not ``start + j``, as in packs in which each document starts at 0.
        visible_until: number of source positions that a column may see, from 0 on (wait-k, streaming). The source of an
            encoder or language model is its own sequence. In a stack of layers, a visible column may itself have seen
            more. Blocks of columns that share the end of their block as the limit keep it exact.
        is_global: True for columns that attend to all columns and are visible to all.
        edges: pairs of columns of a graph, the same in every row.
        decay: running sums of the logarithms of forget gates, which forgetting attention compares.
    """

    start: Int[Tensor, "batch"]
    valid: Bool[Tensor, "batch length"]
    segment: Int[Tensor, "batch length"] | tuple[()] = ()
    given_position: Int[Tensor, "batch length"] | tuple[()] = ()
    visible_until: Int[Tensor, "batch length"] | tuple[()] = ()
    is_global: Bool[Tensor, "batch length"] | tuple[()] = ()
    edges: EdgeList | tuple[()] = ()
    decay: Float64[Tensor, "batch length heads"] | tuple[()] = ()

    @classmethod
    def of(cls, valid: Bool[Tensor, "batch length"]) -> Span:
        """Return the span of rows that start at position 0; ``valid`` is False for padding."""
        return cls(valid.new_zeros(valid.shape[0], dtype=torch.int64), valid)

    @classmethod
    def without_padding(
        cls, inputs: Shaped[Tensor, "batch length *features"], start: Int[Tensor, "batch"] | None = None
    ) -> Span:
        """Return the span of inputs without padding that begin at position ``start`` (default 0)."""
        valid = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        return cls.of(valid) if start is None else cls(start, valid)

    @property
    def position(self) -> Int[Tensor, "batch length"]:
        """The absolute position of every column."""
        if isinstance(self.given_position, Tensor):
            return self.given_position
        return self.start[:, None] + torch.arange(self.valid.shape[1], device=self.valid.device)

    @property
    def length(self) -> Int[Tensor, "batch"]:
        """The number of valid columns of each row."""
        return self.valid.sum(1)

    def position_at(self, batch: Int[Tensor, "*#shape"], column: Int[Tensor, "*#shape"]) -> Int[Tensor, "*#shape"]:
        """Return the absolute position of some columns; indices broadcast."""
        if isinstance(self.given_position, Tensor):
            return self.given_position[batch, column]
        return self.start[batch] + column

    def read(self, name: str) -> Tensor:
        """Return the field of that name. Raises ValueError if it is absent."""
        field = getattr(self, name)
        if not isinstance(field, Tensor):
            raise ValueError(f"the mask requires Span.{name}, which this span lacks")
        return field

    def edge_list(self) -> EdgeList:
        """Return the edges. Raises ValueError if they are absent."""
        if not isinstance(self.edges, EdgeList):
            raise ValueError("the mask requires Span.edges, which this span lacks")
        return self.edges

    def is_consecutive(self, *, by_segment: bool, valid_only: bool) -> bool:
        """Return whether positions increase by 1 per column. Reads the columns.

        Args:
            by_segment: positions may have any step where a new segment begins.
            valid_only: steps to and from padding are ignored.
        """
        follows = self.position.diff(dim=1) == 1
        if by_segment:
            steps = self.read("segment").diff(dim=1)
            follows = (follows & (steps == 0)) | (steps > 0)
        if valid_only:
            follows = follows | ~(self.valid[:, 1:] & self.valid[:, :-1])
        return bool(follows.all())

    def fields(self) -> dict[str, Tensor]:
        """Return the fields with one entry per column that are present, except ``valid``."""
        return {name: field for name in OPTIONAL if isinstance(field := getattr(self, name), Tensor)}

    def columns(self, begin: int, end: int) -> Span:
        """Return the span of columns ``begin`` to ``end`` (exclusive), without edges, which refer to all columns."""
        sliced: dict[str, Any] = {name: field[:, begin:end] for name, field in self.fields().items()}
        return Span(self.start + begin, self.valid[:, begin:end])._replace(**sliced)

    def split_columns(self) -> list[Span]:
        """Return the spans of the columns, one by one."""
        length = self.valid.shape[1]
        return [self] if length == 1 else [self.columns(j, j + 1) for j in range(length)]

    def equal_except_positions(self, other: Span) -> bool:
        """Return whether padding and all fields except positions are equal. Reads the tensors."""
        fields, other_fields = ({**span.fields(), "valid": span.valid} for span in (self, other))
        for present in (fields, other_fields):
            present.pop("given_position", None)
        return fields.keys() == other_fields.keys() and all(
            fields[name] is other_fields[name] or torch.equal(fields[name], other_fields[name]) for name in fields
        )

    def append(self, piece: Span, length: Int[Tensor, "batch"], columns: int) -> Span:
        """Return the span of ``columns`` columns: the first ``length`` of each row of this span, then ``piece``."""
        for span in (self, piece):
            span.refuse_edges()
        all_columns = torch.arange(columns, device=length.device)
        fields: dict[str, Any] = {}
        for name in OPTIONAL:
            if old_and_new := _all_or_none(name, (self, piece)):
                old, new = old_and_new
                index = (length[:, None] + all_columns[: new.shape[1]]).view(*new.shape[:2], *[1] * (new.dim() - 2))
                fields[name] = _padded(old, columns).scatter(1, index.expand_as(new), new)
        start = torch.where(length == 0, piece.start, self.start)  # an empty row starts where the piece does
        return Span(start, all_columns < (length + piece.length)[:, None])._replace(**fields)

    def gather(self, columns: Int[Tensor, "batch kept"], start: Int[Tensor, "batch"]) -> Span:
        """Return the span of some columns of each row, from position ``start``.

        Indices after the last column become padding.
        """
        self.refuse_edges()
        last = self.valid.shape[1] - 1
        index = columns.clamp_max(last)
        fields: dict[str, Any] = {
            name: field.take_along_dim(index.view(*index.shape, *[1] * (field.dim() - 2)), 1)
            for name, field in self.fields().items()
        }
        return Span(self.start + start, self.valid.gather(1, index) & (columns <= last))._replace(**fields)

    def truncate(self, length: Int[Tensor, "batch"]) -> Span:
        """Return the span with at most ``length`` valid columns in a row."""
        self.refuse_edges()
        columns = torch.arange(self.valid.shape[1], device=length.device)
        return self._replace(valid=self.valid & (columns < length[:, None]))

    def join(self, states: Sequence[Span]) -> Span:
        """Return the rows of several spans, padded to the longest."""
        longest = max(span.valid.shape[1] for span in states)
        fields = {"valid": [span.valid for span in states]}
        for span in states:
            span.refuse_edges()
        for name in OPTIONAL:
            if present := _all_or_none(name, states):
                fields[name] = present
        joined: dict[str, Any] = {
            name: torch.cat([_padded(field, longest) for field in present]) for name, present in fields.items()
        }
        return self._replace(start=torch.cat([span.start for span in states]), **joined)

    def refuse_limit(self, reader: object) -> None:
        """Raise ValueError if the span has ``visible_until``, which ``reader`` does not obey."""
        if isinstance(self.visible_until, Tensor):
            raise ValueError(f"{type(reader).__name__} reads all columns and cannot obey Span.visible_until")

    def refuse_edges(self) -> None:
        """Raise TypeError if the span has edges."""
        if isinstance(self.edges, EdgeList):
            self.edges.refuse()


def common_positions(query: Span, key: Span, batch: Index, i: Index, j: Index) -> tuple[Index, Index]:
    """Return positions of query columns ``i`` and key columns ``j``, counted from a common origin."""
    has_given_positions = isinstance(query.given_position, Tensor) or isinstance(key.given_position, Tensor)
    if query.start is key.start and not has_given_positions:
        return i, j
    return query.position_at(batch, i), key.position_at(batch, j)


def _padded(field: Tensor, columns: int) -> Tensor:
    """Return the field with ``columns`` columns; new ones are 0 or False."""
    return pad(field, (*[0, 0] * (field.dim() - 2), 0, columns - field.shape[1]))


def _all_or_none(name: str, spans: Sequence[Span]) -> list[Tensor]:
    """Return the field of every span; an empty list if no span has it.

    Raises ValueError if some spans with columns lack it.
    """
    fields = [getattr(span, name) for span in spans]
    present = next((field for field in fields if isinstance(field, Tensor)), None)
    if present is None:
        return []
    return [
        field if isinstance(field, Tensor) else _absent(name, span, present)
        for span, field in zip(spans, fields, strict=True)
    ]


def _absent(name: str, span: Span, like: Tensor) -> Tensor:
    if name == "given_position":
        return span.position
    if span.valid.shape[1]:
        raise ValueError(f"Span.{name} is missing in some of the joined columns: pass it for all columns, or for none")
    return like.new_zeros(*span.valid.shape, *like.shape[2:])
