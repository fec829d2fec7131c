"""Rows of tables with named columns: CSV by the standard library, and Parquet."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import parse_json, shortened
from regard.core.wording import counted
from regard.data.file_names import JSON_LINES, has_ending
from regard.data.parquet_files import ParquetFile
from regard.data.text_files import read_lines
from regard.errors import DataError

__all__ = [
    "TABLES", "Cell", "TableRow", "column_names", "first_of", "is_table", "missing_column", "read_table",
    "text_of",
]  # fmt: skip

CSV, PARQUET = (".csv",), (".parquet", ".pq")
TABLES = CSV + PARQUET
SEPARATORS = ",;\t"  # the one that the first line has most of: some programs write a semicolon
LONGEST = 1 << 28  # characters of a cell: the standard library's limit, of a field of one document, is 128 KB

Cell = str | tuple[str, ...]  # a tuple: the list of texts that a cell of a Parquet file holds


class TableRow(NamedTuple):
    """Cells of the columns that were asked for, and the line of a CSV, or the row of a Parquet file, from 1."""

    number: int
    cells: tuple[Cell, ...]


def is_table(path: Path) -> bool:
    """Return whether the name is that of a table with named columns: a ``.csv``, ``.gz`` or not, or a ``.parquet``."""
    return has_ending(path, TABLES)


def column_names(path: Path) -> tuple[str, ...]:
    """Names of the columns; of JSON lines the keys of the first one. DataError where they cannot be read."""
    if has_ending(path, JSON_LINES):
        try:
            row = parse_json(next((line for line in read_lines(path) if line.strip()), ""))
        except ValueError as error:
            raise DataError("a line is not JSON", where=f"{path}:1", why=str(error)) from error
        return tuple(row) if isinstance(row, dict) else ()
    if has_ending(path, PARQUET):
        return ParquetFile(path).names
    for _, cells in _csv_rows(path):
        return cells
    return ()


def read_table(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    """The rows of these columns, in their order.

    DataError, naming the line: a column that is not there or is there twice, a row of more or fewer cells than the
    first line, quotes that do not close, a cell of a Parquet file that is neither text nor a number nor a list of such;
    and where there is no row.
    """
    row = None
    for row in (_parquet_rows if has_ending(path, PARQUET) else _named_cells)(path, columns):
        yield row
    if row is None:
        raise DataError("the table has no rows", where=str(path), why="it holds nothing but the names of its columns")


def missing_column(column: str, names: Sequence[str], where: str) -> DataError:
    """The error for a column that a table does not have, with the nearest name that it has."""
    near = difflib.get_close_matches(column.lower(), [name.lower() for name in names], n=1)
    meant = next((name for name in names if near and name.lower() == near[0]), None)
    return DataError(
        f"there is no column {column!r}",
        where=where,
        why=f"the columns are {shortened(', '.join(names)) or 'none'}",
        help=f"did you mean {meant!r}?" if meant is not None else None,
    )


def first_of(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    """The column that one of these names means, whatever its case; the first name that is there counts."""
    found = {name.strip().lower(): name for name in reversed(names)}
    return next((found[each] for each in wanted if each in found), None)


def text_of(cell: Cell, column: str, where: str) -> str:
    """The text of a cell. DataError where it is a list."""
    if isinstance(cell, str):
        return cell
    raise DataError(f"{column!r} is a list", where=where, why="one text is read from this column")


def _place(column: str, names: Sequence[str], where: str) -> int:
    if column not in names:
        raise missing_column(column, names, where)
    if names.count(column) > 1:
        raise DataError(f"two columns are named {column!r}", where=where, help="give each a name of its own")
    return list(names).index(column)


def _named_cells(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    """The rows of these columns of a CSV."""
    rows = _csv_rows(path)
    _, names = next(rows, (0, ()))
    places = [_place(column, names, f"{path}:1") for column in columns]
    for number, cells in rows:
        if len(cells) != len(names):
            raise DataError(
                f"the row has {counted(len(cells), 'cell')}",
                where=f"{path}:{number}",
                why=f"the first line names {counted(len(names), 'column')}",
                help="a cell with a comma or a line break stands in quotes",
            )
        yield TableRow(number, tuple(cells[place] for place in places))


def _csv_rows(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The line on which each row begins, and its cells; blank lines left out."""
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # one setting of the process, so it is only raised
    lines = read_lines(path)
    first = next(lines, "")
    separator = max(SEPARATORS, key=first.count)
    number = 1

    def every() -> Iterator[str]:
        yield first + "\n"
        yield from (line + "\n" for line in lines)

    reader = csv.reader(every(), delimiter=separator, strict=True)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            help = "a quote within a quoted cell is written twice, and a cell ends where its quotes do"
            raise DataError("the row is no CSV", where=f"{path}:{number}", why=str(error), help=help) from error
        if cells is None:
            return
        if cells:
            yield number, tuple(cells)
        number = reader.line_num + 1


def _parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    file = ParquetFile(path)
    for column in columns:
        _place(column, file.names, str(path))
    for number, cells in enumerate(file.rows(columns), start=1):
        where = f"{path}:{number}"
        yield TableRow(number, tuple(_cell(*each, where) for each in zip(cells, columns, strict=True)))


def _cell(value: Any, column: str, where: str) -> Cell:
    if isinstance(value, list):
        return tuple(_text(each, column, where) for each in value)
    return _text(value, column, where)


def _text(value: Any, column: str, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value)
    what = f"{column!r} is no text"
    raise DataError(what, where=where, why=f"a {type(value).__name__}: texts, numbers and lists of them are read")
