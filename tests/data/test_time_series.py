"""Series from tables: dates, gaps, columns, covariates, and one message for each wrong table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from regard.answers.forecast_table import Forecast
from regard.data.series_arrays import encode_series, sequences
from regard.data.series_files import SeriesColumns, is_series_table, read_series, read_table
from regard.data.series_input import parse_series, series_of, series_text
from regard.data.time_series import Scales, Series, SeriesScale, SeriesWindow, TimeStep, calendar, fill_forward, windows
from regard.errors import DataError
from regard.tasks.forecasting.data_config import SeriesDataConfig

WIDE = "date,load,heat\n2020-01-01 00:00:00,1,10\n2020-01-01 01:00:00,2,\n2020-01-01 02:00:00,4,30\n"


def table(text: str, **columns: object) -> Series:
    (series,) = read_table(text, "table.csv", SeriesColumns(**columns))  # type: ignore[arg-type]
    return series


def test_a_wide_table_has_a_column_of_dates_and_series() -> None:
    series = table(WIDE)
    assert series.targets == ("load", "heat") and series.step == TimeStep(3600)
    assert series.values[:, 0].tolist() == [1, 2, 4] and np.isnan(series.values[1, 1])
    assert series.labels([0, 3]) == ["2020-01-01 00:00:00", "2020-01-01 03:00:00"]
    assert series.line(2) == 4 and series.step is not None and series.step.season == 24


def test_a_long_table_has_a_series_for_each_id() -> None:
    text = "unique_id,ds,y\na,2020-01-01,1\nb,2020-01-01,5\na,2020-01-02,2\nb,2020-01-02,6\n"
    one, other = read_table(text, "long.csv", SeriesColumns())
    assert (one.name, other.name, one.targets) == ("a", "b", ("y",))
    assert one.values.tolist() == [[1], [2]] and other.values.tolist() == [[5], [6]]


def test_missing_rows_are_filled_as_missing_values_with_their_dates() -> None:
    rows = [f"2020-01-{day:02d},{day}" for day in range(1, 21) if day != 7]
    series = table("date,y\n" + "\n".join(rows) + "\n")
    assert len(series) == 20 and np.isnan(series.values[6, 0]) and series.values[7, 0] == 8
    assert series.labels([6]) == ["2020-01-07"] and series.line(7) == 8


def test_months_have_different_lengths() -> None:
    dates = ["2019-11-30", "2019-12-31", "2020-01-31", "2020-02-29", "2020-03-31"]
    series = table("date,y\n" + "".join(f"{date},{number}\n" for number, date in enumerate(dates)))
    assert series.step == TimeStep(1, "month") and series.step.season == 12 and series.step.describe() == "monthly"
    assert len(series) == 5 and series.labels([5])[0].startswith("2020-04-")


def test_rows_after_the_last_value_hold_known_covariates_only() -> None:
    text = "date,y,holiday\n" + "".join(f"2020-01-{d:02d},{d if d < 9 else ''},{d % 2}\n" for d in range(1, 13))
    series = table(text, known=("holiday",), targets=("y",))
    assert len(series) == 8 and series.known[:, 0].tolist() == [d % 2 for d in range(1, 13)]


def test_further_columns_are_covariates_if_requested() -> None:
    series = table(WIDE, targets=("load",), past=True, calendar=("hour",))
    assert series.targets == ("load",) and series.past.shape == (3, 1) and series.known.shape == (3, 2)
    assert series.known[1] == pytest.approx([np.sin(2 * np.pi / 24), np.cos(2 * np.pi / 24)])


def test_calendar_places_are_those_of_datetime() -> None:
    moment = datetime(2021, 7, 14, 15, 30, tzinfo=UTC)
    angles = calendar(np.array([int(moment.timestamp())]), ("hour", "weekday", "day", "month"))[0]
    shares = [15.5 / 24, moment.weekday() / 7, 13 / 31, 6 / 12]
    assert angles == pytest.approx([*np.sin(2 * np.pi * np.array(shares)), *np.cos(2 * np.pi * np.array(shares))])


WRONG = {
    "no dates": ("a,b\n1,2\n", {}, "no column of dates", "table.csv"),
    "no numbers": ("date,b\n2020-01-01,x\n", {}, "no column of numbers", "table.csv:2"),
    "falls": ("date,b\n2020-01-02,1\n2020-01-01,2\n", {}, "before the one above it", "table.csv:3"),
    "repeats": ("date,b\n2020-01-01,1\n2020-01-01,2\n", {}, "repeats", "table.csv:3"),
    "mixes formats": ("date,b\n2020-01-01,1\n2020-01-02 00:00:00,2\n", {}, "cannot read the date", "table.csv:3"),
    "no date": ("date,b\nsoon,1\n", {}, "cannot read the date soon", "table.csv:2"),
    "no such year": ("date,b\n9999-12-30,1\n9999-12-31,2\n", {}, "cannot read the date 9999-12-30", "table.csv:2"),
    "text": ("date,b\n2020-01-01,1\n2020-01-02,much\n", {}, "not a finite number: much", "table.csv:3"),
    "infinite": ("date,b\n2020-01-01,1\n2020-01-02,inf\n", {}, "not a finite number", "table.csv:3"),
    "gaps": ("date,b\n2020-01-01,1\n2020-01-02,1\n2020-01-03,1\n2020-01-09,1\n", {}, "5 rows of 9 are missing", ""),
    "between": (
        "date,b\n2020-01-01,1\n2020-01-03,1\n2020-01-05,1\n2020-01-06,1\n", {}, "is between two rows", "table.csv:5"
    ),
    "cells": ("date,b\n2020-01-01,1,2\n", {}, "the row has 3 cells", "table.csv:2"),
    "empty": ("date,b\n", {}, "a header and no rows", "table.csv"),
    "no such column": ("date,b\n2020-01-01,1\n", {"known": ("c",)}, "no column 'c'", "table.csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_table_is_refused_with_its_line(name: str) -> None:
    text, columns, what, where = WRONG[name]
    with pytest.raises(DataError, match=what) as error:
        table(text, **columns)
    assert error.value.where is not None and error.value.where.endswith(where)


def test_gaps_are_accepted_on_request() -> None:
    text = "date,b\n2020-01-01,1\n2020-01-02,1\n2020-01-03,1\n2020-01-09,1\n"
    assert len(table(text, max_gaps=0.6)) == 9
    series = table(text, by_order=True)
    assert len(series) == 4 and series.labels([3]) == ["2020-01-09"]


def test_arrays_have_one_series_each(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((2, 5, 3))
    np.savez(tmp_path / "x.npz", x=x)
    one, other = read_series(tmp_path / "x.npz", SeriesColumns())
    assert np.allclose(one.values, x[0]) and np.allclose(other.values, x[1]) and one.start is None
    np.savez(tmp_path / "y.npz", y=x)
    with pytest.raises(DataError, match="expected an array x"):
        list(read_series(tmp_path / "y.npz", SeriesColumns()))


def test_the_config_decides_whether_values_are_standardized(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 5, 3)))
    (tmp_path / "a.csv").write_text("date,load\n2020-01-01,1\n2020-01-02,2\n")
    for scale, scaled in (("series", True), ("none", False)):
        columns = SeriesDataConfig.model_validate({"train": (), "scale": scale}).columns
        for name in ("x.npz", "a.csv"):
            (series,) = read_series(tmp_path / name, columns)
            assert series.scaled == scaled


def test_tables_of_python_are_read() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"load": [1.0, 2.0, 4.0]}, index=pandas.date_range("2020-01-01", periods=3, freq="h"))
    assert series_of(frame, SeriesColumns()).labels([2]) == ["2020-01-01 02:00:00"]


def test_tables_of_pyarrow_and_arrays_are_read() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    dates = [str(datetime(2020, 1, 1) + timedelta(hours=hour)) for hour in range(3)]
    read = series_of(pyarrow.table({"date": dates, "load": [1.0, None, 4.0]}), SeriesColumns())
    assert np.isnan(read.values[1, 0]) and read.labels([0]) == ["2020-01-01 00:00:00"]
    assert series_of(np.ones((4, 2)), SeriesColumns()).targets == ("channel 1", "channel 2")
    for wrong in ("date", [["a"]], [[1.0], [1.0, 2.0]], np.full((2, 2), np.inf), 3):
        with pytest.raises(DataError):
            series_of(wrong, SeriesColumns())


def test_a_forecast_is_a_table_of_pandas_or_pyarrow() -> None:
    forecast = Forecast(("2020-01-01", "2020-01-02"), {"load": (1.0, 2.5), "load-lo-80": (0.5, 2.0)})
    expected = {"date": ["2020-01-01", "2020-01-02"], "load": [1.0, 2.5], "load-lo-80": [0.5, 2.0]}
    pytest.importorskip("pyarrow")
    assert forecast.to_arrow().to_pydict() == expected
    pytest.importorskip("pandas")
    assert forecast.to_pandas().to_dict("list") == expected


def test_the_text_of_a_window_is_its_history() -> None:
    series = table(WIDE)
    read = parse_series(series_text(SeriesWindow(series, 3, 2, 1)), SeriesColumns())
    assert np.array_equal(read.values, series.values[1:], equal_nan=True) and read.labels([0]) == series.labels([1])
    for line in ('{"table": 3}', '{"path": "/etc/passwd"}', "/etc/passwd", "[1]", "{"):
        with pytest.raises(DataError):
            parse_series(line, SeriesColumns())


def test_every_window_of_a_part_is_read_with_the_history_before_it() -> None:
    series = Series("s", ("y",), np.arange(20, dtype=np.float32)[:, None], np.zeros((20, 0)), np.zeros((20, 0)))
    ends = [window.end for window in windows(series, 12, 18, back=8, ahead=3)]
    assert ends == [12, 13, 14, 15]  # n − H + 1 = 6 − 3 + 1, whatever the look-back
    assert [*windows(series, 12, 18, back=2, ahead=3)] and len(ends) == 4
    (first, *_) = windows(series, 12, 18, back=8, ahead=3)
    assert first.history[:, 0].tolist() == [*range(4, 12)] and first.future[:, 0].tolist() == [12, 13, 14]


def test_missing_values_are_filled_from_the_left_and_marked() -> None:
    values = np.array([[np.nan, 1], [2, np.nan], [np.nan, 3]], np.float32)
    assert fill_forward(values).tolist() == [[2, 1], [2, 1], [2, 3]]
    series = Series("s", ("a", "b"), values, np.ones((3, 1), np.float32), np.full((4, 1), 7, np.float32))
    scale = SeriesScale(np.zeros(2), np.ones(2), np.ones(2), np.array([[1.0], [2.0]]), np.array([[5.0], [2.0]]))
    table = encode_series(series, scale, 2)
    assert table.tolist() == [
        [2, 1, 1, 0, 0, 1], [2, 1, 0, 1, 0, 1], [2, 3, 1, 0, 0, 1], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0],
    ]  # fmt: skip
    own = sequences(table[None, :3], 2, together=False)
    assert own.shape == (1, 2, 3, 4) and own[0, 1].tolist() == [[1, 0, 0, 1], [1, 1, 0, 1], [3, 0, 0, 1]]


def test_the_scale_is_that_of_the_training_part() -> None:
    values = np.array([[1.0], [3.0], [1.0], [3.0], [900.0], [-900.0]], np.float32)
    none = np.zeros((6, 0), np.float32)
    series = Series("s", ("y",), values, none, none, borders=(4, 5, 6))
    scale = SeriesScale.of(series, 1)
    assert (scale.mean[0], scale.deviation[0], scale.naive[0]) == (2.0, 1.0, 2.0)
    assert SeriesScale.of(series, 2).naive[0] == 0.0  # a constant season has no MASE


def test_tables_of_other_tasks_are_not_taken_for_series() -> None:
    columns = SeriesColumns()
    assert is_series_table(("date", "load"), ("2020-01-01", "3"), columns)
    assert not is_series_table(("user_id", "item_id", "timestamp"), ("1", "2", "978300760"), columns)
    assert not is_series_table(("text", "label"), ("a film", "1"), columns)
    assert not is_series_table(("date", "text", "stars"), ("2020-01-01", "a film", "3"), columns)


def test_the_calendar_goes_on_after_the_table() -> None:
    """Also where rows are months, or follow each other at any distance."""
    months = "date,y\n" + "".join(f"2020-{month:02d}-01,{month}\n" for month in range(1, 9))
    known = table(months, calendar=("month",), ahead=3).known
    places = 2 * np.pi * np.arange(11) / 12
    assert known == pytest.approx(np.stack([np.sin(places), np.cos(places)], 1), abs=1e-6)
    uneven = table("date,y\n2020-01-06,1\n2020-01-07,2\n2020-01-10,3\n", calendar=("weekday",), by_order=True)
    angles = 2 * np.pi * np.array([0, 1, 4]) / 7  # Monday, Tuesday, Friday
    assert uneven.known == pytest.approx(np.stack([np.sin(angles), np.cos(angles)], 1), abs=1e-6)


def test_tables_with_other_columns_have_no_scale() -> None:
    own = table(WIDE, known=("heat",))
    scales = Scales.learn([SeriesWindow(own, 2, 1, 1)], None)
    for columns in ({}, {"known": ("heat",), "calendar": ("hour",)}, {"targets": ("load",)}):
        with pytest.raises(DataError, match="the table has"):
            scales.of(table(WIDE, **columns))
    swapped = Scales.learn([SeriesWindow(table(WIDE), 2, 1, 1)], None)
    with pytest.raises(DataError, match="in another order: heat, load"):
        swapped.of(table(WIDE, targets=("heat", "load")))
    renamed = Scales.learn([SeriesWindow(table(WIDE.replace("load", "wind")), 2, 1, 1)], None)  # wind, heat
    with pytest.raises(DataError, match="in another order: heat, load"):
        renamed.of(table(WIDE, targets=("heat", "load")))
    renamed.of(table(WIDE))  # another name for the same place


def test_a_series_that_repeats_has_no_mase() -> None:
    text = "date,a,b\n" + "".join(f"2020-01-{day:02d},{day % 7},{day}\n" for day in range(1, 29))
    scales = Scales.learn([SeriesWindow(table(text), 2, 1, 1)], None)
    assert scales.report()[0].endswith("7 time steps")
    assert scales.report()[1] == ("no MASE for a of table.csv: no change from season to season of the training part")
