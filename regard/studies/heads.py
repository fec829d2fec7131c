"""Benefit and cost of several attention heads.

Claim: with d_k = d_v = d / h the total cost of h heads is that of one, yet a single head does worse, since it averages
what it looks at (Vaswani et al. 2017, §3.2.2; Table 3, rows A: 24.9 BLEU with one head, 25.8 with 8).

Measured: one encoder layer of width 64 with a bias of relative positions (T5's) says at every place of a random
sentence over 16 words which words stand two before, one before, one after and two after it: four linear read-outs of
one state. 1, 2, 4, 8 and 16 heads, each from its own draw of weights per seed, see the same sentences. Accuracy is the
mean of the four over fresh sentences. Parameters are counted but for the table of biases, which has 32 numbers a head;
operations are those of one sentence as torch's own counter has them.

Thresholds: parameters and operations are equal to the last one. The best number of heads is better than one head by
three standard errors of the difference, by the spread between seeds or, if larger, by the number of words counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from regard.attention.kernel import kernel
from regard.attention.span import Span
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import Optimizer, schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFSETS = (-2, -1, 1, 2)
TYPES, LENGTH, WIDTH = 16, 16, 64
RATE = 1e-2

INNER = slice(2, -2)  # places with two words on both sides
TESTED = 256  # sentences


class Neighbors(nn.Module):
    """One layer of self-attention with read-outs of each neighbor: logits (batch, inner place, offset, word)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        config = ModelConfig.model_validate(
            dict(layers=1, width=WIDTH, feed_forward=2 * WIDTH, heads=heads, dropout=0.0)
            | dict(norm="pre", position="t5")
        )
        self.encoder = build(config, source_types=TYPES, target_types=TYPES).encoder
        self.out = nn.Linear(WIDTH, len(OFFSETS) * TYPES)

    def forward(self, words: Tensor) -> Tensor:
        states = self.encoder(words, Span.without_padding(words)).states
        said: Tensor = self.out(states[:, INNER])
        return said.unflatten(2, (len(OFFSETS), TYPES))


class Cost(NamedTuple):
    """Parameters, and multiplications and additions of one sentence (``operations``)."""

    parameters: int
    operations: int
    biases: int


def run(*, seed: int, minimal: bool, report: Report, heads: Sequence[int] = (1, 2, 4, 8, 16)) -> Findings:
    """Compare numbers of ``heads``; the others should beat the first."""
    seeds, updates = (2, 20) if minimal else (3, 500)
    found: dict[int, list[float]] = {number: [] for number in heads}
    costs = {number: _cost(number) for number in heads}
    for done in range(seeds * len(heads)):
        turn, number = divmod(done, len(heads))
        found[heads[number]].append(_accuracy(heads[number], seed=100 * seed + turn, updates=updates))
        report((done + 1) / (seeds * len(heads)))
    one, *others = heads
    best = max(others, key=lambda number: fmean(found[number]))
    return Findings(
        columns=("heads", "d_k", "parameters", "biases", "operations", "accuracy", "spread"),
        rows=[
            (number, WIDTH // number, cost.parameters, cost.biases, cost.operations, fmean(right), stdev(right))
            for (number, cost), right in zip(costs.items(), found.values(), strict=True)
        ],
        criteria=[
            at_most("parameters, most − least", _range(cost.parameters for cost in costs.values()), 0),
            at_most("operations, most − least", _range(cost.operations for cost in costs.values()), 0),
            at_least(
                f"accuracy, {best} heads − {one}",
                fmean(found[best]) - fmean(found[one]),
                3 * math.hypot(_error(found[best]), _error(found[one])),
            ),
        ],
        draw=lambda figure: _draw(figure, found, costs),
    )


def _words(rows: int) -> tuple[Tensor, Tensor]:
    """Draw random sentences; return them and the words at OFFSETS from each of the places INNER."""
    words = torch.randint(TYPES, (rows, LENGTH))
    return words, torch.stack([words.roll(-offset, 1) for offset in OFFSETS], 2)[:, INNER]


def _accuracy(heads: int, *, seed: int, updates: int) -> float:
    """Train, and return the accuracy on fresh sentences."""
    torch.manual_seed(seed)
    model = Neighbors(heads)
    optimizer, rate = Optimizer(model), schedule("linear", learning_rate=RATE, warmup=50, last_step=updates)
    torch.manual_seed(seed)  # the same sentences for every number of heads
    for step in range(1, updates + 1):
        words, neighbors = _words(32)
        cross_entropy(model(words).flatten(0, 2), neighbors.flatten()).backward()
        optimizer.step(rate(step))
    words, neighbors = _words(TESTED)
    with torch.no_grad():
        return float((model(words).argmax(3) == neighbors).double().mean())


def _cost(heads: int) -> Cost:
    model = Neighbors(heads)
    biases = sum(p.numel() for name, p in model.named_parameters() if ".bias." in name)
    # The counter knows products of matrices, not the CPU's fused attention.
    with kernel("reference"), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, LENGTH, dtype=torch.int64))
    return Cost(sum(p.numel() for p in model.parameters()) - biases, counter.get_total_flops(), biases)


def _range(counts: Iterable[int]) -> int:
    all = list(counts)
    return max(all) - min(all)


def _error(accuracies: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    mean = min(max(fmean(accuracies), 0.01), 0.99)
    counted = math.sqrt(mean * (1 - mean) / (TESTED * (LENGTH - 4)))
    return max(stdev(accuracies), counted) / math.sqrt(len(accuracies))


def _draw(figure: Figure, found: Mapping[int, Sequence[float]], costs: Mapping[int, Cost]) -> None:
    quality, cost = figure.subplots(1, 2)
    heads = list(found)
    quality.errorbar(
        heads, [fmean(found[n]) for n in heads], yerr=[stdev(found[n]) for n in heads], fmt="o-", capsize=3
    )
    quality.axhline(1 / TYPES, color="black", linestyle=":", label="chance")
    quality.set(title="which words are the neighbors?", ylabel="accuracy", ylim=(0, 1.02))
    least = min(costs.values())
    cost.plot(heads, [each.parameters / least.parameters for each in costs.values()], "o-", label="parameters")
    cost.plot(heads, [each.operations / least.operations for each in costs.values()], "s--", label="operations")
    cost.set(title="cost, one head = 1", ylim=(0, 2))
    for axes in (quality, cost):
        axes.set(xscale="log", xticks=heads, xticklabels=[str(n) for n in heads], xlabel="heads")
        axes.legend()
