"""Spans: all that is known of the columns of a tensor, apart from their contents.

A span is a state: dimension 0 of each field is the row, and ``select``, ``repeat``, ``join`` and ``truncate`` of
``regard.core.state`` work on it. Names of dimensions: **batch** (rows) and **length** (columns of a row).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from jaxtyping import Bool, Float64, Int, Shaped
from torch import Tensor
from torch.nn.functional import pad

OPTIONAL = ("segment", "given_position", "visible_until", "is_global", "decay")  # fields of columns that may be ()


class EdgeList(NamedTuple):
    """Pairs (query column, key column) of one graph, the same in every row.

    A graph is one batch: its rows cannot be reordered, repeated, joined or shortened (TypeError).
    """

    pairs: Int[Tensor, "2 edges"]

    def refuse(self) -> NoReturn:
        raise TypeError("a span with edges is one graph: its rows and columns cannot be taken apart or moved")

    def select(self, rows: Int[Tensor, "rows"]) -> NoReturn:
        self.refuse()

    def repeat(self, times: int) -> NoReturn:
        self.refuse()

    def truncate(self, length: Int[Tensor, "batch"]) -> NoReturn:
        self.refuse()

    def join(self, states: Sequence[EdgeList]) -> NoReturn:
        self.refuse()


class Span(NamedTuple):
    """Columns of a tensor: positions, padding, and what masks and biases read; a field is () where nothing is known.

    ``start``: position of column 0; column j is position ``start + j``.
    ``valid``: False for padding, which stands at the end of a row.
    ``segment``: number of the document, in a row that packs several.
    ``given_position``: positions, where they are not ``start + j``, as in packs in which each document starts at 0.
    ``visible_until``: number of source positions that a column may see, from 0 on (wait-k, streaming). The source of an
    encoder or language model is its own sequence. A seen column may itself have seen more, layer by layer: blocks of
    columns with one limit, the end of their block, keep it exact in a stack.
    ``is_global``: True for columns that see all and are seen by all.
    ``edges``: pairs of columns of a graph, the same in every row.
    ``decay``: running sums of the logarithms of forget gates, which forgetting attention compares.
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
        """Return the span of inputs all of whose columns are valid, from position ``start``, or from 0."""
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
        """The number of valid columns."""
        return self.valid.sum(1)

    def position_at(self, batch: Int[Tensor, "*#shape"], column: Int[Tensor, "*#shape"]) -> Int[Tensor, "*#shape"]:
        """The absolute position of some columns; indices broadcast."""
        if isinstance(self.given_position, Tensor):
            return self.given_position[batch, column]
        return self.start[batch] + column

    def read(self, name: str) -> Tensor:
        """The field of that name; ValueError where it is absent."""
        field = getattr(self, name)
        if not isinstance(field, Tensor):
            raise ValueError(f"the mask reads Span.{name}, and this span has none")
        return field

    def fields(self) -> dict[str, Tensor]:
        """The fields of columns that are there, besides ``valid``."""
        return {name: field for name in OPTIONAL if isinstance(field := getattr(self, name), Tensor)}

    def columns(self, begin: int, end: int) -> Span:
        """The span of columns ``begin`` to ``end``, that one left out; without edges, which speak of all columns."""
        cut: dict[str, Any] = {name: field[:, begin:end] for name, field in self.fields().items()}
        return Span(self.start + begin, self.valid[:, begin:end])._replace(**cut)

    def each_column(self) -> list[Span]:
        """Return the spans of the columns, one by one."""
        length = self.valid.shape[1]
        return [self] if length == 1 else [self.columns(j, j + 1) for j in range(length)]

    def same_but_for_positions(self, other: Span) -> bool:
        """Return whether padding and the fields of columns are the same, positions aside. Looks at the columns."""
        mine, theirs = ({**span.fields(), "valid": span.valid} for span in (self, other))
        for fields in (mine, theirs):
            fields.pop("given_position", None)
        return mine.keys() == theirs.keys() and all(
            mine[name] is theirs[name] or torch.equal(mine[name], theirs[name]) for name in mine
        )

    def append(self, piece: Span, length: Int[Tensor, "batch"], columns: int) -> Span:
        """The span of so many ``columns``: in each row the first ``length`` of this span, and after these ``piece``."""
        for span in (self, piece):
            span.refuse_edges()
        every = torch.arange(columns, device=length.device)
        fields: dict[str, Any] = {}
        for name in OPTIONAL:
            if both := _all_or_none(name, (self, piece)):
                old, new = both
                at = (length[:, None] + every[: new.shape[1]]).view(*new.shape[:2], *[1] * (new.dim() - 2))
                fields[name] = _padded(old, columns).scatter(1, at.expand_as(new), new)
        start = torch.where(length == 0, piece.start, self.start)  # of a row that has none yet, the piece's
        return Span(start, every < (length + piece.length)[:, None])._replace(**fields)

    def gather(self, columns: Int[Tensor, "batch kept"], start: Int[Tensor, "batch"]) -> Span:
        """The span of some columns of each row, which follow one another from ``start``; beyond the last is padding."""
        self.refuse_edges()
        last = self.valid.shape[1] - 1
        at = columns.clamp_max(last)
        fields: dict[str, Any] = {
            name: field.take_along_dim(at.view(*at.shape, *[1] * (field.dim() - 2)), 1)
            for name, field in self.fields().items()
        }
        return Span(self.start + start, self.valid.gather(1, at) & (columns <= last))._replace(**fields)

    def truncate(self, length: Int[Tensor, "batch"]) -> Span:
        """The span with at most ``length`` valid columns in a row."""
        self.refuse_edges()
        columns = torch.arange(self.valid.shape[1], device=length.device)
        return self._replace(valid=self.valid & (columns < length[:, None]))

    def join(self, states: Sequence[Span]) -> Span:
        """The rows of several spans, padded to the longest."""
        longest = max(span.valid.shape[1] for span in states)
        fields = {"valid": [span.valid for span in states]}
        for span in states:
            span.refuse_edges()
        for name in OPTIONAL:
            if every := _all_or_none(name, states):
                fields[name] = every
        joined: dict[str, Any] = {
            name: torch.cat([_padded(field, longest) for field in every]) for name, every in fields.items()
        }
        return self._replace(start=torch.cat([span.start for span in states]), **joined)

    def refuse_limit(self, reader: object) -> None:
        """Raise ValueError where the span has ``visible_until``, which ``reader`` does not obey."""
        if isinstance(self.visible_until, Tensor):
            raise ValueError(f"{type(reader).__name__} reads all columns and cannot obey Span.visible_until")

    def refuse_edges(self) -> None:
        """Raise TypeError where the span has edges."""
        if isinstance(self.edges, EdgeList):
            self.edges.refuse()


def _padded(field: Tensor, columns: int) -> Tensor:
    """The field of so many columns, 0 or False in those that are new."""
    return pad(field, (*[0, 0] * (field.dim() - 2), 0, columns - field.shape[1]))


def _all_or_none(name: str, spans: Sequence[Span]) -> list[Tensor]:
    """The field of every span; an empty list where none has it. ValueError where columns of some lack it."""
    found = [getattr(span, name) for span in spans]
    some = next((field for field in found if isinstance(field, Tensor)), None)
    if some is None:
        return []
    return [
        field if isinstance(field, Tensor) else _absent(name, span, some)
        for span, field in zip(spans, found, strict=True)
    ]


def _absent(name: str, span: Span, like: Tensor) -> Tensor:
    if name == "given_position":
        return span.position
    if span.valid.shape[1]:
        raise ValueError(f"some of the columns have Span.{name} and others have none: give it with all, or with none")
    return like.new_zeros(*span.valid.shape, *like.shape[2:])
