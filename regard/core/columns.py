"""Tables of other libraries as columns of Python values: pandas, polars, pyarrow, Hugging Face datasets, dicts."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.errors import DataError, RegardError

Columns = dict[str, list[Any]]

# By the first name of the module of a table: how its columns are read. None of these libraries is imported here.
READERS: dict[str, Callable[[Any], Mapping[Any, Sequence[Any]]]] = {
    "pandas": lambda table: table.to_dict("list"),
    "polars": lambda table: table.to_dict(as_series=False),
    "pyarrow": lambda table: table.to_pydict(),
    "datasets": lambda table: table.to_dict(),
}
NAMES = "a table of pandas, polars, pyarrow or Hugging Face datasets, or a dict of columns"


def is_table(value: Any) -> bool:
    """Return whether a value is a table of one of these libraries, or a dict of columns."""
    if isinstance(value, Mapping):
        return all(_is_column(column) for column in value.values())
    return _library(value) in READERS and (hasattr(value, "columns") or hasattr(value, "column_names"))


def columns_of(table: Any) -> Columns:
    """Return the columns of a table by name. Raises DataError for another object, or columns of different lengths."""
    if isinstance(table, Mapping):
        require_distinct(table)
        read: Mapping[Any, Any] = table
    elif is_table(table):
        require_distinct(getattr(table, "column_names", None) or table.columns)
        read = READERS[_library(table)](table)
    else:
        raise DataError(f"{type(table).__name__} is not a table", help=f"pass {NAMES}")
    columns = {str(name): [_plain(cell) for cell in cells] for name, cells in read.items()}
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len({*lengths.values()}) > 1:
        why = ", ".join(f"{name} has {pluralize(length, 'row')}" for name, length in lengths.items())
        raise DataError("the columns of the table differ in length", why=why)
    return columns


def require_distinct(names: Iterable[Any]) -> None:
    """Raise DataError if two columns have one name as text, since one of them would be lost."""
    counts = Counter(map(str, names))
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise DataError(f"two columns of the table are called {shortened(repr(repeated[0]))}")


@contextmanager
def naming_rows(folder: Path, of: str) -> Iterator[None]:
    """Name a row in place of a line of a file in ``folder``, which the user did not write, in the location of an error.

    Args:
        folder: the folder of the files.
        of: the data that the rows belong to: ``row 3 of the table``.
    """
    try:
        yield
    except RegardError as error:
        if error.where is not None and error.where.startswith(f"{folder}{os.sep}"):
            number = error.where.rpartition(":")[2]
            error.where = f"row {number} of the {of}" if number.isdecimal() else f"the {of}"
        raise


def with_columns(table: Any, columns: Columns) -> Any:
    """Return a table of the same library with further columns."""
    library = _library(table)
    if isinstance(table, Mapping):
        return {**table, **columns}
    if library == "pandas":
        return table.assign(**columns)
    if library == "polars":
        import polars

        return table.with_columns([polars.Series(name, cells) for name, cells in columns.items()])
    if library == "pyarrow":
        import pyarrow

        for name, cells in columns.items():
            table = table.append_column(name, pyarrow.array(cells))
        return table
    for name, cells in columns.items():
        table = table.add_column(name, cells)
    return table


def write_rows(file: Path, columns: Columns) -> None:
    """Write the rows of a table as JSON lines; dates and the like become texts, missing cells null."""
    names = list(columns)
    with file.open("w", encoding="utf-8") as lines:
        for cells in zip(*columns.values(), strict=True):
            row = dict(zip(names, cells, strict=True))
            lines.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")


def _library(table: Any) -> str:
    return type(table).__module__.partition(".")[0]


def _is_column(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, str | bytes | Mapping)


def _plain(cell: Any) -> Any:
    """Return a cell as a Python value: arrays as lists, numbers of NumPy as numbers, NaN and NaT as None."""
    to_list = getattr(cell, "tolist", None)
    value = cell if to_list is None else to_list()
    return None if value is not value or type(value).__name__ in ("NaTType", "NAType") else value
