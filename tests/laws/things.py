"""Every mechanism, mixer and decoder there is, in sizes that a law takes milliseconds over."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hypothesis import HealthCheck, settings
from torch import nn

from regard.attention.additive import Additive
from regard.attention.catalogue import MECHANISMS as CATALOGUE
from regard.attention.catalogue import build_mechanism
from regard.attention.contract import Mechanism, Reader
from regard.attention.dot import Dot
from regard.attention.general import General
from regard.attention.hard import Hard
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.local import LocalPredictive
from regard.attention.local_monotonic import LocalMonotonic
from regard.attention.location import Location
from regard.attention.location_aware import LocationAware
from regard.attention.mask import Causal, Mask, Padding, Window
from regard.attention.position import LearnedPosition, NoPosition, Position, SinusoidalPosition
from regard.models.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalLayer,
    ConvolutionalReader,
    GatedConvolution,
)
from regard.models.norms import PostNorm, PreNorm
from regard.models.recurrent import LuongDecoder
from regard.models.transformer import DecoderLayer, Embedding, FeedForward, TransformerDecoder
from regard.testing import DecoderCase, MechanismCase, MixerCase
from regard.testing.law import ready

__all__ = ["DECODERS", "FEW", "MECHANISMS", "MIXERS", "TYPES", "WIDTH", "decoder_case", "mechanism_case", "mixer_case"]

FEW = settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
HEADS, WIDTH, TYPES, SUMMARY = 2, 8, 9, 5
PER_HEAD = WIDTH // HEADS
Sizes = dict[str, int]
SIZES: Sizes = {"heads": HEADS, "query_width": PER_HEAD, "key_width": PER_HEAD}
SINGLE: Sizes = {"heads": 1, "query_width": WIDTH, "key_width": WIDTH}


def location(sizes: Sizes) -> Mechanism:
    return LocationAware(**sizes, width=3, channels=2, reach=1)


def local(sizes: Sizes) -> Mechanism:
    return bold(LocalPredictive(General(**sizes), **sizes_of_query(sizes), window=2))


def sizes_of_query(sizes: Sizes) -> Sizes:
    return {"heads": sizes["heads"], "query_width": sizes["query_width"]}


def bold(module: nn.Module):
    """Parameters large enough that a law sees what they do."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


MECHANISMS: dict[str, Callable[[Sizes], Mechanism]] = {
    "dot": lambda sizes: Dot(),
    "dot-unscaled": lambda sizes: Dot(scale=1.0),
    "general": lambda sizes: bold(General(**sizes)),
    "additive-projected": lambda sizes: bold(Additive(**sizes, own=(), sharpening=2.0)),
    "additive-smooth": lambda sizes: bold(
        Additive(**sizes, width=3, own=("query", "key", "bias"), normalise="sigmoid")
    ),
    "hard-general": lambda sizes: bold(Hard(General(**sizes), temperature=0.5)),
    "local-m-general": lambda sizes: bold(LocalMonotonic(General(**sizes), window=1)),
    "location-short": lambda sizes: bold(Location(**sizes_of_query(sizes), longest=2)),
    "local-p": local,
    "local-p-dot": lambda sizes: bold(LocalPredictive(Dot(scale=1.0), **sizes_of_query(sizes), window=1.5)),
    "location-aware": location,
    "location-aware-sharp": lambda sizes: LocationAware(**sizes, width=2, channels=1, reach=2, sharpening=2.0),
}

for kind in CATALOGUE:  # a new line there is under the laws, in its default form, from the first day
    MECHANISMS.setdefault(kind, lambda sizes, kind=kind: build_mechanism(kind, {}, where=kind, sizes=sizes))


def heads(mechanism: Mechanism, *, key_heads: int | None = None, bias: bool = False) -> MultiHead:
    return MultiHead(WIDTH, heads=HEADS, mechanism=mechanism, key_heads=key_heads, bias=PROJECTIONS if bias else ())


def attention(mask: Mask, *, kind: str = "dot", key_heads: int | None = None) -> SelfAttention:
    return SelfAttention(heads(MECHANISMS[kind](SIZES), key_heads=key_heads), mask=mask)


