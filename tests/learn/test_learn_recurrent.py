"""Recurrent models learn: copying as a rule, by Luong's order of reading and by Bahdanau's."""

from __future__ import annotations

import pytest

from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.training.optim import Optimizer, schedule

from .test_learn import TYPES, decode, learn, sentences

CELL = {"kind": "gru", "reset": "before", "update": "renews", "orthogonal": True}
UNSCALED = {"cell": {"kind": "lstm", "orthogonal": True}, "scale_embedding": False}
MODELS = {
    # Unscaled embeddings are the quicker start here, at so high a rate and so small a width.
    "luong": dict(encoder=UNSCALED, decoder=UNSCALED, cross_attention="general"),
    "bahdanau": dict(
        encoder={"cell": CELL},
        decoder={"cell": CELL, "order": "bahdanau"},
        cross_attention="additive",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_copying_is_learned_as_a_rule(name: str) -> None:
    """Sentences it has never seen come out as they went in."""
    sizes = dict(layers=1, width=32, dropout=0.0)
    model = build(ModelConfig(kind="recurrent", **sizes, **MODELS[name]), source_types=TYPES, target_types=TYPES)
    optimizer = Optimizer(model, clip_norm=1.0)
    rate = schedule("inverse-sqrt", learning_rate=0.02, warmup=20)
    learn(model, optimizer, rate, lambda step: (sentences(32, seed=step),) * 2, updates=200)
    unseen = sentences(200, seed=10**6)
    right = sum(output == wanted for output, wanted in zip(decode(model.eval(), unseen), unseen, strict=True))
    assert right >= 190
