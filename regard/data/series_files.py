"""Readers of time series: wide tables with a column of dates, long tables with ids, and arrays."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.data.column_names import TIMES
from regard.data.file_names import named_files
from regard.data.npz_files import read_arrays
from regard.data.rows import form_of
from regard.data.tables import SEPARATORS, TableRow, missing_column, parquet_names, read_cells, read_parquet
from regard.data.time_series import HELP, MONTH, DateStyle, Series, TimeStep, Values, calendar
from regard.errors import DataError

DATES, IDS, NUMBERS = ("ds", *TIMES), ("unique_id", "series_id", "id"), ("y", "value")
MISSING = {"", "nan", "na", "n/a", "null", "none"}
SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".npz")
DIGITS = re.compile(r"[0-9]+")
MAX_YEAR = 9000  # dates after 9999, such as those of a forecast, cannot be written
MAX_ROWS = 1 << 24  # of a table after its gaps are filled


class SeriesColumns(NamedTuple):
    """The columns of a table, and the treatment of its gaps; None and () choose by name and type.

    Attributes:
        time: the column of dates.
        id: the column of ids of a long table.
        targets: the columns to predict.
        known: covariates that are known in advance.
        past: whether all further columns of numbers are covariates.
        calendar: the parts of a date that are added to the covariates (``time_series.CALENDAR``).
        max_gaps: the largest share of missing rows.
        by_order: whether rows are at equal distances, for any dates.
        ahead: the number of rows after the table whose place in the calendar is known.
        scaled: whether the values are standardized.
    """

    time: str | None = None
    id: str | None = None
    targets: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    past: bool = False
    calendar: tuple[str, ...] = ()
    max_gaps: float = 0.1
    by_order: bool = False
    ahead: int = 0
    scaled: bool = True


class _Table(NamedTuple):
    """The header of a table, its rows, and its name for messages."""

    names: tuple[str, ...]
    rows: Iterable[TableRow]
    name: str


def read_series(path: Path, columns: SeriesColumns) -> Iterator[Series]:
    """Yield the series of a file: one of a wide table, one for each id of a long table or row of an array ``x``.

    Raises:
        DataError: with file and line, if dates do not rise, a number cannot be parsed, or too many rows are missing.
    """
    for file in named_files(path):
        if form_of(file) == "npz":
            yield from _arrays(file, columns)
        elif form_of(file) == "parquet":
            names = parquet_names(file)
            yield from _series(_Table(names, read_parquet(file, names), str(file)), columns)
        else:
            rows = read_cells(file, "\t" if form_of(file) == "tsv" else None)
            yield from _series(_headed(rows, str(file)), columns)


def read_table(text: str, name: str, columns: SeriesColumns) -> list[Series]:
    """Return the series of the text of a CSV; errors as in ``read_series``."""
    first = text.partition("\n")[0]
    try:
        cells = csv.reader(io.StringIO(text), delimiter=max(SEPARATORS, key=first.count), strict=True)
        rows = [TableRow(number, tuple(row)) for number, row in enumerate(cells, start=1) if row]
    except csv.Error as error:
        raise DataError("the table is not valid CSV", where=name, why=str(error)) from error
    return [*_series(_headed(iter(rows), name), columns)]


def first_cells(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the columns of a table, and the cells of its first row; () for an empty table."""
    if form_of(path) == "parquet":
        names = parquet_names(path)
        rows: Iterator[TableRow] = read_parquet(path, names)
    else:
        table = _headed(read_cells(path, "\t" if form_of(path) == "tsv" else None), str(path))
        names, rows = table.names, iter(table.rows)
    first = next(rows, None)
    return names, () if first is None else tuple(str(cell) for cell in first.cells)


