"""Significance of the difference between two systems: paired bootstrap resampling (Koehn 2004).

The test set is resampled 1,000 times, with replacement, the same lines for both systems. p is the share of samples in
which their difference, minus its mean, exceeds the difference on the whole set: sacreBLEU's own test and seed for
sacreBLEU's metrics, and the same over items for wer, per and ROUGE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.metrics.text import METRICS, SACREBLEU, EvaluationSet, evaluate, item_counts, sacrebleu_parts

RESAMPLES = 1_000
SEED = 12_345  # sacreBLEU's


class BootstrapDifference(NamedTuple):
    """One metric of two systems."""

    metric: str
    value: float  # of the first system, percent
    other: float  # of the second system
    p: float  # probability of so large a difference by chance


def compare_outputs(
    metric: str, outputs: Sequence[str], others: Sequence[str], examples: EvaluationSet, *, language: str | None = None
) -> BootstrapDifference:
    """Compare one metric of two systems' outputs, one a line of ``examples``; DataError where their numbers differ."""
    if not len(outputs) == len(others) == len(examples.sources):
        counts = f"{len(outputs):,}, {len(others):,} and {len(examples.sources):,}"
        raise DataError("outputs to compare need a line for each line of the test set", why=f"there are {counts}")
    if list(outputs) == list(others):  # for equal outputs the test would report significance
        value = evaluate(metric, *_with_references(metric, outputs, examples), language=language).value
        return BootstrapDifference(metric, value, value, 1.0)
    if metric not in SACREBLEU:
        counted = (item_counts(metric, *_with_references(metric, lines, examples)) for lines in (outputs, others))
        ours, theirs = (np.array(found, np.float64) for found in counted)
        return _by_items(metric, ours, theirs)
    return _by_sacrebleu(metric, outputs, others, examples, language)


def _with_references(metric: str, lines: Sequence[str], examples: EvaluationSet) -> tuple[list[str], list[list[str]]]:
    """Outputs and their references, by line, or by item (with its first line's output) for ``by_source``."""
    if not METRICS[metric].by_source:
        return list(lines), examples.references
    items = examples.by_source()
    texts = dict(zip(reversed(examples.sources), reversed(lines), strict=True))
    return [texts[source] for source in items.sources], items.references


def _by_sacrebleu(
    metric: str, outputs: Sequence[str], others: Sequence[str], examples: EvaluationSet, language: str | None
) -> BootstrapDifference:
    with sacrebleu_parts(metric, examples.references, language) as (scorer, streams):
        from sacrebleu.significance import PairedTest

        systems: list[tuple[str, Sequence[str]]] = [("other", others), ("ours", outputs)]  # the first is the baseline
        test = PairedTest(systems, {metric: scorer}, streams, test_type="bs", n_samples=RESAMPLES)
        scores: dict[str, list[Any]] = test()[1]
    baseline, ours = next(column for name, column in scores.items() if name != "System")
    return BootstrapDifference(metric, float(ours.score), float(baseline.score), float(ours.p_value))


def _by_items(metric: str, ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]) -> BootstrapDifference:
    """The test over items; ``ours`` and ``theirs`` are (items, 2): errors and totals, or what else a mean is of."""
    chosen = np.random.default_rng(SEED).choice(len(ours), size=(RESAMPLES, len(ours)), replace=True)
    value, other = _rate(ours), _rate(theirs)
    drawn = np.array([abs(_rate(ours[rows]) - _rate(theirs[rows])) for rows in chosen])
    if not drawn.any():
        return BootstrapDifference(metric, value, other, 1.0)
    more = np.count_nonzero(drawn - drawn.mean() > abs(value - other))
    return BootstrapDifference(metric, value, other, (int(more) + 1) / (RESAMPLES + 1))


def _rate(counts: npt.NDArray[np.float64]) -> float:
    errors, total = counts.sum(0)
    return float(100 * errors / total)
