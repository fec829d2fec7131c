"""Key-value cache of a running batch of a Transformer, written in place.

Each sentence has a slot with the keys and values of its source and a table of cells, one per time and hypothesis:
hypothesis p writes the key and value of its token at time t into cell (t, p). Reordering a beam moves no keys:
``history`` says for each time whose cell a hypothesis has, and it alone is reordered. The slot of a sentence that has
left stays empty until a new sentence takes it.

Sessions are changed in place: one that was passed on must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int, Int16
from torch import Tensor
from torch.nn.functional import pad

BUCKET = 16  # times; cells are added for so many at once
SPARE = 4 / 3  # source columns kept per column in use; products read whole tables, since a part would be copied


class KeyValueTable:
    """Keys and values that one layer attends to: over target cells (times, places) or source columns."""

    def __init__(
        self, key: Float[Tensor, "slots key_heads *columns key_width"],
        value: Float[Tensor, "slots key_heads *columns value_width"],
    ) -> None:  # fmt: skip
        self.key, self.value = key, value

    # Views in the shape that products take, made once: a view costs a step as much as a sum.
    @cached_property
    def key_view(self) -> Float[Tensor, "heads key_width columns"]:
        return self.key.flatten(0, 1).flatten(1, -2).transpose(1, 2)

    @cached_property
    def value_view(self) -> Float[Tensor, "heads columns value_width"]:
        return self.value.flatten(0, 1).flatten(1, -2)

    def map(self, change: Callable[[Tensor], Tensor]) -> KeyValueTable:
        """A table with ``change`` applied to keys and to values."""
        return KeyValueTable(change(self.key), change(self.value))


@dataclass
class FastSession:
    """Decoder state of a batch of sentences, ``width`` rows (hypotheses) each."""

    cells: list[KeyValueTable]  # keys and values of the target, per layer
    sources: list[KeyValueTable]  # keys and values of the source, per layer
    history: Int16[Tensor, "slots places times"]  # the place whose cell of that time is this place's
    slots: list[int]  # per sentence, the slot that holds its tables
    time: list[int]  # per sentence, the tokens fed so far
    lengths: list[int]  # per sentence, the columns of its source
    width: int = 1
    prepared: Any = field(default=None, init=False)  # what a decoder keeps from step to step, until rows change

    @property
    def capacity(self) -> int:
        """The number of slots, empty ones included."""
        return len(self.history)

    @property
    def rows(self) -> int:
        """The number of hypotheses of all sentences."""
        return len(self.slots) * self.width

    @property
    def dense(self) -> bool:
        """True where the sentences fill all slots, in order."""
        return self.slots == list(range(self.capacity))

    @property
    def columns(self) -> int:
        """The columns that there are for sources."""
        return self.sources[0].key.shape[2]

    @classmethod
    def of(cls, cells: list[KeyValueTable], sources: list[KeyValueTable], lengths: list[int]) -> FastSession:
        """The session of sentences before their first token, with empty cells."""
        slots, _, times, places, _ = cells[0].key.shape
        history = torch.zeros(slots, places, times, dtype=torch.int16, device=cells[0].key.device)
        return cls(cells, sources, history, list(range(slots)), [0] * slots, lengths)

    def select(self, rows: Int[Tensor, "rows"]) -> FastSession:
        """The session of these rows, in this order; one row may occur several times."""
        block, place = (rows // self.width).tolist(), rows % self.width
        width = _run_length(block)
        blocks = block[::width]
        if [b for b in blocks for _ in range(width)] != block or len(set(blocks)) < len(blocks):
            return self._split_rows()._compacted(rows.tolist()) if self.width > 1 else self._compacted(block)
        session = self._widened(width)
        slots = [self.slots[b] for b in blocks]
        if session.history.shape[1] > 1:
            at = torch.tensor(slots, dtype=torch.int64, device=rows.device)
            session.history[at, :width] = session.history[at[:, None], place.view(-1, width)]
        if session is self and slots == self.slots and width == self.width:
            return self
        time, lengths = [self.time[b] for b in blocks], [self.lengths[b] for b in blocks]
        kept = replace(session, slots=slots, time=time, lengths=lengths, width=width)
        return kept._compacted(list(range(len(slots)))) if 2 * len(slots) <= self.capacity else kept

    def repeat(self, times: int) -> FastSession:
        """The session with each row repeated so many times."""
        return self.select(torch.arange(self.rows, device=self.history.device).repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> FastSession:
        """The session as it was after ``length`` tokens of each row."""
        session = self._split_rows()
        return replace(session, time=[min(pair) for pair in zip(session.time, length.tolist(), strict=True)])

    def join(self, sessions: Sequence[FastSession]) -> FastSession:
        """The sentences of all sessions, in order, in the tables of the first."""
        joined = sessions[0]
        for session in sessions[1:]:
            joined = (
                joined._appended(session)
                if joined.width == session.width
                else joined._split_rows()._appended(session._split_rows())
            )
        return joined

    def _appended(self, other: FastSession) -> FastSession:
        """This session with the sentences of ``other`` appended, in empty slots or in new ones."""
        free = sorted(set(range(self.capacity)) - set(self.slots))[: len(other.slots)]
        missing = len(other.slots) - len(free)
        free += range(self.capacity, self.capacity + missing)
        times = max(self.history.shape[2], other.history.shape[2])
        places = max(self.history.shape[1], other.history.shape[1])
        length = max(self.columns, other.columns)
        joined = self._enlarged(missing, times, places, length)
        added = other._enlarged(0, times, places, length)
        into = torch.tensor(free, dtype=torch.int64, device=self.history.device)
        source = torch.tensor(other.slots, dtype=torch.int64, device=self.history.device)
        for tensor, new in zip(joined._tensors(), added._tensors(), strict=True):
            tensor.index_copy_(0, into, new if added.dense else new.index_select(0, source))
        return replace(
            joined, slots=self.slots + free, time=self.time + other.time, lengths=self.lengths + other.lengths
        )

    def resized(self) -> FastSession:
        """This session with cells for one more token of every sentence, and without unused source columns."""
        _, places, times = self.history.shape
        length = max(self.lengths, default=0)
        session = self._narrowed(length) if self.columns > SPARE * length else self
        if max(self.time, default=0) < times:
            return session
        return session._enlarged(0, times + BUCKET, places, session.columns)

    def _narrowed(self, length: int) -> FastSession:
        return replace(self, sources=[layer.map(lambda x: x[:, :, :length].contiguous()) for layer in self.sources])

    def _widened(self, width: int) -> FastSession:
        return self._enlarged(0, self.history.shape[2], max(width, self.history.shape[1]), self.columns)

    def _enlarged(self, slots: int, times: int, places: int, length: int) -> FastSession:
        """This session with ``slots`` more slots and at least so many times, places and source columns."""
        more_places, more_times = places - self.history.shape[1], times - self.history.shape[2]
        more_length = length - self.columns
        if not (slots or more_times or more_places or more_length):
            return self
        around_cells = (0, 0, 0, more_places, 0, more_times, 0, 0, 0, slots)
        around_source = (0, 0, 0, more_length, 0, 0, 0, slots)
        return replace(
            self,
            cells=[layer.map(lambda x: pad(x, around_cells)) for layer in self.cells],
            sources=[layer.map(lambda x: pad(x, around_source)) for layer in self.sources],
            history=pad(self.history, (0, more_times, 0, more_places, 0, slots)),
        )

    def _compacted(self, blocks: list[int]) -> FastSession:
        """A copy of these sentences, repeats allowed, in slots 0, 1, … of tables no larger than needed."""
        at = torch.tensor([self.slots[block] for block in blocks], dtype=torch.int64, device=self.history.device)
        time, lengths = [self.time[block] for block in blocks], [self.lengths[block] for block in blocks]
        times = min(-(-(max(time, default=0) + 1) // BUCKET) * BUCKET, self.history.shape[2])
        length = max(lengths, default=0)
        return replace(
            self,
            cells=[layer.map(lambda x: x[:, :, :times].index_select(0, at)) for layer in self.cells],
            sources=[layer.map(lambda x: x[:, :, :length].index_select(0, at)) for layer in self.sources],
            history=self.history[:, :, :times].index_select(0, at),
            slots=list(range(len(blocks))),
            time=time,
            lengths=lengths,
        )

    def _split_rows(self) -> FastSession:
        """This session with a slot of one place for each row, which holds the row's own history."""
        if self.width == 1 and self.history.shape[1] == 1:
            return self
        blocks = [block for block in range(len(self.slots)) for _ in range(self.width)]
        alone = self._compacted(blocks)
        row = torch.arange(len(blocks), device=self.history.device)
        history = alone.history[row, row % self.width]  # (rows, times)
        index = history.long()[:, None, :, None, None]

        def own(x: Tensor) -> Tensor:
            return x.gather(3, index.expand(-1, x.shape[1], -1, 1, x.shape[4]))

        cells = [layer.map(own) for layer in alone.cells]
        return replace(alone, cells=cells, history=torch.zeros_like(history)[:, None], width=1)

    def _tensors(self) -> list[Tensor]:
        return [x for layer in (*self.cells, *self.sources) for x in (layer.key, layer.value)] + [self.history]


def _run_length(block: list[int]) -> int:
    """The number of leading rows that belong to one sentence; 1 where there are no rows."""
    return next((n for n, b in enumerate(block) if b != block[0]), len(block)) or 1
