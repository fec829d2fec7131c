"""Point adjustment of anomaly scores.

Claim: if an event counts as wholly detected at one alarm in it, random scores reach nearly the F1 of a detector (Kim et
al. 2022, §3; Wu & Keogh 2021). Counted by event, with few alarms, they do not.

Measured: 40 generated series of 4,000 normal numbers, each with two events of ``length`` rows, in which the mean is
shifted by two deviations. The scores are random numbers, or the distance of each row from the mean. F1 is the best over
all thresholds, as in papers that adjust. The recall of events is that of two alarms for each series.

Thresholds: an event covers 7.5 % of the rows, so the F1 of random rows is at most 0.15. An alarm in a hundred rows hits
an event of 150 rows with probability 0.78, so adjustment adds at least 0.4. Two random alarms hit few events: the
detector's recall is at least 0.2 higher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.metrics.events import alarm_rows, event_metrics
from regard.studies.study import Findings, Report, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHIFT = 2.0  # of the mean in an event, in deviations of the noise
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
Windows = list[tuple[int, int]]


def run(*, seed: int, minimal: bool, report: Report, length: int = 150) -> Findings:
    """Compare raw, adjusted and event-wise measures of random scores and of a detector; events have ``length`` rows."""
    series, rows = (4, 2_000) if minimal else (40, 4_000)
    rng = np.random.default_rng(seed)
    values, events = zip(*(_series(rng, rows, length) for _ in range(series)), strict=True)
    scores = {
        "random": [rng.random(rows) for _ in values],
        "distance from the mean": [np.abs(own) for own in values],
    }
    table = []
    for name, own in scores.items():
        raw, adjusted = _best_f1(own, events, adjust=False), _best_f1(own, events, adjust=True)
        table.append((name, raw, adjusted, _recall(own, events)))
        report(len(table) / len(scores))
    (_, raw, adjusted, recall), (*_, other_adjusted, other_recall) = table
    return Findings(
        columns=("scores", "F1 of rows", "F1 after point adjustment", "recall of events, one alarm each"),
        rows=[*table],
        criteria=[
            at_most("random: F1 of rows", raw, 0.3),
            at_least("random: gain by point adjustment", adjusted - raw, 0.4),
            at_most("random: part of the detector's adjusted F1 that is missing", other_adjusted - adjusted, 0.4),
            at_most("random: recall of events", recall, 0.5),
            at_least("detector: recall of events above that of random scores", other_recall - recall, 0.2),
        ],
        draw=lambda figure: _draw(figure, table),
    )


def _series(rng: np.random.Generator, rows: int, length: int) -> tuple[Numbers, Windows]:
    """Return noise with two events, and their rows."""
    values = rng.normal(size=rows)
    starts = (rows // 4 + int(rng.integers(rows // 8)), 5 * rows // 8 + int(rng.integers(rows // 8)))
    for start in starts:
        values[start : start + length] += SHIFT
    return values, [(start, start + length) for start in starts]


def _best_f1(scores: list[Numbers], events: tuple[Windows, ...], *, adjust: bool) -> float:
    """Return the best F1 of rows over all thresholds."""
    best = 0.0
    for quantile in np.concatenate([np.linspace(0.5, 0.99, 25), 1 - np.geomspace(1e-2, 5e-4, 15)]):
        true_positives = predicted = actual = 0
        for own, windows in zip(scores, events, strict=True):
            flags: Flags = own > np.quantile(own, quantile)
            truth = np.zeros(len(own), bool)
            for begin, end in windows:
                truth[begin:end] = True
                if adjust and flags[begin:end].any():
                    flags[begin:end] = True
            true_positives += int((flags & truth).sum())
            predicted, actual = predicted + int(flags.sum()), actual + int(truth.sum())
        best = max(best, 2 * true_positives / max(predicted + actual, 1))
    return best


def _recall(scores: list[Numbers], events: tuple[Windows, ...]) -> float:
    """Return the share of events that two alarms for each series find."""
    detected = 0
    for own, windows in zip(scores, events, strict=True):
        smooth = np.convolve(own, np.ones(20) / 20, mode="same")  # of a score, the mean of 20 rows
        detected += event_metrics(alarm_rows(smooth, 2, 200), windows, 1.0).detected
    return detected / sum(map(len, events))


def _draw(figure: Figure, table: list[tuple[str, float, float, float]]) -> None:
    axes = figure.subplots()
    place = np.arange(len(table))
    for number, name in enumerate(("F1 of rows", "after point adjustment", "recall of events"), start=1):
        axes.bar(place + 0.25 * (number - 2), [row[number] for row in table], 0.22, label=name)
    axes.set_xticks(place, [row[0] for row in table])
    axes.set(
        ylim=(0, 1.05), xlabel="scores", ylabel="F1 or recall", title="random scores before and after point adjustment"
    )
    axes.legend()
