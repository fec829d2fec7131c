"""Rows of files as named cells, for all formats: CSV, TSV, Parquet, JSON lines, CoNLL-U, FASTA.

Every reader of examples uses ``read_rows``. It finds columns by number or by name in any case, and parses lists in
cells. It selects the rows of a split, and reports errors with file and line.
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
from regard.core.wording import pluralize
from regard.data.column_names import is_head, part_of
from regard.data.file_names import CONLL_U, JSON_LINES, has_ending
from regard.data.molecules import FASTA, read_fasta
from regard.data.npz_files import array_names
from regard.data.tables import CSV, PARQUET, Cell, TableRow, missing_column, parquet_names, read_cells, read_parquet
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError

Column = int | str  # a number from 1, a name in the first line (in any case), or a key of JSON lines
Part = tuple[str, str]  # a column, and the split to select by its cells: ("split", "train")
Form = Literal["csv", "tsv", "parquet", "json-lines", "conll-u", "word-lines", "fasta", "npz", "text"]

TSV, WORD_LINES = (".tsv", ".tab"), (".conll", ".bio", ".iob", ".iob2", ".iobes", ".bioes", ".bilou")
ENDINGS: dict[Form, tuple[str, ...]] = {
    "csv": CSV, "tsv": TSV, "parquet": PARQUET, "json-lines": JSON_LINES, "conll-u": CONLL_U, "word-lines": WORD_LINES,
    "fasta": FASTA, "npz": (".npz",),
}  # fmt: skip
SAMPLED = 100  # a column has lists if all cells of this many first rows are lists
DOCUMENT_START = "-DOCSTART-"  # separates documents in CoNLL-2003
MAX_COLUMN = 1 << 20
# Possessive quantifiers: each character is examined once, so the time is linear for any cell.
ITEM = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+""")
BLANK = r"[ \t\r\n]*+"
PYTHON_LIST = re.compile(
    rf"\[{BLANK}(?:(?:{ITEM.pattern}){BLANK}(?:,{BLANK}(?:{ITEM.pattern}){BLANK})*+(?:,{BLANK})?+)?+\]"
)
PLAIN_TEXT = re.compile(r"""(["'])[^\\\n\r\0]*+""")  # quoted, without escapes


class Row(NamedTuple):
    """Cells of the requested columns, each a text or a tuple of texts; the file, and the first line (or row) from 1."""

    cells: Mapping[Column, Cell]
    path: Path
    number: int

    @property
    def where(self) -> str:
        return f"{self.path}:{self.number}"


class FileHead(NamedTuple):
    """The format of a file, and the names of its columns: () if they have no names."""

    form: Form
    names: tuple[str, ...]


def form_of(path: Path) -> Form:
    """Return the format of a file by its ending, in any case, ``.gz`` or not; "text" for all others."""
    return next((form for form, endings in ENDINGS.items() if has_ending(path, endings)), "text")


def read_head(path: Path) -> FileHead:
    """Read the column names of a file: for JSON lines, the keys of the first line; for a .npz, its arrays.

    The first line of a TSV names its columns if its cells are well-known names (``column_names.is_head``). DataError if
    the file is unreadable.
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
    """Return the column names of a file; () if the columns have no names."""
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
        path: a file of any format, plain or ``.gz``.
        columns: numbers from 1 or names. For a TSV, names mean that its first line is a header. For FASTA, the first
            column is the sequence and the last one is the last word of the header line.
        lists: those of the columns that may have lists. If all cells of the first hundred rows of such a column are
            lists in JSON or Python (``['a', 'b']``), all of its cells must be.
        grouped: whether the lines of a TSV up to a blank line are one row, each cell the tuple of its column.
        part: keeps the rows whose cell in that column names that split.

    Raises:
        DataError: with file and line, for a missing column or cell, and for contents that the format does not allow.
    """
    refuse_pipe(path)
    if form_of(path) == "npz":
        what, why = "cannot read a .npz as rows of cells", f"its arrays are {', '.join(array_names(path))}"
        raise DataError(what, where=str(path), why=why, help="docs/how-to/your-own-data.md lists the formats of a task")
    requested = [*columns, *([part[0]] if part is not None and part[0] not in columns else [])]
    if form_of(path) != "json-lines":  # in which a number is a key
        _require_numbers(requested, path)
    rows = _with_lists(_rows_of(path, requested, grouped), lists)
    for row in rows:
        if part is None or part_of(_single(row.cells[part[0]], part[0], row.where), row.where) == part[1]:
            yield row


