"""Self-attention of one layer, forward and backward, over a padded sequence, for the measurements beside it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.contract import Mixer
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Span, Window
from regard.attention.mechanisms.dot import Dot
from regard.models.transformer.mixers import place_mixer

HEADS, WIDTH = 4, 128
PADDING = 1 / 16  # of the columns


def self_attention(
    length: int, *, radius: int | None, causal: bool, sinks: int = 0
) -> Callable[[], tuple[Tensor, ...]]:
    """One pass through the layer and back: gradients of its input and of its matrices.

    Each column looks ``radius`` columns to both sides, ``causal`` only back, and at the first ``sinks``; None:
    everywhere.
    """
    torch.manual_seed(1)
    mask: Mask = Padding()
    if causal:
        mask = mask & Causal()
    if radius is not None:
        mask = mask & Window(radius, sinks)
    return _pass(SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask), length)


def other_mixer(kind: str, length: int, *, causal: bool, options: dict[str, int]) -> Callable[[], tuple[Tensor, ...]]:
    """The same of what stands in the place of self-attention."""
    torch.manual_seed(1)
    placed = {"width": WIDTH, "heads": HEADS, "causal": causal, "dropout": 0.0, "rotary": None, "layer": 0}
    return _pass(place_mixer(kind, options, placed, where="mixer"), length)


def _pass(mixer: Mixer, length: int) -> Callable[[], tuple[Tensor, ...]]:
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    span = Span.of((torch.arange(length) < length - int(PADDING * length))[None])
    upstream = torch.randn(1, length, WIDTH) * span.valid[..., None]

    def run() -> tuple[Tensor, ...]:
        output = mixer(x, span, mixer.start(1)).output
        return torch.autograd.grad(output, [x, *mixer.parameters()], upstream)

    return run
