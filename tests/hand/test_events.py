"""Alarms and events that a pencil checks; budgets; and that random scores gain nothing without point adjustment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.commands.anomalies import event_rows, read_windows
from regard.core.predictor_interface import PredictionInterrupted
from regard.core.task import find_task
from regard.data.series_files import SeriesColumns, read_table
from regard.data.time_series import Series
from regard.errors import ConfigError, DataError
from regard.metrics.events import EventMetrics, alarm_rows, event_metrics, threshold
from regard.tasks.forecasting.anomalies import Anomalies, ScoredSeries, alarms_for, rows_in, score_series
from regard.testing import TaskCase


def test_alarms_are_the_highest_scores_apart_from_each_other() -> None:
    scores = np.array([0.0, 5.0, 4.0, 0.0, 3.0, np.nan, -np.inf, 2.0])
    assert alarm_rows(scores, 2, 1) == [1, 4]  # row 2 is next to a higher one
    assert alarm_rows(scores, 2, 0) == [1, 2] and alarm_rows(scores, 0, 1) == [] == alarm_rows(scores[5:7], 3, 0)
    assert threshold(scores, [1, 4]) == 3.0 and threshold(scores, []) == np.inf


def test_an_event_is_found_once_and_its_delay_is_that_of_its_first_alarm() -> None:
    metrics = event_metrics([1, 12, 14, 30], [(10, 20), (40, 50)], days=4.0)
    assert metrics == EventMetrics(2, 1, 3, 2, 4.0, (2,))
    assert (metrics.recall, metrics.false_alarms_per_day) == (0.5, 0.5)
    assert metrics.precision == pytest.approx(1 / 3)
    both = metrics.joined(EventMetrics(1, 1, 1, 0, 6.0, (0,)))
    assert both == EventMetrics(3, 2, 4, 2, 10.0, (2, 0)) and both.recall == pytest.approx(2 / 3)


def scored(rows: int = 240, first: int = 48) -> ScoredSeries:
    """Hourly rows, whose scores are their numbers."""
    text = "date,load\n" + "".join(f"2020-01-{1 + r // 24:02d} {r % 24:02d}:00:00,{r}\n" for r in range(rows))
    (series,) = read_table(text, "metrics/load.csv", SeriesColumns())
    scores = np.where(np.arange(rows) < first, -np.inf, np.arange(rows, dtype=float))
    nothing = np.zeros((rows, 1))
    return ScoredSeries(series, first, nothing, scores, np.zeros(rows, np.int64), np.ones(1))


@pytest.mark.parametrize(
    ("budget", "alarms"), [("1/day", 8), ("2/day", 16), ("1/week", 1), ("1/4 days", 2), ("1/64 rows", 3), ("0/day", 0)]
)
def test_a_budget_is_the_number_of_alarms_in_the_scored_time(budget: str, alarms: int) -> None:
    result = alarms_for(scored(), budget)  # 192 rows of 8 days
    assert len(result.alarms) == alarms
    if alarms:
        assert result.alarms[-1].row == 239 and result.threshold == min(alarm.score for alarm in result.alarms)


@pytest.mark.parametrize("budget", ["often", "1", "1/", "1/0 days", "-1/day", "1/fortnight", "1/day/day"])
def test_a_wrong_budget_is_refused(budget: str) -> None:
    with pytest.raises(ConfigError, match="cannot parse the budget"):
        alarms_for(scored(), budget)


def test_lines_have_a_budget_per_rows() -> None:
    assert rows_in("3/1000 rows", 2000) == 6
    with pytest.raises(ConfigError, match="lines have no dates"):
        rows_in("1/day", 10)


def test_events_are_rows_from_their_start_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text('{"load.csv": [["2020-01-01 01:00:00", "2020-01-01 05:00:00"], '
                    '["2020-01-03 00:00:00.000000", "2020-01-03 02:30:00"]]}')  # fmt: skip
    result = Anomalies(scored(), [], 0.0)
    assert event_rows(result, read_windows(path)) == [(48, 51)]  # the first one is not scored
    for wrong in ("[]", "{", '{"load.csv": [1]}'):
        path.write_text(wrong)
        with pytest.raises(DataError, match="cannot read the events"):
            read_windows(path)


@pytest.fixture(scope="module")
def forecaster() -> Any:
    return TaskCase(find_task("forecasting"), "forecasting").predictor


def wave(rows: int = 200) -> np.ndarray:
    time = np.arange(rows)
    return np.stack([np.sin(2 * np.pi * time / 4), 3 - np.sin(2 * np.pi * time / 4)], 1).astype(np.float32)


def series_of(values: np.ndarray) -> Series:
    return Series("s", ("load", "heat"), values, values[:, :0], values[:, :0], file="s.csv")


def test_the_score_is_the_distance_from_the_forecast_of_the_row_before(forecaster: Any) -> None:
    values = wave()
    values[150, 1] += 50
    result = alarms_for(score_series(forecaster, series_of(values)), "1/1000 rows")
    scored = score_series(forecaster, series_of(values))
    assert scored.first == 30 and bool(np.isinf(scored.scores[:30]).all())
    assert int(scored.scores.argmax()) == 150 and scored.targets[150] == 1
    window = values[150 - 8 : 150].tolist()
    forecast = forecaster([window])[0].columns["channel 2"][0]
    residuals = np.abs(values - scored.expected)[8:30, 1]
    assert scored.expected[150, 1] == pytest.approx(forecast, abs=1e-4)
    assert scored.scores[150] == pytest.approx(
        abs(values[150, 1] - forecast) / (1.4826 * np.median(residuals)), rel=1e-3
    )
    assert result.alarms == []  # 170 rows allow 0.17 alarms


def test_lasting_scores_are_means_and_distances_from_the_median(forecaster: Any) -> None:
    values = wave()
    values[150:160, 0] += 50
    plain, mean = (score_series(forecaster, series_of(values), over=over) for over in (1, 4))
    own = np.abs(values - plain.expected) / plain.deviation
    expected = np.lib.stride_tricks.sliding_window_view(own[8:], 4, 0).mean(2).max(1)
    assert mean.scores[30:] == pytest.approx(expected[30 - 11 :])
    assert bool(np.isnan(mean.deviation).all())  # a band would be that of one row
    level = score_series(forecaster, series_of(values), over=4, level=True)
    surprise = np.lib.stride_tricks.sliding_window_view(own[8:], 4, 0).mean(2)[150 - 11]
    first = [np.mean(own[max(row - 3, 8) : row + 1], 0) for row in range(8, 30)]
    distance = np.abs(values - np.median(values[:30], 0))
    parts = surprise / np.sqrt(np.mean(np.square(first), 0)) + (distance / np.sqrt((distance[:30] ** 2).mean(0)))[150]
    assert level.scores[150] == pytest.approx(parts.max(), rel=1e-5)


@pytest.mark.parametrize("how", [{}, {"over": 5}, {"over": 3, "level": True}])
def test_a_score_does_not_depend_on_later_rows(forecaster: Any, how: dict[str, Any]) -> None:
    values = wave()
    other = values.copy()
    other[120:] += 7
    one, two = (score_series(forecaster, series_of(x), **how) for x in (values, other))
    assert one.scores[:120] == pytest.approx(two.scores[:120])
    assert one.scores[121] != pytest.approx(two.scores[121])


def test_a_series_without_enough_rows_is_refused(forecaster: Any) -> None:
    with pytest.raises(DataError, match="has 12 rows"):
        score_series(forecaster, series_of(wave(12)))


def test_an_interrupted_scoring_stops(forecaster: Any) -> None:
    with pytest.raises(PredictionInterrupted):
        score_series(forecaster, series_of(wave()), lambda: True)
