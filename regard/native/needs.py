"""Needs of a program in each call: the sizes of its tables and lists, read off its operations once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regard.native.library import Operation
from regard.native.program import KINDS

Widths = tuple[int, int, int]  # heads of keys, and the filled widths of a key and of a value
LOOKED_UP = ("position", "turn")
CELLS, SOURCES = ("keep", "attend-cells"), ("keep-source", "attend-source")


@dataclass
class Needs:
    """Lists and tables that a program reads, and up to where."""

    kinds: frozenset[str] = frozenset()
    tokens: int | None = None  # types that are looked up; None where none are
    times: float = math.inf  # columns of the shortest table of positions
    cells: dict[int, Widths] = field(default_factory=dict)  # by layer
    sources: dict[int, Widths] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: Iterable[Operation], rows: Mapping[int, int]) -> Needs:
        """``rows``: by the number of an operation, the rows of the table in which it looks up."""
        needs = cls(frozenset(KINDS[each.kind] for each in operations))
        for number, each in enumerate(operations):
            kind = KINDS[each.kind]
            if kind == "embed":
                needs.tokens = rows[number] if needs.tokens is None else min(rows[number], needs.tokens)
            elif kind in LOOKED_UP:
                needs.times = min(rows[number], needs.times)
            elif kind in CELLS or kind in SOURCES:
                layers = needs.cells if kind in CELLS else needs.sources
                widths = (each.key_groups, each.width, each.value_width)
                if layers.setdefault(each.layer, widths) != widths:
                    raise ValueError(f"layer {each.layer} is kept as {layers[each.layer]} and attended to as {widths}")
        return needs

    @property
    def time(self) -> bool:
        """Return whether the columns of rows are read."""
        return not self.kinds.isdisjoint((*LOOKED_UP, *CELLS, "keep-source"))

    @property
    def slot(self) -> bool:
        """Return whether the slots of rows are read."""
        return bool(self.cells or self.sources)
