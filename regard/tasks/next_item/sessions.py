"""Sessions of items from JSON lines, plain lines, TSV and tables of named columns, strict about what they accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.untrusted_files import parse_json
from regard.data.file_names import JSON_LINES, has_ending, named_files
from regard.data.reading import read_lines, refuse_pipe, told_keys
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import column_names, first_of, is_table, read_table, text_of
from regard.errors import DataError
from regard.tasks.next_item.data_config import SessionDataConfig

__all__ = ["ItemSession", "read_sessions", "session_columns"]

SESSIONS = ("session", "session_id", "user", "user_id", "customer", "customer_id")
ITEMS = ("item", "item_id", "product", "product_id", "track_id", "movie_id", "movieid")


class ItemSession(NamedTuple):
    """Items in the order in which they were chosen, and where the session begins."""

    items: tuple[str, ...]
    where: str


def read_sessions(corpora: Sequence[FilesConfig], data: SessionDataConfig) -> Iterator[ItemSession]:
    """The sessions of files, in their order. DataError, with file and line, for what is none.

    A JSON line has a list of items; a line of a ``.tsv`` has a session and an item, in the order of time; any other
    line is a session, with spaces between items. A row of a table with named columns has a list of items, or a session
    and an item. A share is taken by a hash of the items.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            if is_table(path):
                found = _of_columns(path, data.items)
            else:
                found = _by_session(_tab_rows(path)) if has_ending(path, (".tsv",)) else _of_lines(path, data.items)
            yield from (each for each in found if falls_into("\t".join(each.items), corpus.share))


def _of_lines(path: Path, key: str) -> Iterator[ItemSession]:
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}:{number}"
        items = _of_json(line, key, where) if has_ending(path, JSON_LINES) else tuple(line.split())
        if items:
            yield ItemSession(items, where)


def _of_json(line: str, key: str, where: str) -> tuple[str, ...]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError("the line is not JSON", where=where, why=str(error)) from error
    if not isinstance(row, dict) or not isinstance(row.get(key), list):
        why = told_keys(row) if isinstance(row, dict) else "it is no object"
        raise DataError(f"the line has no list under {key}", where=where, why=why, help="--set data.items=KEY")
    return tuple(_item(each, where) for each in row[key])


def _of_columns(path: Path, key: str) -> Iterator[ItemSession]:
    """Sessions of a table: a list of items a row, or one with spaces between them; or a session and an item a row."""
    names = column_names(path)
    columns = session_columns(names)
    if key in names or columns is None:
        for row in read_table(path, [key]):
            (cell,), where = row.cells, f"{path}:{row.number}"
            items = tuple(_item(each, where) for each in (cell.split() if isinstance(cell, str) else cell))
            if items:
                yield ItemSession(items, where)
        return
    rows = ((row.cells, f"{path}:{row.number}") for row in read_table(path, columns))
    told = (
        (text_of(cells[0], columns[0], where), _item(text_of(cells[1], columns[1], where).strip(), where), where)
        for cells, where in rows
    )
    yield from _by_session(told)


def session_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of a session and of its next item, by names that are well known; None where they do not tell."""
    session, item = first_of(names, SESSIONS), first_of(names, ITEMS)
    return None if session is None or item is None else (session, item)


def _by_session(rows: Iterator[tuple[str, str, str]]) -> Iterator[ItemSession]:
    """Sessions, in the order of their first rows, of rows (session, item, place); rows of several may be mixed."""
    found: dict[str, tuple[str, list[str]]] = {}
    for session, item, where in rows:
        found.setdefault(session, (where, []))[1].append(item)
    yield from (ItemSession(tuple(items), where) for where, items in found.values())


def _tab_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        cells, where = line.split("\t"), f"{path}:{number}"
        if len(cells) < 2 or not cells[0].strip():
            what = f"the line has {len(cells)} column{'s' * (len(cells) != 1)}"
            raise DataError(what, where=where, why="column 1 is the session, column 2 its next item")
        yield cells[0], _item(cells[1].strip(), where), where


def _item(given: object, where: str) -> str:
    """An item's name: a text without spaces, or a whole number."""
    item = str(given) if isinstance(given, str) or type(given) is int else ""
    if not item or len(item.split()) != 1 or item != item.strip():
        why = "an item is a number, or a text without spaces"
        raise DataError(f"{str(given)[:40]!r} is no item", where=where, why=why)
    return item
