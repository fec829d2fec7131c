"""Effect of the width of keys on a learned score.

Claim: for small d_k additive and dot-product attention perform similarly; for large d_k additive attention outperforms
the dot product without scaling, and 1/√d_k counteracts that (Vaswani et al. 2017, §3.2.1). In translation, an unscaled
multiplicative score fell from 22.33 to 18.22 BLEU at width 1024; an additive score did not (Britz et al. 2017, §4.4).

Measured: a learned lookup. Each example has 16 of 64 keys, each with one of 16 values, and queries one key. Queries and
keys are tables that begin with normal values. Adam trains them and the parameters of the score (learning rate 3e-3, 600
updates of 64 examples). Values are embedded and projected linearly. The accuracy is that of the last 50 updates, each
on new examples, as a mean over seeds. Chance is 1/16.

Thresholds: a fall of accuracy counts if it exceeds three standard errors of the difference. The spread between seeds is
measured, and is at least the sampling error of the examples. The unscaled product must fall by more than that from the
smallest width to the largest. At the largest width, it must be behind the scaled product. Scaled and additive scores
must not fall by that much. From width 64 on, their accuracy is at least 99 %, which shows that the task can be learned.
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
from regard.core.figure import INK
from regard.studies.study import Criterion, Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS, SHOWN, VALUES = 64, 16, 16
EXAMPLES, JUDGED = 64, 50  # examples per update; last updates, whose accuracy is measured
NARROW = 64  # width from which accuracy is required; also the width of the additive score

Score = Callable[[int], Mechanism]  # width → attention
SCORES: dict[str, Score] = {
    "q·k": lambda width: Dot(scale=1.0),
    "q·k / √d": lambda width: Dot(),
    "additive": lambda width: Additive(heads=1, query_width=width, key_width=width, width=NARROW),
}


class Lookup(nn.Module):
    """A learned lookup: queries and keys of all ids, a score, and an output layer."""

    def __init__(self, score: Mechanism, width: int) -> None:
        super().__init__()
        self.query, self.key = (nn.Parameter(torch.randn(KEYS, width)) for _ in range(2))
        self.score, self.value, self.out = score, nn.Embedding(VALUES, VALUES), nn.Linear(VALUES, VALUES)

    def forward(self, requested: Tensor, shown: Tensor, values: Tensor) -> Tensor:
        """Return logits (examples, values).

        Args:
            requested: ids to look up, (examples,).
            shown: mask of the keys of each example, (examples, keys).
            values: the value of each key, (examples, keys).
        """
        mask = Matrix(torch.zeros(shown.shape).masked_fill(~shown, float("-inf")))
        query_span, key_span = (Span.of(torch.ones(1, n, dtype=torch.bool)) for n in shown.shape)
        query, key = self.query[requested][None, None], self.key[None, None]
        weights = self.score(
            query, self.score.prepare(key), key, mask.bind(query_span, key_span), need_weights=True
        ).weights
        assert weights is not None
        # All examples share the keys, so one product scores all of them; their values differ.
        value_weights = weights[0, 0, :, None] @ one_hot(values, VALUES).to(weights.dtype)
        logits: Tensor = self.out(value_weights[:, 0] @ self.value.weight)
        return logits


def run(*, seed: int, minimal: bool, report: Report, scores: Mapping[str, Score] | None = None) -> Findings:
    """Train each of ``scores`` at each width; the claim is that only "q·k" falls with the width."""
    scores = scores or SCORES
    widths, seeds, updates = ((8, 64), 2, 25) if minimal else ((8, 64, 512), 3, 600)
    accuracies: dict[tuple[str, int], list[float]] = {(name, width): [] for width in widths for name in scores}
    for done, (name, width) in enumerate(accuracies, start=1):
        for number in range(seeds):
            torch.manual_seed(1000 * seed + number)
            accuracies[name, width].append(_learn(Lookup(scores[name](width), width), updates))
        report(done / len(accuracies))
    return Findings(
        columns=("score", *(f"d = {width}" for width in widths), "spread"),
        rows=[
            (
                name,
                *(fmean(accuracies[name, width]) for width in widths),
                max(stdev(accuracies[name, w]) for w in widths),
            )
            for name in scores
        ],
        criteria=list(_judge(accuracies, widths, list(scores))),
        draw=lambda figure: _draw(figure, accuracies, widths, list(scores)),
    )


def _learn(lookup: Lookup, updates: int) -> float:
    """Train on new examples; return the accuracy of the last updates, measured before each update."""
    optimizer = torch.optim.Adam(lookup.parameters(), lr=3e-3)
    right = []
    for _ in range(updates):
        order = torch.rand(EXAMPLES, KEYS).argsort(1)[:, :SHOWN]
        shown = torch.zeros(EXAMPLES, KEYS, dtype=torch.bool).scatter_(1, order, True)
        values = torch.randint(VALUES, (EXAMPLES, KEYS))
        requested = order[:, 0]
        answer = values.gather(1, requested[:, None])[:, 0]
        logits = lookup(requested, shown, values)
        optimizer.zero_grad()
        cross_entropy(logits, answer).backward()
        optimizer.step()
        right.append(float((logits.argmax(1) == answer).float().mean()))
    return fmean(right[-JUDGED:])


def _judge(
    accuracies: Mapping[tuple[str, int], list[float]], widths: Sequence[int], scores: list[str]
) -> list[Criterion]:
    smallest, largest = widths[0], widths[-1]

    def fall(first: tuple[str, int], second: tuple[str, int]) -> tuple[float, float]:
        return fmean(accuracies[first]) - fmean(accuracies[second]), 3 * math.hypot(
            _error(accuracies[first]), _error(accuracies[second])
        )

    plain, *better = scores
    criteria = [
        at_least(
            f"{plain}: fall of accuracy from d = {smallest} to {largest}", *fall((plain, smallest), (plain, largest))
        ),
        at_least(f"{plain} behind {better[0]} at d = {largest}", *fall((better[0], largest), (plain, largest))),
    ]
    for name in better:
        criteria.append(
            at_most(f"{name}: fall from d = {smallest} to {largest}", *fall((name, smallest), (name, largest)))
        )
        right = min(fmean(accuracies[name, width]) for width in widths if width >= NARROW)
        criteria.append(at_least(f"{name}: accuracy from d = {NARROW} on", right, 0.99))
    return criteria


def _error(accuracies: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    mean = min(max(fmean(accuracies), 0.01), 0.99)
    sampling_error = math.sqrt(mean * (1 - mean) / (EXAMPLES * JUDGED))
    return max(stdev(accuracies), sampling_error) / math.sqrt(len(accuracies))


def _draw(
    figure: Figure, accuracies: Mapping[tuple[str, int], list[float]], widths: Sequence[int], scores: Sequence[str]
) -> None:
    axes = figure.subplots()
    for name in scores:
        means = [fmean(accuracies[name, width]) for width in widths]
        spread = [stdev(accuracies[name, width]) for width in widths]
        axes.errorbar(widths, means, yerr=spread, fmt="o-", capsize=3, label=name)
    axes.axhline(1 / VALUES, color=INK, linestyle=":", label="chance")
    axes.set(xscale="log", xticks=widths, xlabel="width of queries and keys d", ylabel="accuracy", ylim=(0, 1.02))
    axes.set(title="a lookup that must be learned", xticklabels=[str(width) for width in widths])
    axes.legend()
