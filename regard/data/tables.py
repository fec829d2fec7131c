"""Rows of tables with named columns: CSV by the standard library, and Parquet."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import shortened
from regard.data.file_names import has_ending
from regard.data.parquet_files import ParquetFile
from regard.data.text_files import read_lines
from regard.errors import DataError

CSV, PARQUET = (".csv",), (".parquet", ".pq")
TABLES = CSV + PARQUET
SEPARATORS = ",;\t"  # the one that the first line has most of: some programs write a semicolon
STATED = re.compile(r"sep=([,;\t|])", re.IGNORECASE)
LONGEST = 1 << 28  # characters of a cell: the standard library's limit, of a field of one document, is 128 KB

Cell = str | tuple[str, ...]  # a tuple: the list of texts that a cell of a Parquet file holds


class TableRow(NamedTuple):
    """Cells of the columns that were asked for, and the line of a CSV, or the row of a Parquet file, from 1."""

    number: int
    cells: tuple[Cell, ...]


def is_table(path: Path) -> bool:
    """Return whether the name is that of a table with named columns: a ``.csv``, ``.gz`` or not, or a ``.parquet``."""
    return has_ending(path, TABLES)


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


def read_cells(path: Path, separator: str | None = None) -> Iterator[TableRow]:
    """Yield every row of a CSV, its first line too, with the line on which it begins; blank lines are left out.

    The separator, unless given, is that of a line ``sep=;`` above all others, as some programs write it, or else the
    comma, semicolon or tab that the first line has most of. DataError for quotes
    that do not end.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # one setting of the process, so it is only raised
    lines = read_lines(path)
    first, number = next(lines, ""), 1
    if separator is None and (stated := STATED.fullmatch(first)):
        separator, first, number = stated[1], next(lines, ""), 2
    separator, skipped = separator or max(SEPARATORS, key=first.count), number - 1

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
            yield TableRow(number, tuple(cells))
        number = reader.line_num + skipped + 1


def parquet_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Parquet file. DataError if it cannot be read."""
    return ParquetFile(path).names


def read_parquet(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    """Yield the rows of these columns, numbered from 1.

    DataError, naming the row, for a cell that is neither text nor a number nor a list of such, and a damaged file.
    """
    for number, cells in enumerate(ParquetFile(path).rows(columns), start=1):
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
