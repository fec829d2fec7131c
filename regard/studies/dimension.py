"""Effect of the width of keys on a learned score.

Claim: for small d_k additive and dot-product attention perform similarly; for large d_k additive attention outperforms
the dot product without scaling, and 1/√d_k counteracts that (Vaswani et al. 2017, §3.2.1). In translation an unscaled
multiplicative score fell from 22.33 to 18.22 BLEU at width 1024, an additive one stayed (Britz et al. 2017, §4.4).

Measured: a lookup that must be learned. Each example shows 16 of 64 keys with one of 16 values each and asks for one
key; queries and keys are normal tables that are trained, with what the score has of its own, by Adam (3e-3, 64 examples
an update, 600 updates); values are embedded and read out linearly. Accuracy over the last 50 updates, each of fresh
examples, means over seeds. Chance is 1/16.

Thresholds: three standard errors of the difference tell a fall from none, with the spread between seeds as measured but
no less than counting the examples allows. The unscaled product must fall by more than that from the least width to the
largest, and at the largest stay behind the scaled one by more. Scaled and additive scores must not fall by that much.
And from width 64 on they are right in 99 of 100 cases, so that what the product lacks is not the task's fault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from regard.attention.contract import Mechanism
from regard.attention.mask import Matrix
from regard.attention.mechanisms.additive import Additive
from regard.attention.mechanisms.dot import Dot
from regard.attention.span import Span
from regard.studies.study import Criterion, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS, SHOWN, VALUES = 64, 16, 16
EXAMPLES, JUDGED = 64, 50  # examples per update; updates at the end whose accuracy counts
NARROW = 64  # from here on the task is easy for a score that works; also the additive score's own width

Score = Callable[[int], Mechanism]  # width → attention
SCORES: dict[str, Score] = {
    "q·k": lambda width: Dot(scale=1.0),
    "q·k / √d": lambda width: Dot(),
    "additive": lambda width: Additive(heads=1, query_width=width, key_width=width, width=NARROW),
}


class Lookup(nn.Module):
    """A learned lookup: queries and keys of all ids, a score, and a read-out of the values."""

    def __init__(self, score: Mechanism, width: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Parameter(torch.randn(KEYS, width)) for _ in range(2))
        self.score, self.value, self.out = score, nn.Embedding(VALUES, VALUES), nn.Linear(VALUES, VALUES)

    def forward(self, asked: Tensor, shown: Tensor, values: Tensor) -> Tensor:
        """Return logits (examples, values).

        asked: ids to look up, (examples,).
        shown: which keys each example shows, (examples, keys).
        values: the value of each key, (examples, keys).
        """
        mask = Matrix(torch.zeros(shown.shape).masked_fill(~shown, float("-inf")))
        asking, answering = (Span.of(torch.ones(1, n, dtype=torch.bool)) for n in shown.shape)
        query, key = self.query[asked][None, None], self.key[None, None]
        weights = self.score(
            query, self.score.prepare(key), key, mask.bind(asking, answering), need_weights=True
        ).weights
        assert weights is not None
        # All examples share the keys, so one product serves them; their values differ.
        held = weights[0, 0, :, None] @ one_hot(values, VALUES).to(weights.dtype)
        logits: Tensor = self.out(held[:, 0] @ self.value.weight)
        return logits


def run(*, seed: int, minimal: bool, report: Report, scores: Mapping[str, Score] | None = None) -> Findings:
    """Train each of ``scores`` at each width; all but "q·k" should not get worse with it."""
    scores = scores or SCORES
    widths, seeds, updates = ((8, 64), 2, 25) if minimal else ((8, 64, 512), 3, 600)
    found: dict[tuple[str, int], list[float]] = {(name, width): [] for width in widths for name in scores}
    for done, (name, width) in enumerate(found, start=1):
        for number in range(seeds):
            torch.manual_seed(1000 * seed + number)
            found[name, width].append(_learn(Lookup(scores[name](width), width), updates))
        report(done / len(found))
    return Findings(
        columns=("score", *(f"d = {width}" for width in widths), "spread"),
        rows=[
            (name, *(fmean(found[name, width]) for width in widths), max(stdev(found[name, w]) for w in widths))
            for name in scores
        ],
        criteria=list(_judge(found, widths, list(scores))),
        draw=lambda figure: _draw(figure, found, widths, list(scores)),
    )


def _learn(lookup: Lookup, updates: int) -> float:
    """Train on fresh examples; return the accuracy over the last ones, measured before each is learned from."""
    optimizer = torch.optim.Adam(lookup.parameters(), lr=3e-3)
    right = []
    for _ in range(updates):
        order = torch.rand(EXAMPLES, KEYS).argsort(1)[:, :SHOWN]
        shown = torch.zeros(EXAMPLES, KEYS, dtype=torch.bool).scatter_(1, order, True)
        values = torch.randint(VALUES, (EXAMPLES, KEYS))
        asked = order[:, 0]
        answer = values.gather(1, asked[:, None])[:, 0]
        logits = lookup(asked, shown, values)
        optimizer.zero_grad()
        cross_entropy(logits, answer).backward()
        optimizer.step()
        right.append(float((logits.argmax(1) == answer).float().mean()))
    return fmean(right[-JUDGED:])


def _judge(found: Mapping[tuple[str, int], list[float]], widths: Sequence[int], scores: list[str]) -> list[Criterion]:
    least, most = widths[0], widths[-1]

    def fall(first: tuple[str, int], second: tuple[str, int]) -> tuple[float, float]:
        return fmean(found[first]) - fmean(found[second]), 3 * math.hypot(_error(found[first]), _error(found[second]))

    plain, *others = scores
    criteria = [
        at_least(f"{plain}: fall of accuracy from d = {least} to {most}", *fall((plain, least), (plain, most))),
        at_least(f"{plain} behind {others[0]} at d = {most}", *fall((others[0], most), (plain, most))),
    ]
    for name in others:
        criteria.append(at_most(f"{name}: fall from d = {least} to {most}", *fall((name, least), (name, most))))
        right = min(fmean(found[name, width]) for width in widths if width >= NARROW)
        criteria.append(at_least(f"{name}: accuracy from d = {NARROW} on", right, 0.99))
    return criteria


def _error(accuracies: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    mean = min(max(fmean(accuracies), 0.01), 0.99)
    counted = math.sqrt(mean * (1 - mean) / (EXAMPLES * JUDGED))
    return max(stdev(accuracies), counted) / math.sqrt(len(accuracies))


def _draw(
    figure: Figure, found: Mapping[tuple[str, int], list[float]], widths: Sequence[int], scores: Sequence[str]
) -> None:
    axes = figure.subplots()
    for name in scores:
        means = [fmean(found[name, width]) for width in widths]
        spread = [stdev(found[name, width]) for width in widths]
        axes.errorbar(widths, means, yerr=spread, fmt="o-", capsize=3, label=name)
    axes.axhline(1 / VALUES, color="black", linestyle=":", label="chance")
    axes.set(xscale="log", xticks=widths, xlabel="width of queries and keys d", ylabel="accuracy", ylim=(0, 1.02))
    axes.set(title="a lookup that must be learned", xticklabels=[str(width) for width in widths])
    axes.legend()
