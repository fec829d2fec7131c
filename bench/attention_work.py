"""Self-attention of one layer, forward and backward, over a padded sequence, for the measurements beside it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.contract import Mixer
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Span, Window
from regard.attention.mechanisms.dot import Dot
from regard.models.transformer.compressive import Compressive
from regard.models.transformer.segment_memory import SegmentMemory

HEADS, WIDTH = 4, 128
PADDING = 1 / 16  # of the columns


def self_attention(length: int, *, radius: int | None, causal: bool) -> Callable[[], tuple[Tensor, ...]]:
    """One pass through the layer and back: gradients of its input and of its matrices.

    Each column looks ``radius`` columns to both sides, ``causal`` only back; None: everywhere.
    """
    torch.manual_seed(1)
    mask: Mask = Padding()
    if causal:
        mask = mask & Causal()
    if radius is not None:
        mask = mask & Window(radius)
    return _passes(SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask), length)


def remembering(length: int, *, compressive: bool) -> Callable[[], tuple[Tensor, ...]]:
    """The same of segments of 256 columns and a memory of 256; ``compressive``: with 128 slots, and their loss."""
    torch.manual_seed(1)
    options: dict[str, int] = {"heads": HEADS, "segment": 256, "memory": 256}
    if compressive:
        return _passes(Compressive(WIDTH, **options, compressed=128, rate=4), length)
    return _passes(SegmentMemory(WIDTH, **options), length)


def _passes(mixer: Mixer, length: int) -> Callable[[], tuple[Tensor, ...]]:
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    span = Span.of((torch.arange(length) < length - int(PADDING * length))[None])
    upstream = torch.randn(1, length, WIDTH) * span.valid[..., None]

    def run() -> tuple[Tensor, ...]:
        mixed = mixer(x, span, mixer.start(1))
        minimised = sum((mixed.losses or {}).values(), (mixed.output * upstream).sum())
        return torch.autograd.grad(minimised, [x, *mixer.parameters()], allow_unused=True)

    return run
