"""Recall of what was read long before: windows, memory of segments, and compressed memory at one cost.

Claim: of models that look at equally many places, one that remembers the segments before answers questions that one of
windows cannot, and one that also compresses what leaves its memory answers those about things longer ago (Dai et al.
2019, §3.2; Rae et al. 2019, §3 and §4.2: range l · (n_m + c · n_cm)).

Measured: an endless stream of noise in which every fourth column, at any place among four, is a pair of a key and a
value, or asks for the value of a key that was written 0 to 5 segments of 16 columns ago; no key that may be asked for
stands for two values. Each model, one layer of 64, reads 32 streams, 48 columns an update, and sees 48 places:
windows of 48; segments of 16 and a memory of 32; segments of 16, a memory of 16 and 16 slots of four columns each. The
share of right answers in fresh streams, by the age of what is asked for; 1 in 4 is chance. Each is trained from three
seeds, which draw its weights, its streams and those that it is asked about.

Thresholds: each of the seeds has to meet them. Within its reach (two segments) memory answers 9 of 10, beyond it
hardly more than chance; compressed memory answers 3 of 4 there. Two segments ago memory is better than windows by 0.3,
which see half of that at most, and over all ages compressed memory is better than memory by 0.1. Pairs are sparse on
purpose: a slot is of four columns, of which one matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.span import Span
from regard.models.causal_config import CausalStackConfig
from regard.models.head import Head
from regard.models.input import TokenInput
from regard.models.language_model import LanguageModel, LanguageModelState
from regard.models.transformer.build import language_model
from regard.studies.study import Criterion, Findings, Report, at_least, at_most
from regard.training.optim import Optimizer, schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEGMENT, GROUP, AGES, ROWS = 16, 4, 6, 32
COLUMNS = 3 * SEGMENT  # of an update
SEEDS = 3
KEYS, VALUES, NOISE = 32, 4, 8
PAIRS, ASKED = KEYS * VALUES, KEYS * VALUES + KEYS  # types: pairs, then questions, then noise
MIXERS: dict[str, dict[str, Any]] = {
    "windows": {"kind": "segment-memory", "segment": COLUMNS, "memory": 0},
    "memory": {"kind": "segment-memory", "segment": SEGMENT, "memory": 2 * SEGMENT},
    "compressed memory": {"kind": "compressive", "segment": SEGMENT, "memory": SEGMENT, "compressed": 16, "rate": 4},
}


class Stretch(NamedTuple):
    """Columns of streams, each (rows, COLUMNS): tokens, the value that is asked for or −1, and how long ago it was."""

    tokens: Tensor
    answer: Tensor
    age: Tensor


def streams(seed: tuple[int, ...], rows: int) -> Iterator[Stretch]:
    """Columns after columns of ``rows`` streams."""
    draws = np.random.default_rng(seed)
    written: list[list[list[tuple[int, int]]]] = [[] for _ in range(rows)]  # pairs by segment, the last AGES
    while True:
        tokens = draws.integers(ASKED, ASKED + NOISE, (rows, COLUMNS))
        answer, age = np.full_like(tokens, -1), np.full_like(tokens, -1)
        for row in range(rows):
            for begin in range(0, COLUMNS, SEGMENT):
                part = (row, slice(begin, begin + SEGMENT))
                _write_segment(draws, written[row], tokens[part], answer[part], age[part])
        yield Stretch(*map(torch.from_numpy, (tokens, answer, age)))


def _write_segment(
    draws: np.random.Generator, written: list[list[tuple[int, int]]], tokens: Any, answer: Any, age: Any
) -> None:
    """Pairs and questions of one segment, in place: half of the groups are pairs, the first one is."""
    written.append([])
    del written[:-AGES]
    for group in range(SEGMENT // GROUP):
        column = group * GROUP + int(draws.integers(GROUP))
        if group == 0 or draws.random() < 0.5:
            used = {key for pairs in written for key, _ in pairs}
            key = int(draws.choice([key for key in range(KEYS) if key not in used]))
            value = int(draws.integers(VALUES))
            written[-1].append((key, value))
            tokens[column] = key * VALUES + value
        else:
            back = int(draws.integers(len(written)))
            pairs = written[-1 - back]
            key, value = pairs[int(draws.integers(len(pairs)))]
            tokens[column], answer[column], age[column] = PAIRS + key, value, back


def run(
    *, seed: int, minimal: bool, report: Report, mixers: Mapping[str, Mapping[str, Any]] = MIXERS, updates: int = 2000
) -> Findings:
    """Compare three mixers; the second and third should reach further than the one before."""
    updates, tested, seeds = (3, 2, 2) if minimal else (updates, 40, SEEDS)
    found: dict[str, list[list[float]]] = {name: [] for name in mixers}
    every = [(number, name) for number in range(seeds) for name in mixers]
    for turn, (number, name) in enumerate(every):
        drawn = 100 * seed + number
        torch.manual_seed(drawn)
        model = _learn(mixers[name], updates, drawn, lambda share, turn=turn: report((turn + 0.9 * share) / len(every)))  # type: ignore[misc]
        found[name].append(_recall(model, drawn, tested))
        report((turn + 1) / len(every))
    return Findings(
        columns=("model", "seeds", *(f"{age} segments ago" for age in range(AGES)), "all"),
        rows=[(name, what, *shares, _mean(shares)) for name, each in found.items() for what, shares in _summary(each)],
        criteria=_criteria(*found.values()),
        remarks=(
            "Equal cost is equally many places that a column looks at; what is remembered is projected anew in each "
            "segment, which windows need not, and compression is a product more.",
            "Settings were found with seed 1, in two forms of this study that failed (within the reach of memory 0.77 "
            "and 0.62) and one that held: the rate went from 5e-3 to 2e-3 with clipping, updates from 900 to 2,000, "
            "layers from two to one. These thresholds are those of the first form, but for memory beside windows, "
            "and were fixed before any of these seeds was run.",
        ),
        draw=lambda figure: _draw(figure, {name: _mean_by_age(each) for name, each in found.items()}),
    )


def _criteria(windows: list[list[float]], memory: list[list[float]], compressed: list[list[float]]) -> list[Criterion]:
    """The thresholds, beside the worst of the seeds."""
    near, far = slice(0, 3), slice(3, AGES)
    sooner = [one[2] - other[2] for one, other in zip(memory, windows, strict=True)]
    over_all = [_mean(one) - _mean(other) for one, other in zip(compressed, memory, strict=True)]
    return [
        at_least("memory: within its reach of two segments", min(min(each[near]) for each in memory), 0.9),
        at_most("memory: three segments ago and more", max(max(each[far]) for each in memory), 0.4),
        at_least("compressed memory: three segments ago and more", min(min(each[far]) for each in compressed), 0.75),
        at_least("memory, two segments ago, better than windows by", min(sooner), 0.3),
        at_least("compressed memory over all, better than memory by", min(over_all), 0.1),
    ]


def _summary(each: list[list[float]]) -> Iterator[tuple[str, list[float]]]:
    """Mean and least of the seeds, by age."""
    yield "mean", _mean_by_age(each)
    yield "least", [min(shares) for shares in zip(*each, strict=True)]


def _mean_by_age(each: list[list[float]]) -> list[float]:
    return [_mean(list(shares)) for shares in zip(*each, strict=True)]


def _mean(shares: list[float]) -> float:
    return sum(shares) / len(shares)


def _build(mixer: Mapping[str, Any]) -> LanguageModel:
    config = CausalStackConfig(
        layers=1, width=64, feed_forward=128, heads=2, position={"kind": "none"}, mixer=dict(mixer)
    )
    embedding = nn.Parameter(torch.randn(ASKED + NOISE, 64) / 8)
    return language_model(config, TokenInput(embedding), Head(nn.Parameter(torch.randn(VALUES, 64) / 8)))


def _answers(model: LanguageModel, columns: Stretch, state: LanguageModelState) -> tuple[Tensor, Any]:
    """Logits of the values, of the columns that ask, and all that the model gave."""
    given = model(columns.tokens, Span.without_padding(columns.tokens, state.length), state)
    return model.head(given.features[columns.answer >= 0]), given


def _learn(mixer: Mapping[str, Any], updates: int, seed: int, report: Report) -> LanguageModel:
    model = _build(mixer).train()
    optimizer, rate = (
        Optimizer(model, clip_norm=1.0),
        schedule("linear", learning_rate=2e-3, warmup=100, last_step=updates),
    )
    state, source = model.start(ROWS), streams((seed, 1), ROWS)
    for step in range(1, updates + 1):
        columns = next(source)
        logits, given = _answers(model, columns, state)
        loss = nn.functional.cross_entropy(logits, columns.answer[columns.answer >= 0])
        (loss + sum(given.losses.values()) / columns.tokens.numel()).backward()
        optimizer.step(rate(step))
        state = given.state
        report(step / updates)
    return model.eval()


@torch.no_grad()
def _recall(model: LanguageModel, seed: int, tested: int) -> list[float]:
    """Share of right answers by age, in fresh streams, the first ones left out: there is nothing old to ask for yet."""
    right, asked = np.zeros(AGES), np.zeros(AGES)
    state, source = model.start(ROWS), streams((seed, 2), ROWS)
    for number in range(tested + 2):
        columns = next(source)
        logits, given = _answers(model, columns, state)
        state, asking = given.state, columns.answer >= 0
        if number >= 2 or tested < 3:
            age = columns.age[asking].numpy()
            good = (logits.argmax(-1) == columns.answer[asking]).numpy()
            asked += np.bincount(age, minlength=AGES)
            right += np.bincount(age, good, minlength=AGES)
    return (right / asked.clip(1)).tolist()


def _draw(figure: Figure, found: Mapping[str, list[float]]) -> None:
    axes = figure.subplots()
    for name, shares in found.items():
        axes.plot(range(AGES), shares, "o-", label=name)
    axes.axhline(1 / VALUES, color="black", linestyle=":", label="chance")
    axes.set(xlabel="segments between pair and question", ylabel="right answers", ylim=(0, 1.02))
    axes.legend()
