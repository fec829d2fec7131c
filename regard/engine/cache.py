"""Key-value cache of a running batch of a Transformer, updated in place.

Each sentence has a slot with the keys and values of its source, and a table of cells, one per time and hypothesis.
Hypothesis p writes the key and value of its token at time t into cell (t, p). Reordering a beam moves no keys. Instead,
``history`` stores for each hypothesis and time the hypothesis whose cell it reads, and only ``history`` is reordered.
The slot of a finished sentence stays empty until a new sentence uses it.

Sessions are changed in place: do not use a session again after a step or a method has returned a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int, Int16, Int32
from torch import Tensor
from torch.nn.functional import pad

BUCKET = 16  # times; tables of cells grow in multiples of it
# Allocated source positions per used one, above which tables are trimmed: products read entire tables, because reading
# a part would copy it.
SPARE = 4 / 3


class KeyValueTable:
    """Keys and values that one layer attends to: of target cells (times, hypotheses) or of source positions.

    ``token``: the source tokens that a pointer copies; None for a layer.
    """

    def __init__(
        self, key: Float[Tensor, "slots key_heads *positions key_width"],
        value: Float[Tensor, "slots key_heads *positions value_width"],
        token: Int32[Tensor, "slots 1 positions 1"] | None = None,
    ) -> None:  # fmt: skip
        self.key, self.value, self.token = key, value, token
        self.tensors: tuple[Tensor, ...] = (key, value) if token is None else (key, value, token)

    # Views for matrix products, cached: within a step, creating a view takes the same time as an addition.
    @cached_property
    def key_view(self) -> Float[Tensor, "heads key_width positions"]:
        return self.key.flatten(0, 1).flatten(1, -2).transpose(1, 2)

    @cached_property
    def value_view(self) -> Float[Tensor, "heads positions value_width"]:
        return self.value.flatten(0, 1).flatten(1, -2)

    def map(self, change: Callable[[Tensor], Tensor]) -> KeyValueTable:
        """Return a table with ``change`` applied to keys, values and tokens."""
        return KeyValueTable(*map(change, self.tensors))


@dataclass
class FastSession:
    """Decoder state of a batch of sentences, with ``width`` rows (hypotheses) per sentence."""

    cells: list[KeyValueTable]  # keys and values of the target, per layer
    sources: list[KeyValueTable]  # keys and values of the source, per layer, and those of a pointer
    history: Int16[Tensor, "slots hypotheses times"]  # the hypothesis whose cell of that time is read
    slots: list[int]  # per sentence: the slot with its tables
    time: list[int]  # per sentence: the number of tokens read so far
    lengths: list[int]  # per sentence: the length of its source
    width: int = 1
    prepared: Any = field(default=None, init=False)  # data that a decoder caches between steps, until rows change

    @property
    def capacity(self) -> int:
        """Number of slots, including empty ones."""
        return len(self.history)

    @property
    def rows(self) -> int:
        """Number of hypotheses of all sentences."""
        return len(self.slots) * self.width

    @property
    def dense(self) -> bool:
        """True if the sentences fill all slots, in order."""
        return self.slots == list(range(self.capacity))

    @property
    def source_length(self) -> int:
        """Number of positions that the source tables hold."""
        return self.sources[0].key.shape[2]

    @classmethod
    def of(cls, cells: list[KeyValueTable], sources: list[KeyValueTable], lengths: list[int]) -> FastSession:
        """Return the session of sentences before their first token, with empty cells."""
        slots, _, times, hypotheses, _ = cells[0].key.shape
        history = torch.zeros(slots, hypotheses, times, dtype=torch.int16, device=cells[0].key.device)
        return cls(cells, sources, history, list(range(slots)), [0] * slots, lengths)

    def select(self, rows: Int[Tensor, "rows"]) -> FastSession:
        """Return the session of these rows, in this order; a row may occur several times."""
        block, hypothesis = (rows // self.width).tolist(), rows % self.width
        width = _run_length(block)
        blocks = block[::width]
        if [b for b in blocks for _ in range(width)] != block or len(set(blocks)) < len(blocks):
            return self._split_rows()._compacted(rows.tolist()) if self.width > 1 else self._compacted(block)
        session = self._widened(width)
        slots = [self.slots[b] for b in blocks]
        if session.history.shape[1] > 1:
            slot_index = torch.tensor(slots, dtype=torch.int64, device=rows.device)
            session.history[slot_index, :width] = session.history[slot_index[:, None], hypothesis.view(-1, width)]
        if session is self and slots == self.slots and width == self.width:
            return self
        time, lengths = [self.time[b] for b in blocks], [self.lengths[b] for b in blocks]
        selected = replace(session, slots=slots, time=time, lengths=lengths, width=width)
        return selected._compacted(list(range(len(slots)))) if 2 * len(slots) <= self.capacity else selected

    def repeat(self, times: int) -> FastSession:
        """Return the session with each row repeated ``times`` times."""
        return self.select(torch.arange(self.rows, device=self.history.device).repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> FastSession:
        """Return the session as it was after ``length`` tokens of each row."""
        session = self._split_rows()
        return replace(session, time=[min(pair) for pair in zip(session.time, length.tolist(), strict=True)])

    def join(self, sessions: Sequence[FastSession]) -> FastSession:
        """Return the sentences of all sessions, in order, in the tables of the first."""
        joined = sessions[0]
        for session in sessions[1:]:
            joined = (
                joined._appended(session)
                if joined.width == session.width
                else joined._split_rows()._appended(session._split_rows())
            )
        return joined

    def _appended(self, other: FastSession) -> FastSession:
        """Return a session with the sentences of ``other`` appended, in empty slots or in new ones."""
        free = sorted(set(range(self.capacity)) - set(self.slots))[: len(other.slots)]
        missing = len(other.slots) - len(free)
        free += range(self.capacity, self.capacity + missing)
        times = max(self.history.shape[2], other.history.shape[2])
        hypotheses = max(self.history.shape[1], other.history.shape[1])
        length = max(self.source_length, other.source_length)
        joined = self._enlarged(missing, times, hypotheses, length)
        added = other._enlarged(0, times, hypotheses, length)
        into = torch.tensor(free, dtype=torch.int64, device=self.history.device)
        source = torch.tensor(other.slots, dtype=torch.int64, device=self.history.device)
        for tensor, new in zip(joined._tensors(), added._tensors(), strict=True):
            tensor.index_copy_(0, into, new if added.dense else new.index_select(0, source))
        return replace(
            joined, slots=self.slots + free, time=self.time + other.time, lengths=self.lengths + other.lengths
        )

    def resized(self) -> FastSession:
        """Return a session with cells for one more token per sentence, and without unused source positions."""
        _, hypotheses, times = self.history.shape
        length = max(self.lengths, default=0)
        session = self._narrowed(length) if self.source_length > SPARE * length else self
        if max(self.time, default=0) < times:
            return session
        return session._enlarged(0, times + BUCKET, hypotheses, session.source_length)

    def reserved(self, times: int) -> FastSession:
        """Return a session with cells for at least this number of tokens of each sentence."""
        return self._enlarged(0, max(times, self.history.shape[2]), self.history.shape[1], self.source_length)

    def _narrowed(self, length: int) -> FastSession:
        return replace(self, sources=[layer.map(lambda x: x[:, :, :length].contiguous()) for layer in self.sources])

    def _widened(self, width: int) -> FastSession:
        return self._enlarged(0, self.history.shape[2], max(width, self.history.shape[1]), self.source_length)

    def _enlarged(self, slots: int, times: int, hypotheses: int, length: int) -> FastSession:
        """Return a session with ``slots`` more slots and at least these times, hypotheses and source positions."""
        more_hypotheses, more_times = hypotheses - self.history.shape[1], times - self.history.shape[2]
        more_length = length - self.source_length
        if not (slots or more_times or more_hypotheses or more_length):
            return self
        around_cells = (0, 0, 0, more_hypotheses, 0, more_times, 0, 0, 0, slots)
        around_source = (0, 0, 0, more_length, 0, 0, 0, slots)
        return replace(
            self,
            cells=[layer.map(lambda x: pad(x, around_cells)) for layer in self.cells],
            sources=[layer.map(lambda x: pad(x, around_source)) for layer in self.sources],
            history=pad(self.history, (0, more_times, 0, more_hypotheses, 0, slots)),
        )

    def _compacted(self, blocks: list[int]) -> FastSession:
        """Return a copy of these sentences in slots 0, 1, … of minimal tables; a sentence may be repeated."""
        slot_index = torch.tensor(
            [self.slots[block] for block in blocks], dtype=torch.int64, device=self.history.device
        )
        time, lengths = [self.time[block] for block in blocks], [self.lengths[block] for block in blocks]
        times = min(-(-(max(time, default=0) + 1) // BUCKET) * BUCKET, self.history.shape[2])
        length = max(lengths, default=0)
        return replace(
            self,
            cells=[layer.map(lambda x: x[:, :, :times].index_select(0, slot_index)) for layer in self.cells],
            sources=[layer.map(lambda x: x[:, :, :length].index_select(0, slot_index)) for layer in self.sources],
            history=self.history[:, :, :times].index_select(0, slot_index),
            slots=list(range(len(blocks))),
            time=time,
            lengths=lengths,
        )

    def _split_rows(self) -> FastSession:
        """Return a session with one slot and one hypothesis per row, which contains the row's own history."""
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
        return [x for layer in (*self.cells, *self.sources) for x in layer.tensors] + [self.history]


def _run_length(block: list[int]) -> int:
    """Return the number of leading rows that belong to one sentence; 1 without rows."""
    return next((n for n, b in enumerate(block) if b != block[0]), len(block)) or 1
