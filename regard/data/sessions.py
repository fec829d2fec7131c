"""Sessions of items from JSON lines, text lines, TSV and tables with named columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from regard.data.column_names import session_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import Cell
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError

ITEMS = "items"  # column of the returned rows


class SessionColumns(NamedTuple):
    """The column with the list of items of a row; or the columns of the session, the item, and the time for sorting."""

    items: str = ITEMS
    session: Column | None = None
    item: Column | None = None
    time: Column | None = None


def read_sessions(corpora: Sequence[FilesConfig], columns: SessionColumns) -> Iterator[Row]:
    """Yield the sessions of files, in order, as rows with a tuple ``ITEMS``.

    A row of a file is a session with a list of items, or one item of a session. In a text file, each line is a session
    with space-separated items. Shares are selected by a hash of the items.

    Raises:
        DataError: with file and line, for invalid contents.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            for session in _of_file(path, columns, corpus):
                if falls_into("\t".join(session.cells[ITEMS]), corpus.share):
                    yield session


def require_items(cell: Cell, where: str) -> tuple[str, ...]:
    """Return the items of a list, or of a space-separated text. Raises DataError for an invalid item."""
    items = tuple(cell.split()) if isinstance(cell, str) else cell
    if " ".join(items).split() != [*items]:  # much faster than checking each item
        return tuple(_item(item, where) for item in items)
    return items


def _item(item: str, where: str) -> str:
    """Return the name of an item: a text without white space. Raises DataError for other texts."""
    if len(item.split()) != 1 or item != item.strip():
        why = "an item is a number, or a text without spaces"
        raise DataError(f"invalid item {item[:40]!r}", where=where, why=why)
    return item


def _of_file(path: Path, columns: SessionColumns, corpus: FilesConfig) -> Iterator[Row]:
    rows: Iterator[Row]
    if form_of(path) == "text":
        refuse_pipe(path)
        rows = (Row({columns.items: line}, path, number) for number, line in enumerate(read_lines(path), 1))
    elif (names := _session_and_item(path, columns)) is not None:
        rows = _by_session(path, columns._replace(session=names[0], item=names[1]), corpus)
    else:
        rows = read_rows(path, [columns.items], lists=[columns.items], part=corpus.part)
    for row in rows:
        items = require_items(row.cells[columns.items], row.where)
        if items:
            yield row._replace(cells={ITEMS: items})


def _session_and_item(path: Path, columns: SessionColumns) -> tuple[Column, Column] | None:
    """Return the columns of the session and the item; None if each row is a whole session."""
    names = column_names(path)
    named = columns.session is not None or columns.item is not None
    if columns.items in names and not named:
        return None
    default: tuple[Column, Column] | None = session_columns(names)
    if form_of(path) == "tsv" and default is None and not named:
        default = (1, 2)
    if default is None and not (columns.session and columns.item):
        return None
    session, item = default or (1, 2)
    return columns.session or session, columns.item or item


def _by_session(path: Path, columns: SessionColumns, corpus: FilesConfig) -> Iterator[Row]:
    """Yield sessions in the order of their first rows, each sorted by time if there is a time column.

    Rows of different sessions may be mixed.
    """
    session, item, time = columns.session or 1, columns.item or 2, columns.time
    sessions: dict[str, list[tuple[float, str, int]]] = {}
    for row in read_rows(path, [session, item, *([] if time is None else [time])], part=corpus.part):
        name = text_of(row, session)
        if not name.strip():
            raise DataError("the row names no session", where=row.where, why=f"column {session} is empty")
        moment = 0.0 if time is None else _moment(row, time)
        sessions.setdefault(name, []).append((moment, _item(text_of(row, item).strip(), row.where), row.number))
    for rows in sessions.values():
        rows.sort(key=lambda row: row[0])  # stable: equal times keep the order of the rows
        yield Row({columns.items: tuple(name for _, name, _ in rows)}, path, min(number for *_, number in rows))


def _moment(row: Row, column: Column) -> float:
    """Return the time of a row as a number. Raises DataError if it is neither a number nor an ISO 8601 date."""
    text = text_of(row, column).strip()
    try:
        moment = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError, OSError):
            moment = math.nan
    if not math.isfinite(moment):
        why = "a time is a number, or a date such as 2024-05-31 or 2024-05-31T12:30:00"
        raise DataError(f"invalid time {text[:40]!r}", where=row.where, why=why, help="--set data.time=")
    return moment
