"""State of a running batch of a language model: keys and values written in place, in a ring for a window.

Each row has its own slots, and each token is written into the slot of its position. If self-attention is restricted to
``window`` positions back, there are ``window + 1`` slots. A position then reuses the slot of the position that has left
the window. So the state of such a model has a constant size for any length.

States are changed in place: do not use a state again after a step or a method has returned a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

MIN_SLOTS = 32
GROWTH = 3 / 2


@dataclass
class CausalTable:
    """Keys and values of one layer.

    ``window``: number of positions back that a token sees; None: unlimited.
    ``spare``: slots in addition to those of the window, for writing several tokens before the first is read.
    """

    key: Float[Tensor, "rows key_heads slots key_width"]
    value: Float[Tensor, "rows key_heads slots value_width"]
    window: int | None = None
    spare: int = 0

    def __post_init__(self) -> None:
        # Views for matrix products, created once: within a step, a view takes the same time as an addition.
        self.key_view, self.value_view = self.key.flatten(0, 1).transpose(1, 2), self.value.flatten(0, 1)

    @property
    def slots(self) -> int:
        """Number of allocated slots."""
        return self.key.shape[2]

    @property
    def slot_limit(self) -> int | None:
        """Maximum number of slots; None: unlimited."""
        return None if self.window is None else self.window + 1 + self.spare

    def map(self, change: Callable[[Tensor], Tensor]) -> CausalTable:
        """Return a table with ``change`` applied to keys and values."""
        return CausalTable(change(self.key), change(self.value), self.window, self.spare)

    def reserve(self, length: int) -> CausalTable:
        """Return a table with slots for ``length`` tokens, or for a window of them."""
        needed = length if self.slot_limit is None else min(length, self.slot_limit)
        if needed <= self.slots:
            return self
        grown = max(needed, MIN_SLOTS, int(self.slots * GROWTH))
        return self.resized(grown if self.slot_limit is None else min(grown, self.slot_limit))

    def resized(self, slots: int) -> CausalTable:
        """Return a table with ``slots`` slots: the last ones cut off, or new ones filled with zeros."""
        return self.map(lambda x: pad(x, (0, 0, 0, slots - x.shape[2])))

    def positions(self, last: Int[Tensor, "rows"], slots: int) -> Int[Tensor, "rows {slots}"]:
        """Return the position in each of the first slots, given the newest; negative for slots not yet written."""
        slot = torch.arange(slots, device=last.device)[None]
        return (
            slot.expand(len(last), -1)
            if self.slot_limit is None
            else last[:, None] - (last[:, None] - slot) % self.slot_limit
        )


@dataclass
class CausalState:
    """Tables of all layers; ``time``: the number of tokens that each row has read."""

    tables: list[CausalTable]
    time: list[int]

    @property
    def length(self) -> Int[Tensor, "rows"]:
        """Number of tokens that each row has read."""
        return torch.tensor(self.time, dtype=torch.int64, device=self.tables[0].key.device)

    def select(self, rows: Int[Tensor, "rows"]) -> CausalState:
        """Return the state of these rows, in this order; a row may occur several times."""
        chosen = rows.tolist()
        if chosen == list(range(len(self.time))):
            return self
        time = [self.time[row] for row in chosen]
        used = max(time, default=0)
        tables = [table.map(lambda x: x[:, :, :used].index_select(0, rows)) for table in self.tables]
        return CausalState(tables, time)

    def repeat(self, times: int) -> CausalState:
        """Return the state with each row repeated ``times`` times."""
        rows = torch.arange(len(self.time), device=self.tables[0].key.device)
        return self.select(rows.repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> CausalState:
        """Return the state as it was after ``length`` tokens of each row.

        Raises:
            TypeError: a window has already overwritten the keys of these positions.
        """
        time = [min(pair) for pair in zip(self.time, length.tolist(), strict=True)]
        for slot_limit in {table.slot_limit for table in self.tables if table.slot_limit is not None}:
            if any(before > slot_limit and after < before for before, after in zip(self.time, time, strict=True)):
                raise TypeError(
                    "this state cannot be truncated: it stores the keys of a window only and has overwritten older "
                    "ones; keep the tokens and process them again"
                )
        return replace(self, time=time)

    def join(self, states: Sequence[CausalState]) -> CausalState:
        """Return the rows of all states, in order."""
        tables = []
        for layers in zip(*(state.tables for state in states), strict=True):
            slots = max(table.slots for table in layers)
            wide = [table.resized(slots) for table in layers]
            key, value = torch.cat([table.key for table in wide]), torch.cat([table.value for table in wide])
            tables.append(CausalTable(key, value, layers[0].window, layers[0].spare))
        return CausalState(tables, [time for state in states for time in state.time])
