"""One layer that mixes a sequence, forward and backward: self-attention or what stands in its place, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.contract import Mixer
from regard.attention.heads import MultiHead, SelfAttention
from regard.attention.mask import Causal, Mask, Padding, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.models.transformer.mixers import place_mixer

__all__ = ["ATTENTION", "DENSE", "attention_pass"]

HEADS, WIDTH = 4, 128
PADDING = 1 / 16  # of the columns
CHUNK, SEGMENT, SLOTS = 64, 256, 128  # of hashed attention; of memory and segments; of compressed memory


def _attention(mask: Mask) -> Mixer:
    return SelfAttention(MultiHead(WIDTH, heads=HEADS, mechanism=Dot()), mask=mask)


def _other(kind: str, *, causal: bool, **options: Any) -> Mixer:
    placed = {"width": WIDTH, "heads": HEADS, "causal": causal, "dropout": 0.0, "rotary": None, "layer": 0}
    return place_mixer(kind, options, placed, where="mixer")


def _buckets(length: int) -> list[int]:
    """2 · length / chunk buckets, in two factors."""
    buckets = 2 * length // CHUNK
    factor = 2 ** (buckets.bit_length() // 2)
    return [factor, max(2, buckets // factor)]


# name -> mixer of so many columns, that looks so many columns to each side where it has a window
ATTENTION: dict[str, Callable[[int, int], Mixer]] = {
    "window": lambda length, radius: _attention(Padding() & Window(radius)),
    "causal window": lambda length, radius: _attention(Padding() & Causal() & Window(radius)),
    "sinks": lambda length, radius: _attention(Padding() & Causal() & Window(radius, 4)),
    "global-local": lambda length, radius: _other("global-local", causal=False, radius=radius),
    "hashed": lambda length, radius: _other("hashed", causal=True, buckets=_buckets(length), chunk=CHUNK, rounds=4),
    "segment-memory": lambda length, radius: _other("segment-memory", causal=True, segment=SEGMENT, memory=SEGMENT),
    "compressive": lambda length, radius: _other(
        "compressive", causal=True, segment=SEGMENT, memory=SEGMENT, compressed=SLOTS, rate=4
    ),
    "linear": lambda length, radius: _other("linear", causal=False),
    "causal linear": lambda length, radius: _other("linear", causal=True),
    "mamba2": lambda length, radius: _other("mamba2", causal=True),
    "dense": lambda length, radius: _attention(Padding()),
    "causal dense": lambda length, radius: _attention(Padding() & Causal()),
}
DENSE = ("dense", "causal dense")


def attention_pass(name: str, length: int, radius: int) -> Callable[[], tuple[Tensor, ...]]:
    """One pass through the layer and back, its own losses included: gradients of its input and of its matrices."""
    torch.manual_seed(1)
    mixer = ATTENTION[name](length, radius)
    x = torch.randn(1, length, WIDTH, requires_grad=True)
    span = Span.of((torch.arange(length) < length - int(PADDING * length))[None])
    upstream = torch.randn(1, length, WIDTH) * span.valid[..., None]

    def run() -> tuple[Tensor, ...]:
        mixed = mixer(x, span, mixer.start(1))
        minimized = sum((mixed.losses or {}).values(), (mixed.output * upstream).sum())
        return torch.autograd.grad(minimized, [x, *mixer.parameters()], allow_unused=True)

    return run
