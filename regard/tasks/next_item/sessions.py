"""Sessions of items from JSON lines, plain lines, TSV and tables of named columns, strict about what they accept."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.column_names import session_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import Cell
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError
from regard.tasks.next_item.data_config import SessionDataConfig

__all__ = ["ItemSession", "read_items", "read_sessions"]


class ItemSession(NamedTuple):
    """Items in the order in which they were chosen, and where the session begins."""

    items: tuple[str, ...]
    where: str


def read_sessions(corpora: Sequence[FilesConfig], data: SessionDataConfig) -> Iterator[ItemSession]:
    """Yield the sessions of files, in their order. DataError, with file and line, for what is none.

    A row is a session with a list of items, or one item of a session; a line of any other text is a session, with
    spaces between items. A share is taken by a hash of the items.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            sessions = _of_file(path, data, corpus)
            yield from (each for each in sessions if falls_into("\t".join(each.items), corpus.share))


def read_items(config: Any, path: Path, given: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the place and the items of each session as a JSON list: see ``core.task.Task.row_inputs``."""
    data = config.data.model_copy(update={"items": str(given[0]), "session": None, "item": None} if given else {})
    if data.time is not None and data.time not in column_names(path):
        data = data.model_copy(update={"time": None})
    for session in _of_file(path, data, FilesConfig(source=path)):
        yield session.where, json.dumps(session.items, ensure_ascii=False)


def _of_file(path: Path, data: SessionDataConfig, corpus: FilesConfig) -> Iterator[ItemSession]:
    if form_of(path) == "text":
        refuse_pipe(path)
        lines = (ItemSession(_items(line, f"{path}:{n}"), f"{path}:{n}") for n, line in enumerate(read_lines(path), 1))
        yield from (session for session in lines if session.items)
        return
    columns = _session_and_item(path, data)
    if columns is not None:
        yield from _by_session(path, columns, data.time, corpus)
        return
    for row in read_rows(path, [data.items], lists=[data.items], part=corpus.part):
        items = _items(row.cells[data.items], row.where)
        if items:
            yield ItemSession(items, row.where)


def _session_and_item(path: Path, data: SessionDataConfig) -> tuple[Column, Column] | None:
    """Return the columns of a session and of one of its items; None where a row is a whole session."""
    names = column_names(path)
    given = data.session is not None or data.item is not None
    if data.items in names and not given:
        return None
    usual: tuple[Column, Column] | None = session_columns(names)
    if form_of(path) == "tsv" and usual is None and not given:
        usual = (1, 2)
    if usual is None and not (data.session and data.item):
        return None
    session, item = usual or (data.session, data.item)
    return data.session or session or 1, data.item or item or 2


def _by_session(
    path: Path, columns: tuple[Column, Column], time: Column | None, corpus: FilesConfig
) -> Iterator[ItemSession]:
    """Yield sessions in the order of their first rows; rows of several may be mixed. ``time`` sorts those of each."""
    sessions: dict[str, list[tuple[float, str, str]]] = {}
    for row in read_rows(path, [*columns, *([] if time is None else [time])], part=corpus.part):
        session = text_of(row, columns[0])
        if not session.strip():
            raise DataError("the row names no session", where=row.where, why=f"column {columns[0]} is empty")
        moment = 0.0 if time is None else _moment(row, time)
        item = _item(text_of(row, columns[1]).strip(), row.where)
        sessions.setdefault(session, []).append((moment, item, row.where))
    for rows in sessions.values():
        rows.sort(key=lambda row: row[0])  # stable: equal times keep the order of the rows
        yield ItemSession(tuple(item for _, item, _ in rows), min(rows, key=lambda row: _line(row[2]))[2])


def _line(where: str) -> int:
    return int(where.rpartition(":")[2])


def _moment(row: Row, column: Column) -> float:
    """Return the time of a row as a number. DataError for what is neither a number nor a date in ISO 8601."""
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
        raise DataError(f"{text[:40]!r} is not a time", where=row.where, why=why, help="--set data.time=")
    return moment


def _items(cell: Cell, where: str) -> tuple[str, ...]:
    return tuple(_item(each, where) for each in (cell.split() if isinstance(cell, str) else cell))


def _item(item: str, where: str) -> str:
    """Return the name of an item: a text without white space. DataError for any other."""
    if not item or len(item.split()) != 1 or item != item.strip():
        why = "an item is a number, or a text without spaces"
        raise DataError(f"{item[:40]!r} is no item", where=where, why=why)
    return item
