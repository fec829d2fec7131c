"""Every carrier learns to copy as a rule, by the same loss, optimizer and search."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.training.optim import Optimizer, schedule

from .test_learn import NEARLY, TYPES, decode, learn, sentences

SIZES = dict(layers=1, width=32, feed_forward=64, heads=4, dropout=0.0, norm="pre")
CARRIERS: dict[str, dict[str, Any]] = {
    "convolutional": {"kind": "convolutional", "layers": 2},
    "convolutional-reads-transformer": {"decoder": {"kind": "convolutional"}},
    "transformer-reads-convolutional": {"encoder": {"kind": "convolutional"}},
    "ssru": {"decoder": {"mixer": "ssru"}},
    "average": {"decoder": {"mixer": {"kind": "average", "inner": 32}}},
}


@pytest.mark.parametrize("name", CARRIERS)
def test_copying_is_learned_as_a_rule(name: str) -> None:
    """Sentences it has never seen come out as they went in."""
    torch.manual_seed(0)
    model = build(ModelConfig(**SIZES | CARRIERS[name]), source_types=TYPES, target_types=TYPES)
    optimizer = Optimizer(model, clip_norm=1.0)
    rate = schedule("inverse-sqrt", learning_rate=0.01, warmup=50)
    learn(model, optimizer, rate, lambda step: (sentences(24, seed=step),) * 2, updates=250, enough=NEARLY)
    unseen = sentences(100, seed=10**6)
    right = sum(output == wanted for output, wanted in zip(decode(model.eval(), unseen), unseen, strict=True))
    assert right >= 85
