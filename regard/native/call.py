"""One call of a program: lists with a number for each row, tables of keys and values, room for results.

All of it is checked against what the program needs, since C does not ask.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int16, Int32
from torch import Tensor

from regard.native.beam import MOST_BEST, BeamRows
from regard.native.checks import expect, require, shaped
from regard.native.library import Library, RowBatch, Table
from regard.native.needs import Needs, Widths


class Tables:
    """Tables of (keys, values) of each layer, [slots, heads, columns, places, width] or without places.

    Of float32, or of float16, which takes half the memory and time to read.
    """

    def __init__(self, layers: Sequence[tuple[Tensor, Tensor]]) -> None:
        self.layers = layers
        self.widths: list[Widths] = []
        self.slots = self.places = math.inf  # of the smallest table
        self.array = (Table * len(layers))()
        for table, (key, value) in zip(self.array, layers, strict=True):
            right = key.dim() in (4, 5) and key.shape[:-1] == value.shape[:-1]
            if not right:
                raise ValueError(f"keys {list(key.shape)} and values {list(value.shape)} of one layer, or of no table")
            type = torch.float16 if key.dtype is torch.float16 else torch.float32
            shaped(key, key.shape, type, "a table of keys")
            shaped(value, value.shape, type, "a table of values")
            slots, heads, columns, *rest, width = key.shape
            places = rest[0] if rest else 1
            self.widths.append((heads, width, value.shape[-1]))
            self.slots, self.places = min(slots, self.slots), min(places, self.places)
            table.key, table.value, table.window = key.data_ptr(), value.data_ptr(), -1
            table.columns, table.places, table.half = columns, places, type is torch.float16

    def columns(self, layers: dict[int, Widths], what: str) -> float:
        """Columns of the shortest of these layers, infinitely many where all are rings; their sizes are checked."""
        least = math.inf
        for layer, widths in layers.items():
            if layer >= len(self.array):
                raise ValueError(f"there is no layer {layer} among the {len(self.array)} of {what}")
            if self.widths[layer] != widths:
                expect(self.widths[layer], widths, f"(heads, width, value width) of layer {layer} of {what}")
            table = self.array[layer]
            require(table.ring >= 0, f"layer {layer} of {what} is a ring of {table.ring} columns")
            if not table.ring or table.ring > table.columns:  # a ring is written from its begin when it is full
                least = min(table.columns, least)
            if table.bias and not 0 <= table.window < table.distances:
                least = min(table.distances, least)
        return least


class CallSizes(NamedTuple):
    """Rows of a call, the most columns that one attends to, steps to run, and outputs of the head."""

    rows: int
    longest: int
    ahead: int
    types: int
    filled: int  # types, with their filling


@dataclass
class Call:
    """Tensors of one call, by the names of ``RowBatch``; None for what the program does not read."""

    token: Int32[Tensor, "rows"] | None = None
    time: Int32[Tensor, "rows"] | None = None
    slot: Int32[Tensor, "rows"] | None = None
    place: Int32[Tensor, "rows"] | None = None
    history: Int16[Tensor, "slots places times"] | None = None
    begin: Int32[Tensor, "rows"] | None = None
    end: Int32[Tensor, "rows"] | None = None
    length: Int32[Tensor, "rows"] | None = None
    cells: Tables | None = None
    sources: Tables | None = None
    every: int = 1  # of so many rows the head looks at the last alone
    best: int = 0
    suppressed: Int32[Tensor, "types"] | None = None
    asked: Int32[Tensor, "seen"] | None = None
    value: Float[Tensor, "seen best"] | None = None  # [steps, rows] where several are run without a beam
    found: Int32[Tensor, "seen best"] | None = None
    asked_value: Float[Tensor, "seen"] | None = None
    log_p: Float[Tensor, "seen filled"] | None = None
    beam: BeamRows | None = None  # where several steps of a beam are run

    def fill(self, batch: RowBatch, library: Library, needs: Needs, sizes: CallSizes) -> None:
        """Write the addresses of all of it into ``batch``; refuse what the program cannot be run with."""
        rows, longest, ahead, *_ = sizes
        require(rows >= 0 and longest >= 0, f"{rows} rows that attend to {longest} columns")
        require(self.every > 0 and rows % self.every == 0, f"{rows} rows, of each {self.every} of which one is seen")
        searched = self.history is not None if self.beam else self.best == 1
        if ahead > 1 and not (searched and self.every == 1 and self.asked is None):
            raise ValueError(
                f"{ahead} steps are run with the best type of every row alone, or as a beam with a history"
            )
        ends = self._ends(needs, sizes)
        for name in ADDRESSES:
            x = getattr(self, name)
            setattr(batch, name, None if x is None else x.data_ptr())
        for name in ("cells", "sources"):
            tables = getattr(self, name)
            setattr(batch, name, None if tables is None else ctypes.addressof(tables.array))
        batch.rows, batch.every, batch.best = rows, self.every, self.best
        batch.suppressed_count = 0 if self.suppressed is None else len(self.suppressed)
        slots = 0
        if self.history is not None:
            slots, batch.places, batch.times = self.history.shape
        wrong = library.wrong(batch, (ctypes.c_int64 * len(LISTS))(*(ends.get(name, -1) for name in LISTS)), slots)
        if wrong is not None:
            name, at = LISTS[wrong[0]], wrong[1]
            number = "" if name == "sequence" else f" {getattr(self, name).flatten()[at].item()}"
            lowest = -1 if name == "asked" else 0
            raise ValueError(f"{name}{number} at {at} is not from {lowest} to {ends[name] - 1}")

    def _ends(self, needs: Needs, sizes: CallSizes) -> dict[str, int]:
        """The number below which those of each list have to be; all of the sizes are checked."""
        rows, longest, ahead, types, _ = sizes
        ends = {}
        if needs.tokens is not None:
            ends["token"] = needs.tokens
        columns, lengths, slots, places = self._tables(needs)
        if needs.slot:
            ends["slot"] = _whole(slots)
            if self.place is not None:
                ends["place"] = _whole(places)
        if needs.time:
            times = min(columns, needs.times, longest if needs.cells else math.inf)
            times = min(times, lengths) if "keep-source" in needs.kinds else times
            ends["time"] = _whole(times) - (ahead - 1)
        if "attend-source" in needs.kinds:
            ends["length"] = _whole(min(lengths, longest)) + 1
        if "attend-rows" in needs.kinds:
            ends |= {"begin": rows + 1, "end": rows + 1, "sequence": longest + 1}
        if "head" in needs.kinds:
            self._head(sizes)
            if self.best and self.asked is not None:
                ends["asked"] = types
        for name in ends:
            if name != "sequence":
                seen = rows // self.every if name == "asked" else rows
                shaped(getattr(self, name), (seen,), torch.int32, name)
        require(self.history is None or needs.cells != {}, "a history of cells that there are not")
        if self.history is not None:
            ends["history"] = _whole(places)
        return ends

    def _tables(self, needs: Needs) -> tuple[float, float, float, float]:
        """Columns that there are for rows and for sources, slots, and places."""
        columns, lengths, slots, places = math.inf, math.inf, math.inf, math.inf
        if needs.cells:
            cells = _there(self.cells, "cells")
            columns, slots, places = cells.columns(needs.cells, "cells"), cells.slots, cells.places
        if needs.sources:
            sources = _there(self.sources, "sources")
            lengths, slots = sources.columns(needs.sources, "sources"), min(slots, sources.slots)
            places = min(places, sources.places) if "keep-source" in needs.kinds else places
        if self.history is not None:
            history = self.history
            expect(history.dim(), 3, "the number of dimensions of history")
            shaped(history, history.shape, torch.int16, "history")
            slots, columns = min(slots, history.shape[0]), min(columns, history.shape[2])
            places = min(places, history.shape[1])
            require(self.place is not None, "place is missing")
        return columns, lengths, slots, places

    def _head(self, sizes: CallSizes) -> None:
        seen = sizes.rows // self.every
        if not 0 <= self.best <= MOST_BEST:
            raise ValueError(f"{self.best} best types of each row are not from 0 to {MOST_BEST}")
        if not self.best:
            shaped(self.log_p, (seen, sizes.filled), torch.float32, "log_p")
            return
        results = (seen, self.best) if sizes.ahead == 1 or self.beam else (sizes.ahead, sizes.rows)
        shaped(self.value, results, torch.float32, "value")
        shaped(self.found, results, torch.int32, "found")
        if self.suppressed is not None:
            shaped(self.suppressed, (len(self.suppressed),), torch.int32, "suppressed")
        if self.asked is not None:
            shaped(self.asked_value, (seen,), torch.float32, "asked_value")


ADDRESSES = (
    "token", "time", "slot", "place", "history", "begin", "end", "length", "suppressed", "asked", "value", "found",
    "asked_value", "log_p",
)  # fmt: skip


# In the order of regard_wrong.
LISTS = ("token", "time", "slot", "place", "begin", "end", "length", "asked", "history", "sequence")


def _whole(end: float) -> int:
    return 2**31 if end == math.inf else int(end)


def _there(tables: Tables | None, what: str) -> Tables:
    if tables is None:
        raise ValueError(f"{what} are missing")
    return tables
