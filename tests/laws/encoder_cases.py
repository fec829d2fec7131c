"""Encoders under the laws: each kind, over tokens, tokens with affixes, and frames of floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.contract import Encoder
from regard.models.build import ARCHITECTURES
from regard.models.convolutional.config import ConvolutionalEncoderConfig
from regard.models.frame_input import FrameInput, PatchInput
from regard.models.input import AffixInput, Input, TokenInput
from regard.models.masked_model import ContextMeanEncoder
from regard.models.recurrent.config import RecurrentEncoderConfig
from regard.models.transformer.config import TransformerEncoderConfig
from regard.testing import Draw, EncoderCase
from regard.testing.law import ready

from .cases import TYPES, WIDTH

__all__ = ["ENCODERS", "INPUTS", "built", "encoder_case"]

AFFIXES, CHANNELS = 5, 3


def tokens() -> TokenInput:
    return TokenInput(nn.Parameter(torch.randn(TYPES, WIDTH)))


def draw_affixes(draw: Draw, rows: int, length: int) -> Tensor:
    """Tokens, and two affixes of each, of which any may be missing."""
    affixes = torch.stack([draw.tokens(rows, length, 1 + AFFIXES) for _ in range(2)], -1)
    return torch.cat([draw.tokens(rows, length, TYPES)[..., None], affixes], -1)


def draw_frames(draw: Draw, rows: int, length: int) -> Tensor:
    return draw.tensor(rows, length, CHANNELS)


INPUTS: dict[str, tuple[Callable[[], Input], Callable[[Draw, int, int], Tensor]]] = {
    "tokens": (tokens, lambda draw, rows, length: draw.tokens(rows, length, TYPES)),
    "affixes": (lambda: AffixInput(tokens(), AFFIXES), draw_affixes),
    "frames": (lambda: FrameInput(CHANNELS, WIDTH), draw_frames),
    "second": (lambda: FrameInput(CHANNELS, WIDTH, subsample=2), draw_frames),
    "fourth": (lambda: FrameInput(CHANNELS, WIDTH, subsample=4), draw_frames),
    "eighth": (lambda: FrameInput(CHANNELS, WIDTH, subsample=8), draw_frames),
    "patches": (lambda: PatchInput(CHANNELS, WIDTH, patch=3), draw_frames),
    "overlap": (lambda: PatchInput(CHANNELS, WIDTH, patch=3, stride=2), draw_frames),
}
SIDES = {
    "transformer": TransformerEncoderConfig,
    "recurrent": RecurrentEncoderConfig,
    "convolutional": ConvolutionalEncoderConfig,
}
SIZES: dict[str, Any] = {"layers": 2, "width": WIDTH, "dropout": 0.0}
LAYERS: dict[str, Any] = SIZES | {"heads": 2, "feed_forward": 6}
CONFIGS: dict[str, dict[str, Any]] = {
    "transformer": LAYERS,
    "transformer-rotary": LAYERS | {"position": "rotary", "norm": "pre"},
    "transformer-causal": LAYERS | {"causal": True},
    "transformer-embedding-norm": LAYERS | {"embedding_norm": True, "embedding_scale": 1.0},
    "transformer-shaw": LAYERS | {"position": {"kind": "shaw", "clip": 2}},
    "transformer-global-local": LAYERS | {"mixer": {"kind": "global-local", "radius": 1}},
    "transformer-linear": LAYERS | {"mixer": "linear"},
    "transformer-reversible": LAYERS | {"norm": "pre", "execution": "reversible"},
    "recurrent": SIZES | {"kind": "recurrent"},
    "recurrent-backwards": SIZES | {"kind": "recurrent", "bidirectional": False, "reversed": True},
    "convolutional": {"kind": "convolutional", "width": WIDTH, "blocks": [[WIDTH, 3, 1], [6, 5, 1]], "dropout": 0.0},
}


def built(name: str, input: Input) -> Encoder:
    """The encoder of a config, or the mean of the columns around each."""
    if name == "mean":
        return ContextMeanEncoder(input, window=2)
    config = CONFIGS[name]
    kind = config.get("kind", "transformer")
    return ARCHITECTURES[kind].encoder(SIDES[kind].model_validate(config), input)


ENCODERS = [f"{name}-{input}" for name in (*CONFIGS, "mean") for input in INPUTS]


def encoder_case(name: str) -> EncoderCase:
    torch.manual_seed(0)
    kind, _, input = name.rpartition("-")
    make, draw_inputs = INPUTS[input]
    return EncoderCase(encoder=ready(built(kind, make())), draw_inputs=draw_inputs)
