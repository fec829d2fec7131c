"""Small models and the made-up languages they learn: what studies that train have in common.

Sentences are lists of ids from ``FIRST`` on, as vocabularies number them. A draw of pairs is a function of a number, so
that models compared with each other see the same pairs in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from regard.data.pairs import PairBatch, pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder, shift_right
from regard.search.contract import Symbols
from regard.search.greedy import greedy_search
from regard.studies.study import Report
from regard.training.optim import Optimizer

__all__ = [
    "FIRST",
    "Draw",
    "ToyPairs",
    "batch",
    "config_of",
    "drawn",
    "loss_of",
    "model_of",
    "portion",
    "right",
    "translate",
    "updates",
    "words",
]

FIRST = len(SPECIALS)

Sentences = list[list[int]]
Rate = Callable[[int], float]


class ToyPairs(NamedTuple):
    """Sources and their targets."""

    sources: Sentences
    targets: Sentences


Draw = Callable[[int], ToyPairs]


def words(
    number: Sequence[int], count: int, *, shortest: int, longest: int, types: int, distinct: bool = False
) -> Sentences:
    """``count`` sentences of random words: the same for the same ``number``s. ``distinct``: no word twice in one."""
    draw = np.random.default_rng(number)
    lengths = draw.integers(shortest, longest + 1, count)
    return [(FIRST + draw.choice(types, length, replace=not distinct)).tolist() for length in lengths]


def drawn(pairs: ToyPairs, count: int, *, seed: int) -> Draw:
    """``count`` of these pairs for an update, by chance."""

    def draw(step: int) -> ToyPairs:
        chosen = np.random.default_rng((seed, step)).integers(len(pairs.sources), size=count)
        return ToyPairs([pairs.sources[place] for place in chosen], [pairs.targets[place] for place in chosen])

    return draw


def model_of(types: int, **config: Any) -> EncoderDecoder:
    """A model over ``types`` words beside the special ones, of torch's default generator, without dropout."""
    everything = FIRST + types
    return build(config_of(**config), source_types=everything, target_types=everything)


def config_of(**config: Any) -> ModelConfig:
    """What ``model_of`` builds."""
    return ModelConfig.model_validate({"dropout": 0.0} | config)


def batch(pairs: ToyPairs) -> PairBatch:
    """Padded, with END behind each sentence."""
    source, source_valid = pad_sources(pairs.sources)
    output, valid = pad_sources(pairs.targets)
    shifted = shift_right(output, BEGIN).masked_fill(~valid, PAD)
    return PairBatch(source, source_valid, shifted, output, valid, torch.arange(len(source)), float(valid.sum()))


def logits_of(model: EncoderDecoder, given: PairBatch) -> Tensor:
    """(tokens, types), of the valid target tokens row by row, each after the right ones before it."""
    features = model(given.source, given.source_valid, given.target_input, given.target_valid)
    return linear(features[given.target_valid], model.projection)


def loss_of(model: EncoderDecoder, given: PairBatch) -> Tensor:
    """−log p in nats, the mean over target tokens, END included."""
    return cross_entropy(logits_of(model, given), given.target_output[given.target_valid])


def updates(
    model: EncoderDecoder, draw: Draw, rate: Rate, *, last: int, clip_norm: float | None = 1.0
) -> Iterator[float]:
    """Up to ``last`` updates by Adam with β₂ = 0.98: each one's loss, measured before it. ``draw`` counts from 1."""
    optimizer = Optimizer(model, clip_norm=clip_norm)
    for step in range(1, last + 1):
        loss = loss_of(model.train(), batch(draw(step)))
        loss.backward()
        optimizer.step(rate(step))
        yield float(loss.detach())


def portion(report: Report, begin: float, end: float) -> Report:
    """The report of a part of the work, which leads from ``begin`` to ``end`` of the whole."""
    return lambda share: report(begin + share * (end - begin))


def right(model: EncoderDecoder, pairs: ToyPairs) -> float:
    """The share of target tokens, END included, that are the most probable after the right ones before them."""
    given = batch(pairs)
    with torch.no_grad():
        best = logits_of(model.eval(), given).argmax(1)
    return float((best == given.target_output[given.target_valid]).double().mean())


def translate(model: EncoderDecoder, sources: Sequence[list[int]]) -> Sentences:
    """By greedy search, at most five tokens longer than the source."""
    source, valid = pad_sources(sources)
    with torch.no_grad():
        state = model.eval().session(source, valid)
        found = greedy_search(
            model.step, state, Symbols(BEGIN, END, suppressed=(PAD, BEGIN)), max_lengths=valid.sum(1) + 5
        )
    return [[token for token in hypothesis.tokens if token != END] for hypothesis in found]
