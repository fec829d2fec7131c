"""Time series as Python objects and as JSON lines: arrays, tables of pandas and pyarrow, and the text of a CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from regard.core.columns import columns_of, is_table
from regard.core.untrusted_files import parse_json, shortened
from regard.core.wording import pluralize
from regard.data.series_files import SeriesColumns, read_table
from regard.data.time_series import HELP, Scales, Series, SeriesWindow
from regard.errors import DataError

MAX_COLUMNS = 1 << 16
FORM = 'write a JSON object {"table": TEXT} with the text of a CSV, or {"values": [[5.8, 2.0], [5.7, 2.1]]}'


def series_of(value: Any, columns: SeriesColumns, where: str | None = None) -> Series:
    """Return the series in a value: a Series, an array (rows, columns), or a table (see ``core.columns``).

    Raises:
        DataError: for another object, several series, or values that are not numbers.
    """
    if isinstance(value, Series):
        return value
    if hasattr(value, "to_csv") and hasattr(value, "columns"):  # pandas; its index may hold the dates
        dated = getattr(value.index, "inferred_type", "") in ("datetime64", "period")
        text = value.to_csv(index=dated, index_label=columns.time or "date" if dated else None)
        return series_in_text(text, where or "the table", columns)
    if is_table(value):
        table, out = columns_of(value), io.StringIO()
        csv.writer(out).writerows([table.keys(), *zip(*table.values(), strict=True)])
        return series_in_text(out.getvalue(), where or "the table", columns)
    if isinstance(value, np.ndarray | list | tuple):
        return _of_rows(value, where)
    raise DataError("cannot read a table of series", where=where, why=f"it is {type(value).__name__}", help=HELP)


def series_in_text(text: str, name: str, columns: SeriesColumns) -> Series:
    """Return the only series in the text of a CSV. Raises DataError for several ones."""
    series = read_table(text, name, columns)
    if len(series) > 1:
        what = f"the table has {pluralize(len(series), 'series', 'series')}"
        raise DataError(what, where=name, why="an input is one series", help="send each of them as a table of its own")
    return series[0]


def parse_series(text: str, columns: SeriesColumns) -> Series:
    """Return the series of a JSON line. Raises DataError for another form; no path in it is opened."""
    try:
        saved = parse_json(text)
    except ValueError as error:
        what = f"cannot parse a table of series from {shortened(text)!r}"
        raise DataError(what, why=f"not JSON: {error}", help=FORM) from error
    if isinstance(saved, dict) and saved.keys() == {"table"} and isinstance(saved["table"], str):
        return series_in_text(saved["table"], "the table", columns)
    if isinstance(saved, dict) and saved.keys() == {"values"} and isinstance(saved["values"], list):
        return _of_rows(saved["values"], None)
    raise DataError("cannot parse a table of series", help=FORM)


def require_fit(window: SeriesWindow, scales: Scales) -> None:
    """Raise DataError unless a model can forecast at a window: it has the columns and rows that the model reads.

    Args:
        window: the place of the forecast in its series.
        scales: the scales of the series that the model was trained on.
    """
    series, end, back, ahead = window
    place: dict[str, Any] = {"where": series.file, "help": HELP}
    known = scales.of(series).known.shape[1]
    if end < back:
        what = f"{series.name} has {pluralize(end, 'row')} before the forecast"
        raise DataError(what, why=f"the model reads the last {back}", **place)
    missing = end + ahead - len(series.known) if known else 0
    if missing > 0:
        what = f"the known columns of {series.name} end {pluralize(missing, 'row')} before the horizon"
        raise DataError(what, why=f"the model needs {pluralize(ahead, 'row')} of them from the forecast on", **place)


def series_text(window: SeriesWindow) -> str:
    """Return the line that ``parse_series`` reads: the history of a window, and its known covariates."""
    series, first = window.series, window.end - window.back
    if series.start is None or series.known.shape[1]:
        rows = [[None if np.isnan(x) else float(str(x)) for x in row] for row in window.history]
        return json.dumps({"values": rows})
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["date", *series.targets])
    for date, row in zip(series.labels(range(first, window.end)), window.history, strict=True):
        writer.writerow([date, *("" if np.isnan(x) else str(x) for x in row)])
    return json.dumps({"table": out.getvalue()}, ensure_ascii=False)


def _of_rows(value: Any, where: str | None) -> Series:
    """Return an array or lists (rows, columns) of numbers as a series without dates; None and NaN are missing."""

    def refuse(why: str) -> DataError:
        return DataError("cannot read a table of series", where=where, why=why, help=HELP)

    if isinstance(value, list | tuple):  # checked first: NumPy would allocate memory for texts
        kinds = (int, float, type(None))
        if not all(isinstance(row, list | tuple) and all(type(x) in kinds for x in row) for row in value):
            raise refuse("it is not a list of rows of numbers")
        if len({len(row) for row in value}) > 1:
            raise refuse("its rows differ in length")
        value = np.array([[np.nan if x is None else x for x in row] for row in value], np.float64)
    table = np.asarray(value)
    if table.dtype.kind not in "iuf" or table.ndim != 2 or not table.size or table.shape[1] > MAX_COLUMNS:
        raise refuse(f"it has the shape {table.shape} and the type {table.dtype}")
    with np.errstate(over="ignore"):  # reported as infinite
        values = table.astype(np.float32)
    if len(wrong := np.argwhere(np.isinf(values))):
        raise refuse(f"the value of row {wrong[0][0] + 1}, column {wrong[0][1] + 1} is infinite in float32")
    names = tuple(f"channel {number}" for number in range(1, table.shape[1] + 1))
    none = np.zeros((len(values), 0), np.float32)
    return Series("the table", names, values, none, none, file=where or "values")
