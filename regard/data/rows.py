"""Rows of files as named cells, whatever the format: CSV, TSV, Parquet, JSON lines, CoNLL-U, FASTA.

Every reader of examples goes through ``read_rows``: it finds columns by number or by name in any case, reads lists in
cells, takes the rows of one part, and names the file and line of what it cannot read.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.core.untrusted_files import parse_json, shortened
from regard.core.wording import pluralize, pluralize_with_verb
from regard.data.column_names import is_head, part_of
from regard.data.file_names import CONLL_U, JSON_LINES, has_ending
from regard.data.molecules import FASTA, read_fasta
from regard.data.npz_files import array_names
from regard.data.tables import CSV, PARQUET, Cell, TableRow, missing_column, parquet_names, read_cells, read_parquet
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError

Column = int | str  # a number from 1; or a name of the first line, in any case, or a key of JSON lines
Part = tuple[str, str]  # a column, and the part of the data that its cells name: ("split", "train")
Form = Literal["csv", "tsv", "parquet", "json-lines", "conll-u", "word-lines", "fasta", "npz", "text"]

TSV, WORD_LINES = (".tsv", ".tab"), (".conll", ".bio", ".iob", ".iob2", ".iobes", ".bioes", ".bilou")
ENDINGS: dict[Form, tuple[str, ...]] = {
    "csv": CSV, "tsv": TSV, "parquet": PARQUET, "json-lines": JSON_LINES, "conll-u": CONLL_U, "word-lines": WORD_LINES,
    "fasta": FASTA, "npz": (".npz",),
}  # fmt: skip
SAMPLED = 100  # rows, all of whose cells of a column must be lists for the column to hold lists
DOCUMENT_START = "-DOCSTART-"  # the word of a line that divides documents (CoNLL-2003)
MAX_COLUMN = 1 << 20
# Possessive, so that each character is examined once, whatever the cell holds.
ITEM = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+""")
BLANK = r"[ \t\r\n]*+"
PYTHON_LIST = re.compile(
    rf"\[{BLANK}(?:(?:{ITEM.pattern}){BLANK}(?:,{BLANK}(?:{ITEM.pattern}){BLANK})*+(?:,{BLANK})?+)?+\]"
)
PLAIN_TEXT = re.compile(r"""(["'])[^\\\n\r\0]*+""")  # quoted, without an escape


class Row(NamedTuple):
    """Cells of the requested columns, each a text or a tuple of texts; its file, and its first line (or row) from 1."""

    cells: Mapping[Column, Cell]
    path: Path
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


class FileHead(NamedTuple):
    """The form of a file, and the names of its columns: () where they have none."""

    form: Form
    names: tuple[str, ...]


def form_of(path: Path) -> Form:
    """Return the form of a file by its ending, in any case, ``.gz`` or not; text for all others."""
    return next((form for form, endings in ENDINGS.items() if has_ending(path, endings)), "text")


def read_head(path: Path) -> FileHead:
    """Read the names of the columns of a file; of JSON lines the keys of the first one, of a .npz its arrays.

    DataError if it is unreadable.

    The first line of a TSV names its columns where its cells are well-known names (``column_names.is_head``).
    """
    refuse_pipe(path)
    form = form_of(path)
    names: Sequence[str] = ()
    if form == "parquet":
        names = parquet_names(path)
    elif form == "npz":
        names = array_names(path)
    elif form == "csv":
        names = [str(name) for name in next((row.cells for row in read_cells(path)), ())]
    elif form == "json-lines":
        number, line = next(((n, line) for n, line in enumerate(read_lines(path), 1) if line.strip()), (1, ""))
        names = tuple(parse_object(line, where=f"{path}:{number}"))
    elif form in ("tsv", "word-lines"):
        cells = _cells(next(iter(read_lines(path))), form)
        names = tuple(cells) if is_head(cells) else ()
    return FileHead(form, tuple(names))


