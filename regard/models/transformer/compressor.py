"""Compression functions of remembered positions: c positions to one slot (Rae et al. 2019, §3.2)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Compression = Literal["mean", "max", "conv", "dilated", "most-used"]
Old = Float[Tensor, "rows segment width"]
Slots = Float[Tensor, "rows slots width"]


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
