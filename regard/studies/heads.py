"""Benefit and cost of several attention heads.

Claim: with d_k = d_v = d / h the total cost of h heads is that of one. A single head is less accurate, because it
averages the positions that it attends to (Vaswani et al. 2017, §3.2.2; Table 3, rows A: 24.9 BLEU with one head, 25.8
with 8).

Measured: one encoder layer of width 64 with T5's bias of relative positions reads random sentences over 16 words. At
every position, four linear read-outs of its state predict the words two before, one before, one after and two after it.
Models of 1, 2, 4, 8 and 16 heads get the same sentences; each seed draws their weights. Accuracy is the mean of the
four read-outs on new sentences. Parameters are counted without the table of biases, which has 32 numbers per head.
Operations are those of one sentence, as counted by torch.

Thresholds: all numbers of heads have equal parameters and equal operations, to the last one. The best number of heads
is better than one head by three standard errors of the difference. The error is that of the spread between seeds or, if
larger, that of the number of predicted words.
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
from regard.core.figure import INK
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.studies.study import Findings, Report, at_least, at_most
from regard.training.optim import Optimizer, schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OFFSETS = (-2, -1, 1, 2)
TYPES, LENGTH, WIDTH = 16, 16, 64
RATE = 1e-2

INNER = slice(2, -2)  # positions with two words on both sides
TESTED = 256  # sentences


class Neighbors(nn.Module):
    """One layer of self-attention with read-outs of each neighbor: logits (batch, inner position, offset, word)."""

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
        logits: Tensor = self.out(states[:, INNER])
        return logits.unflatten(2, (len(OFFSETS), TYPES))


class Cost(NamedTuple):
    """Parameters without the table of biases, operations of one sentence, and size of that table."""

    parameters: int
    operations: int
    biases: int


def run(*, seed: int, minimal: bool, report: Report, heads: Sequence[int] = (1, 2, 4, 8, 16)) -> Findings:
    """Compare models with these numbers of ``heads``; the best of the others should beat the first."""
    seeds, updates = (2, 20) if minimal else (3, 500)
    accuracies: dict[int, list[float]] = {n: [] for n in heads}
    costs = {n: _cost(n) for n in heads}
    for done in range(seeds * len(heads)):
        seed_number, index = divmod(done, len(heads))
        accuracies[heads[index]].append(_accuracy(heads[index], seed=100 * seed + seed_number, updates=updates))
        report((done + 1) / (seeds * len(heads)))
    one, *more_heads = heads
    best = max(more_heads, key=lambda n: fmean(accuracies[n]))
    return Findings(
        columns=("heads", "d_k", "parameters", "biases", "operations", "accuracy", "spread"),
        rows=[
            (
                n,
                WIDTH // n,
                cost.parameters,
                cost.biases,
                cost.operations,
                fmean(shares),
                stdev(shares),
            )
            for (n, cost), shares in zip(costs.items(), accuracies.values(), strict=True)
        ],
        criteria=[
            at_most("parameters, maximum − minimum", _range(cost.parameters for cost in costs.values()), 0),
            at_most("operations, maximum − minimum", _range(cost.operations for cost in costs.values()), 0),
            at_least(
                f"accuracy, {best} heads − {one}",
                fmean(accuracies[best]) - fmean(accuracies[one]),
                3 * math.hypot(_error(accuracies[best]), _error(accuracies[one])),
            ),
        ],
        draw=lambda figure: _draw(figure, accuracies, costs),
    )


def _words(rows: int) -> tuple[Tensor, Tensor]:
    """Draw random sentences; return them and the words at OFFSETS from each of the positions INNER."""
    words = torch.randint(TYPES, (rows, LENGTH))
    return words, torch.stack([words.roll(-offset, 1) for offset in OFFSETS], 2)[:, INNER]


def _accuracy(heads: int, *, seed: int, updates: int) -> float:
    """Train a model and return its accuracy on new sentences."""
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
    # The counter counts products of matrices, but not the CPU's fused attention.
    with kernel("reference"), FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, LENGTH, dtype=torch.int64))
    return Cost(sum(p.numel() for p in model.parameters()) - biases, counter.get_total_flops(), biases)


def _range(counts: Iterable[int]) -> int:
    values = list(counts)
    return max(values) - min(values)


def _error(accuracies: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    mean = min(max(fmean(accuracies), 0.01), 0.99)
    sampling_error = math.sqrt(mean * (1 - mean) / (TESTED * (LENGTH - 4)))
    return max(stdev(accuracies), sampling_error) / math.sqrt(len(accuracies))


def _draw(figure: Figure, accuracies: Mapping[int, Sequence[float]], costs: Mapping[int, Cost]) -> None:
    quality, cost = figure.subplots(1, 2)
    heads = list(accuracies)
    quality.errorbar(
        heads, [fmean(accuracies[n]) for n in heads], yerr=[stdev(accuracies[n]) for n in heads], fmt="o-", capsize=3
    )
    quality.axhline(1 / TYPES, color=INK, linestyle=":", label="chance")
    quality.set(title="prediction of the neighbors", ylabel="accuracy", ylim=(0, 1.02))
    least = min(costs.values())
    cost.plot(heads, [entry.parameters / least.parameters for entry in costs.values()], "o-", label="parameters")
    cost.plot(heads, [entry.operations / least.operations for entry in costs.values()], "s--", label="operations")
    cost.set(title="cost", ylabel="relative to one head", ylim=(0, 2))
    for axes in (quality, cost):
        axes.set(xscale="log", xticks=heads, xticklabels=[str(n) for n in heads], xlabel="heads")
        axes.legend()
