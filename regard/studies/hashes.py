"""Hashed attention: who collides, and how many rounds it takes to find what matters.

Claim: the nearer the directions of two vectors, the more often random rotations hash them into one bucket, as
1 − P(collision) falls to 0 with their angle; and on a task that takes an exact look far back (0w0w: to write a word of
random symbols once more) a model with hashed attention is as good as one with full attention, the better the more
rounds it hashes in evaluation, whatever it was trained with (Kitaev et al. 2020, §2, §4 and Table 2).

Measured: collisions of pairs at given angles under 4,000 rotations of 16 buckets. Then language models of one layer, 64
wide with 2 heads, on words of 31 of 31 symbols: trained with full attention of shared queries and keys, with four
rounds and with one, all with 16 buckets and chunks of 8, and each evaluated with full attention and 8, 4, 2 and 1
rounds on 512 new words: the share of the symbols of the second word that are the most probable. Table 2 has words of
511, four heads, 256 features and 150,000 updates: see bench/duplication.py for larger forms than this.

Thresholds: collisions fall from each angle to the next, by more than four standard errors. Four rounds in training and
evaluation find 99 % of the symbols. More rounds are never worse by more than a point, and eight are better than one
by ten points at least. The baseline is the most frequent guess: 1 in 31.
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
ROUNDS = (8, 4, 2, 1)  # of evaluation; and None, full attention
NAMES: dict[int | None, str] = {None: "full", **{rounds: f"LSH-{rounds}" for rounds in ROUNDS}}
TESTED = 512


class DuplicationSize(NamedTuple):
    """Words of so many of so many symbols, the model that copies them, and its training."""

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
    """Train with each number of rounds in ``trained``, None standing for full attention, and evaluate with all."""
    size = size or (MINIMAL if minimal else DuplicationSize())
    collisions = _collisions(500 if minimal else DRAWS)
    report(0.02)
    table: dict[int | None, dict[int | None, float]] = {}
    for done, rounds in enumerate(trained):
        part = report_part(report, 0.02 + 0.98 * done / len(trained), 0.02 + 0.98 * (done + 1) / len(trained))
        model = duplication_model(size, rounds, seed=seed)
        for step, _ in enumerate(train_duplication(model, size, seed=seed), start=1):
            part(step / size.updates)
        table[rounds] = {None: copied(model, size, None, seed=seed)}
        table[rounds] |= {many: copied(model, size, many, seed=seed) for many in ROUNDS}
    return _findings(collisions, table, size)


def _findings(
    collisions: Sequence[float], table: Mapping[int | None, Mapping[int | None, float]], size: DuplicationSize
) -> Findings:
    falls = [
        (near - far) / math.sqrt(max(near * (1 - near) + far * (1 - far), 1e-9) / DRAWS)
        for near, far in pairwise(collisions)
        if near > 0.001  # below, hardly any are left to compare
    ]
    hashed = {rounds: found for rounds, found in table.items() if rounds is not None}
    drops = [found[few] - found[many] for found in hashed.values() for many, few in pairwise(ROUNDS)]
    best = hashed[max(hashed)]
    rows: list[tuple[Cell, ...]] = [
        (NAMES[rounds], *(found[many] for many in (None, *ROUNDS))) for rounds, found in table.items()
    ]
    return Findings(
        columns=("trained with", *(NAMES[rounds] for rounds in (None, *ROUNDS))),
        rows=[*rows, ("a guess", *[1 / size.symbols] * (1 + len(ROUNDS)))],
        criteria=[
            at_least("least fall of collisions from angle to angle, in standard errors", min(falls), 4),
            at_least(f"{NAMES[max(hashed)]} in training, LSH-4 in evaluation: symbols found", best[4], 0.99),
            at_most("most that twice the rounds are worse by", max(drops), 0.01),
            at_least("least that eight rounds are better than one", min(f[8] - f[1] for f in hashed.values()), 0.1),
        ],
        draw=lambda figure: _draw(figure, collisions, table),
        remarks=(
            "Full attention in evaluation shares queries and keys here, and a column does not see itself; the paper's "
            "does, and finds nothing (0.8 %).",
        ),
    )


def _collisions(draws: int) -> list[float]:
    """Share of ``draws`` in which two vectors at each angle fall into one bucket."""
    angles = torch.tensor(ANGLES, dtype=torch.float64).deg2rad()
    pairs = torch.zeros(1, 1, 1 + len(ANGLES), WIDTH)
    pairs[..., 0, 0] = 1
    pairs[..., 1:, 0], pairs[..., 1:, 1] = angles.cos(), angles.sin()
    bucket = hash_positions(pairs, draw_rotations(1, WIDTH, draws, (BUCKETS,), None), (BUCKETS,))[0, 0]
    found: list[float] = (bucket[:, 1:] == bucket[:, :1]).double().mean(0).tolist()
    return found


def duplication_model(size: DuplicationSize, rounds: int | None, *, seed: int) -> LanguageModel:
    """A layer of hashed attention over ``rounds`` rounds, or full attention with shared queries and keys."""
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
    """Make the updates by Adam on new words each time; yield the loss of the second word before each."""
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


def _words(size: DuplicationSize, count: int, number: tuple[int, ...]) -> Tensor:
    """Sequences 0 w 0 w (Kitaev et al. 2020, §4.1), the same for the same ``number``."""
    draw = torch.Generator().manual_seed(mixed_seed(*number) >> 1)
    word = torch.randint(1, size.symbols + 1, (count, size.word), generator=draw)
    once = torch.cat([torch.zeros(count, 1, dtype=torch.int64), word], 1)
    return torch.cat([once, once], 1)


@torch.no_grad()
def copied(model: LanguageModel, size: DuplicationSize, rounds: int | None, *, seed: int, count: int = TESTED) -> float:
    """Share of the second word's symbols that are the most probable, on new words, by ``rounds`` in evaluation."""
    mixer = _mixer(model.eval())
    kept = mixer.factors, mixer.chunk, mixer.evaluation_rounds
    if rounds is None:
        mixer.use_single_bucket()
    else:
        factors = (size.buckets,) if isinstance(size.buckets, int) else tuple(size.buckets)
        mixer.factors, mixer.chunk, mixer.evaluation_rounds = factors, size.chunk, rounds
    right = 0
    for begin in range(0, count, size.batch):
        tokens = _words(size, min(size.batch, count - begin), (seed, 0, begin))
        inputs = tokens[:, :-1]
        features = model(inputs, Span.without_padding(inputs)).features
        found = model.head(features[:, size.word + 1 :]).argmax(-1)
        right += int((found == tokens[:, size.word + 2 :]).sum())
    mixer.factors, mixer.chunk, mixer.evaluation_rounds = kept
    return right / (count * size.word)


def _draw(figure: Figure, collisions: Sequence[float], table: Mapping[int | None, Mapping[int | None, float]]) -> None:
    left, right = figure.subplots(1, 2)
    left.plot(ANGLES, collisions, "o-")
    left.set(xlabel="angle, degrees", ylabel="in one bucket", title=f"collisions, {BUCKETS} buckets")
    for rounds, found in table.items():
        right.plot([*map(str, reversed(ROUNDS)), "full"], [*(found[many] for many in reversed(ROUNDS)), found[None]],
                   "o-", label=f"trained with {NAMES[rounds]}")  # fmt: skip
    right.set(xlabel="rounds in evaluation", ylabel="symbols found", title="0w0w")
    right.legend()
