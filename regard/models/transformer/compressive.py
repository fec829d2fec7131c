"""Compressed memory: what leaves the memory of segments is kept in fewer slots (Compressive Transformer)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.positions.rotary import Rotary
from regard.models.transformer.compressor import Compression, Compressor
from regard.models.transformer.segment_memory import Columns, SegmentMemory, SegmentState, in_rows

Reconstruction = Literal["attention", "autoencoding", "none"]


class Compressive(SegmentMemory):
    """Attention to [compressed memory; memory; segment], all first in, first out (Rae et al. 2019, §3).

    With each segment the n_s oldest columns of the memory become n_s / c slots, slots' = [slots; f_c(old)], of which
    the last ``compressed`` are kept. A column sees ``memory`` + c · ``compressed`` columns before its segment. A slot's
    distance counts places, not columns (§3.1). See ``SegmentMemory`` and ``Compressor``.

    Neither f_c nor what it reads learns from the language model: a reconstruction loss, ``Mixed.losses``, trains f_c
    alone (§3.2, Algorithm 2). ``attention``: ‖attn(h, old) − attn(h, f_c(old))‖² by content alone, h the segment's
    columns, everything but f_c cut off from the gradient. ``autoencoding``: ‖old − g(f_c(old))‖². Both are summed over
    columns and a mean over features, so that they are in the units of a loss a column.

    Args:
        memory, segment: columns; memory is some segments.
        compressed: slots.
        rate: c, columns to a slot.
        compression: f_c.
        reconstruction: the loss; unset: ``attention`` where f_c learns.
    """

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
        compressed: int = 256,
        rate: int = 4,
        compression: Compression = "conv",
        reconstruction: Reconstruction | None = None,
    ) -> None:
        super().__init__(
            width, heads=heads, causal=causal, dropout=dropout, rotary=rotary, memory=memory, segment=segment
        )
        if compressed < 0:
            raise ValueError("compressed is 0 or more slots")
        learns = compression in ("conv", "dilated")
        self.reconstruction = reconstruction or ("attention" if learns else "none")
        if learns != (self.reconstruction != "none"):
            why = "has nothing to learn" if not learns else "learns from a reconstruction alone"
            raise ValueError(f"compression = {compression!r} {why}: not with reconstruction = {self.reconstruction!r}")
        self.slots, self.rate = compressed, rate
        restores = self.reconstruction == "autoencoding"
        self.compressor = Compressor(compression, width, segment=segment, rate=rate, restores=restores)
        self.compressor.as_neighbors_mean()
        self.remember(memory)

    def remember(self, memory: int) -> None:
        if memory % self.segment:
            raise ValueError(f"memory = {memory} is some segments of {self.segment}")
        super().remember(memory)

    def start(self, rows: int) -> SegmentState:
        state = super().start(rows)
        usage = state.memory.new_zeros(rows, self.memory + self.segment) if self._counts else ()
        return state._replace(compressed=state.memory.new_zeros(rows, self.slots, self.width), usage=usage)

    @property
    def _counts(self) -> bool:
        return self.compressor.kind == "most-used"

    def _first_kept(self, read: Int[Tensor, "rows"]) -> Int[Tensor, "rows"]:
        left = (read // self.segment * self.segment - self.memory).clamp_min(0)
        return super()._first_kept(read) - (left // self.rate).clamp_max(self.slots)

    def _moved(self, state: SegmentState, full: Bool[Tensor, "rows"]) -> tuple[SegmentState, Tensor | None]:
        old = torch.cat([state.memory, state.block], 1)[:, : self.segment].detach()
        leaving = full & (state.read > self.memory)  # a whole segment leaves, or nothing does
        moved, loss = SegmentMemory._moved(self, state, full)[0], None
        if isinstance(state.usage, Tensor):
            moved = moved._replace(usage=_shifted(state.usage, self.segment, full))
        if not bool(leaving.any()) or not isinstance(state.compressed, Tensor):
            return moved, None
        slots = self.compressor(old.to(state.block.dtype), self._mean_usage(state.usage))
        if torch.is_grad_enabled() and self.reconstruction != "none":
            loss = (self._lost(state.block.detach(), old, slots) * leaving).sum()
        kept = torch.cat([state.compressed, slots.detach()], 1)[:, self.compressor.slots :]
        return in_rows(leaving, moved._replace(compressed=kept), moved), loss

    def _mean_usage(self, usage: Float[Tensor, "rows remembered"] | tuple[()]) -> Tensor | tuple[()]:
        """Mean attention to each of the oldest columns: its sum over the queries that could see it."""
        if not isinstance(usage, Tensor):
            return ()
        queries = self.memory + self.segment - torch.arange(self.segment, device=usage.device)
        return usage[:, : self.segment] / queries

    def _lost(self, h: Columns, old: Columns, slots: Float[Tensor, "rows slots width"]) -> Float[Tensor, "rows"]:
        """The reconstruction loss of each row."""
        if self.reconstruction == "autoencoding":
            return (old - self.compressor.restored(slots)).square().mean(2).sum(1)
        with torch.no_grad():
            wanted = self.attention.by_content(h, old)
        return (wanted - self.attention.by_content(h, slots)).square().mean(2).sum(1)


def _shifted(usage: Float[Tensor, "rows remembered"], columns: int, rows: Bool[Tensor, "rows"]) -> Tensor:
    """The usage with its oldest columns gone, in these rows, and nothing of the segment that begins."""
    moved = torch.nn.functional.pad(usage[:, columns:], (0, columns))
    return torch.where(rows[:, None], moved, usage)