def _require_numbers(columns: Sequence[Column], path: Path) -> None:
    """Raise DataError for an impossible column number."""
    for column in columns:
        if isinstance(column, int) and not 1 <= column <= MAX_COLUMN:
            why = f"columns are numbered from 1 to at most {MAX_COLUMN:,}"
            raise DataError(f"invalid column number {column}", where=str(path), why=why)


def text_of(row: Row, column: Column) -> str:
    """Return the text of a cell. DataError if it is a list."""
    cell = row.cells[column]
    if isinstance(cell, str):
        return cell
    raise DataError(f"{column!r} is a list", where=row.where, why="this column needs one text per row")


def tokens_of(row: Row, column: Column) -> tuple[str, ...]:
    """Return the tokens of a cell: a list, or a space-separated text. DataError for blank tokens and line breaks."""
    cell = row.cells[column]
    tokens = tuple(cell.split()) if isinstance(cell, str) else cell
    if not all(token.strip() and len(token.splitlines()) == 1 for token in tokens):
        raise DataError("empty word or tag", where=row.where, why="words and tags are nonblank texts of one line")
    return tokens


def aligned_tokens(row: Row, columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """Return the tokens and the tags of two cells. DataError if their numbers differ or are 0."""
    tokens, tags = cells = [tokens_of(row, column) for column in columns]
    if len(tokens) != len(tags) or not tokens:
        what = f"found {pluralize(len(tags), 'tag')} for {pluralize(len(tokens), 'token')}"
        raise DataError(what, where=row.where, why="a sentence needs at least one token, and each token one tag")
    return cells


def _single(cell: Cell, column: Column, where: str) -> str:
    """Return the value of a cell, or the common value of a group of lines."""
    if isinstance(cell, str):
        return cell
    if len({*cell}) != 1:
        raise DataError(f"column {column} has different values within one sentence", where=where)
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
    """Yield the rows of a CSV or Parquet file. DataError if it has no rows."""
    csv = form_of(path) == "csv"
    rows = read_cells(path) if csv else iter(())
    head = next((row.cells for row in rows), ()) if csv else parquet_names(path)
    names, where = [str(name) for name in head], f"{path}:1" if csv else str(path)
    positions = [_position(column, names, where) for column in columns]
    table_rows = (
        _csv_cells(rows, positions, len(names), path)
        if csv
        else read_parquet(path, [names[position] for position in positions])
    )
    number = 0
    for number, cells in table_rows:
        yield Row(dict(zip(columns, cells, strict=True)), path, number)
    if not number:
        raise DataError("the table has no rows", where=str(path), why="it has a header row only")


def _csv_cells(rows: Iterator[TableRow], positions: Sequence[int], width: int, path: Path) -> Iterator[TableRow]:
    for number, cells in rows:
        if len(cells) != width:
            raise DataError(
                f"the row has {pluralize(len(cells), 'cell')}",
                where=f"{path}:{number}",
                why=f"the header row has {pluralize(width, 'column')}",
                help="quote cells that contain a comma or a line break",
            )
        yield TableRow(number, tuple(cells[position] for position in positions))


def _position(column: Column, names: Sequence[str], where: str) -> int:
    """Return the position of a column, by number or by name: the exact name first, otherwise in any case."""
    if isinstance(column, int):
        if column > len(names):
            raise missing_column(f"number {column}", names, where)
        return column - 1
    positions = [position for position, name in enumerate(names) if name == column]
    positions = positions or [
        position for position, name in enumerate(names) if name.strip().lower() == column.strip().lower()
    ]
    if not positions:
        raise missing_column(column, names, where)
    if len(positions) > 1:
        raise DataError(f"two columns are named {column!r}", where=where, help="rename one of them")
    return positions[0]


def _json_row(line: str, columns: Sequence[Column], path: Path, number: int) -> Row:
    where = f"{path}:{number}"
    keys = parse_object(line, where=where)
    cells = {column: _json_cell(keys, str(column), where) for column in columns}
    return Row(cells, path, number)


def parse_object(line: str, *, where: str | None) -> dict[str, Any]:
    """Return the JSON object of a line; raises DataError, with the place, if the line is not an object."""
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
    name = next(
        (
            candidate
            for candidate in (key, *keys)
            if candidate in keys and candidate.strip().lower() == key.strip().lower()
        ),
        None,
    )
    value = None if name is None else keys[name]
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, list):
        if all(type(item) in (str, int) for item in value):
            return tuple(map(str, value))
        why = f"it is {shortened(str(value))}"
        raise DataError(f"the list {key!r} must have only texts or only integers", where=where, why=why)
    if name is not None:
        what = "null" if value is None else "a table"
        why = "it must be a text, a number, or a list of texts or of integers"
        raise DataError(f"the value of {key!r} is {what}", where=where, why=why)
    near = missing_column(key, [*islice(keys, 20)], where).help
    raise DataError(f"the line has no text with the key {key!r}", where=where, why=describe_keys(keys), help=near)


