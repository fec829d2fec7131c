"""State of a running batch of a language model: keys and values written in place, those of a window over and over.

Each row has slots of its own, and each token is written into the slot of its position; where self-attention is
restricted to ``window`` positions back, there are ``window + 1`` slots, and a position takes that of the one that has
left the window. So the state of such a model stays as large however much is generated.

States are changed in place: one that was passed on must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

FEWEST = 32  # slots
GROWTH = 3 / 2


@dataclass
class CausalTable:
    """Keys and values of one layer; ``window``: how far back it looks, None where there is no limit.

    ``spare``: slots beyond those of the window, so that several columns may be written before the first is read.
    """

    key: Float[Tensor, "rows key_heads slots key_width"]
    value: Float[Tensor, "rows key_heads slots value_width"]
    window: int | None = None
    spare: int = 0

    def __post_init__(self) -> None:
        # Views in the shape that products take, made once: a view costs a step as much as a sum.
        self.key_view, self.value_view = self.key.flatten(0, 1).transpose(1, 2), self.value.flatten(0, 1)

    @property
    def slots(self) -> int:
        """The number of slots that are there."""
        return self.key.shape[2]

    @property
    def most(self) -> int | None:
        """The number of slots that there will ever be; None where there is no limit."""
        return None if self.window is None else self.window + 1 + self.spare

    def map(self, change: Callable[[Tensor], Tensor]) -> CausalTable:
        """A table with ``change`` applied to keys and to values."""
        return CausalTable(change(self.key), change(self.value), self.window, self.spare)

    def with_room(self, length: int) -> CausalTable:
        """A table with slots for so many tokens, or for a window of them."""
        needed = length if self.most is None else min(length, self.most)
        if needed <= self.slots:
            return self
        grown = max(needed, FEWEST, int(self.slots * GROWTH))
        return self.resized(grown if self.most is None else min(grown, self.most))

    def resized(self, slots: int) -> CausalTable:
        """A table with so many slots, the last cut off or new ones of zeros."""
        return self.map(lambda x: pad(x, (0, 0, 0, slots - x.shape[2])))

    def positions(self, last: Int[Tensor, "rows"], slots: int) -> Int[Tensor, "rows {slots}"]:
        """The position in each of the first slots where ``last`` is the newest; negative in those not yet written."""
        slot = torch.arange(slots, device=last.device)[None]
        return slot.expand(len(last), -1) if self.most is None else last[:, None] - (last[:, None] - slot) % self.most


@dataclass
class CausalState:
    """Tables of all layers; ``time``: the tokens that each row has read."""

    tables: list[CausalTable]
    time: list[int]

    @property
    def length(self) -> Int[Tensor, "rows"]:
        """The tokens that each row has read."""
        return torch.tensor(self.time, dtype=torch.int64, device=self.tables[0].key.device)

    def select(self, rows: Int[Tensor, "rows"]) -> CausalState:
        """The state of these rows, in this order; one row may occur several times."""
        chosen = rows.tolist()
        if chosen == list(range(len(self.time))):
            return self
        time = [self.time[row] for row in chosen]
        used = max(time, default=0)
        tables = [table.map(lambda x: x[:, :, :used].index_select(0, rows)) for table in self.tables]
        return CausalState(tables, time)

    def repeat(self, times: int) -> CausalState:
        """The state with each row repeated so many times."""
        rows = torch.arange(len(self.time), device=self.tables[0].key.device)
        return self.select(rows.repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> CausalState:
        """The state as it was after ``length`` tokens of each row. TypeError where a window has left them behind."""
        time = [min(pair) for pair in zip(self.time, length.tolist(), strict=True)]
        for most in {table.most for table in self.tables if table.most is not None}:
            if any(before > most and after < before for before, after in zip(self.time, time, strict=True)):
                raise TypeError(
                    "this state cannot be truncated: it keeps the keys of a window alone, and has overwritten older "
                    "ones; keep the tokens and read them anew"
                )
        return replace(self, time=time)

    def join(self, states: Sequence[CausalState]) -> CausalState:
        """The rows of all states, in order."""
        tables = []
        for layers in zip(*(state.tables for state in states), strict=True):
            slots = max(table.slots for table in layers)
            wide = [table.resized(slots) for table in layers]
            key, value = torch.cat([table.key for table in wide]), torch.cat([table.value for table in wide])
            tables.append(CausalTable(key, value, layers[0].window, layers[0].spare))
        return CausalState(tables, [time for state in states for time in state.time])