def column_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a file; () where they have none."""
    return read_head(path).names


def read_rows(
    path: Path,
    columns: Sequence[Column],
    *,
    lists: Collection[Column] = (),
    grouped: bool = False,
    part: Part | None = None,
) -> Iterator[Row]:
    """Yield the rows of a file with the cells of ``columns``.

    Args:
        path: a file of any form; plain or ``.gz``.
        columns: numbers from 1 or names. Of a TSV names mean that its first line names the columns. Of FASTA the first
            column is the sequence, the last one the last word of the line above it.
        lists: those of the columns that may hold lists. Where all cells of the first hundred rows of such a column are
            lists in JSON or Python (``['a', 'b']``), all of its cells must be.
        grouped: whether the lines of a TSV up to a blank one are one row, each cell the tuple of its column.
        part: the rows whose cell of that column names that part.

    Raises:
        DataError: with file and line, for a missing column, a row without it, and what the form does not allow.
    """
    refuse_pipe(path)
    if form_of(path) == "npz":
        what, why = "a .npz cannot be read as rows of cells", f"its arrays are {', '.join(array_names(path))}"
        raise DataError(what, where=str(path), why=why, help="docs/how-to/your-own-data.md lists the formats of a task")
    requested = [*columns, *([part[0]] if part is not None and part[0] not in columns else [])]
    if form_of(path) != "json-lines":  # of which a number is a key
        _require_numbers(requested, path)
    rows = _with_lists(_rows_of(path, requested, grouped), lists)
    for row in rows:
        if part is None or part_of(_single(row.cells[part[0]], part[0], row.where), row.where) == part[1]:
            yield row


def _require_numbers(columns: Sequence[Column], path: Path) -> None:
    """DataError for the number of a column that no file has."""
    for column in columns:
        if isinstance(column, int) and not 1 <= column <= MAX_COLUMN:
            why = f"columns are numbered from 1, and at most {MAX_COLUMN:,} are read"
            raise DataError(f"there is no column {column}", where=str(path), why=why)


def text_of(row: Row, column: Column) -> str:
    """Return the text of a cell. DataError where it is a list."""
    cell = row.cells[column]
    if isinstance(cell, str):
        return cell
    raise DataError(f"{column!r} is a list", where=row.where, why="one text is read from this column")


def tokens_of(row: Row, column: Column) -> tuple[str, ...]:
    """Return the tokens of a cell: a list, or a text with spaces between. DataError if one is blank or has lines."""
    cell = row.cells[column]
    tokens = tuple(cell.split()) if isinstance(cell, str) else cell
    if not all(token.strip() and len(token.splitlines()) == 1 for token in tokens):
        raise DataError("a word or a tag is empty", where=row.where, why="each is a text in one line")
    return tokens


def aligned_tokens(row: Row, columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """Return the tokens and the tags of two cells. DataError if there is none, or more of one than of the other."""
    tokens, tags = cells = [tokens_of(row, column) for column in columns]
    if len(tokens) != len(tags) or not tokens:
        what = f"{pluralize_with_verb(len(tags), 'tag', 'does', 'do')} not fit {pluralize(len(tokens), 'token')}"
        raise DataError(what, where=row.where, why="every token has one tag, and a sentence has tokens")
    return cells


def _single(cell: Cell, column: Column, where: str) -> str:
    """Return the one value of a cell, or of a group of lines with equal ones."""
    if isinstance(cell, str):
        return cell
    if len({*cell}) != 1:
        raise DataError(f"column {column} has several values in one sentence", where=where)
    return cell[0]


def _rows_of(path: Path, columns: Sequence[Column], grouped: bool) -> Iterator[Row]:
    form = form_of(path)
    if form in ("csv", "parquet"):
        yield from _table_rows(path, columns)
    elif form == "json-lines":
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                yield _json_row(line, columns, path, number)
    elif form == "fasta":
        for record in read_fasta(path):
            yield _fasta_row(record.words, record.sequence, columns, record.where)
    elif grouped:
        yield from _groups(_line_rows(path, columns, form), path)
    else:
        yield from (row for row in _line_rows(path, columns, form) if row is not None)


def _table_rows(path: Path, columns: Sequence[Column]) -> Iterator[Row]:
    """Rows of a CSV or Parquet file. DataError where there is none."""
    csv = form_of(path) == "csv"
    rows = read_cells(path) if csv else iter(())
    head = next((row.cells for row in rows), ()) if csv else parquet_names(path)
    names, where = [str(name) for name in head], f"{path}:1" if csv else str(path)
    places = [_place(column, names, where) for column in columns]
    read = _csv_cells(rows, places, len(names), path) if csv else read_parquet(path, [names[at] for at in places])
    number = 0
    for number, cells in read:
        yield Row(dict(zip(columns, cells, strict=True)), path, number)
    if not number:
        raise DataError("the table has no rows", where=str(path), why="it holds nothing but the names of its columns")


def _csv_cells(rows: Iterator[TableRow], places: Sequence[int], width: int, path: Path) -> Iterator[TableRow]:
    for number, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"the row has {pluralize(len(cells), 'cell')}",
                where=f"{path}:{number}",
                why=f"the first line names {pluralize(width, 'column')}",
                help="a cell with a comma or a line break is written in quotes",
            )
        yield TableRow(number, tuple(cells[place] for place in places))


def _place(column: Column, names: Sequence[str], where: str) -> int:
    """Return the place of a column, by number or by name: as it is written, or else in any case."""
    if isinstance(column, int):
        if column > len(names):
            raise missing_column(f"number {column}", names, where)
        return column - 1
    same = [place for place, name in enumerate(names) if name == column]
    same = same or [place for place, name in enumerate(names) if name.strip().lower() == column.strip().lower()]
    if not same:
        raise missing_column(column, names, where)
    if len(same) > 1:
        raise DataError(f"two columns are named {column!r}", where=where, help="give each a name of its own")
    return same[0]


def _json_row(line: str, columns: Sequence[Column], path: Path, number: int) -> Row:
    where = f"{path}:{number}"
    keys = parse_object(line, where=where)
    cells = {column: _json_cell(keys, str(column), where) for column in columns}
    return Row(cells, path, number)


def parse_object(line: str, *, where: str | None) -> dict[str, Any]:
    """Return the JSON object of a line; raises DataError, with the place, if the line holds none."""
    try:
        value = parse_json(line)
    except ValueError as error:
        raise DataError("the line is not JSON", where=where, why=str(error)) from error
    if not isinstance(value, dict):
        raise DataError("the line is not a JSON object", where=where, why='an example is an object: {"key": value}')
    return value


def describe_keys(row: Mapping[str, object]) -> str:
    """Return the first keys of an object for a message, in characters that every terminal can print."""
    keys = shortened(", ".join(islice(row, 20))) or "none"
    return f"its keys are {keys.encode('utf-8', 'backslashreplace').decode()}"


def _json_cell(keys: Mapping[str, Any], key: str, where: str) -> Cell:
    name = next((each for each in (key, *keys) if each in keys and each.strip().lower() == key.strip().lower()), None)
    value = None if name is None else keys[name]
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        if all(type(each) in (str, int) for each in value):
            return tuple(map(str, value))
        why = f"it is {shortened(str(value))}"
        raise DataError(f"the list under {key!r} holds neither texts nor whole numbers", where=where, why=why)
    near = missing_column(key, [*islice(keys, 20)], where).help
    raise DataError(f"the line has no text under {key!r}", where=where, why=describe_keys(keys), help=near)


def _fasta_row(words: Sequence[str], sequence: str, columns: Sequence[Column], where: str) -> Row:
    if len(columns) > 1 and len(words) < 2:
        what = "the record has no label"
        raise DataError(what, where=where, why="it is the last word of the line: >name label")
    path, _, number = where.rpartition(":")
    return Row({columns[0]: sequence} | dict.fromkeys(columns[1:], words[-1]), Path(path), int(number))


def _cells(line: str, form: Form) -> list[str]:
    """Return the cells of a line: between tabs; of word lines without a tab between spaces."""
    return line.split() if form == "word-lines" and "\t" not in line else line.split("\t")


def _line_rows(path: Path, columns: Sequence[Column], form: Form) -> Iterator[Row | None]:
    """Rows of a file of lines with tabs between cells; None for a blank line."""
    places: list[int] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" "):
            yield None
            continue
        cells = _cells(line, form)
        if form == "conll-u" and (line.startswith("#") or not cells[0].isdigit()):
            continue  # a comment; 1-2, a token of several words; 1.1, a word that is not written
        if places is None:
            numbers = [column for column in columns if isinstance(column, int)]
            if len(numbers) < len(columns):
                places = [_place(column, cells, f"{path}:1") for column in columns]
                continue
            places = [number - 1 for number in numbers]
        if len(cells) <= max(places):
            raise DataError(
                f"the line has {pluralize(len(cells), 'column')}",
                where=f"{path}:{number}",
                why=f"columns {', '.join(map(str, columns))} are read",
                help="cells are separated by tabs; a config names the columns that are read (regard train --help)",
            )
        yield Row({column: cells[place] for column, place in zip(columns, places, strict=True)}, path, number)


def _groups(rows: Iterator[Row | None], path: Path) -> Iterator[Row]:
    """Rows of the lines between blank ones; lines that divide documents are left out."""
    group: list[Row] = []
    for row in chain(rows, [None]):
        if row is not None and next(iter(row.cells.values())) != DOCUMENT_START:
            group.append(row)
        elif group and row is None:
            cells = {column: tuple(str(line.cells[column]).strip() for line in group) for column in group[0].cells}
            for column in cells:
                if "" in cells[column]:
                    line = group[cells[column].index("")]
                    raise DataError(f"column {column} is empty", where=line.where, why="every word has each column")
            yield Row(cells, path, group[0].number)
            group = []


def _with_lists(rows: Iterator[Row], columns: Collection[Column]) -> Iterator[Row]:
    """Rows in which the cells of these columns are lists where the first rows have lists alone."""
    if not columns:
        yield from rows
        return
    first = list(islice(rows, SAMPLED))
    listed = {column for column in columns if first and all(_looks_like_list(row.cells[column]) for row in first)}
    for row in chain(first, rows):
        cells = {column: _parsed_list(row.cells[column], column, row.where) for column in listed}
        yield row._replace(cells={**row.cells, **cells}) if cells else row


def _looks_like_list(cell: Cell) -> bool:
    return isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]")


def _python_list(text: str) -> Any:
    """Return the list that a text of Python is; None where it is none, has an unknown escape or half of a character."""
    if not PYTHON_LIST.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of an unknown escape, which Python reads as it stands
            found = [_python_item(item[0]) for item in ITEM.finditer(text)]
        "".join(map(str, found)).encode()
    except (SyntaxError, ValueError):
        return None
    return found


def _python_item(item: str) -> str | int | float:
    """Return the text or number of one item. The syntax tree of a whole list takes 500 times its length."""
    if item[0] not in "\"'":
        return float(item) if "." in item else int(item)
    value: str = item[1:-1] if PLAIN_TEXT.fullmatch(item) else ast.literal_eval(item)
    return value


def _parsed_list(cell: Cell, column: Column, where: str) -> tuple[str, ...]:
    """Return the items of a list that is written in JSON, or in Python as a data frame writes it."""
    if not isinstance(cell, str):
        return cell
    try:
        found = parse_json(cell)
    except ValueError:
        found = _python_list(cell.strip())
    if not isinstance(found, list) or not all(isinstance(each, str | int | float) for each in found):
        why = f"the other cells of this column are lists, and this one is {shortened(cell)}"
        raise DataError(f"the cell of {column!r} is not a list", where=where, why=why, help='["a", "b"], or []')
    return tuple(map(str, found))
