"""Rows of tables with named columns: CSV, with the standard library, and Parquet."""

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
from regard.errors import DataError, MissingDataError

CSV, PARQUET = (".csv",), (".parquet", ".pq")
TABLES = CSV + PARQUET
SEPARATORS = ",;\t"  # the most frequent one in the first line: some programs write semicolons
STATED = re.compile(r"sep=([,;\t|])", re.IGNORECASE)
LONGEST = 1 << 28  # characters of a cell; the default limit of the standard library is 128 KB

Cell = str | tuple[str, ...]  # a tuple: a list of texts in a Parquet file


class TableRow(NamedTuple):
    """Cells of the requested columns, and the line of a CSV, or the row of a Parquet file, from 1."""

    number: int
    cells: tuple[Cell, ...]


def is_table(path: Path) -> bool:
    """Return whether the name is that of a table with named columns: ``.csv`` (also ``.gz``) or ``.parquet``."""
    return has_ending(path, TABLES)


def missing_column(column: str, names: Sequence[str], where: str) -> MissingDataError:
    """Return the error for a missing column, with the nearest name in the table."""
    near = difflib.get_close_matches(column.lower(), [name.lower() for name in names], n=1)
    meant = next((name for name in names if near and name.lower() == near[0]), None)
    return MissingDataError(
        f"no column {column!r}",
        where=where,
        why=f"the columns are {shortened(', '.join(names)) or 'none'}",
        help=f"did you mean {meant!r}?" if meant is not None else None,
    )


def read_cells(path: Path, separator: str | None = None) -> Iterator[TableRow]:
    """Yield every row of a CSV, including the first, with the line on which it begins; blank lines are left out.

    The separator, unless given, is that of a first line ``sep=;``, as some programs write it. Otherwise it is the most
    frequent one of comma, semicolon and tab in the first line. DataError for an unclosed quote.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # a setting of the whole process, so it is never lowered
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
            help = "double the quotes within a quoted cell, and end the cell after its closing quote"
            raise DataError("the row is not valid CSV", where=f"{path}:{number}", why=str(error), help=help) from error
        if cells is None:
            return
        if cells:
            yield TableRow(number, tuple(cells))
        number = reader.line_num + skipped + 1


def parquet_names(path: Path) -> tuple[str, ...]:
    """Return the column names of a Parquet file. DataError if it cannot be read."""
    return ParquetFile(path).names


def read_parquet(path: Path, columns: Sequence[str]) -> Iterator[TableRow]:
    """Yield the rows of these columns, numbered from 1.

    DataError, with the row, for a cell that is not a text, a number or a list of these, and for a damaged file.
    """
    for number, cells in enumerate(ParquetFile(path).rows(columns), start=1):
        where = f"{path}:{number}"
        yield TableRow(number, tuple(_cell(value, column, where) for value, column in zip(cells, columns, strict=True)))


def _cell(value: Any, column: str, where: str) -> Cell:
    if isinstance(value, list):
        return tuple(_text(item, column, where) for item in value)
    return _text(value, column, where)


def _text(value: Any, column: str, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value)
    what = f"unsupported value in column {column!r}"
    raise DataError(what, where=where, why=f"it is a {type(value).__name__}, not a text, a number or a list")
