"""Key-value cache of a running batch of a Transformer, written in place.

Each sentence has a slot with the keys and values of its source and a table of cells, one per time and hypothesis:
hypothesis p writes the key and value of its token at time t into cell (t, p). Reordering a beam moves no keys:
``cell_mask`` says which cells are the history of which hypothesis, and it alone is reordered. Every hypothesis attends
to all cells of its sentence, with weight 0 to those of others. The slot of a sentence that has left stays empty until
a new sentence takes it.

Sessions are changed in place: one that was passed on must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["BUCKET", "FastSession", "KeyValueTable"]

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
        self.key_view = key.flatten(0, 1).flatten(1, -2).transpose(1, 2)
        self.value_view = value.flatten(0, 1).flatten(1, -2)

    def map(self, change: Callable[[Tensor], Tensor]) -> KeyValueTable:
        """A table with ``change`` applied to keys and to values."""
        return KeyValueTable(change(self.key), change(self.value))


@dataclass
class FastSession:
    """Decoder state of a batch of sentences, ``width`` rows (hypotheses) each.

    Masks are added to energies: 0 where a row may look, the lowest number of the format elsewhere.
    """

    cells: list[KeyValueTable]  # keys and values of the target, per layer
    sources: list[KeyValueTable]  # keys and values of the source, per layer
    cell_mask: Float[Tensor, "slots places times places"]
    source_mask: Float[Tensor, "slots length"]
    slots: list[int]  # per sentence, the slot that holds its tables
    time: list[int]  # per sentence, the tokens fed so far
    lengths: list[int]  # per sentence, the columns of its source
    width: int = 1

    @property
    def capacity(self) -> int:
        """The number of slots, empty ones included."""
        return len(self.source_mask)

    @property
    def rows(self) -> int:
        """The number of hypotheses of all sentences."""
        return len(self.slots) * self.width

    @property
    def dense(self) -> bool:
        """True where the sentences fill all slots, in order."""
        return self.slots == list(range(self.capacity))

    @classmethod
    def of(
        cls,
        cells: list[KeyValueTable],
        sources: list[KeyValueTable],
        source_mask: Float[Tensor, "slots length"],
        lengths: list[int],
    ) -> FastSession:
        """The session of sentences before their first token, with empty cells."""
        slots, _, times, places, _ = cells[0].key.shape
        cell_mask = source_mask.new_full((slots, places, times, places), torch.finfo(source_mask.dtype).min)
        return cls(cells, sources, cell_mask, source_mask, list(range(slots)), [0] * slots, lengths)

    def select(self, rows: Int[Tensor, "rows"]) -> FastSession:
        """The session of these rows, in this order; one row may occur several times."""
        block, place = (rows // self.width).tolist(), rows % self.width
        width = _run_length(block)
        blocks = block[::width]
        if [b for b in blocks for _ in range(width)] != block or len(set(blocks)) < len(blocks):
            return self._split_rows()._compacted(rows.tolist()) if self.width > 1 else self._compacted(block)
        session = self._widened(width)
        slots = [self.slots[b] for b in blocks]
        if session.cell_mask.shape[1] > 1:
            at = torch.tensor(slots, dtype=torch.int64, device=rows.device)
            session.cell_mask[at, :width] = session.cell_mask[at[:, None], place.view(-1, width)]
        time, lengths = [self.time[b] for b in blocks], [self.lengths[b] for b in blocks]
        kept = replace(session, slots=slots, time=time, lengths=lengths, width=width)
        return kept._compacted(list(range(len(slots)))) if 2 * len(slots) <= self.capacity else kept

    def repeat(self, times: int) -> FastSession:
        """The session with each row repeated so many times."""
        return self.select(torch.arange(self.rows, device=self.source_mask.device).repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> FastSession:
        """The session as it was after ``length`` tokens of each row."""
        session = self._split_rows()
        time = torch.minimum(torch.tensor(session.time, dtype=torch.int64, device=length.device), length)
        times = torch.arange(session.cell_mask.shape[2], device=length.device)
        gone = (times >= time[:, None])[:, None, :, None]
        at = torch.tensor(session.slots, dtype=torch.int64, device=length.device)
        session.cell_mask[at] = session.cell_mask[at].masked_fill(gone, torch.finfo(self.cell_mask.dtype).min)
        return replace(session, time=time.tolist())

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
        times = max(self.cell_mask.shape[2], other.cell_mask.shape[2])
        places = max(self.cell_mask.shape[1], other.cell_mask.shape[1])
        length = max(self.source_mask.shape[1], other.source_mask.shape[1])
        joined = self._enlarged(missing, times, places, length)
        added = other._enlarged(0, times, places, length)
        into = torch.tensor(free, dtype=torch.int64, device=self.source_mask.device)
        source = torch.tensor(other.slots, dtype=torch.int64, device=self.source_mask.device)
        for tensor, new in zip(joined._tensors(), added._tensors(), strict=True):
            tensor.index_copy_(0, into, new if added.dense else new.index_select(0, source))
        return replace(
            joined, slots=self.slots + free, time=self.time + other.time, lengths=self.lengths + other.lengths
        )

    def resized(self) -> FastSession:
        """This session with cells for one more token of every sentence, and without unused source columns."""
        _, places, times, _ = self.cell_mask.shape
        length = max(self.lengths, default=0)
        session = self._narrowed(length) if self.source_mask.shape[1] > SPARE * length else self
        if max(self.time, default=0) < times:
            return session
        return session._enlarged(0, times + BUCKET, places, session.source_mask.shape[1])

    def _narrowed(self, length: int) -> FastSession:
        sources = [layer.map(lambda x: x[:, :, :length].contiguous()) for layer in self.sources]
        return replace(self, sources=sources, source_mask=self.source_mask[:, :length].contiguous())

    def _widened(self, width: int) -> FastSession:
        places = max(width, self.cell_mask.shape[1])
        return self._enlarged(0, self.cell_mask.shape[2], places, self.source_mask.shape[1])

    def _enlarged(self, slots: int, times: int, places: int, length: int) -> FastSession:
        """This session with ``slots`` more slots and at least so many times, places and source columns."""
        more_times, more_places = times - self.cell_mask.shape[2], places - self.cell_mask.shape[1]
        more_length = length - self.source_mask.shape[1]
        if not (slots or more_times or more_places or more_length):
            return self
        lowest = torch.finfo(self.source_mask.dtype).min
        around_cells = (0, 0, 0, more_places, 0, more_times, 0, 0, 0, slots)
        around_source = (0, 0, 0, more_length, 0, 0, 0, slots)
        return replace(
            self,
            cells=[layer.map(lambda x: pad(x, around_cells)) for layer in self.cells],
            sources=[layer.map(lambda x: pad(x, around_source)) for layer in self.sources],
            cell_mask=pad(self.cell_mask, (0, more_places, 0, more_times, 0, more_places, 0, slots), value=lowest),
            source_mask=pad(self.source_mask, (0, more_length, 0, slots), value=lowest),
        )

    def _compacted(self, blocks: list[int]) -> FastSession:
        """A copy of these sentences, repeats allowed, in slots 0, 1, … of tables no larger than needed."""
        at = torch.tensor([self.slots[block] for block in blocks], dtype=torch.int64, device=self.source_mask.device)
        time, lengths = [self.time[block] for block in blocks], [self.lengths[block] for block in blocks]
        times = min(-(-(max(time, default=0) + 1) // BUCKET) * BUCKET, self.cell_mask.shape[2])
        length = max(lengths, default=0)
        return replace(
            self,
            cells=[layer.map(lambda x: x[:, :, :times].index_select(0, at)) for layer in self.cells],
            sources=[layer.map(lambda x: x[:, :, :length].index_select(0, at)) for layer in self.sources],
            cell_mask=self.cell_mask[:, :, :times].index_select(0, at),
            source_mask=self.source_mask[:, :length].index_select(0, at),
            slots=list(range(len(blocks))),
            time=time,
            lengths=lengths,
        )

    def _split_rows(self) -> FastSession:
        """This session with a slot of one place for each row, which holds the row's own history."""
        if self.width == 1 and self.cell_mask.shape[1] == 1:
            return self
        blocks = [block for block in range(len(self.slots)) for _ in range(self.width)]
        alone = self._compacted(blocks)
        row = torch.arange(len(blocks), device=self.source_mask.device)
        cell_mask = alone.cell_mask[row, row % self.width]  # (rows, times, places)
        place = cell_mask.argmax(-1)  # the place that holds this row's history; any where there is none
        history = cell_mask.amax(-1, keepdim=True)[:, None]
        index = place[:, None, :, None, None]

        def own(x: Tensor) -> Tensor:
            return x.gather(3, index.expand(-1, x.shape[1], -1, 1, x.shape[4]))

        return replace(alone, cells=[layer.map(own) for layer in alone.cells], cell_mask=history, width=1)

    def _tensors(self) -> list[Tensor]:
        tables = [x for layer in (*self.cells, *self.sources) for x in (layer.key, layer.value)]
        return [*tables, self.cell_mask, self.source_mask]


def _run_length(block: list[int]) -> int:
    """The number of leading rows that belong to one sentence; 1 where there are no rows."""
    return next((n for n, b in enumerate(block) if b != block[0]), len(block)) or 1
