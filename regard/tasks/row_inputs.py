"""Inputs of a trained model from table files: each row as the text that the predictor parses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.core.export_forms import ForwardForm
from regard.data.column_names import first_of
from regard.data.file_names import named_files
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.errors import ConfigError, DataError
from regard.runs.run_folder import RunFolder

RowInputs = Iterator[tuple[str, str]]


def has_rows(path: Path) -> bool:
    """Return whether a file is a table, by its extension; other files are read line by line."""
    return form_of(path) != "text"


def read_row_inputs(run: RunFolder, path: Path, columns: Sequence[Column] = ()) -> RowInputs:
    """Yield the name of each row and its text for ``Predictor.read``.

    Args:
        run: the trained run, whose task defines the input.
        path: the table file (see ``has_rows``).
        columns: the columns of the input. Default: those of training, or common names.

    Raises:
        ConfigError: if the task does not read tables.
        DataError: with file and line, for an invalid row.
    """
    read: Any = run.task.row_inputs
    if read is None:
        what = f"{run.config.task.kind} models cannot read {form_of(path)} files"
        raise ConfigError(what, where=str(path), help="write the inputs to a .txt file, one per line")
    rows: RowInputs = read(run.config, path, columns)
    return rows


def forward_form(config: Any, row_inputs: Callable[[Any, Path, Sequence[Column]], RowInputs]) -> ForwardForm:
    """Return the form of a network with a fixed forward pass, whose inputs are the rows of its files.

    Args:
        config: the config of the run.
        row_inputs: that of the task.
    """
    corpora = (config.data.valid or config.data.train)[:1]

    def read(path: Path) -> Iterator[str]:
        return (text for _, text in row_inputs(config, path, ()))

    def texts() -> Iterator[str]:
        return (text for corpus in corpora for path in named_files(corpus.source) for text in read(path))

    return ForwardForm(texts=texts, read=read)


def named_column(path: Path, selected: Sequence[Column], trained: Sequence[str], common: Sequence[str]) -> Column:
    """Return the only column of an input.

    Args:
        path: the table file.
        selected: the column that the user selects, if any.
        trained: names of the column in training.
        common: common names of the column.

    Returns:
        The selected column, else the first trained or common name in the file, else the only column, or the first if
        columns have no names.

    Raises:
        DataError: if the file has several columns and none of these names.
    """
    if selected:
        return selected[0]
    require_text_rows(path)
    names = column_names(path)
    column = first_of(names, [name.strip().lower() for name in (*trained, *common)])
    if column is not None:
        return column
    if len(names) < 2:
        return names[0] if names and form_of(path) != "tsv" else 1
    raise DataError(
        "the input column is not known",
        where=str(path),
        why=f"the columns are {', '.join(names[:20])}",
        help=f"name it, for example --column {names[0]}",
    )


def require_text_rows(path: Path) -> None:
    """Raise ConfigError for a file with one word per line, which only taggers read."""
    if form_of(path) in ("conll-u", "word-lines"):
        what = f"a {form_of(path)} file has one word per line, but this model reads texts"
        raise ConfigError(what, where=str(path), help="write one text per line, or name a column: --column 2")


def rows_of_one_column(path: Path, column: Column, line: Callable[[Row, Column], str] = text_of) -> RowInputs:
    """Yield the name of each row and the text that ``line`` returns for its cell."""
    for row in read_rows(path, [column]):
        yield row.where, line(row, column)
