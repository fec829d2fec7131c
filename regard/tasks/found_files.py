"""Files that nobody wrote a config for: whether they are one corpus, its columns, and its part for validation."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import pluralize
from regard.data.column_names import PARTS, SPLITS, first_of
from regard.data.file_names import named_files
from regard.data.packed_files import is_gzipped
from regard.data.rows import DOCUMENT_START, FileHead, form_of, read_head, read_rows, text_of
from regard.data.shared_files import FilesConfig
from regard.data.text_files import filter_command, first_bytes, read_lines
from regard.errors import DataError, RegardError
from regard.tasks.split import split_shares

SAMPLED = 1_000  # lines of a text, all of which have the same columns if they are rows
FEWEST_ROWS = 10  # of fewer lines equal numbers of columns are no sign
MAX_TAGS = 100  # different last cells of the lines of tagged words

_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


class FoundCorpus(NamedTuple):
    """Files of one form with the same columns.

    ``source``: as a config names them. ``first``: the first file, which speaks for all. ``split``: the column that
    assigns rows to parts, where there is one, and how many rows each part has.
    """

    source: str | list[str]
    first: Path
    head: FileHead
    split: str | None
    parts: Mapping[str, int]


class CommonHead(NamedTuple):
    """Files of one form with the same columns; the head is that of the first."""

    files: list[Path]
    head: FileHead


def common_head(names: Sequence[Path]) -> CommonHead | None:
    """Return the head of files or patterns; None where they are not all readable, of one form and alike."""
    try:
        files = [file for name in names for file in named_files(name)]
        if not files or not all(file.is_file() for file in files):  # a pipe can be read once, by nobody who only looks
            return None
        heads = [read_head(file) for file in files]
    except RegardError:  # reported by the next reader
        return None
    if any(head.form != heads[0].form or _spelled(head) != _spelled(heads[0]) for head in heads):
        return None
    return CommonHead(files, heads[0])


def found_corpus(names: Sequence[Path]) -> FoundCorpus | None:
    """Return the corpus that files or patterns are; None where ``common_head`` finds none. Reads a column of parts."""
    common = common_head(names)
    if common is None:
        return None
    files, head = common
    source = str(names[0]) if len(names) == 1 else [str(name) for name in names]
    column = first_of(head.names, SPLITS)
    parts = None if column is None else _rows_by_part(files, column)
    return FoundCorpus(source, files[0], head, None if parts is None else column, parts or {})


def require_known_form(path: Path) -> None:
    """DataError for a file that would be read as plain text, though labels or keys are in it, or it is no text.

    Each help is a command that makes a file of it which is read.
    """
    if path.name.lower().endswith((".npz", ".npy", ".parquet", ".pq")):
        return  # read by their own libraries
    first = first_bytes(path).lstrip()
    stem = path.name.split(".")[0]
    if path.name.lower().endswith((".json", ".json.gz")) and first[:1] in (b"[", b"{"):
        convert = "python3 -c 'import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]'"
        command = filter_command(convert, path, f"{stem}.jsonl")
        what = "a .json file cannot be read: examples are read from .jsonl, an object a line"
        raise DataError(what, where=str(path), help=command)
    if form_of(path) == "text" and first.startswith(b"__label__"):
        command = filter_command(r"sed -E 's/^__label__([^ ]+) (.*)$/\2\t\1/'", path, f"{stem}.tsv")
        why = "its lines begin with __label__, which a language model would learn as text"
        raise DataError("labels of fastText are not read", where=str(path), why=why, help=command)


def refuse_rows(path: Path) -> None:
    """DataError for a text whose lines are rows, so that a language model would learn labels as text.

    Rows have the same number of tabs or of ``::``; words and their tags also the same number of cells between spaces,
    with blank lines between sentences.
    """
    if form_of(path) != "text" or not path.is_file():
        return
    lines = list(islice(read_lines(path), SAMPLED))
    rows = [line for line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
    if len(rows) < FEWEST_ROWS:
        return
    separator = _separator(rows, blank=len(rows) < len(lines))
    if separator is None:
        return
    columns = len(rows[0].split() if separator == " " else rows[0].split(separator))
    between = {"\t": "tabs", "::": "'::'", " ": "spaces"}[separator]
    raise DataError(
        "the lines of this text are rows of a table",
        where=str(path),
        why=f"each has {columns} columns with {between} between them, which a language model would learn as text",
        help=f"{_as_rows(path, separator, '.conll' if len(rows) < len(lines) else '.tsv')}, and train on that file; "
        "--task language-model reads the lines as text",
    )


def _separator(rows: Sequence[str], *, blank: bool) -> str | None:
    """Return what stands between the columns of rows; of words and tags, with blank lines, also a space."""
    for separator in ("\t", "::"):
        counts = {row.count(separator) for row in rows}
        if len(counts) == 1 and 0 not in counts:
            return separator
    return " " if blank and _are_tagged(rows) else None


def _as_rows(path: Path, separator: str, ending: str) -> str:
    """Return the command that makes a file of the same lines, whose name has the ending of rows."""
    packed = ".gz" if is_gzipped(path) else ""
    name = Path(path.name[: -len(packed)] if packed else path.name).stem + ending
    if separator == "::":
        return filter_command(r"sed 's/::/\t/g'", path, name)
    return f"cp {shlex.quote(str(path))} {shlex.quote(str(path.with_name(name + packed)))}"


def _are_tagged(rows: Sequence[str]) -> bool:
    """Return whether lines have equally many cells, the last of which are of few kinds: words and their tags."""
    cells = [row.split() for row in rows]
    equal = len({len(each) for each in cells}) == 1 and len(cells[0]) > 1
    tags = {each[-1] for each in cells}
    return equal and len(tags) <= min(MAX_TAGS, len(rows) // 2)


def _spelled(head: FileHead) -> set[str]:
    """Return the names of columns; of JSON lines nothing, since the first object need not have all keys."""
    return set() if head.form == "json-lines" else {name.strip().lower() for name in head.names}


def _rows_by_part(files: Sequence[Path], column: str) -> Counter[str] | None:
    """Count the rows of each part; None where a cell of the column names no part."""
    counts = Counter[str]()
    try:
        for file in files:
            for row in read_rows(file, [column]):
                part = PARTS.get(text_of(row, column).strip().lower())
                if part is None:
                    return None
                counts[part] += 1
    except RegardError:  # reported by the next reader
        return None
    return counts


def describe_columns(corpus: FoundCorpus, read: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line that says which columns are read as what, and which are not read; no line without names."""
    if not corpus.head.names:
        return []
    roles = {**read, "part": [corpus.split] if corpus.split is not None else []}
    used = [f"{', '.join(names)} ({role})" for role, names in roles.items() if names]
    known = {name for names in roles.values() for name in names}
    left = [name or "(unnamed)" for name in corpus.head.names if name not in known]
    return [f"columns read: {', '.join(used)}" + (f"; not read: {', '.join(left)}" if left else "")]


