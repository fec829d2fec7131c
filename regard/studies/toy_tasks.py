"""Small models and artificial languages for studies that train.

Sentences are lists of ids of at least ``FIRST``, as in vocabularies. A draw of pairs is a function of the step, so all
compared models get equal pairs in equal order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear

from regard.attention.span import Span
from regard.data.pairs import PairBatch, pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder, shift_right
from regard.search.contract import Symbols
from regard.search.rows import row_search
from regard.studies.study import Report
from regard.training.optim import Optimizer

FIRST = len(SPECIALS)

Sentences = list[list[int]]
Rate = Callable[[int], float]


class ToyPairs(NamedTuple):
    """Sources and their targets."""

    sources: Sentences
    targets: Sentences


Draw = Callable[[int], ToyPairs]


def random_sentences(
    seeds: Sequence[int], count: int, *, shortest: int, longest: int, types: int, distinct: bool = False
) -> Sentences:
    """Draw random sentences.

    Args:
        seeds: seeds of the draw; equal seeds give equal sentences.
        count: number of sentences.
        shortest: minimum number of words.
        longest: maximum number of words.
        types: size of the vocabulary.
        distinct: whether the words of a sentence are all different.
    """
    generator = np.random.default_rng(seeds)
    lengths = generator.integers(shortest, longest + 1, count)
    return [(FIRST + generator.choice(types, length, replace=not distinct)).tolist() for length in lengths]


def sample_pairs(pairs: ToyPairs, count: int, *, seed: int) -> Draw:
    """Return a draw that samples ``count`` of these pairs for each update."""

    def draw(step: int) -> ToyPairs:
        chosen = np.random.default_rng((seed, step)).integers(len(pairs.sources), size=count)
        return ToyPairs([pairs.sources[index] for index in chosen], [pairs.targets[index] for index in chosen])

    return draw


def toy_model(types: int, **config: Any) -> EncoderDecoder:
    """Build a model over ``types`` words and the special ones, without dropout, by torch's default generator."""
    vocabulary_size = FIRST + types
    return build(toy_config(**config), source_types=vocabulary_size, target_types=vocabulary_size)


def toy_config(**config: Any) -> ModelConfig:
    """Return the config of ``toy_model``."""
    return ModelConfig.model_validate({"dropout": 0.0} | config)


def make_batch(pairs: ToyPairs) -> PairBatch:
    """Pad the pairs into a batch, with END after each sentence."""
    source, source_valid = pad_sources(pairs.sources)
    output, valid = pad_sources(pairs.targets)
    shifted = shift_right(output, BEGIN).masked_fill(~valid, PAD)
    return PairBatch(source, source_valid, shifted, output, valid, torch.arange(len(source)), float(valid.sum()))


def target_features(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return the features (rows, target, width) of each target position, by teacher forcing."""
    spans = Span.of(batch.source_valid), Span.of(batch.target_valid)
    features: Tensor = model(batch.source, spans[0], batch.target_input, spans[1])
    return features


def target_logits(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return the logits (tokens, types) of the valid target tokens, row by row, by teacher forcing."""
    return linear(target_features(model, batch)[batch.target_valid], model.head.weight)


def mean_loss(model: EncoderDecoder, batch: PairBatch) -> Tensor:
    """Return −log p in nats, the mean over target tokens including END."""
    return cross_entropy(target_logits(model, batch), batch.target_output[batch.target_valid])


def train_updates(
    model: EncoderDecoder, draw: Draw, rate: Rate, *, last: int, clip_norm: float | None = 1.0
) -> Iterator[float]:
    """Train for ``last`` updates by Adam with β₂ = 0.98; yield the loss before each update. ``draw`` counts from 1."""
    optimizer = Optimizer(model, clip_norm=clip_norm)
    for step in range(1, last + 1):
        loss = mean_loss(model.train(), make_batch(draw(step)))
        loss.backward()
        optimizer.step(rate(step))
        yield float(loss.detach())


def report_part(report: Report, begin: float, end: float) -> Report:
    """Return the report for a part of the work, from the share ``begin`` to the share ``end`` of the whole."""
    return lambda share: report(begin + share * (end - begin))


def translate_greedily(model: EncoderDecoder, sources: Sequence[list[int]]) -> Sentences:
    """Translate by greedy search; outputs have at most five tokens more than the source."""
    source, valid = pad_sources(sources)
    with torch.no_grad():
        state = model.eval().session(source, Span.of(valid))
        hypotheses = row_search(
            model.step, state, Symbols(BEGIN, END, suppressed=(PAD, BEGIN)), max_lengths=valid.sum(1) + 5
        )
    return [[token for token in hypothesis.tokens if token != END] for hypothesis in hypotheses]
