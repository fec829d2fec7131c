"""Updates of a run, computed a second time from their definitions: every number of the config arrives where it counts.

What is computed by hand reads the settings from the test, never from the config, and shares nothing with the trainer
but the model's own features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.attention.span import Span
from regard.data.pairs import PairBatch
from regard.models.dropout import Dropout
from regard.training.trainer import Trainer
from tests.test_train import Making, records

UPDATES = 3
# No default among them: a setting that is not read gives other weights.
USUAL: dict[str, Any] = dict(
    optimizer="adam", betas=(0.7, 0.8), epsilon=1e-3, weight_decay=0.0, clip_norm=None, label_smoothing=0.25,
    schedule="inverse-sqrt", learning_rate=0.05, warmup=2,
)  # fmt: skip


@pytest.fixture
def making(tmp_path: Path) -> Iterator[Making]:
    yield Making(tmp_path)


def in_float64(trainer: Trainer) -> Trainer:
    """Its parameters stay the tensors that the optimizer knows."""
    trainer.net.double()
    return trainer


def batches(trainer: Trainer) -> Iterator[PairBatch]:
    """In the order of training, one to an update."""
    epoch = 0
    while True:
        for examples in trainer.data.train.batches(epoch):
            yield trainer.data.train.collate(examples)
        epoch += 1


def loss_by_hand(model: nn.Module, batch: PairBatch, smoothing: float) -> Tensor:
    """Nats a token: torch's cross-entropy over all logits at once."""
    features = model(batch.source, Span.of(batch.source_valid), batch.target_input, Span.of(batch.target_valid))
    logits, target = model.head(features)[batch.target_valid], batch.target_output[batch.target_valid]
    return cross_entropy(logits, target, label_smoothing=smoothing)


def rate_by_hand(step: int, settings: dict[str, Any]) -> float:
    """Of update ``step``, counted from 1: the first one is already made with 1/warmup of the peak."""
    peak, warmup = settings["learning_rate"], settings["warmup"]
    return peak * min(step / warmup, math.sqrt(warmup / step))


def adam_by_hand(model: nn.Module, fed: Iterator[PairBatch], settings: dict[str, Any]) -> None:
    """Kingma & Ba 2015, Algorithm 1; decay as L2 in the gradient, or decoupled (Loshchilov & Hutter 2019)."""
    one, two = settings["betas"]
    decay, decoupled = settings["weight_decay"], settings["optimizer"] == "adamw"
    weights = list(model.parameters())
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    for step in range(1, UPDATES + 1):
        rate = rate_by_hand(step, settings)
        gradients = torch.autograd.grad(
            loss_by_hand(model, next(fed), settings["label_smoothing"]), weights, materialize_grads=True
        )
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
        scale = min(1.0, settings["clip_norm"] / norm) if settings["clip_norm"] else 1.0
        for weight, gradient, m, v in zip(weights, gradients, first, second, strict=True):
            with torch.no_grad():
                wanted = gradient * scale + (0 if decoupled else decay * weight)
                m.copy_(one * m + (1 - one) * wanted)
                v.copy_(two * v + (1 - two) * wanted.square())
                if decoupled:
                    weight *= 1 - rate * decay
                weight -= rate * (m / (1 - one**step)) / ((v / (1 - two**step)).sqrt() + settings["epsilon"])


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"betas": (0.5, 0.9)},
        {"epsilon": 0.1},
        {"weight_decay": 0.3},
        {"weight_decay": 0.3, "optimizer": "adamw"},
        {"clip_norm": 0.05},
        {"label_smoothing": 0.0},
        {"label_smoothing": 0.6},
        {"schedule": "inverse-sqrt", "learning_rate": 0.02, "warmup": 1},
    ],
    ids=lambda setting: ", ".join(f"{key}={value}" for key, value in setting.items()) or "usual",
)
def test_updates_are_those_of_adam_by_hand(making: Making, setting: dict[str, Any]) -> None:
    settings = USUAL | setting
    trainer = in_float64(making(steps=UPDATES, dropout=0.0, **settings))
    expected = deepcopy(trainer.net)
    adam_by_hand(expected, batches(trainer), settings)
    trainer.fit()
    for (name, actual), wanted in zip(trainer.net.named_parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-8, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


def test_the_rate_of_an_update_is_that_of_its_own_number(making: Making) -> None:
    """And so says the log: half of the peak, all of it, then down."""
    trainer = making(steps=UPDATES, **USUAL)
    trainer.fit()
    found = [record["rate"] for record in records(trainer)]
    assert found == pytest.approx([rate_by_hand(step, USUAL) for step in range(1, UPDATES + 1)], rel=1e-12)


def test_a_rate_that_is_halved_is_halved_when_the_config_says(making: Making) -> None:
    trainer = making(steps=5, schedule="halving", halve_after=2, halve_every=1, warmup=0, learning_rate=0.08)
    trainer.fit()
    assert [record["rate"] for record in records(trainer)] == pytest.approx([0.08, 0.08, 0.04, 0.02, 0.01])


@pytest.mark.parametrize(("rho", "epsilon"), [(0.5, 1e-2), (0.9, 1e-4)])
def test_an_update_is_that_of_adadelta_by_hand(making: Making, rho: float, epsilon: float) -> None:
    """Zeiler 2012, from E[g²] = E[Δ²] = 0: Δ = −√ε / √((1 − ρ) g² + ε) · g."""
    settings: dict[str, Any] = dict(optimizer="adadelta", schedule="constant", warmup=0, learning_rate=0.3)
    trainer = in_float64(making(steps=1, dropout=0.0, rho=rho, epsilon=epsilon, label_smoothing=0.0, **settings))
    model = deepcopy(trainer.net)
    weights = list(model.parameters())
    gradients = torch.autograd.grad(loss_by_hand(model, next(batches(trainer)), 0.0), weights, materialize_grads=True)
    trainer.fit()
    for weight, gradient, found in zip(weights, gradients, trainer.net.parameters(), strict=True):
        change = math.sqrt(epsilon) * gradient / ((1 - rho) * gradient.square() + epsilon).sqrt()
        torch.testing.assert_close(found.detach(), weight.detach() - 0.3 * change, rtol=1e-6, atol=1e-9)


def test_every_update_draws_its_own_dropout(making: Making) -> None:
    """The same pairs at each update, half of all dropped: two updates agree on half of their choices, not on all."""
    trainer = making(steps=4, dropout=0.5, batch_tokens=10_000)
    masks: list[list[Tensor]] = []
    for module in trainer.net.modules():
        if isinstance(module, Dropout) and module.probability:
            module.register_forward_hook(lambda _, inputs, output: masks[-1].append((output == 0).flatten()))
    sound = trainer._update

    def update() -> None:
        masks.append([])
        sound()

    trainer._update = update  # type: ignore[method-assign]
    trainer.fit()
    drawn = [torch.cat(each) for each in masks]
    assert len(drawn) == 4 and len({len(each) for each in drawn}) == 1 and len(drawn[0]) > 5000
    for number, one in enumerate(drawn):
        for other in drawn[:number]:
            agree = float((one == other).double().mean())
            assert agree == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(len(one)))


def test_an_update_trains_parts_that_were_left_in_evaluation(making: Making) -> None:
    """As a predictor leaves the network, of which the trainer's module does not know."""
    trainer = making(steps=UPDATES, **USUAL)
    trainer.net.eval()
    trainer.model.training = True
    trainer.updater.update(trainer.progress, trainer.rate)
    assert all(module.training for module in trainer.model.modules())