MIXERS = {
    "self-attention": lambda: attention(Causal() & Padding()),
    "self-attention-general": lambda: attention(Causal() & Padding(), kind="general"),
    "self-attention-multi-query": lambda: attention(Causal() & Padding(), key_heads=1),
    "self-attention-window": lambda: attention(Causal() & Padding() & Window(2)),
    "self-attention-encoder": lambda: attention(Padding()),
    "self-attention-local-encoder": lambda: attention(Padding(), kind="local-p"),
    "self-attention-location-aware-encoder": lambda: attention(Padding(), kind="location-aware"),
    "gated-convolution": lambda: GatedConvolution(WIDTH, kernel=3),
    "gated-convolution-pointwise": lambda: GatedConvolution(WIDTH, kernel=1),
}


def reader(kind: str) -> Reader:
    return AttentionReader(heads(MECHANISMS[kind](SIZES)))


def single_reader(kind: str) -> Reader:
    """One head over the states themselves, as Luong and Chorowski read them."""
    return AttentionReader(MultiHead(WIDTH, heads=1, mechanism=MECHANISMS[kind](SINGLE), project=()))


def embedding(position: Position) -> Embedding:
    return Embedding(nn.Parameter(torch.randn(TYPES, WIDTH)), position, dropout=0.0)


def transformer(
    *, norm: str = "post", position: str = "sinusoidal", read: str = "dot", key_heads: int | None = None
) -> TransformerDecoder:
    frame = {"post": PostNorm, "pre": PreNorm}[norm]
    positions: dict[str, Position] = {
        "sinusoidal": SinusoidalPosition(WIDTH, table=4),
        "learned": LearnedPosition(WIDTH, longest=16),
        "none": NoPosition(),
    }
    layers = [
        DecoderLayer(
            attention(Causal() & Padding(), key_heads=key_heads),
            reader(read),
            FeedForward(WIDTH, 2 * WIDTH),
            tuple(frame(WIDTH, dropout=0.0) for _ in range(3)),
        )
        for _ in range(2)
    ]
    last = nn.LayerNorm(WIDTH) if norm == "pre" else nn.Identity()
    return TransformerDecoder(embedding(positions[position]), layers, last)


def luong(kind: str, *, layers: int = 2) -> LuongDecoder:
    return LuongDecoder(nn.Embedding(TYPES, 5), single_reader(kind), width=WIDTH, layers=layers, summary=SUMMARY)


def convolutional(kernel: int) -> ConvolutionalDecoder:
    layers = [
        ConvolutionalLayer(WIDTH, GatedConvolution(WIDTH, kernel=kernel), ConvolutionalReader(Dot(scale=1.0)))
        for _ in range(2)
    ]
    return ConvolutionalDecoder(embedding(LearnedPosition(WIDTH, longest=16)), layers)


DECODERS = {
    "transformer": lambda: transformer(),
    "transformer-pre-learned": lambda: transformer(norm="pre", position="learned"),
    "transformer-multi-query-unplaced": lambda: transformer(position="none", key_heads=1),
    "transformer-location-aware": lambda: transformer(read="location-aware"),
    "transformer-local-p": lambda: transformer(read="local-p"),
    "luong-local-p": lambda: luong("local-p"),
    "luong-local-m": lambda: luong("local-m-general", layers=1),
    "luong-location-aware": lambda: luong("location-aware", layers=1),
    "luong-dot": lambda: luong("dot-unscaled"),
    "convolutional": lambda: convolutional(3),
    "convolutional-wide": lambda: convolutional(4),
}


def mechanism_case(name: str) -> MechanismCase:
    torch.manual_seed(0)
    return MechanismCase(mechanism=ready(MECHANISMS[name](SIZES)), **SIZES, value_width=3)


def mixer_case(name: str) -> MixerCase:
    torch.manual_seed(0)
    return MixerCase(mixer=ready(MIXERS[name]()), width=WIDTH)


def decoder_case(name: str) -> DecoderCase:
    torch.manual_seed(0)
    return DecoderCase(decoder=ready(DECODERS[name]()), width=WIDTH, summary=SUMMARY, types=TYPES)