def held_out_parts(
    corpus: FoundCorpus,
    valid: Sequence[Path],
    *,
    examples: str,
    hashed: str,
    keys: Callable[[FilesConfig], Iterable[str]] | None = None,
) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Return the tables ``train`` and ``valid`` of the data in a config, and the reason for people.

    Args:
        corpus: the files. A column of parts decides where it exists.
        valid: files to validate on.
        examples: what examples are called, in the plural.
        hashed: what the hash is of that holds a tenth out where nothing else decides.
        keys: the texts that are hashed, of the examples of files.
    """
    whole: dict[str, Any] = {"source": corpus.source}
    marked = ""
    if corpus.split is not None:
        if not corpus.parts.get("train"):
            what = f"no row is marked train in the column {corpus.split!r}"
            known = ", ".join(f"{name} {count:,}" for name, count in corpus.parts.items())
            raise DataError(what, where=str(corpus.first), why=f"its parts are {known}", help="rename the column")
        test = corpus.parts.get("test", 0)
        rest = f"; {pluralize(test, 'row')} marked test left for regard evaluate" if test else ""
        marked = f"column {corpus.split}: {pluralize(corpus.parts['train'], 'row')} to train on{rest}; "
        whole["part"] = [corpus.split, "train"]
    if valid:
        given = [{"source": str(each)} for each in valid]
        return {"train": [whole], "valid": given}, f"{marked}validates on the {examples} given"
    if corpus.parts.get("valid"):
        held_out = {**whole, "part": [corpus.split, "valid"]}
        return {"train": [whole], "valid": [held_out]}, f"{marked}{corpus.parts['valid']:,} marked valid to validate on"
    shares = _shares(whole, keys)
    if shares is None:
        told = f"all {examples} are equal: none is held out, so there is no validation; --valid-file names others"
        return {"train": [whole]}, f"{marked}{told}"
    parts = {name: [{**whole, "share": share}] for name, share in shares.items()}
    if shares != _SHARES:
        end = "lowest" if shares["valid"][0] == 0 else "highest"
        return parts, f"{marked}few {examples} differ: those with the {end} hash of {hashed} are held out"
    return parts, f"{marked}no validation {examples} given: a tenth of them is held out, by a hash of {hashed}"


def _shares(
    whole: dict[str, Any], keys: Callable[[FilesConfig], Iterable[str]] | None
) -> dict[str, list[float]] | None:
    """Return the shares to train and to validate on; the usual ones where the files cannot be read."""
    if keys is None:
        return _SHARES
    try:
        return split_shares(keys(FilesConfig.model_validate(whole)))
    except RegardError:  # the next reader reports it
        return _SHARES
