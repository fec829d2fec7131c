"""Anomalies of series: rows whose values are far from the forecast of the row before."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.predictor_interface import PredictionInterrupted
from regard.core.task import not_interrupted
from regard.core.wording import pluralize
from regard.data.time_series import Series, SeriesWindow
from regard.errors import ConfigError, DataError
from regard.metrics.events import Scores, alarm_rows, threshold
from regard.tasks.forecasting.parts import borders_of

BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*(minute|hour|day|week|month|year|row)s?")
DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1.0, "week": 7.0, "month": 365.25 / 12, "year": 365.25}
REFERENCE = 0.15  # of the rows of a series without a validation part: those that measure its usual residuals
QUIET = 0.01  # of the scored rows: alarms that are nearer are one alarm
BATCH = 256  # windows


class ScoredSeries(NamedTuple):
    """The one-step forecasts of a series and their scores.

    Attributes:
        series: the series.
        first: the first scored row.
        expected: (rows, targets) the forecast of each row, NaN before the first one.
        scores: (rows,) the largest score over the targets; −∞ for rows that are not scored.
        targets: (rows,) the target with the largest score.
        deviation: (targets,) the usual residual: 1.4826 times the median of its absolute value; NaN if scores are not
            in units of it.
    """

    series: Series
    first: int
    expected: npt.NDArray[np.float64]
    scores: Scores
    targets: npt.NDArray[np.int64]
    deviation: npt.NDArray[np.float64]

    @property
    def days(self) -> float:
        """Length of the scored rows; in rows, if the series has no dates."""
        if self.series.start is None or not len(self.series):
            return float(len(self.series) - self.first)
        begin, end = self.series.seconds([self.first, len(self.series) - 1])
        return max(float(end - begin) / 86_400, 1e-9)


class Alarm(NamedTuple):
    """An alarm: the row, its date, the target, its value, the forecast of it, and the score."""

    row: int
    date: str
    target: str
    value: float
    expected: float
    score: float


class Anomalies(NamedTuple):
    """The alarms of one series, and the score from which they were raised."""

    scored: ScoredSeries
    alarms: list[Alarm]
    threshold: float


def score_series(
    predictor: Any, series: Series, interrupted: Callable[[], bool] = not_interrupted, *, over: int = 1,
    level: bool = False,
) -> ScoredSeries:  # fmt: skip
    """Return the scores |value − forecast| / usual residual of all rows after the first look-back.

    ``over`` averages the score of a row with those of the rows before it, for faults that last; ``level`` adds the
    distance of the value from the median of the first rows, for values that stay where they rarely are. Both parts then
    are in units of their root mean square over the rows that measure the usual residuals.

    The usual residual is measured on the validation part of a series of the training. Of other series, the first 15 %
    of the rows measure it, and are not scored.

    Raises:
        DataError: if the series is too short.
        PredictionInterrupted: if ``interrupted``, called before each batch, returned True.
    """
    back, ahead = predictor.config.data.look_back, predictor.config.data.horizon
    begin, first = _reference(predictor, series)
    begin = max(begin, back)
    if first <= begin or len(series) <= first:
        what = f"the series {series.name} has {pluralize(len(series), 'row')}"
        why = f"the model reads {back} before each, and those before {first + 1:,} measure the usual residuals"
        raise DataError(what, where=series.file, why=why, help="score a longer table")
    expected = np.full(series.values.shape, np.nan)
    windows = [SeriesWindow(series, end, back, ahead) for end in range(begin, len(series))]
    for start in range(0, len(windows), BATCH):
        if interrupted():
            raise PredictionInterrupted
        part = windows[start : start + BATCH]
        for window, row in zip(part, _first_steps(predictor, part), strict=True):
            expected[window.end] = row
    residual = np.abs(series.values - expected)
    deviation = _usual(residual[begin:first])
    scores = averaged(residual / deviation, over)
    if level:
        scores = with_level(scores, series, begin, first)
    scores[:first] = -np.inf
    whole = np.where(np.isfinite(scores), scores, -np.inf)
    band = deviation if over == 1 and not level else np.full_like(deviation, np.nan)
    return ScoredSeries(series, first, expected, whole.max(1), whole.argmax(1), band)


def averaged(scores: npt.NDArray[np.float64], over: int) -> npt.NDArray[np.float64]:
    """Return the mean of each row and of up to ``over`` − 1 rows before it, without missing ones."""
    if over == 1:
        return scores
    known = np.isfinite(scores)
    sums, counts = (np.cumsum(x, 0, dtype=np.float64) for x in (np.where(known, scores, 0.0), known))
    before = [np.concatenate([np.zeros_like(x[:over]), x[:-over]])[: len(x)] for x in (sums, counts)]
    return np.where(known, (sums - before[0]) / np.maximum(counts - before[1], 1), np.nan)


def with_level(scores: npt.NDArray[np.float64], series: Series, begin: int, first: int) -> npt.NDArray[np.float64]:
    """Return scores plus the distance from the median of the rows before ``first``, each in its usual unit."""
    distance = np.abs(series.values - np.nanmedian(series.values[:first], 0))
    return _in_units(scores, begin, first) + _in_units(distance, 0, first)


def _in_units(scores: npt.NDArray[np.float64], begin: int, end: int) -> npt.NDArray[np.float64]:
    """Return scores in units of their root mean square over a range of rows."""
    unit = np.sqrt(np.nanmean(np.square(scores[begin:end]), 0))
    return scores / np.where(unit > 1e-9, unit, 1.0)


def _first_steps(predictor: Any, windows: Sequence[SeriesWindow]) -> npt.NDArray[np.float64]:
    """Return (windows, targets) the forecasts of the first time step of each window."""
    names = windows[0].series.targets
    forecasts = predictor(list(windows), horizon=1)
    return np.array([[forecast.columns[name][0] for name in names] for forecast in forecasts])


def _reference(predictor: Any, series: Series) -> tuple[int, int]:
    """Return the rows whose residuals are usual: the validation part of a series of the training, or the first rows."""
    data = predictor.config.data
    if series.name in predictor.codec.answer.scales.scales and data.test_part(series.file):
        valid, test, _ = borders_of(series, data)
        return valid, test
    return 0, max(int(REFERENCE * len(series)), 2 * data.look_back)


def _usual(residual: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the robust deviation of each column; of a column that is forecast exactly, that of its other residuals."""
    robust = 1.4826 * np.nanmedian(residual, 0)
    mean = np.nanmean(residual, 0)
    return np.where(robust > 1e-9, robust, np.where(mean > 0, mean, 1.0))


