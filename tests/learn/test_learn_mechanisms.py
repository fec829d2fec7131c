"""Every mechanism learns: one batch by heart and copying as a rule, as the only way from source to target."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.attention.catalog import MECHANISMS
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.optim import Optimizer, schedule

from .test_learn import NEARLY, TYPES, decode, learn, sentences

SHORT = 3
STATIC = "gat"  # every query ranks the keys alike: a decoder that must find one cannot (Brody et al. 2022, Theorem 1)
OPTIONS: dict[str, dict[str, Any]] = {}  # of mechanisms whose own defaults are made for longer sources
for kind in (
    "location-aware",
    "location-aware-2d",
    "location-recurrent",
    "multi-resolution",
    "coverage-location-aware",
):
    OPTIONS[kind] = {"reach": 3, "channels": 3}


def model_of(kind: str) -> EncoderDecoder:
    torch.manual_seed(0)
    place = {"kind": kind} | OPTIONS.get(kind, {})
    sizes = dict(layers=1, width=32, feed_forward=32, heads=4, dropout=0.0, norm="pre")
    return build(ModelConfig(**sizes, cross_attention=place), source_types=TYPES, target_types=TYPES)


def short(count: int, seed: int) -> list[list[int]]:
    return [sentence[:SHORT] for sentence in sentences(count, seed)]


@pytest.mark.parametrize("kind", MECHANISMS)
def test_one_batch_is_learned_by_heart(kind: str) -> None:
    """Targets that have nothing to do with their sources, so only a gradient into every part helps."""
    model = model_of(kind)
    sources, targets = short(4, seed=1), short(4, seed=2)
    optimizer = Optimizer(model)
    learn(model, optimizer, lambda step: 0.01, lambda step: (sources, targets), updates=100, enough=NEARLY)
    assert decode(model.eval(), sources) == targets


@pytest.mark.parametrize("kind", [kind for kind in MECHANISMS if kind != STATIC])
def test_copying_is_learned_as_a_rule(kind: str) -> None:
    """Sentences it has never seen come out as they went in, for which every word must be looked at in turn."""
    model = model_of(kind)
    optimizer, rate = Optimizer(model, clip_norm=1.0), schedule("inverse-sqrt", learning_rate=0.015, warmup=40)
    learn(model, optimizer, rate, lambda step: (short(24, seed=step),) * 2, updates=220, enough=NEARLY)
    unseen = short(100, seed=10**6)
    right = sum(output == wanted for output, wanted in zip(decode(model.eval(), unseen), unseen, strict=True))
    assert right >= 90
