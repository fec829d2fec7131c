"""Files of examples, such as sounds or images: a folder for each class, or a table of paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.untrusted_files import read_bytes
from regard.data.column_names import LABELS, PATHS, SPEAKERS, first_of
from regard.data.file_names import has_ending
from regard.data.foreign_errors import unreadable
from regard.data.rows import Column, Part, column_names, form_of, read_head, read_rows, text_of
from regard.errors import DataError, MissingDataError, RegardError

MAX_FILE = 1 << 30  # bytes of one file


class LabeledFile(NamedTuple):
    """A file, the folder or the table row that names it, its label and its speaker; None if they are not known."""

    path: Path
    where: str
    label: str | None = None
    speaker: str | None = None


class FileColumns(NamedTuple):
    """Columns of a table of paths; None if the table has no such column."""

    path: Column
    label: Column | None
    speaker: Column | None


def class_folders(folder: Path, endings: Sequence[str]) -> dict[str, list[Path]]:
    """Return the files of each class: those with one of the endings in each folder inside ``folder``, sorted."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    classes = {path.name: sorted(file for file in path.iterdir() if has_ending(file, endings)) for path in inside}
    return {name: files for name, files in classes.items() if files}


def read_class_folders(folder: Path, endings: Sequence[str]) -> Iterator[LabeledFile]:
    """Yield the files of a folder with a folder for each class. DataError if there is no such file."""
    classes = class_folders(folder, endings)
    if not classes:
        what = f"no folder inside has a file that ends with {', '.join(endings)}"
        raise DataError(what, where=str(folder), why="expected one folder for each class: CLASS/NAME" + endings[0])
    for name, files in classes.items():
        yield from (LabeledFile(file, str(file), name) for file in files)


def file_columns(names: Sequence[str], label: Column | None = None) -> FileColumns | None:
    """Return the columns of a table by their names; None if none is known as that of a path."""
    path = first_of(names, PATHS)
    if path is None:
        return None
    rest = [name for name in names if name != path]
    return FileColumns(path, label or first_of(rest, LABELS), first_of(rest, SPEAKERS))


def read_file_table(
    table: Path, *, label: Column | None = None, labeled: bool = True, part: Part | None = None
) -> Iterator[LabeledFile]:
    """Yield the files that a table names; a relative path begins at the folder of the table.

    Args:
        table: a file with named columns.
        label: the column of the label; None: the first well-known name.
        labeled: whether a label is required.
        part: the rows to yield, see ``rows.read_rows``.

    Raises:
        MissingDataError: a column is missing.
    """
    names = column_names(table)
    columns = file_columns(names, label)
    if columns is None or (labeled and columns.label is None):
        missing, known = ("path", PATHS) if columns is None else ("label", LABELS)
        raise MissingDataError(
            f"the table has no column of the {missing}", where=str(table), why=f"its columns are {', '.join(names)}",
            help=f"name one of them {known[0]}",
        )  # fmt: skip
    chosen = columns if labeled else columns._replace(label=None)
    for row in read_rows(table, [column for column in chosen if column is not None], part=part):
        path, *cells = (None if column is None else text_of(row, column).strip() for column in chosen)
        yield LabeledFile(table.parent / str(path), row.where, *cells)


def read_contents(file: LabeledFile) -> bytes:
    """Return the bytes of a file. DataError, with the row that names it, if it cannot be read."""
    try:
        return read_bytes(file.path, MAX_FILE)
    except OSError as error:
        failure = unreadable(file.path, error)
        raise type(failure)(failure.what, where=file.where, why=failure.why or str(file.path), help=failure.help) from (
            error
        )
    except ValueError as error:
        raise DataError("the file is too large", where=str(file.path), why=str(error)) from error


def has_labeled_files(path: Path, array: str, endings: Sequence[str]) -> bool:
    """Return whether a file or a folder has examples with labels, by its names and its first row.

    Args:
        path: a folder with a folder for each class, a table of paths, or an .npz.
        array: the array of an .npz that holds the examples.
        endings: of the names of files.
    """
    if path.is_dir():
        return bool(class_folders(path, endings))
    try:
        if form_of(path) == "npz":
            return array in read_head(path).names
        columns = file_columns(column_names(path))
        if columns is None or columns.label is None:
            return False
        return has_ending(next(read_file_table(path)).path, endings)
    except RegardError:  # reported by the next reader
        return False
