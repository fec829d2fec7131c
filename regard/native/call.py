"""One call of a program: lists with one number per row, tables of keys and values, buffers for results.

All of it is checked against the needs of the program, because the C code does not check.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Float, Int16, Int32
from torch import Tensor

from regard.native.beam import MAX_BEST, BeamRows
from regard.native.checks import require, require_equal, require_tensor
from regard.native.library import Library, Operation, RowBatch, Table
from regard.native.program import KINDS, filled

Widths = tuple[int, int, int]  # key heads, and the padded widths of a key and of a value
LOOKED_UP = ("position", "rotate")
CELLS, SOURCES = ("keep", "attend-cells"), ("keep-source", "attend-source", "point")


@dataclass
class Needs:
    """Lists and tables that a program reads, and their required sizes."""

    kinds: frozenset[str] = frozenset()
    tokens: int | None = None  # size of the smallest embedding; None without embeddings
    times: float = math.inf  # size of the shortest table of positions
    cells: dict[int, Widths] = field(default_factory=dict)  # by layer
    sources: dict[int, Widths] = field(default_factory=dict)
    pointer: int | None = None  # layer of the sources whose tokens are copied
    heads: dict[int, int] = field(default_factory=dict)  # of the attention to sources, by layer

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
                needs.pointer = operation.layer if kind == "point" else needs.pointer
                if kind == "attend-source":
                    needs.heads[operation.layer] = operation.groups
        return needs

    @property
    def time(self) -> bool:
        """True if the program reads the positions of rows."""
        return not self.kinds.isdisjoint((*LOOKED_UP, *CELLS, "keep-source"))

    @property
    def slot(self) -> bool:
        """True if the program reads the slots of rows."""
        return bool(self.cells or self.sources)


class Tables:
    """Tables of (keys, values) of each layer, [slots, heads, positions, hypotheses, width] or without hypotheses.

    In float32, or in float16, which takes half the memory and half the time to read. The layer of a pointer has a third
    tensor, the int32 token of each position [slots, 1, positions, 1].
    """

    def __init__(self, layers: Sequence[tuple[Tensor, ...]]) -> None:
        self.layers = layers
        self.tokens: dict[int, int] = {}  # greatest token of a pointer's table, by layer
        self.widths: list[Widths] = []
        self.slots = self.hypotheses = math.inf  # of the smallest table
        self.array = (Table * len(layers))()
        for number, (table, (key, value, *token)) in enumerate(zip(self.array, layers, strict=True)):
            if key.dim() not in (4, 5) or key.shape[:-1] != value.shape[:-1]:
                raise ValueError(
                    f"keys {list(key.shape)} and values {list(value.shape)} of a layer must have 4 or 5 dimensions, "
                    "equal except for the last"
                )
            type = torch.float16 if key.dtype is torch.float16 else torch.float32
            require_tensor(key, key.shape, type, "the table of keys")
            require_tensor(value, value.shape, type, "the table of values")
            slots, heads, positions, *rest, width = key.shape
            hypotheses = rest[0] if rest else 1
            self.widths.append((heads, width, value.shape[-1]))
            self.slots, self.hypotheses = min(slots, self.slots), min(hypotheses, self.hypotheses)
            table.key, table.value, table.window = key.data_ptr(), value.data_ptr(), -1
            table.columns, table.places, table.half = positions, hypotheses, type is torch.float16
            if token:
                require_tensor(token[0], (slots, 1, positions, 1), torch.int32, "the tokens of a table")
                least, self.tokens[number] = (int(x) for x in token[0].aminmax()) if token[0].numel() else (0, 0)
                require(least >= 0, f"the tokens of a table must not be negative, got {least}")
                table.token = token[0].data_ptr()

    def positions(self, layers: dict[int, Widths], what: str) -> float:
        """Return the length of the shortest of these layers, after checking their sizes; infinity if all are rings."""
        least = math.inf
        for layer, widths in layers.items():
            if layer >= len(self.array):
                raise ValueError(f"{what} has {len(self.array)} layers, and layer {layer} is needed")
            if self.widths[layer] != widths:
                require_equal(self.widths[layer], widths, f"(heads, width, value width) of layer {layer} of {what}")
            table = self.array[layer]
            require(table.ring >= 0, f"the ring of layer {layer} of {what} must not be negative, got {table.ring}")
            if not table.ring or table.ring > table.columns:  # a full ring is overwritten from its start
                least = min(table.columns, least)
            if table.bias and not 0 <= table.window < table.distances:
                least = min(table.distances, least)
        return least


class CallSizes(NamedTuple):
    """Rows of a call, maximum number of keys of a row, steps to run, and outputs of the head."""

    rows: int
    longest: int
    ahead: int
    types: int
    filled: int  # types, with padding


@dataclass
class Call:
    """Tensors of one call, with the names of ``RowBatch``; None if the program does not read them."""

    token: Int32[Tensor, "rows"] | None = None
    time: Int32[Tensor, "rows"] | None = None
    slot: Int32[Tensor, "rows"] | None = None
    place: Int32[Tensor, "rows"] | None = None
    history: Int16[Tensor, "slots hypotheses times"] | None = None
    begin: Int32[Tensor, "rows"] | None = None
    end: Int32[Tensor, "rows"] | None = None
    length: Int32[Tensor, "rows"] | None = None
    cells: Tables | None = None
    sources: Tables | None = None
    every: int = 1  # the head computes only the last of every ``every`` rows
    best: int = 0
    suppressed: Int32[Tensor, "types"] | None = None
    requested: Int32[Tensor, "results"] | None = None  # of one step after the other, for several steps
    value: Float[Tensor, "results best"] | None = None  # [steps, rows] for several steps without a beam
    best_type: Int32[Tensor, "results best"] | None = None
    requested_value: Float[Tensor, "results"] | None = None
    log_p: Float[Tensor, "results filled"] | None = None
    beam: BeamRows | None = None  # for several steps of a beam
    observed: Float[Tensor, "steps results heads filled"] | None = None  # receives weights of one attention to sources
    observed_layer: int = -1

    def fill(self, batch: RowBatch, library: Library, needs: Needs, sizes: CallSizes) -> None:
        """Write the addresses of all tensors into ``batch``; raise ValueError if the program cannot run with them."""
        rows, longest, ahead, *_ = sizes
        require(rows >= 0 and longest >= 0, f"rows and longest must not be negative, got {rows} and {longest}")
        require(
            self.every > 0 and rows % self.every == 0,
            f"every must be positive and divide the number of rows ({rows}), got {self.every}",
        )
        searched = self.history is not None if self.beam else self.best == 1
        if ahead > 1 and not (searched and self.every == 1 and (self.requested is None or self.beam is None)):
            raise ValueError(
                f"{ahead} steps in one call require the best type of every row (best=1), or a beam with a history"
            )
        ends = self._ends(needs, sizes)
        for name in ADDRESSES:
            x = getattr(self, name)
            setattr(batch, name, None if x is None else x.data_ptr())
        for name in ("cells", "sources"):
            tables = getattr(self, name)
            setattr(batch, name, None if tables is None else ctypes.addressof(tables.array))
        batch.rows, batch.every, batch.best = rows, self.every, self.best
        self._observe(batch, needs, sizes)
        batch.suppressed_count = 0 if self.suppressed is None else len(self.suppressed)
        slots = 0
        if self.history is not None:
            slots, batch.places, batch.times = self.history.shape
        wrong = library.out_of_range(
            batch, (ctypes.c_int64 * len(LISTS))(*(ends.get(name, -1) for name in LISTS)), slots
        )
        if wrong is not None:
            name, index = LISTS[wrong[0]], wrong[1]
            number = "" if name == "sequence" else f" {getattr(self, name).flatten()[index].item()}"
            lowest = -1 if name == "requested" else 0
            raise ValueError(f"{name}{number} at index {index} is not between {lowest} and {ends[name] - 1}")

    def _observe(self, batch: RowBatch, needs: Needs, sizes: CallSizes) -> None:
        """Write the address of ``observed``; raise ValueError if the weights do not fit."""
        batch.observed = None
        if self.observed is None:
            return
        require(self.observed_layer in needs.sources, f"layer {self.observed_layer} attends to no source")
        require(self.beam is None, "the attention of a beam cannot be returned")
        require_equal(self.observed.dim(), 4, "the number of dimensions of observed")
        heads = self.observed.shape[2]
        require_equal(heads, needs.heads[self.observed_layer], "the heads of observed")
        shape = (sizes.ahead, sizes.rows, heads, filled(sizes.longest))
        require_tensor(self.observed, shape, torch.float32, "observed")
        batch.observed, batch.observed_layer = self.observed.data_ptr(), self.observed_layer
        batch.observed_heads, batch.observed_step = heads, shape[3]

    def _ends(self, needs: Needs, sizes: CallSizes) -> dict[str, int]:
        """Return the exclusive upper bound of each list, after checking all sizes."""
        rows, longest, ahead, types, _ = sizes
        ends = {}
        if needs.tokens is not None:
            ends["token"] = needs.tokens
        positions, lengths, slots, hypotheses = self._tables(needs)
        if needs.slot:
            ends["slot"] = _whole(slots)
            if self.place is not None:
                ends["place"] = _whole(hypotheses)
        if needs.time:
            times = min(positions, needs.times, longest if needs.cells else math.inf)
            times = min(times, lengths) if "keep-source" in needs.kinds else times
            ends["time"] = _whole(times) - (ahead - 1)
        if not needs.kinds.isdisjoint(("attend-source", "point")):
            ends["length"] = _whole(min(lengths, longest)) + 1
        if "attend-rows" in needs.kinds:
            ends |= {"begin": rows + 1, "end": rows + 1, "sequence": longest + 1}
        if "head" in needs.kinds:
            self._head(sizes)
            self._pointer(needs, types)
            if self.best and self.requested is not None:
                ends["requested"] = types
                self._later_requests(sizes)
        for name in ends:
            if name != "sequence":
                results = rows // self.every * ahead if name == "requested" else rows
                require_tensor(getattr(self, name), (results,), torch.int32, name)
        require(self.history is None or needs.cells != {}, "history requires a program with cells")
        if self.history is not None:
            ends["history"] = _whole(hypotheses)
        return ends

    def _tables(self, needs: Needs) -> tuple[float, float, float, float]:
        """Return the numbers of positions for rows and for sources, of slots and of hypotheses."""
        positions, lengths, slots, hypotheses = math.inf, math.inf, math.inf, math.inf
        if needs.cells:
            cells = _present(self.cells, "cells")
            positions, slots, hypotheses = cells.positions(needs.cells, "cells"), cells.slots, cells.hypotheses
        if needs.sources:
            sources = _present(self.sources, "sources")
            lengths, slots = sources.positions(needs.sources, "sources"), min(slots, sources.slots)
            hypotheses = min(hypotheses, sources.hypotheses) if "keep-source" in needs.kinds else hypotheses
        if self.history is not None:
            history = self.history
            require_equal(history.dim(), 3, "the number of dimensions of history")
            require_tensor(history, history.shape, torch.int16, "history")
            slots, positions = min(slots, history.shape[0]), min(positions, history.shape[2])
            hypotheses = min(hypotheses, history.shape[1])
            require(self.place is not None, "place is missing")
        return positions, lengths, slots, hypotheses

    def _head(self, sizes: CallSizes) -> None:
        results = sizes.rows // self.every
        if not 0 <= self.best <= MAX_BEST:
            raise ValueError(f"best must be between 0 and {MAX_BEST} types per row, got {self.best}")
        if not self.best:
            require_tensor(self.log_p, (results, sizes.filled), torch.float32, "log_p")
            return
        shape = (results, self.best) if sizes.ahead == 1 or self.beam else (sizes.ahead, sizes.rows)
        require_tensor(self.value, shape, torch.float32, "value")
        require_tensor(self.best_type, shape, torch.int32, "best_type")
        if self.suppressed is not None:
            require_tensor(self.suppressed, (len(self.suppressed),), torch.int32, "suppressed")
        if self.requested is not None:
            require_tensor(self.requested_value, (results * sizes.ahead,), torch.float32, "requested_value")

    def _later_requests(self, sizes: CallSizes) -> None:
        """Check the types that are requested for later steps; those of the first step are checked with all lists."""
        assert self.requested is not None
        requested = self.requested[sizes.rows // self.every :]
        if len(requested) and not -1 <= int(requested.min()) <= int(requested.max()) < sizes.types:
            raise ValueError(f"requested types are not between -1 and {sizes.types - 1}")

    def _pointer(self, needs: Needs, types: int) -> None:
        """Check the tokens that the head copies."""
        if needs.pointer is None:
            return
        greatest = _present(self.sources, "sources").tokens.get(needs.pointer)
        if greatest is None:
            raise ValueError(f"layer {needs.pointer} of sources has no tokens to copy")
        require(greatest < types, f"token {greatest} of a source is not between 0 and {types - 1}")


ADDRESSES = (
    "token", "time", "slot", "place", "history", "begin", "end", "length", "suppressed", "requested", "value",
    "best_type", "requested_value", "log_p",
)  # fmt: skip


# In the order of regard_wrong.
LISTS = ("token", "time", "slot", "place", "begin", "end", "length", "requested", "history", "sequence")


def _whole(end: float) -> int:
    return 2**31 if end == math.inf else int(end)


def _present(tables: Tables | None, what: str) -> Tables:
    if tables is None:
        raise ValueError(f"{what} are missing")
    return tables
