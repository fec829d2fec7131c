"""Inputs of a trained model from files of rows: each row as the text that the predictor of its task reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.column_names import first_of
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.errors import ConfigError, DataError
from regard.runs.run_folder import RunFolder

RowInputs = Iterator[tuple[str, str]]


def has_rows(path: Path) -> bool:
    """Return whether a file is read row by row, by its ending; any other is read line by line."""
    return form_of(path) != "text"


def read_row_inputs(run: RunFolder, path: Path, columns: Sequence[Column] = ()) -> RowInputs:
    """Return the place and the text for ``Predictor.read`` of each row.

    Args:
        run: a trained run, whose task knows what an input is.
        path: a file for which ``has_rows``.
        columns: the columns of an input; those of training, or well-known names, unless given.

    Raises:
        ConfigError: if the task reads no files of rows.
        DataError: with file and line, while rows are read.
    """
    read: Any = run.task.row_inputs
    if read is None:
        what = f"a run of {run.config.task.kind} reads no {form_of(path)} files"
        raise ConfigError(what, where=str(path), help="write the inputs one a line to a .txt file")
    rows: RowInputs = read(run.config, path, columns)
    return rows


def named_column(path: Path, given: Sequence[Column], usual: Sequence[str], known: Sequence[str]) -> Column:
    """Return the one column of an input: ``given``, else the first of the ``usual`` or ``known`` names in the file.

    A file of one column, or without names, has its first column read. DataError where several names fit nothing.
    """
    if given:
        return given[0]
    require_text_rows(path)
    names = column_names(path)
    column = first_of(names, [name.strip().lower() for name in (*usual, *known)])
    if column is not None:
        return column
    if len(names) < 2:
        return names[0] if names and form_of(path) != "tsv" else 1
    raise DataError(
        "the names of the columns do not tell which one is the input",
        where=str(path),
        why=f"they are {', '.join(names[:20])}",
        help=f"--column {names[0]}",
    )


def require_text_rows(path: Path) -> None:
    """ConfigError for a file with a word a line, which only taggers read."""
    if form_of(path) in ("conll-u", "word-lines"):
        what = f"a {form_of(path)} file has a word a line, and this model reads texts"
        raise ConfigError(what, where=str(path), help="write the texts one a line, or name a column: --column 2")


def rows_of_one_column(path: Path, column: Column, line: Callable[[Row, Column], str] = text_of) -> RowInputs:
    """Yield the place of each row and what ``line`` makes of its cell."""
    for row in read_rows(path, [column]):
        yield row.where, line(row, column)
