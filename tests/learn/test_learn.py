"""It learns: one batch by heart, and copying as a rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.cross_entropy import projected_cross_entropy
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.contract import Symbols
from regard.search.rows import row_search
from regard.training.optim import Optimizer, schedule
from tests.shape_checks import unchecked

TYPES = 14  # four special ones and ten others
LEARNED, NEARLY, IN_A_ROW = 0.01, 0.04, 3  # −log p a token, of so many batches


def tiny_model(layers: int = 1) -> EncoderDecoder:
    config = ModelConfig(
        encoder_layers=layers, decoder_layers=layers, width=32, feed_forward=64, heads=4, dropout=0.0, norm="pre"
    )
    return build(config, source_types=TYPES, target_types=TYPES)


def sentences(count: int, seed: int) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(4, TYPES, draw.integers(1, 7)).tolist() for _ in range(count)]


def loss_of(model: EncoderDecoder, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    """−log p a token."""
    source, source_valid = pad_sources(sources)
    output, valid = pad_sources(targets)
    inputs = torch.cat([torch.full_like(output[:, :1], BEGIN), output[:, :-1]], 1)
    features = model(source, Span.of(source_valid), inputs, Span.of(valid))
    return (
        projected_cross_entropy(features[valid], model.head.weight, output[valid], smoothing=0.0).smoothed / valid.sum()
    )


def learn(
    model: EncoderDecoder, optimizer: Optimizer, rate: Callable[[int], float],
    pairs: Callable[[int], tuple[list[list[int]], list[list[int]]]], *, updates: int, enough: float = LEARNED,
) -> None:  # fmt: skip
    """At most so many; fewer where the last batches, measured before they are learned from, show that it can.

    Shapes are checked in the first update, and need no more checks in those that are like it.
    """
    low = 0
    for step in range(1, updates + 1):
        with nullcontext() if step == 1 else unchecked():
            loss = loss_of(model, *pairs(step))
            low = low + 1 if float(loss.detach()) < enough else 0
            if low == IN_A_ROW:
                return
            loss.backward()
            optimizer.step(rate(step))


def decode(model: EncoderDecoder, sources: list[list[int]]) -> list[list[int]]:
    source, valid = pad_sources(sources)
    symbols = Symbols(BEGIN, END, suppressed=(PAD, BEGIN))
    with torch.no_grad():
        found = row_search(model.step, model.session(source, Span.of(valid)), symbols, max_lengths=valid.sum(1) + 5)
    return [[token for token in hypothesis.tokens if token != END] for hypothesis in found]


def test_one_batch_is_learned_by_heart() -> None:
    """Targets that have nothing to do with their sources, so nothing but memory helps."""
    model = tiny_model()
    sources, targets = sentences(8, seed=1), sentences(8, seed=2)
    optimizer = Optimizer(model)
    at_first = float(loss_of(model, sources, targets).detach())
    learn(model, optimizer, lambda step: 0.005, lambda step: (sources, targets), updates=150)
    assert at_first > 1.5
    assert float(loss_of(model, sources, targets).detach()) < 0.02
    assert decode(model.eval(), sources) == targets


def test_copying_is_learned_as_a_rule() -> None:
    """Sentences it has never seen come out as they went in."""
    model = tiny_model()
    optimizer = Optimizer(model, clip_norm=1.0)
    rate = schedule("inverse-sqrt", learning_rate=0.01, warmup=50)
    learn(model, optimizer, rate, lambda step: (sentences(48, seed=step),) * 2, updates=400)
    unseen = sentences(200, seed=10**6)
    right = sum(output == wanted for output, wanted in zip(decode(model.eval(), unseen), unseen, strict=True))
    assert right >= 190