def _fasta_row(words: Sequence[str], sequence: str, columns: Sequence[Column], where: str) -> Row:
    if len(columns) > 1 and len(words) < 2:
        what = "the record has no label"
        raise DataError(what, where=where, why="the label is its last word: >name label")
    path, _, number = where.rpartition(":")
    return Row({columns[0]: sequence} | dict.fromkeys(columns[1:], words[-1]), Path(path), int(number))


def _cells(line: str, form: Form) -> list[str]:
    """Return the cells of a line: separated by tabs; for word lines without a tab, by spaces."""
    return line.split() if form == "word-lines" and "\t" not in line else line.split("\t")


def _line_rows(path: Path, columns: Sequence[Column], form: Form) -> Iterator[Row | None]:
    """Yield the rows of a file with tab-separated cells; None for a blank line."""
    positions: list[int] | None = None
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip(" "):
            yield None
            continue
        cells = _cells(line, form)
        if form == "conll-u" and (line.startswith("#") or not cells[0].isdigit()):
            continue  # comments, multiword tokens (1-2), empty nodes (1.1)
        if positions is None:
            numbers = [column for column in columns if isinstance(column, int)]
            if len(numbers) < len(columns):
                positions = [_position(column, cells, f"{path}:1") for column in columns]
                continue
            positions = [number - 1 for number in numbers]
        if len(cells) <= max(positions):
            raise DataError(
                f"the line has {pluralize(len(cells), 'column')}",
                where=f"{path}:{number}",
                why=f"the requested columns are {', '.join(map(str, columns))}",
                help="separate cells by tabs; the config names the columns (regard train --help)",
            )
        yield Row({column: cells[position] for column, position in zip(columns, positions, strict=True)}, path, number)


def _groups(rows: Iterator[Row | None], path: Path) -> Iterator[Row]:
    """Yield one row for the lines between blank lines; document separators are left out."""
    group: list[Row] = []
    for row in chain(rows, [None]):
        if row is not None and next(iter(row.cells.values())) != DOCUMENT_START:
            group.append(row)
        elif group and row is None:
            cells = {column: tuple(str(line.cells[column]).strip() for line in group) for column in group[0].cells}
            for column in cells:
                if "" in cells[column]:
                    line = group[cells[column].index("")]
                    raise DataError(f"column {column} is empty", where=line.where, why="every word needs all columns")
            yield Row(cells, path, group[0].number)
            group = []


def _with_lists(rows: Iterator[Row], columns: Collection[Column]) -> Iterator[Row]:
    """Parse the cells of these columns as lists if all cells of the first rows are lists."""
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
    """Return the list in a Python literal; None for other text, unknown escapes and unpaired surrogates."""
    if not PYTHON_LIST.fullmatch(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # unknown escapes, which Python would keep as they are
            items = [_python_item(item[0]) for item in ITEM.finditer(text)]
        "".join(map(str, items)).encode()
    except (SyntaxError, ValueError):
        return None
    return items


def _python_item(item: str) -> str | int | float:
    """Return the text or number of one item. Parsing a whole list at once would take 500 times its length in memory."""
    if item[0] not in "\"'":
        return float(item) if "." in item else int(item)
    value: str = item[1:-1] if PLAIN_TEXT.fullmatch(item) else ast.literal_eval(item)
    return value


def _parsed_list(cell: Cell, column: Column, where: str) -> tuple[str, ...]:
    """Return the items of a list in JSON or in Python syntax, as written by a data frame."""
    if not isinstance(cell, str):
        return cell
    try:
        items = parse_json(cell)
    except ValueError:
        items = _python_list(cell.strip())
    if not isinstance(items, list) or not all(isinstance(item, str | int | float) for item in items):
        why = f"the other cells of this column are lists; this one is {shortened(cell)}"
        raise DataError(
            f"the cell of {column!r} is not a list", where=where, why=why, help='write lists as ["a", "b"] or []'
        )
    return tuple(map(str, items))
