"""Self-attention of one layer, forward and backward, over a padded sequence, for the measurements beside it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.attention.contract import Mixer
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Span, Window
from regard.attention.mechanisms.dot import Dot
from regard.models.transformer.hashed import HashedAttention

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
    return _there_and_back(SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask), length)


def hashed_attention(length: int, *, chunk: int = 64, rounds: int = 4) -> Callable[[], tuple[Tensor, ...]]:
    """The same of causal hashed attention, with 2 · length / chunk buckets in two factors."""
    torch.manual_seed(1)
    buckets = 2 * length // chunk
    factor = 2 ** (buckets.bit_length() // 2)
    return _there_and_back(
        HashedAttention(WIDTH, heads=HEADS, buckets=(factor, buckets // factor), chunk=chunk, rounds=rounds), length
    )


def _there_and_back(mixer: Mixer, length: int) -> Callable[[], tuple[Tensor, ...]]:
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    span = Span.of((torch.arange(length) < length - int(PADDING * length))[None])
    upstream = torch.randn(1, length, WIDTH) * span.valid[..., None]

    def run() -> tuple[Tensor, ...]:
        output = mixer(x, span, mixer.start(1)).output
        return torch.autograd.grad(output, [x, *mixer.parameters()], upstream)

    return run
