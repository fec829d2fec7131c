"""Significance of the difference between two systems: paired bootstrap resampling (Koehn 2004).

The test set is resampled 1,000 times with replacement, with the same lines for both systems. p is the share of samples
whose difference, minus its mean, exceeds the difference on the whole set. sacreBLEU's metrics use sacreBLEU's own test
and seed; wer, per and ROUGE use the same test over items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.errors import DataError
from regard.metrics.text import METRICS, SACREBLEU, EvaluationSet, evaluate, item_counts, sacrebleu_parts

RESAMPLES = 1_000
SEED = 12_345  # sacreBLEU's default


class BootstrapDifference(NamedTuple):
    """Comparison of one metric between two systems."""

    metric: str
    value: float  # of the first system, percent
    other: float  # of the second system
    p: float  # probability of a difference this large by chance


class OnlyRight(NamedTuple):
    """The numbers of targets that only this model, or only the other one, predicts."""

    this: int
    other: int

    def p_value(self) -> float:
        """Return the p-value of McNemar's test (1947), exact: the smaller number is binomial with probability ½."""
        from scipy.stats import binomtest

        total = self.this + self.other
        return float(binomtest(self.this, total).pvalue) if total else 1.0


def only_exact(outputs: Sequence[str], other_outputs: Sequence[str], examples: EvaluationSet) -> OnlyRight:
    """Return for how many distinct sources only one system's output equals a reference, ignoring white space."""
    (own, other) = (item_counts("wer", *_with_references("wer", lines, examples)) for lines in (outputs, other_outputs))
    pairs = [(wrong, other_wrong) for (wrong, _), (other_wrong, _) in zip(own, other, strict=True)]
    return OnlyRight(pairs.count((0, 1)), pairs.count((1, 0)))


def compare_outputs(
    metric: str,
    outputs: Sequence[str],
    baseline_outputs: Sequence[str],
    examples: EvaluationSet,
    *,
    language: str | None = None,
) -> BootstrapDifference:
    """Compare a metric of two systems' outputs, one per line of ``examples``. DataError if their numbers differ."""
    if not len(outputs) == len(baseline_outputs) == len(examples.sources):
        counts = f"{len(outputs):,}, {len(baseline_outputs):,} and {len(examples.sources):,}"
        raise DataError("compared outputs need one line per line of the test set", why=f"the numbers are {counts}")
    if list(outputs) == list(baseline_outputs):  # for equal outputs, the test would report significance
        value = evaluate(metric, *_with_references(metric, outputs, examples), language=language).value
        return BootstrapDifference(metric, value, value, 1.0)
    if metric not in SACREBLEU:
        counts_of_systems = (
            np.array(item_counts(metric, *_with_references(metric, lines, examples)), np.float64)
            for lines in (outputs, baseline_outputs)
        )
        return _by_items(metric, *counts_of_systems)
    return _by_sacrebleu(metric, outputs, baseline_outputs, examples, language)


def _with_references(metric: str, lines: Sequence[str], examples: EvaluationSet) -> tuple[list[str], list[list[str]]]:
    """Return outputs and references by line, or by item for ``by_source`` (with the output of its first line)."""
    if not METRICS[metric].by_source:
        return list(lines), examples.references
    items = examples.by_source()
    texts = dict(zip(reversed(examples.sources), reversed(lines), strict=True))
    return [texts[source] for source in items.sources], items.references


def _by_sacrebleu(
    metric: str, outputs: Sequence[str], baseline_outputs: Sequence[str], examples: EvaluationSet, language: str | None
) -> BootstrapDifference:
    with sacrebleu_parts(metric, examples.references, language) as (scorer, streams):
        from sacrebleu.significance import PairedTest

        systems: list[tuple[str, Sequence[str]]] = [
            ("other", baseline_outputs),
            ("ours", outputs),
        ]  # PairedTest treats the first as the baseline
        test = PairedTest(systems, {metric: scorer}, streams, test_type="bs", n_samples=RESAMPLES)
        scores: dict[str, list[Any]] = test()[1]
    baseline, system = next(column for name, column in scores.items() if name != "System")
    return BootstrapDifference(metric, float(system.score), float(baseline.score), float(system.p_value))


def _by_items(
    metric: str, counts: npt.NDArray[np.float64], baseline_counts: npt.NDArray[np.float64]
) -> BootstrapDifference:
    """Run the test over items; the counts are (items, 2): errors and totals, or other terms of a mean."""
    chosen = np.random.default_rng(SEED).choice(len(counts), size=(RESAMPLES, len(counts)), replace=True)
    value, other = _rate(counts), _rate(baseline_counts)
    drawn = np.array([abs(_rate(counts[rows]) - _rate(baseline_counts[rows])) for rows in chosen])
    if not drawn.any():
        return BootstrapDifference(metric, value, other, 1.0)
    more = np.count_nonzero(drawn - drawn.mean() > abs(value - other))
    return BootstrapDifference(metric, value, other, (int(more) + 1) / (RESAMPLES + 1))


def _rate(counts: npt.NDArray[np.float64]) -> float:
    errors, total = counts.sum(0)
    return float(100 * errors / total)
