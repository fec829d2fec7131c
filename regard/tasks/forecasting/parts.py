"""The parts of series in time, and the rows of windows that training, validation and evaluation read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.wording import pluralize
from regard.data.file_names import named_files
from regard.data.rows import Row
from regard.data.series_files import SeriesColumns, parse_date, read_series
from regard.data.time_series import Series, SeriesWindow, windows
from regard.errors import DataError
from regard.tasks.forecasting.data_config import Border, SeriesDataConfig, SeriesFiles

MAX_WINDOWS = 4_000_000


def series_of(corpora: Sequence[SeriesFiles], columns: SeriesColumns) -> Iterator[Series]:
    """Yield the series of files; those of a file that did not change are read once."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            state = path.stat() if path.is_file() else None
            yield from _read(path, columns, None if state is None else (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=64)
def _read(path: Path, columns: SeriesColumns, state: tuple[int, int] | None) -> tuple[Series, ...]:
    return tuple(read_series(path, columns))


def window_rows(data: SeriesDataConfig, corpora: Sequence[SeriesFiles]) -> Iterator[Row]:
    """Yield each window of the parts of files: see ``Supervised.rows``.

    Raises:
        DataError: for a series that has no window in its part, or too many windows.
    """
    number = 0
    for corpus in corpora:
        stride = 1 if corpus.period in ("valid", "test") else data.stride
        for series in series_of([corpus], data.columns):
            borders = (0, len(series), len(series)) if corpus.period == "all" else borders_of(series, data)
            divided = series if corpus.period == "all" else replace(series, borders=borders)
            begin, end = _period(divided, corpus.period)
            part = [*windows(divided, begin, end, back=data.look_back, ahead=data.horizon, stride=stride)]
            if not part:
                raise _too_short(divided, corpus.period, end - begin, data)
            number += len(part)
            if number > MAX_WINDOWS:
                help = f"--set data.stride={2 * data.stride}, or more"
                raise DataError(f"more than {MAX_WINDOWS:,} windows", where=corpus.name, help=help)
            for window in part:
                cells: Any = {"history": window, "future": window}
                yield Row(cells, Path(series.file), series.line(window.end))


def series_in(path: Path, data: SeriesDataConfig) -> Iterator[Series]:
    """Yield the series of a file, as the section ``data`` of a run reads them."""
    yield from series_of([SeriesFiles(source=path)], data.columns)


def window_at(series: Series, date: str | None, data: SeriesDataConfig) -> SeriesWindow:
    """Return the window whose forecast begins at a date, or after the last row.

    Raises:
        DataError: if the series has no dates, or too few rows before this one.
    """
    end = len(series) if date is None else _row(series, date)
    if date is not None and end == len(series) and _after_end(series, date):
        last = series.labels([len(series) - 1])[0]
        help = "leave out --from to forecast from the last row"
        raise DataError(f"the date {date} is after the table", where=series.file, why=f"it ends at {last}", help=help)
    if end < data.look_back:
        what = f"{series.name} has {pluralize(end, 'row')} before the forecast"
        raise DataError(what, where=series.file, why=f"the model reads the last {data.look_back}")
    return SeriesWindow(series, end, data.look_back, data.horizon)


def _after_end(series: Series, date: str) -> bool:
    """Return whether a date is later than the row after the last one."""
    seconds = parse_date(date)
    return seconds is not None and seconds > int(series.seconds([len(series)])[0])


def _period(series: Series, period: str) -> tuple[int, int]:
    """Return the first row of a part, and the row after it."""
    valid, test, until = series.borders or (0, 0, 0)
    return {"all": (0, len(series)), "train": (0, valid), "valid": (valid, test), "test": (test, until)}[period]


def borders_of(series: Series, data: SeriesDataConfig) -> tuple[int, int, int]:
    """Return the first rows of the validation and of the test part, and the row after the test part."""
    valid, test = (_row(series, border) for border in (data.valid_from, data.test_from))
    until = len(series) if data.test_until is None else _row(series, data.test_until)
    if not valid <= test <= until:
        why = f"they are rows {valid:,}, {test:,} and {until:,} of {series.name}"
        help = "order them: data.valid_from, data.test_from, data.test_until"
        raise DataError("the parts of the series do not follow each other", where=series.file, why=why, help=help)
    return valid, test, until


def _row(series: Series, border: Border) -> int:
    """Return the first row at or after a border."""
    if isinstance(border, float):
        return int(border * len(series))
    if isinstance(border, int):
        return min(border, len(series))
    seconds = parse_date(border)
    if seconds is None or series.start is None:
        why = "the series has no dates" if seconds is not None else "expected a date such as 2018-03-01"
        raise DataError(f"cannot use the border {border}", where=series.file, why=why)
    return int(np.searchsorted(series.seconds(range(len(series))), seconds))


def _too_short(series: Series, period: str, rows: int, data: SeriesDataConfig) -> DataError:
    if period in ("valid", "test") and len(series) >= data.max_length:
        what = f"the {period} part of {series.name} has {pluralize(max(rows, 0), 'row')}"
        why = f"the horizon is {pluralize(data.horizon, 'time step')}"
        help = "--set data.test_from=… sets where the test part begins: a share, a row or a date"
        return DataError(what, where=series.file, why=why, help=help)
    part = f"the {period} part of" if period != "all" else "the series"
    what = f"{part} {series.name} has {pluralize(rows, 'row')}"
    why = f"a window needs {data.look_back} (look-back) + {data.horizon} (horizon)"
    help = f"--set data.look_back={max(rows - data.horizon, 1)}, or a shorter data.horizon"
    return DataError(what, where=series.file, why=why, help=help)
