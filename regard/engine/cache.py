"""Keys and values of many sentences, written in place: what a running batch of a Transformer remembers.

A sentence has a slot. In it stand its source's keys and values, and a table of cells, one per time and hypothesis:
hypothesis p of a sentence writes what it says at time t into cell (t, p). Reordering a beam moves no keys: ``unseen``
says which cells are the history of which hypothesis, and it alone is reordered. All hypotheses ask all cells of their
sentence, those of others at a weight of 0. When a sentence leaves, its slot stays empty until another takes it.

These states are changed in place: one given away is not used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["BUCKET", "FastSession", "Remembered"]

BUCKET = 16  # cells are added for so many times at once
SPARE = 4 / 3  # so many times the source columns in use are kept; tables are asked whole, since a part would be copied


class Remembered:
    """Keys and values that one layer asks: of the target, in cells (times, places), or of the source, in columns."""

    def __init__(
        self, key: Float[Tensor, "slots key_heads *columns key_width"],
        value: Float[Tensor, "slots key_heads *columns value_width"],
    ) -> None:  # fmt: skip
        self.key, self.value = key, value
        # As products take them. What is written in place is seen here too, and a view costs a step what a sum does.
        self.asked = key.flatten(0, 1).flatten(1, -2).transpose(1, 2)
        self.given = value.flatten(0, 1).flatten(1, -2)

    def map(self, change: Callable[[Tensor], Tensor]) -> Remembered:
        return Remembered(change(self.key), change(self.value))


@dataclass
class FastSession:
    """``slots``: where each sentence is; ``width`` rows each, in their order; ``time``: tokens each has been fed.

    ``lengths``: the columns of its source.

    ``unseen`` and ``absent`` are added to energies: 0 where a row may look, the lowest number where not.
    """

    cells: list[Remembered]
    sources: list[Remembered]
    unseen: Float[Tensor, "slots places times places"]
    absent: Float[Tensor, "slots length"]
    slots: list[int]
    time: list[int]
    lengths: list[int]
    width: int = 1

    @property
    def capacity(self) -> int:
        return len(self.absent)

    @property
    def rows(self) -> int:
        return len(self.slots) * self.width

    @property
    def dense(self) -> bool:
        """Do the sentences fill all slots, in order?"""
        return self.slots == list(range(self.capacity))

    @classmethod
    def of(
        cls,
        cells: list[Remembered],
        sources: list[Remembered],
        absent: Float[Tensor, "slots length"],
        lengths: list[int],
    ) -> FastSession:
        """Sentences before their first token; the cells are empty."""
        slots, _, times, places, _ = cells[0].key.shape
        unseen = absent.new_full((slots, places, times, places), torch.finfo(absent.dtype).min)
        return cls(cells, sources, unseen, absent, list(range(slots)), [0] * slots, lengths)

    def select(self, rows: Int[Tensor, "rows"]) -> FastSession:
        block, place = (rows // self.width).tolist(), rows % self.width
        width = _run(block)
        blocks = block[::width]
        if [b for b in blocks for _ in range(width)] != block or len(set(blocks)) < len(blocks):
            return self._apart()._copied(rows.tolist()) if self.width > 1 else self._copied(block)
        session = self._widened(width)
        slots = [self.slots[b] for b in blocks]
        if session.unseen.shape[1] > 1:
            at = torch.tensor(slots, dtype=torch.int64, device=rows.device)
            session.unseen[at, :width] = session.unseen[at[:, None], place.view(-1, width)]
        time, lengths = [self.time[b] for b in blocks], [self.lengths[b] for b in blocks]
        kept = replace(session, slots=slots, time=time, lengths=lengths, width=width)
        return kept._copied(list(range(len(slots)))) if 2 * len(slots) <= self.capacity else kept

    def repeat(self, times: int) -> FastSession:
        return self.select(torch.arange(self.rows, device=self.absent.device).repeat_interleave(times))

    def truncate(self, length: Int[Tensor, "rows"]) -> FastSession:
        session = self._apart()
        time = torch.minimum(torch.tensor(session.time, dtype=torch.int64, device=length.device), length)
        times = torch.arange(session.unseen.shape[2], device=length.device)
        gone = (times >= time[:, None])[:, None, :, None]
        at = torch.tensor(session.slots, dtype=torch.int64, device=length.device)
        session.unseen[at] = session.unseen[at].masked_fill(gone, torch.finfo(self.unseen.dtype).min)
        return replace(session, time=time.tolist())

    def join(self, sessions: Sequence[FastSession]) -> FastSession:
        joined = sessions[0]
        for session in sessions[1:]:
            joined = joined._with(session) if joined.width == session.width else joined._apart()._with(session._apart())
        return joined

    def _with(self, other: FastSession) -> FastSession:
        """The sentences of ``other`` after these, in empty slots or in new ones."""
        free = sorted(set(range(self.capacity)) - set(self.slots))[: len(other.slots)]
        missing = len(other.slots) - len(free)
        free += range(self.capacity, self.capacity + missing)
        times = max(self.unseen.shape[2], other.unseen.shape[2])
        places = max(self.unseen.shape[1], other.unseen.shape[1])
        length = max(self.absent.shape[1], other.absent.shape[1])
        mine = self._padded(missing, times, places, length)
        its = other._padded(0, times, places, length)
        into = torch.tensor(free, dtype=torch.int64, device=self.absent.device)
        source = torch.tensor(other.slots, dtype=torch.int64, device=self.absent.device)
        for ours, theirs in zip(mine._tensors(), its._tensors(), strict=True):
            ours.index_copy_(0, into, theirs if its.dense else theirs.index_select(0, source))
        return replace(mine, slots=self.slots + free, time=self.time + other.time, lengths=self.lengths + other.lengths)

    def fitted(self) -> FastSession:
        """With cells for one more token of every sentence, and without source columns that none uses any more."""
        _, places, times, _ = self.unseen.shape
        length = max(self.lengths, default=0)
        session = self._narrowed(length) if self.absent.shape[1] > SPARE * length else self
        if max(self.time, default=0) < times:
            return session
        return session._padded(0, times + BUCKET, places, session.absent.shape[1])

    def _narrowed(self, length: int) -> FastSession:
        sources = [layer.map(lambda x: x[:, :, :length].contiguous()) for layer in self.sources]
        return replace(self, sources=sources, absent=self.absent[:, :length].contiguous())

    def _widened(self, width: int) -> FastSession:
        places = max(width, self.unseen.shape[1])
        return self._padded(0, self.unseen.shape[2], places, self.absent.shape[1])

    def _padded(self, slots: int, times: int, places: int, length: int) -> FastSession:
        """With ``slots`` more slots, and so many times, places and source columns at least; the same if it has them."""
        more_times, more_places = times - self.unseen.shape[2], places - self.unseen.shape[1]
        more_length = length - self.absent.shape[1]
        if not (slots or more_times or more_places or more_length):
            return self
        lowest = torch.finfo(self.absent.dtype).min
        around_cells = (0, 0, 0, more_places, 0, more_times, 0, 0, 0, slots)
        around_source = (0, 0, 0, more_length, 0, 0, 0, slots)
        return replace(
            self,
            cells=[layer.map(lambda x: pad(x, around_cells)) for layer in self.cells],
            sources=[layer.map(lambda x: pad(x, around_source)) for layer in self.sources],
            unseen=pad(self.unseen, (0, more_places, 0, more_times, 0, more_places, 0, slots), value=lowest),
            absent=pad(self.absent, (0, more_length, 0, slots), value=lowest),
        )

    def _copied(self, blocks: list[int]) -> FastSession:
        """These sentences in slots of their own, in order, one perhaps several times, as narrow as they allow."""
        at = torch.tensor([self.slots[block] for block in blocks], dtype=torch.int64, device=self.absent.device)
        time, lengths = [self.time[block] for block in blocks], [self.lengths[block] for block in blocks]
        times = min(-(-(max(time, default=0) + 1) // BUCKET) * BUCKET, self.unseen.shape[2])
        length = max(lengths, default=0)
        return replace(
            self,
            cells=[layer.map(lambda x: x[:, :, :times].index_select(0, at)) for layer in self.cells],
            sources=[layer.map(lambda x: x[:, :, :length].index_select(0, at)) for layer in self.sources],
            unseen=self.unseen[:, :, :times].index_select(0, at),
            absent=self.absent[:, :length].index_select(0, at),
            slots=list(range(len(blocks))),
            time=time,
            lengths=lengths,
        )

    def _apart(self) -> FastSession:
        """Each row in a slot of its own, of one place: what its history is, it has for itself."""
        if self.width == 1 and self.unseen.shape[1] == 1:
            return self
        blocks = [block for block in range(len(self.slots)) for _ in range(self.width)]
        alone = self._copied(blocks)
        row = torch.arange(len(blocks), device=self.absent.device)
        unseen = alone.unseen[row, row % self.width]  # (rows, times, places)
        writer = unseen.argmax(-1)  # whose cell is this row's history; any where there is none
        nobody = unseen.amax(-1, keepdim=True)[:, None]
        index = writer[:, None, :, None, None]

        def own(x: Tensor) -> Tensor:
            return x.gather(3, index.expand(-1, x.shape[1], -1, 1, x.shape[4]))

        return replace(alone, cells=[layer.map(own) for layer in alone.cells], unseen=nobody, width=1)

    def _tensors(self) -> list[Tensor]:
        tables = [x for layer in (*self.cells, *self.sources) for x in (layer.key, layer.value)]
        return [*tables, self.unseen, self.absent]


def _run(block: list[int]) -> int:
    """How many rows at the beginning belong to one sentence; 1 where there are none."""
    return next((n for n, b in enumerate(block) if b != block[0]), len(block)) or 1
