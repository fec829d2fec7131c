"""Compressed memory: positions that leave the memory of segments are kept in fewer slots (Compressive Transformer)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.positions.rotary import Rotary
from regard.models.transformer.segment_memory import Features, SegmentMemory, SegmentState, in_rows

Reconstruction = Literal["attention", "autoencoding", "none"]
Compression = Literal["mean", "max", "conv", "dilated", "most-used"]
Old = Float[Tensor, "rows segment width"]
Slots = Float[Tensor, "rows slots width"]


class Compressive(SegmentMemory):
    """Attention to [compressed memory; memory; segment], all first in, first out (Rae et al. 2019, §3).

    With each segment the n_s oldest positions of the memory become n_s / c slots, slots' = [slots; f_c(old)], of which
    the last ``compressed`` are kept. A position sees ``memory`` + c · ``compressed`` positions before its segment. A
    slot's distance counts slots, not positions (§3.1). See ``SegmentMemory`` and ``Compressor``.

    The language model trains neither f_c nor its inputs: a reconstruction loss, ``Mixed.losses``, trains f_c alone
    (§3.2, Algorithm 2). L_attention = Σ ‖attn(h, old) − attn(h, f_c(old))‖² by content alone, h the segment's
    positions, everything except f_c detached. L_autoencoding = Σ ‖old − g(f_c(old))‖². Both are summed over positions
    and averaged over features, like a loss per position.

    Args:
        width: features of a position.
        heads: number of heads.
        causal: must be True.
        dropout: dropout probability of the weights.
        rotary: positions that replace the paper's.
        memory: number of positions before the segment, a multiple of ``segment``.
        segment: number of positions of a segment.
        compressed: number of slots.
        rate: c, positions per slot.
        compression: f_c.
        reconstruction: the loss; default: ``attention`` if f_c is learned.
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
            raise ValueError(f"compressed must be 0 or more slots, got {compressed}")
        learns = compression in ("conv", "dilated")
        self.reconstruction = reconstruction or ("attention" if learns else "none")
        if learns != (self.reconstruction != "none"):
            why = "has no parameters" if not learns else "is trained by a reconstruction loss only"
            raise ValueError(
                f"reconstruction = {self.reconstruction!r} cannot be used: compression = {compression!r} {why}"
            )
        self.slots, self.rate = compressed, rate
        restores = self.reconstruction == "autoencoding"
        self.compressor = Compressor(compression, width, segment=segment, rate=rate, restores=restores)
        self.compressor.initialize_as_mean()
        self.set_memory(memory)

    def set_memory(self, memory: int) -> None:
        if memory % self.segment:
            raise ValueError(f"memory must be a multiple of segment = {self.segment}, got {memory}")
        super().set_memory(memory)

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
        leaving = full & (state.read > self.memory)  # a segment leaves as a whole
        moved, loss = SegmentMemory._moved(self, state, full)[0], None
        if isinstance(state.usage, Tensor):
            moved = moved._replace(usage=_shifted(state.usage, self.segment, full))
        if not bool(leaving.any()) or not isinstance(state.compressed, Tensor):
            return moved, None
        slots = self.compressor(old.to(state.block.dtype), self._mean_usage(state.usage))
        if torch.is_grad_enabled() and self.reconstruction != "none":
            loss = (self._reconstruction_loss(state.block.detach(), old, slots) * leaving).sum()
        compressed = torch.cat([state.compressed, slots.detach()], 1)[:, self.compressor.slots :]
        return in_rows(leaving, moved._replace(compressed=compressed), moved), loss

    def _mean_usage(self, usage: Float[Tensor, "rows remembered"] | tuple[()]) -> Tensor | tuple[()]:
        """Return the mean attention to each of the oldest positions, over the queries that could see it."""
        if not isinstance(usage, Tensor):
            return ()
        queries = self.memory + self.segment - torch.arange(self.segment, device=usage.device)
        return usage[:, : self.segment] / queries

    def _reconstruction_loss(
        self, h: Features, old: Features, slots: Float[Tensor, "rows slots width"]
    ) -> Float[Tensor, "rows"]:
        """Return the reconstruction loss of each row."""
        if self.reconstruction == "autoencoding":
            return (old - self.compressor.restored(slots)).square().mean(2).sum(1)
        with torch.no_grad():
            target = self.attention.by_content(h, old)
        return (target - self.attention.by_content(h, slots)).square().mean(2).sum(1)


def _shifted(usage: Float[Tensor, "rows remembered"], count: int, rows: Bool[Tensor, "rows"]) -> Tensor:
    """Return the usage without its oldest positions in these rows, and zeros for the new segment."""
    moved = torch.nn.functional.pad(usage[:, count:], (0, count))
    return torch.where(rows[:, None], moved, usage)


class Compressor(nn.Module):
    """f_c: the ``segment`` oldest positions to segment / ``rate`` slots, oldest first.

    ``mean``, ``max``: of ``rate`` neighbors. ``conv``: W_1 h_1 + … + W_c h_c + b of ``rate`` neighbors. ``dilated``:
    the same for positions segment / rate apart, so each slot covers the whole segment (the paper does not specify its
    dilations). ``most-used``: the positions with most attention, unchanged.
    """

    def __init__(self, kind: Compression, width: int, *, segment: int, rate: int, restores: bool = False) -> None:
        super().__init__()
        if rate < 1 or segment % rate:
            raise ValueError(f"rate must divide segment = {segment}, got {rate}")
        self.kind, self.rate, self.slots = kind, rate, segment // rate
        self.learns = kind in ("conv", "dilated")
        stride, dilation = (rate, 1) if kind == "conv" else (1, self.slots)
        self.convolution = self.restorer = None
        if self.learns:
            self.convolution = nn.Conv1d(width, width, rate, stride, dilation=dilation)
            if restores:
                self.restorer = nn.ConvTranspose1d(width, width, rate, stride, dilation=dilation)

    def forward(self, old: Old, usage: Float[Tensor, "rows segment"] | tuple[()] = ()) -> Slots:
        """Compress the oldest positions. ``usage``: the mean attention to each position, for ``most-used``."""
        if self.convolution is not None:
            slots: Tensor = self.convolution(old.mT).mT
            return slots
        if isinstance(usage, Tensor):
            indices = usage.topk(self.slots, 1).indices.sort(1).values
            return old.take_along_dim(indices[..., None], 1)
        parts = old.unflatten(1, (self.slots, self.rate))
        return parts.mean(2) if self.kind == "mean" else parts.amax(2)

    def restored(self, slots: Slots) -> Old:
        """Return g(slots), the restored positions, for the loss of an autoencoder."""
        if self.restorer is None:
            raise ValueError("this compressor has no restorer: set restores=True")
        restored: Tensor = self.restorer(slots.mT).mT
        return restored

    def initialize_as_mean(self) -> None:
        """Initialize the convolution as the mean of its inputs; with a rate of 1 it is the identity."""
        if self.convolution is not None and self.convolution.bias is not None:
            with torch.no_grad():
                identity = torch.eye(self.convolution.in_channels)[..., None] / self.rate
                self.convolution.weight.copy_(identity.expand_as(self.convolution.weight))
                self.convolution.bias.zero_()
