"""Sessions of items from JSON lines, plain lines and tables, strict about what they accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from regard.core.untrusted_files import parse_json
from regard.data.file_names import JSON_LINES, has_ending, named_files
from regard.data.reading import read_lines, refuse_pipe, told_keys
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import DataError
from regard.tasks.next_item.config import SessionDataConfig

__all__ = ["ItemSession", "read_sessions"]


class ItemSession(NamedTuple):
    """Items in the order in which they were chosen, and where the session begins."""

    items: tuple[str, ...]
    where: str


def read_sessions(corpora: Sequence[FilesConfig], data: SessionDataConfig) -> Iterator[ItemSession]:
    """The sessions of files, in their order. DataError, with file and line, for what is none.

    A JSON line has a list of items; a line of a ``.tsv`` has a session and an item, in the order of time; any other
    line is a session, with spaces between items. A share is taken by a hash of the items.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            found = _of_table(path) if has_ending(path, (".tsv",)) else _of_lines(path, data.items)
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


def _of_table(path: Path) -> Iterator[ItemSession]:
    """Sessions by their first row; rows of several may be mixed."""
    found: dict[str, tuple[str, list[str]]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        cells, where = line.split("\t"), f"{path}:{number}"
        if len(cells) < 2 or not cells[0].strip():
            what = f"the line has {len(cells)} column{'s' * (len(cells) != 1)}"
            raise DataError(what, where=where, why="column 1 is the session, column 2 its next item")
        found.setdefault(cells[0], (where, []))[1].append(_item(cells[1].strip(), where))
    yield from (ItemSession(tuple(items), where) for where, items in found.values())


def _item(given: object, where: str) -> str:
    """An item's name: a text without spaces, or a whole number."""
    item = str(given) if isinstance(given, str) or type(given) is int else ""
    if not item or len(item.split()) != 1 or item != item.strip():
        why = "an item is a number, or a text without spaces"
        raise DataError(f"{str(given)[:40]!r} is no item", where=where, why=why)
    return item
