"""Analysis of errors from the outcomes of an evaluation: the worst examples, confusions, and metrics of slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import erfc
from statistics import fmean

import numpy as np

from regard.core.outcomes import OutcomeRow
from regard.core.task import MetricTable
from regard.metrics.significance import OnlyRight

SHOWN = 5  # examples, and pairs of labels
EXACT, DRAWN, DRAWS = 12, 1_000, 10_000  # of the permutation test


def worst_rows(rows: Iterable[OutcomeRow], number: int = SHOWN) -> list[OutcomeRow]:
    """Return the rows with the highest losses, the highest first; of texts, those with the lowest chrF."""
    rows = [*rows]
    if any(row.outcome.chrf is not None for row in rows):
        return sorted(rows, key=lambda row: (row.outcome.chrf or 0.0, -(row.loss or 0.0)))[:number]
    counted = [row for row in rows if row.loss is not None]
    return sorted(counted, key=lambda row: -(row.loss or 0.0))[:number]


def confusions(rows: Iterable[OutcomeRow], number: int = SHOWN) -> MetricTable:
    """Return the most frequent pairs of a target and another prediction; without rows for numbers and texts."""
    pairs = Counter(
        (row.outcome.target, row.outcome.prediction)
        for row in rows if row.outcome.error is None and row.outcome.chrf is None and not row.is_right
    )  # fmt: skip
    best = sorted(pairs.items(), key=lambda item: (-item[1], *map(str, item[0])))[:number]
    return MetricTable(("target", "prediction", "count"), tuple((*pair, count) for pair, count in best))


def slices(rows: Sequence[OutcomeRow]) -> MetricTable:
    """Return the number of rows, and accuracy or mean absolute error, and loss, of parts of the rows.

    The parts are the quartiles of the length of the input, and rare and common classes. Rare classes are the least
    frequent ones that together have at most half of the rows. Texts have no classes; their metrics are the share of
    exact ones, and the mean chrF of the lines. A division into a single part is omitted.
    """
    if any(row.outcome.chrf is not None for row in rows):
        texts = tuple((name, len(part), *_text_figures(part)) for name, part in _by_length(rows))
        return MetricTable(("slice", "n", "exact", "chrf", "loss"), texts)
    of_numbers = any(row.outcome.error is not None for row in rows)
    parts = [*_by_length(rows), *([] if of_numbers else _by_frequency(rows))]
    metric = "mae" if of_numbers else "accuracy"
    return MetricTable(
        ("slice", "n", metric, "loss"), tuple((name, len(part), *_figures(part)) for name, part in parts)
    )


def _figures(rows: Sequence[OutcomeRow]) -> tuple[float, float]:
    errors = [float(row.is_right) if row.outcome.error is None else abs(row.outcome.error) for row in rows]
    losses = [row.loss for row in rows if row.loss is not None]
    return fmean(errors), fmean(losses) if losses else float("nan")


def _text_figures(rows: Sequence[OutcomeRow]) -> tuple[float, float, float]:
    right, loss = _figures(rows)
    return right, fmean(row.outcome.chrf or 0.0 for row in rows), loss


def _by_length(rows: Sequence[OutcomeRow]) -> list[tuple[str, list[OutcomeRow]]]:
    """Return the rows by quartile of length; equal lengths are in one part."""
    bounds = np.quantile([row.length for row in rows], (0.25, 0.5, 0.75))
    parts: list[list[OutcomeRow]] = [[] for _ in range(4)]
    for row in rows:
        parts[int(np.searchsorted(bounds, row.length))].append(row)
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return []
    ends = [(min(row.length for row in part), max(row.length for row in part)) for part in parts]
    names = [f"length {low:,}" if low == high else f"length {low:,} to {high:,}" for low, high in ends]
    return [*zip(names, parts, strict=True)]


def _by_frequency(rows: Sequence[OutcomeRow]) -> list[tuple[str, list[OutcomeRow]]]:
    """Return the rows of rare classes and of common ones; nothing if no class is rare."""
    counts = Counter(row.outcome.target for row in rows)
    limit, below = 0, 0
    for count in sorted({*counts.values()}):
        below += sum(other for other in counts.values() if other == count)
        if 2 * below > len(rows):
            break
        limit = count
    rare = [row for row in rows if counts[row.outcome.target] <= limit]
    common = [row for row in rows if counts[row.outcome.target] > limit]
    parts = (f"rare classes (≤ {limit:,})", rare), (f"common classes (> {limit:,})", common)
    return [*parts] if rare else []


def only_right(rows: Sequence[OutcomeRow], other_rows: Sequence[OutcomeRow]) -> OnlyRight | None:
    """Return how many targets only one of two models predicts; None for numbers.

    The rows have the same targets.
    """
    if any(row.outcome.error is not None for row in rows):
        return None
    pairs = Counter((row.is_right, other.is_right) for row, other in zip(rows, other_rows, strict=True))
    return OnlyRight(pairs[True, False], pairs[False, True])


def by_value(
    pairs: Iterable[tuple[OutcomeRow, OutcomeRow]], number: Callable[[OutcomeRow], float | None]
) -> list[float]:
    """Return the summed difference of a number between two models for each value, which may have several targets.

    Args:
        pairs: the rows of both models for each target.
        number: a number of a row; targets for which it is None are left out.
    """
    sums: dict[int, float] = {}
    for row, other in pairs:
        value, other_value = number(row), number(other)
        if value is not None and other_value is not None:
            sums[row.example] = sums.get(row.example, 0.0) + value - other_value
    return [*sums.values()]


def sign_flip_p(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of a paired permutation test: each difference may have either sign (Fisher 1935).

    It is exact for up to ``EXACT`` differences other than 0. For up to ``DRAWN`` it uses ``DRAWS`` draws with a fixed
    seed, and beyond that the normal approximation. The differences are independent; 1 without any.
    """
    values = np.array([value for value in differences if value], np.float64)
    number, total = len(values), abs(values.sum())
    if number > DRAWN:
        return erfc(total / float(np.sqrt(2 * (values**2).sum())))
    if number <= EXACT:
        bits = np.arange(1 << number)[:, None] >> np.arange(number) & 1
    else:
        bits = np.random.default_rng(0).integers(0, 2, (DRAWS, number))
    as_large = np.abs((2 * bits - 1) @ values) >= total * (1 - 1e-9)
    added = int(number > EXACT)  # the observed signs
    return float((as_large.sum() + added) / (len(bits) + added))
