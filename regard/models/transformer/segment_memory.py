"""Segments that remember the columns before them, which no gradient reaches (Transformer-XL)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.models.transformer.relative_attention import MemoryAttention, RelativeAttention, TurnedAttention

Columns = Float[Tensor, "rows length width"]


class SegmentState(NamedTuple):
    """Memory of rows that have ``read`` so many columns each; what stands where nothing is remembered is 0.

    ``block``: the columns of the segment under way, the first at 0. ``memory``: columns before it, the last at the end.
    ``compressed``: slots of columns before those, the last at the end; () without compression. ``usage``: attention
    that each column of memory and block got so far; () where nothing asks for it.
    """

    read: Int[Tensor, "rows"]
    block: Float[Tensor, "rows segment width"]
    memory: Float[Tensor, "rows memory width"]
    compressed: Float[Tensor, "rows slots width"] | tuple[()] = ()
    usage: Float[Tensor, "rows remembered"] | tuple[()] = ()


class SegmentMemory(Mixer):
    """Attention of each column to those before it in its segment and to the ``memory`` columns before the segment.

    Column t is of segment ⌊t / ``segment``⌋, counted from the first column of its row: so a sequence in pieces of any
    size gives what one pass gives. What is remembered is the layer's input, SG(h), through which no gradient flows
    (Dai et al. 2019, §3.2, Eq. 1-3), with relative positions (§3.3). State: see ``SegmentState``; it keeps its size, so
    that training may carry it. Cost of n columns: n · (memory + segment) · width multiply-adds, four times over, and
    projections of what is remembered, once a segment. It reads backwards only. ``rotary``: positions in place of the
    paper's.
    """

    carries = True

    def __init__(
        self,
        width: int,
        *,
        heads: int = 1,
        causal: bool = True,
        dropout: float = 0.0,
        rotary: Rotary | None = None,
        memory: int = 256,
        segment: int = 256,
    ) -> None:
        super().__init__()
        if not causal:
            raise ValueError("it remembers the columns before each: for decoders and language models")
        if memory < 0 or segment < 1:
            raise ValueError("memory is 0 or more columns, and a segment has at least one")
        self.width, self.memory, self.segment, self.slots = width, memory, segment, 0
        self.attention: MemoryAttention
        if rotary is None:
            self.attention = RelativeAttention(width, heads=heads, distances=memory + segment, dropout=dropout)
        else:
            self.attention = TurnedAttention(width, heads=heads, rotary=rotary, dropout=dropout)

    def remember(self, memory: int) -> None:
        """Remember so many columns from now on; nothing that is learned depends on it. Earlier states do not fit."""
        if memory < 0:
            raise ValueError("memory is 0 or more columns")
        self.memory = memory
        self.attention.reach(self.slots + memory + self.segment)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=False,
            stream="exact",
            weights=False,
            order_free=False,
            normalized=True,
            fused=False,
            differentiable=False,  # not through what is remembered
        )

    @property
    def position_work(self) -> int:
        return 4 * self.width * (self.memory + self.segment + self.slots)

    def start(self, rows: int) -> SegmentState:
        weight = self.attention.output.weight
        read = torch.zeros(rows, dtype=torch.int64, device=weight.device)
        block, memory = (weight.new_zeros(rows, columns, self.width) for columns in (self.segment, self.memory))
        return SegmentState(read, block.detach(), memory.detach())

    def forward(self, x: Columns, span: Span, state: SegmentState) -> Mixed:
        outputs, lost = [], x.new_zeros(())
        at, left = 0, span.length
        while at < x.shape[1]:
            # As far as no row that has columns left goes beyond its segment.
            offset = (state.read % self.segment).masked_fill(left <= 0, 0)
            end = min(x.shape[1], at + self.segment - int(offset.max()))
            output, state, loss = self._within(x[:, at:end], span.valid[:, at:end], state)
            outputs.append(output)
            lost = lost if loss is None else lost + loss
            left, at = left - (end - at), end
        kept = SegmentState._make(each.detach() if isinstance(each, Tensor) else each for each in state)
        losses = {"reconstruction": lost} if lost.requires_grad else None
        return Mixed(torch.cat(outputs, 1) if outputs else x, kept, losses=losses)

    def _within(
        self, x: Columns, valid: Bool[Tensor, "rows length"], state: SegmentState
    ) -> tuple[Columns, SegmentState, Tensor | None]:
        """Output of columns that are of one segment in each row, the state after them, and what compression lost."""
        offset, length = state.read % self.segment, x.shape[1]
        before = [each for each in (state.compressed, state.memory) if isinstance(each, Tensor)]
        block, shown = self._entered(x.to(state.block.dtype), valid, offset, state.block)
        h = torch.cat([*before, shown], 1).to(x.dtype)
        first = self.slots + self.memory + offset
        allowed = self._allowed(state.read, first, length, h.shape[1])
        output, weights = self.attention(x, h, first, allowed, need_weights=isinstance(state.usage, Tensor))
        if isinstance(state.usage, Tensor) and weights is not None:
            used = weights.detach() * valid[:, None, :, None]
            got = used.mean(1).sum(1)[:, self.slots :].to(state.usage.dtype)
            state = state._replace(usage=state.usage + _padded(got, state.usage.shape[1]))
        read = state.read + valid.sum(1)
        full = read // self.segment > state.read // self.segment
        state = state._replace(read=read, block=block)
        if not bool(full.any()):
            return output, state, None
        moved, loss = self._moved(state, full)
        return output, moved, loss

    def _entered(
        self,
        x: Columns,
        valid: Bool[Tensor, "rows length"],
        offset: Int[Tensor, "rows"],
        block: Float[Tensor, "rows segment width"],
    ) -> tuple[Float[Tensor, "rows segment width"], Float[Tensor, "rows shown width"]]:
        """The block with what is valid of x after its ``offset`` columns, and as much of it as any row may have got."""
        begin, last, length = int(offset.min()), int(offset.max()), x.shape[1]
        end = min(last + length, self.segment)
        if begin == last:
            x = x.masked_fill(~valid[..., None], 0.0)
            shown = torch.cat([block[:, :begin], x], 1) if begin else x
            return (torch.cat([shown, block[:, end:]], 1) if end < self.segment else shown), shown
        at = (offset[:, None] + torch.arange(length, device=x.device)).clamp_max(self.segment - 1)[..., None]
        at = at.expand_as(x)
        whole = block.scatter(1, at, torch.where(valid[..., None], x, block.gather(1, at)))
        return whole, whole[:, :end]

    def _allowed(
        self, read: Int[Tensor, "rows"], first: Int[Tensor, "rows"], length: int, keys: int
    ) -> Bool[Tensor, "rows length keys"]:
        """No later column, and no place where nothing is remembered yet."""
        columns = torch.arange(keys, device=read.device)
        last = first[:, None] + torch.arange(length, device=read.device)
        return (columns <= last[..., None]) & (columns >= self._first_kept(read)[:, None, None])

    def _first_kept(self, read: Int[Tensor, "rows"]) -> Int[Tensor, "rows"]:
        """The first place of slots and memory that holds something; what holds something follows on it."""
        before = read // self.segment * self.segment
        return self.slots + self.memory - before.clamp_max(self.memory)

    def _moved(self, state: SegmentState, full: Bool[Tensor, "rows"]) -> tuple[SegmentState, Tensor | None]:
        """The state with the segment in memory where it is ``full``, and the loss; the oldest columns leave."""
        joined = torch.cat([state.memory, state.block], 1).detach()
        moved = state._replace(block=torch.zeros_like(state.block), memory=joined[:, self.segment :])
        return in_rows(full, moved, state), None


def in_rows(rows: Bool[Tensor, "rows"], new: SegmentState, old: SegmentState) -> SegmentState:
    """The new state in these rows, the old in all others."""
    if bool(rows.all()):
        return new
    found = []
    for one, other in zip(new, old, strict=True):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            one = torch.where(rows.view(-1, *[1] * (one.dim() - 1)), one, other)
        found.append(one)
    return SegmentState._make(found)


def _padded(x: Float[Tensor, "rows columns"], columns: int) -> Float[Tensor, "rows {columns}"]:
    return torch.nn.functional.pad(x, (0, columns - x.shape[1]))