def is_series_table(names: Sequence[str], first: Sequence[str], columns: SeriesColumns) -> bool:
    """Return whether a table has a column of dates, and numbers in another one, by its names and its first row."""
    dated = [name for name in names if name == columns.time or (columns.time is None and name.lower() in DATES)]
    cells = dict(zip(names, first, strict=False))
    cells_left = [name for name in names if name not in dated[:1]]
    texts = [name for name in cells_left if not _is_number(cells.get(name, ""))]
    ids = [name for name in texts if name.lower() in IDS]
    if not dated or not first or len(texts) > len(ids) or len(texts) == len(cells_left):
        return False
    return parse_date(cells[dated[0]].strip()) is not None and not cells[dated[0]].isdecimal()


def _headed(rows: Iterator[TableRow], name: str) -> _Table:
    head = next(rows, None)
    if head is None:
        raise DataError("the table is empty", where=name)
    return _Table(tuple(str(cell).strip() for cell in head.cells), rows, name)


def _arrays(path: Path, options: SeriesColumns) -> Iterator[Series]:
    """Yield the series of the array ``x`` (series, time, channels)."""
    arrays = read_arrays(path)
    x = arrays.get("x")
    if x is None or x.ndim != 3 or x.dtype.kind not in "iuf" or not x.size:
        why = "its arrays are " + (", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "none")
        raise DataError("expected an array x (series, time, channels) of numbers", where=str(path), why=why, help=HELP)
    none = np.zeros((x.shape[1], 0), np.float32)
    names = tuple(f"channel {number}" for number in range(1, x.shape[2] + 1))
    for number, values in enumerate(x.astype(np.float32)):
        if np.isinf(values).any():
            raise DataError(f"series {number + 1} has an infinite value", where=str(path))
        yield Series(f"{path.name} {number + 1}", names, values, none, none, file=str(path), scaled=options.scaled)


class _Columns(NamedTuple):
    """The columns of a table by their use, and the place of each."""

    place: Mapping[str, int]
    time: str
    id: str | None
    targets: tuple[str, ...]
    past: tuple[str, ...]
    known: tuple[str, ...]


def _series(table: _Table, options: SeriesColumns) -> Iterator[Series]:
    rows = iter(table.rows)
    first = next(rows, None)
    if first is None:
        raise DataError("the table has a header and no rows", where=table.name)
    columns = _choose(table, first, options)
    groups: dict[str, list[TableRow]] = {}
    for row in chain([first], rows):
        if len(row.cells) != len(table.names):
            why = f"the header has {pluralize(len(table.names), 'column')}"
            what = f"the row has {pluralize(len(row.cells), 'cell')}"
            raise DataError(what, where=f"{table.name}:{row.number}", why=why)
        groups.setdefault("" if columns.id is None else str(row.cells[columns.place[columns.id]]), []).append(row)
    for name, own in groups.items():
        yield _one(name or Path(table.name).name, own, columns, table.name, options)


def _choose(table: _Table, first: TableRow, options: SeriesColumns) -> _Columns:
    """Return the use of each column. Raises DataError without a column of dates or of numbers."""
    names, lower = table.names, {name.lower(): name for name in reversed(table.names)}
    index = {name: number for number, name in reversed([*enumerate(names)])}

    def find(column: str) -> str:
        name = column if column in index else lower.get(column.lower())
        if name is None:
            raise missing_column(column, names, table.name)
        return name

    time = find(options.time) if options.time else next((lower[name] for name in DATES if name in lower), None)
    if time is None:
        why = f"the columns are {shortened(', '.join(names))}"
        help = f"name the column of dates `date`, or --set data.time=COLUMN ({HELP})"
        raise DataError("the table has no column of dates", where=table.name, why=why, help=help)
    own_id = find(options.id) if options.id else None
    if own_id is None and time.lower() == "ds":
        own_id = next((lower[name] for name in IDS if name in lower), None)
    known = tuple(find(name) for name in options.known)
    free = [name for name in names if name not in (time, own_id, *known)]
    numeric = [name for name in free if _is_number(str(first.cells[index[name]]))]
    named = tuple(find(name) for name in options.targets)
    if not named and own_id is not None:
        named = tuple(lower[name] for name in NUMBERS if name in lower)[:1]
    targets = named or tuple(numeric)
    if not targets:
        why = f"the first row is {shortened(', '.join(map(str, first.cells)))}"
        raise DataError("the table has no column of numbers", where=f"{table.name}:{first.number}", why=why)
    past = tuple(name for name in numeric if name not in targets) if options.past else ()
    return _Columns(index, time, own_id, targets, past, known)


def _one(name: str, rows: list[TableRow], columns: _Columns, file: str, options: SeriesColumns) -> Series:
    """Return the series of rows with one id."""
    lines = np.array([row.number for row in rows], np.int64)
    cells = [str(row.cells[columns.place[columns.time]]).strip() for row in rows]
    seconds, style = _times(cells, lines, file, by_order=options.by_order)
    step = _step(seconds)
    place = np.arange(len(rows)) if options.by_order else _indices(seconds, step, cells, lines, file)
    size = int(place[-1]) + 1
    if size - len(rows) > options.max_gaps * size:
        what = f"{pluralize(size - len(rows), 'row')} of {size:,} are missing: the rows are {step.describe()}"
        help = "--set data.max_gaps=0.5 fills them as missing; --set data.times=order ignores the distances"
        raise DataError(what, where=file, why=f"the limit is {options.max_gaps:.0%}", help=help)

    def table(names: Sequence[str]) -> Values:
        values = np.full((size, len(names)), np.nan, np.float32)
        for number, column in enumerate(names):
            values[place, number] = _numbers(rows, columns.place[column], column, file)
        return values

    values, known = table(columns.targets), table(columns.known)
    last = np.flatnonzero(np.isfinite(values).any(1))  # later rows hold known covariates only
    end = int(last[-1]) + 1 if len(last) and columns.known else size
    all_lines = np.interp(np.arange(size), place, lines).astype(np.int64)
    series = Series(
        name, columns.targets, values[:end], table(columns.past)[:end], known, int(seconds[0]), step, style, file,
        all_lines, stamps=seconds if options.by_order else None, scaled=options.scaled,
    )  # fmt: skip
    return _with_calendar(series, options, size) if options.calendar else series


def _with_calendar(series: Series, options: SeriesColumns, rows: int) -> Series:
    """Return a series with the calendar among its known covariates, also after its end if it has no others."""
    later = 0 if options.known else options.ahead
    parts = np.arange(rows), np.arange(rows, rows + later)
    seconds = np.concatenate([series.seconds(part) for part in parts])
    known = np.pad(series.known, ((0, later), (0, 0)))
    return replace(series, known=np.concatenate([known, calendar(seconds, options.calendar)], 1))


def _times(
    cells: Sequence[str], lines: npt.NDArray[np.int64], file: str, *, by_order: bool
) -> tuple[npt.NDArray[np.int64], DateStyle]:
    """Return the times of cells in seconds since 1970, and how they are written. Raises DataError unless they rise."""
    shape, times = _shape(cells[0]), np.zeros(len(cells), np.int64)
    for number, cell in enumerate(cells):
        if _shape(cell) != shape:
            why = f"the first date is {shortened(cells[0])}: all dates of a table must have one format"
            raise DataError(f"cannot read the date {shortened(cell)}", where=f"{file}:{lines[number]}", why=why)
        seconds = parse_date(cell)
        if seconds is None:
            help = "write dates as 2016-07-01 or 2016-07-01 13:00:00"
            raise DataError(f"cannot read the date {shortened(cell)}", where=f"{file}:{lines[number]}", help=help)
        times[number] = seconds
    if len(wrong := np.flatnonzero(np.diff(times) <= 0)) and not by_order:
        row = int(wrong[0]) + 1
        what = f"the date {cells[row]} " + ("repeats" if times[row] == times[row - 1] else "is before the one above it")
        help = "sort the table by date, one row for each; a table of several series needs a column of ids: data.id"
        raise DataError(what, where=f"{file}:{lines[row]}", why=f"the row above has {cells[row - 1]}", help=help)
    return times, _style(cells[0])


def _shape(cell: str) -> str:
    return DIGITS.sub("0", cell)


def parse_date(cell: str) -> int | None:
    """Return a date as seconds since 1970; a time without a zone is UTC."""
    if cell.isdecimal() and len(cell) > 4:
        return int(cell) if len(cell) < 12 else None
    text = cell.replace("/", "-")
    try:
        date = datetime.strptime(text, "%Y") if cell.isdecimal() else datetime.fromisoformat(text)
    except ValueError:
        try:
            date = datetime.strptime(text, "%Y-%m")
        except ValueError:
            return None
    if date.year > MAX_YEAR:
        return None
    return int((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


def _style(cell: str) -> DateStyle:
    if cell.isdecimal():
        return DateStyle("%Y" if len(cell) == 4 else "")
    if ":" not in cell:
        return DateStyle("%Y-%m" if cell.count("-") + cell.count("/") == 1 else "%Y-%m-%d")
    return DateStyle(f"%Y-%m-%d{'T' if 'T' in cell else ' '}%H:%M:%S" if cell.count(":") > 1 else "%Y-%m-%d %H:%M")


def _is_date(cell: str) -> bool:
    return parse_date(str(cell).strip()) is not None


def _is_number(cell: str) -> bool:
    if cell.strip().lower() in MISSING:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _step(seconds: npt.NDArray[np.int64]) -> TimeStep:
    """Return the most frequent distance of two rows."""
    if len(seconds) < 2:
        return TimeStep(1)
    changes = np.diff(seconds)
    sizes, counts = np.unique(changes[changes > 0] if (changes > 0).any() else np.ones(1, np.int64), return_counts=True)
    step = int(sizes[counts.argmax()])
    days = step / 86_400
    if not 28 <= days <= 366 or step % 86_400:
        return TimeStep(max(step, 1))
    months = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    gaps, counts = np.unique(np.diff(months), return_counts=True)
    size = int(gaps[counts.argmax()])
    return TimeStep(size, MONTH) if size > 0 and days not in (28, 35, 364) else TimeStep(step)


def _indices(
    seconds: npt.NDArray[np.int64], step: TimeStep, cells: Sequence[str], lines: npt.NDArray[np.int64], file: str
) -> npt.NDArray[np.int64]:
    """Return the index of each row on the grid of the step. Raises DataError for a row between two of its points."""
    if step.unit == MONTH:
        months = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
        place, rest = np.divmod(months - months[0], step.size)
    else:
        place, rest = np.divmod(seconds - seconds[0], step.size)
    if len(wrong := np.flatnonzero(rest)):
        row = int(wrong[0])
        help = "--set data.times=order takes the rows in their order, at any distance"
        what = f"the date {cells[row]} is between two rows: they are {step.describe()}, from {cells[0]} on"
        raise DataError(
            what, where=f"{file}:{lines[row]}", why="this is the most frequent distance of two rows", help=help
        )
    if int(place[-1]) >= MAX_ROWS:
        what = f"the table spans {pluralize(int(place[-1]) + 1, 'row')}: they are {step.describe()}"
        raise DataError(what, where=file, why=f"the limit is {MAX_ROWS:,}")
    return place


def _numbers(rows: Sequence[TableRow], index: int, column: str, file: str) -> Any:
    """Return the numbers of a column, NaN where a cell is missing. Raises DataError for other text and infinity."""
    values = np.empty(len(rows))
    for number, row in enumerate(rows):
        cell = str(row.cells[index]).strip()
        try:
            value = float(cell) if cell else np.nan
        except ValueError:
            value = np.nan if cell.lower() in MISSING else np.inf
        if value in (np.inf, -np.inf) or abs(value) > 3e38:
            help = "leave a cell empty where a value is missing"
            what = f"the cell of {column} is not a finite number: {shortened(cell)}"
            raise DataError(what, where=f"{file}:{row.number}", help=help)
        values[number] = value
    return values
