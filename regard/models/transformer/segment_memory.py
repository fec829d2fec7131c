"""Attention by segments, with a memory of previous positions that no gradient reaches (Transformer-XL)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.contract import Abilities, Mixed, Mixer
from regard.attention.positions.rotary import Rotary
from regard.attention.span import Span
from regard.models.transformer.relative_attention import MemoryAttention, RelativeAttention, RotaryAttention

Features = Float[Tensor, "rows length width"]


class SegmentState(NamedTuple):
    """Memory of rows that have ``read`` this number of positions each; unused entries are 0.

    ``block``: inputs of the current segment, the first at 0. ``memory``: inputs before it, the last at the end.
    ``compressed``: slots of earlier inputs, the last at the end; () without compression. ``usage``: attention to each
    position of memory and block so far; () if it is not needed.
    """

    read: Int[Tensor, "rows"]
    block: Float[Tensor, "rows segment width"]
    memory: Float[Tensor, "rows memory width"]
    compressed: Float[Tensor, "rows slots width"] | tuple[()] = ()
    usage: Float[Tensor, "rows remembered"] | tuple[()] = ()


class SegmentMemory(Mixer):
    """Attention of each position to earlier ones in its segment and to the ``memory`` positions before the segment.

    Position t is in segment ⌊t / ``segment``⌋, counted from the first position of its row. A sequence in pieces of any
    size therefore gives the result of one pass. The memory is the layer's input, SG(h), through which no gradient flows
    (Dai et al. 2019, §3.2, Eq. 1-3). Positions are relative (§3.3):
    A_ij = (q_i·k_j + q_i·r_{i−j} + u·k_j + v·r_{i−j}) / √d_k; q = W_q h, k = W_{k,E} h; r_d = W_{k,R} R_d,
    R_d = [sin(d ω); cos(d ω)]. State: see ``SegmentState``; its size is constant,
    so training can carry it. Cost of n positions: n · (memory + segment) · width multiply-adds, four times, and
    projections of the memory, once per segment. Causal only.

    Args:
        width: features of a position.
        heads: number of heads.
        causal: must be True.
        dropout: dropout probability of the weights.
        rotary: positions that replace the paper's.
        memory: number of positions before the segment.
        segment: number of positions of a segment.
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
            raise ValueError("segment memory is causal: use it in decoders and language models")
        if memory < 0 or segment < 1:
            raise ValueError("segment memory requires memory ≥ 0 and segment ≥ 1")
        self.width, self.memory, self.segment, self.slots = width, memory, segment, 0
        self.attention: MemoryAttention
        if rotary is None:
            self.attention = RelativeAttention(width, heads=heads, distances=memory + segment, dropout=dropout)
        else:
            self.attention = RotaryAttention(width, heads=heads, rotary=rotary, dropout=dropout)

    def set_memory(self, memory: int) -> None:
        """Set the size of the memory, in positions. No parameter depends on it. Earlier states do not fit."""
        if memory < 0:
            raise ValueError(f"memory must be 0 or more positions, got {memory}")
        self.memory = memory
        self.attention.set_distances(self.slots + memory + self.segment)

    def can(self) -> Abilities:
        return Abilities(
            causal=True,
            cross=False,
            stream="exact",
            weights=False,
            order_free=False,
            normalized=True,
            fused=False,
            differentiable=False,  # no gradient through the memory
        )

    @property
    def position_work(self) -> int:
        return 4 * self.width * (self.memory + self.segment + self.slots)

    def start(self, rows: int) -> SegmentState:
        weight = self.attention.output.weight
        read = torch.zeros(rows, dtype=torch.int64, device=weight.device)
        block, memory = (weight.new_zeros(rows, columns, self.width) for columns in (self.segment, self.memory))
        return SegmentState(read, block.detach(), memory.detach())

    def forward(self, x: Features, span: Span, state: SegmentState) -> Mixed:
        outputs, loss_sum = [], x.new_zeros(())
        begin, remaining = 0, span.length
        while begin < x.shape[1]:
            if not bool((remaining > 0).any()):  # the rest is padding, which may not fit into the segments
                outputs.append(torch.zeros_like(x[:, begin:]))
                break
            # Continue until the first row with remaining positions reaches the end of its segment.
            offset = (state.read % self.segment).masked_fill(remaining <= 0, 0)
            end = min(x.shape[1], begin + self.segment - int(offset.max()))
            output, state, loss = self._within(x[:, begin:end], span.valid[:, begin:end], state)
            outputs.append(output)
            loss_sum = loss_sum if loss is None else loss_sum + loss
            remaining, begin = remaining - (end - begin), end
        detached = SegmentState._make(x.detach() if isinstance(x, Tensor) else x for x in state)
        losses = {"reconstruction": loss_sum} if loss_sum.requires_grad else None
        return Mixed(torch.cat(outputs, 1) if outputs else x, detached, losses=losses)

    def _within(
        self, x: Features, valid: Bool[Tensor, "rows length"], state: SegmentState
    ) -> tuple[Features, SegmentState, Tensor | None]:
        """Return the output of positions within one segment per row, the next state, and the compression loss."""
        offset, length = state.read % self.segment, x.shape[1]
        before = [memory for memory in (state.compressed, state.memory) if isinstance(memory, Tensor)]
        block, visible = self._extended(x.to(state.block.dtype), valid, offset, state.block)
        h = torch.cat([*before, visible], 1).to(x.dtype)
        first = self.slots + self.memory + offset
        allowed = self._allowed(state.read, first, length, h.shape[1])
        output, weights = self.attention(x, h, first, allowed, need_weights=isinstance(state.usage, Tensor))
        if isinstance(state.usage, Tensor) and weights is not None:
            used = weights.detach() * valid[:, None, :, None]
            received = used.mean(1).sum(1)[:, self.slots :].to(state.usage.dtype)
            state = state._replace(usage=state.usage + _padded(received, state.usage.shape[1]))
        read = state.read + valid.sum(1)
        full = read // self.segment > state.read // self.segment
        state = state._replace(read=read, block=block)
        if not bool(full.any()):
            return output, state, None
        moved, loss = self._moved(state, full)
        return output, moved, loss

    def _extended(
        self,
        x: Features,
        valid: Bool[Tensor, "rows length"],
        offset: Int[Tensor, "rows"],
        block: Float[Tensor, "rows segment width"],
    ) -> tuple[Float[Tensor, "rows segment width"], Float[Tensor, "rows shown width"]]:
        """Return the block with the valid positions of x after its ``offset`` ones, and its used prefix."""
        begin, last, length = int(offset.min()), int(offset.max()), x.shape[1]
        end = min(last + length, self.segment)
        if begin == last:
            x = x.masked_fill(~valid[..., None], 0.0)
            visible = torch.cat([block[:, :begin], x], 1) if begin else x
            return (torch.cat([visible, block[:, end:]], 1) if end < self.segment else visible), visible
        index = (offset[:, None] + torch.arange(length, device=x.device)).clamp_max(self.segment - 1)[..., None]
        index = index.expand_as(x)
        whole = block.scatter(1, index, torch.where(valid[..., None], x, block.gather(1, index)))
        return whole, whole[:, :end]

    def _allowed(
        self, read: Int[Tensor, "rows"], first: Int[Tensor, "rows"], length: int, keys: int
    ) -> Bool[Tensor, "rows length keys"]:
        """Hide later positions, and empty entries of the memory."""
        keys_ = torch.arange(keys, device=read.device)
        own = first[:, None] + torch.arange(length, device=read.device)
        return (keys_ <= own[..., None]) & (keys_ >= self._first_kept(read)[:, None, None])

    def _first_kept(self, read: Int[Tensor, "rows"]) -> Int[Tensor, "rows"]:
        """Return the index of the first entry of slots and memory in use; all later entries are in use too."""
        before = read // self.segment * self.segment
        return self.slots + self.memory - before.clamp_max(self.memory)

    def _moved(self, state: SegmentState, full: Bool[Tensor, "rows"]) -> tuple[SegmentState, Tensor | None]:
        """Move the segment into memory where it is ``full``, drop the oldest positions, and return state and loss."""
        joined = torch.cat([state.memory, state.block], 1).detach()
        moved = state._replace(block=torch.zeros_like(state.block), memory=joined[:, self.segment :])
        return in_rows(full, moved, state), None


def in_rows(rows: Bool[Tensor, "rows"], new: SegmentState, old: SegmentState) -> SegmentState:
    """Return the new state in these rows, the old one in all others."""
    if bool(rows.all()):
        return new
    fields = []
    for one, other in zip(new, old, strict=True):
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            one = torch.where(rows.view(-1, *[1] * (one.dim() - 1)), one, other)
        fields.append(one)
    return SegmentState._make(fields)


def _padded(x: Float[Tensor, "rows columns"], length: int) -> Float[Tensor, "rows {length}"]:
    return torch.nn.functional.pad(x, (0, length - x.shape[1]))