def alarms_for(scored: ScoredSeries, budget: str) -> Anomalies:
    """Return the alarms of a series within a budget of false alarms such as ``1/week`` or ``3/1000 rows``.

    If no row were unusual, all alarms would be false: the budget is therefore the number of alarms. They are the
    highest scores, and the threshold is the lowest of them.

    Raises:
        ConfigError: if the budget cannot be parsed.
    """
    number = round(alarms_in(budget, scored))
    quiet = max(int(QUIET * (len(scored.series) - scored.first)), 1)
    rows = alarm_rows(scored.scores, number, quiet)
    series = scored.series
    alarms = [
        Alarm(
            row, series.labels([row])[0], series.targets[target := int(scored.targets[row])],
            float(series.values[row, target]), float(scored.expected[row, target]), float(scored.scores[row]),
        )
        for row in rows
    ]  # fmt: skip
    return Anomalies(scored, alarms, threshold(scored.scores, rows))


def alarms_in(budget: str, scored: ScoredSeries) -> float:
    """Return the number of alarms that a budget allows on the scored rows of a series."""
    count, size, unit = _parse(budget)
    if unit == "row":
        return rows_in(budget, len(scored.series) - scored.first)
    if scored.series.start is None:
        why = "the series has no dates"
        raise ConfigError(f"the budget {budget} is per {unit}", where="false_alarms", why=why, help="1/1000 rows")
    return count * scored.days / (size * DAYS[unit])


def rows_in(budget: str, rows: int) -> float:
    """Return the number of alarms that a budget per rows allows. Raises ConfigError for a budget per time."""
    count, size, unit = _parse(budget)
    if unit != "row":
        raise ConfigError(
            f"the budget {budget} is per {unit}, and lines have no dates", where="false_alarms", help="1/1000 rows"
        )
    return count * rows / size


def _parse(budget: str) -> tuple[float, float, str]:
    """Return the number, the size and the unit of a budget such as ``3/1000 rows``."""
    parsed = BUDGET.fullmatch(budget.strip())
    if parsed is None or float(parsed[2] or 1) == 0:
        help = "write a number per time or rows: 1/week, 2/day, 3/1000 rows"
        raise ConfigError(f"cannot parse the budget of false alarms {budget!r}", where="false_alarms", help=help)
    return float(parsed[1]), float(parsed[2] or 1), parsed[3]
