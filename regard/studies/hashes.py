"""Hashed attention: collisions by angle, and accuracy by the number of rounds.

Claim: random rotations hash two vectors into one bucket more often, the smaller the angle between them. Hashed
attention is as accurate as full attention on 0w0w, the repetition of a word of random symbols, which requires exact
lookup far back. More rounds in evaluation make it more accurate, for any number of rounds in training (Kitaev et al.
2020, §2, §4 and Table 2).

Measured: collisions of pairs at given angles under 4,000 rotations with 16 buckets. Then language models learn words of
31 symbols out of 31. They have one layer, 64 wide with 2 heads, with 16 buckets and chunks of 8. One model is trained
with full attention of shared queries and keys, one with four rounds, and one with a single round. Each is evaluated
with full attention and with 8, 4, 2 and 1 rounds on 512 new words. Accuracy is the share of the second word's symbols
that get the highest probability. Table 2 has words of 511, four heads, 256 features and 150,000 updates;
bench/duplication.py runs larger models than this study.

Thresholds: collisions decrease from each angle to the next by more than four standard errors. Four rounds in training
and evaluation reach an accuracy of 99 %. Twice the rounds lose at most one point, and eight rounds are at least ten
points better than one. The baseline is a random guess: 1 in 31.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.attention.hashing import draw_rotations, hash_positions
from regard.attention.span import Span
from regard.core.randomness import mixed_seed, seeded_generator
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.input import TokenInput, embedding_matrix
from regard.models.language_model import LanguageModel
from regard.models.transformer.build import language_model
from regard.models.transformer.hashed import HashedAttention
from regard.studies.study import Cell, Findings, Report, at_least, at_most
from regard.studies.toy_tasks import report_part
from regard.training.optim import Optimizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANGLES = [0, 15, 30, 45, 60, 90, 120, 150, 180]
WIDTH, BUCKETS, DRAWS = 32, 16, 4000
ROUNDS = (8, 4, 2, 1)  # in evaluation, in addition to None: full attention
NAMES: dict[int | None, str] = {None: "full", **{rounds: f"LSH-{rounds}" for rounds in ROUNDS}}
TESTED = 512


class DuplicationSize(NamedTuple):
    """Length of a word, number of symbols, and sizes of the model and its training."""

    word: int = 31
    symbols: int = 31
    width: int = 64
    heads: int = 2
    buckets: int | tuple[int, ...] = 16
    chunk: int = 8
    updates: int = 2500
    batch: int = 32
    rate: float = 3e-3


MINIMAL = DuplicationSize(word=7, symbols=5, width=16, buckets=4, chunk=4, updates=20, batch=8)


def run(
    *,
    seed: int,
    minimal: bool,
    report: Report,
    trained: Sequence[int | None] = (None, 4, 1),
    size: DuplicationSize | None = None,
) -> Findings:
    """Train with each number of rounds in ``trained`` (None: full attention) and evaluate with all of ``ROUNDS``."""
    size = size or (MINIMAL if minimal else DuplicationSize())
    collisions = _collisions(500 if minimal else DRAWS)
    report(0.02)
    table: dict[int | None, dict[int | None, float]] = {}
    for done, rounds in enumerate(trained):
        report_model = report_part(report, 0.02 + 0.98 * done / len(trained), 0.02 + 0.98 * (done + 1) / len(trained))
        model = duplication_model(size, rounds, seed=seed)
        for step, _ in enumerate(train_duplication(model, size, seed=seed), start=1):
            report_model(step / size.updates)
        table[rounds] = {None: copied(model, size, None, seed=seed)}
        table[rounds] |= {evaluated: copied(model, size, evaluated, seed=seed) for evaluated in ROUNDS}
    return _findings(collisions, table, size)


def _findings(
    collisions: Sequence[float], table: Mapping[int | None, Mapping[int | None, float]], size: DuplicationSize
) -> Findings:
    decreases = [
        (near - far) / math.sqrt(max(near * (1 - near) + far * (1 - far), 1e-9) / DRAWS)
        for near, far in pairwise(collisions)
        if near > 0.001  # smaller shares have too few collisions to compare
    ]
    hashed = {rounds: accuracies for rounds, accuracies in table.items() if rounds is not None}
    drops = [accuracies[fewer] - accuracies[more] for accuracies in hashed.values() for more, fewer in pairwise(ROUNDS)]
    best = hashed[max(hashed)]
    rows: list[tuple[Cell, ...]] = [
        (NAMES[rounds], *(accuracies[more] for more in (None, *ROUNDS))) for rounds, accuracies in table.items()
    ]
    return Findings(
        columns=("trained with", *(NAMES[rounds] for rounds in (None, *ROUNDS))),
        rows=[*rows, ("random guess", *[1 / size.symbols] * (1 + len(ROUNDS)))],
        criteria=[
            at_least("collisions: smallest decrease between angles, in standard errors", min(decreases), 4),
            at_least(f"{NAMES[max(hashed)]} in training, LSH-4 in evaluation: accuracy", best[4], 0.99),
            at_most("largest loss by twice the rounds", max(drops), 0.01),
            at_least("smallest gain of eight rounds over one", min(f[8] - f[1] for f in hashed.values()), 0.1),
        ],
        draw=lambda figure: _draw(figure, collisions, table),
        remarks=(
            "Full attention in evaluation shares queries and keys here, and a position does not attend to itself. In "
            "the paper it does, and the accuracy is 0.8 %.",
        ),
    )


def _collisions(draws: int) -> list[float]:
    """Return the share of ``draws`` in which two vectors at each angle fall into one bucket."""
    angles = torch.tensor(ANGLES, dtype=torch.float64).deg2rad()
    pairs = torch.zeros(1, 1, 1 + len(ANGLES), WIDTH)
    pairs[..., 0, 0] = 1
    pairs[..., 1:, 0], pairs[..., 1:, 1] = angles.cos(), angles.sin()
    bucket = hash_positions(pairs, draw_rotations(1, WIDTH, draws, (BUCKETS,), None), (BUCKETS,))[0, 0]
    shares: list[float] = (bucket[:, 1:] == bucket[:, :1]).double().mean(0).tolist()
    return shares


def duplication_model(size: DuplicationSize, rounds: int | None, *, seed: int) -> LanguageModel:
    """Build a layer of hashed attention with ``rounds`` rounds (None: full attention with shared queries and keys)."""
    torch.manual_seed(seed)
    mixer = {"kind": "hashed", "buckets": size.buckets, "chunk": size.chunk, "rounds": rounds or 1}
    config = CausalStackConfig.model_validate(
        {
            "layers": 1, "width": size.width, "heads": size.heads, "feed_forward": size.width, "mixer": mixer,
            "position": {"kind": "learned", "longest": 2 * size.word + 2},
        }
    )  # fmt: skip
    embedding = embedding_matrix(size.symbols + 1, size.width, std=0.02)
    model = language_model(config, TokenInput(embedding), Head(embedding))
    if rounds is None:
        _mixer(model).use_single_bucket()
    return model


def _mixer(model: LanguageModel) -> HashedAttention:
    mixer = next(layer.mixer for layer in model.stack)
    assert isinstance(mixer, HashedAttention)
    return mixer


def train_duplication(model: LanguageModel, size: DuplicationSize, *, seed: int) -> Iterator[float]:
    """Train by Adam with new words for each update; yield the loss of the second word before each update."""
    optimizer = Optimizer(model, clip_norm=1.0)
    warm = max(1, size.updates // 20)
    for step in range(1, size.updates + 1):
        tokens = _words(size, size.batch, (seed, step))
        with seeded_generator(seed * 1_000_003 + step, tokens.device):
            inputs = tokens[:, :-1]
            features = model.train()(inputs, Span.without_padding(inputs)).features
            second = model.head(features[:, size.word + 1 :])
            loss = cross_entropy(second.flatten(0, 1), tokens[:, size.word + 2 :].flatten())
            loss.backward()
        optimizer.step(size.rate * min(step / warm, (size.updates - step + 1) / size.updates * 1.5, 1.0))
        yield float(loss.detach())


def _words(size: DuplicationSize, count: int, seeds: tuple[int, ...]) -> Tensor:
    """Draw sequences 0 w 0 w (Kitaev et al. 2020, §4.1); equal ``seeds`` give equal sequences."""
    generator = torch.Generator().manual_seed(mixed_seed(*seeds) >> 1)
    word = torch.randint(1, size.symbols + 1, (count, size.word), generator=generator)
    once = torch.cat([torch.zeros(count, 1, dtype=torch.int64), word], 1)
    return torch.cat([once, once], 1)


@torch.no_grad()
def copied(model: LanguageModel, size: DuplicationSize, rounds: int | None, *, seed: int, count: int = TESTED) -> float:
    """Return the accuracy on the second word's symbols.

    Args:
        model: a trained model; its settings are restored afterwards.
        size: sizes of the words and of the hashing.
        rounds: rounds in evaluation; None: full attention.
        seed: seed of the new words.
        count: number of words.
    """
    mixer = _mixer(model.eval())
    settings = mixer.factors, mixer.chunk, mixer.evaluation_rounds
    if rounds is None:
        mixer.use_single_bucket()
    else:
        factors = (size.buckets,) if isinstance(size.buckets, int) else tuple(size.buckets)
        mixer.factors, mixer.chunk, mixer.evaluation_rounds = factors, size.chunk, rounds
    right = 0
    for start in range(0, count, size.batch):
        tokens = _words(size, min(size.batch, count - start), (seed, 0, start))
        inputs = tokens[:, :-1]
        features = model(inputs, Span.without_padding(inputs)).features
        predicted = model.head(features[:, size.word + 1 :]).argmax(-1)
        right += int((predicted == tokens[:, size.word + 2 :]).sum())
    mixer.factors, mixer.chunk, mixer.evaluation_rounds = settings
    return right / (count * size.word)


def _draw(figure: Figure, collisions: Sequence[float], table: Mapping[int | None, Mapping[int | None, float]]) -> None:
    left, right = figure.subplots(1, 2)
    left.plot(ANGLES, collisions, "o-")
    left.set(xlabel="angle, degrees", ylabel="share in one bucket", title=f"collisions, {BUCKETS} buckets")
    for rounds, accuracies in table.items():
        right.plot([*map(str, reversed(ROUNDS)), "full"],
                   [*(accuracies[few] for few in reversed(ROUNDS)), accuracies[None]],
                   "o-", label=f"trained with {NAMES[rounds]}")  # fmt: skip
    right.set(xlabel="rounds in evaluation", ylabel="accuracy", title="copying 0w0w")
    figure.set_size_inches(11.0, 3.6)
    figure.legend(loc="outside right upper")
