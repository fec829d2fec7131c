"""Needs of a program in each call: the sizes of its tables and lists, derived once from its operations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from regard.native.library import Operation
from regard.native.program import KINDS

Widths = tuple[int, int, int]  # key heads, and the padded widths of a key and of a value
LOOKED_UP = ("position", "rotate")
CELLS, SOURCES = ("keep", "attend-cells"), ("keep-source", "attend-source")


@dataclass
class Needs:
    """Lists and tables that a program reads, and their required sizes."""

    kinds: frozenset[str] = frozenset()
    tokens: int | None = None  # size of the smallest embedding; None without embeddings
    times: float = math.inf  # size of the shortest table of positions
    cells: dict[int, Widths] = field(default_factory=dict)  # by layer
    sources: dict[int, Widths] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: Iterable[Operation], rows: Mapping[int, int]) -> Needs:
        """Return the needs of these operations.

        ``rows``: number of rows of the lookup table of an operation, by its index.
        """
        needs = cls(frozenset(KINDS[operation.kind] for operation in operations))
        for number, operation in enumerate(operations):
            kind = KINDS[operation.kind]
            if kind == "embed":
                needs.tokens = rows[number] if needs.tokens is None else min(rows[number], needs.tokens)
            elif kind in LOOKED_UP:
                needs.times = min(rows[number], needs.times)
            elif kind in CELLS or kind in SOURCES:
                layers = needs.cells if kind in CELLS else needs.sources
                widths = (operation.key_groups, operation.width, operation.value_width)
                if layers.setdefault(operation.layer, widths) != widths:
                    raise ValueError(
                        f"layer {operation.layer} must be written and read with the same (heads, width, value width), "
                        f"got {layers[operation.layer]} and {widths}"
                    )
        return needs

    @property
    def time(self) -> bool:
        """True if the program reads the positions of rows."""
        return not self.kinds.isdisjoint((*LOOKED_UP, *CELLS, "keep-source"))

    @property
    def slot(self) -> bool:
        """True if the program reads the slots of rows."""
        return bool(self.cells or self.sources)
