"""Detection of the corpus in data files without a config: its form, its columns, and its validation part."""

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

SAMPLED = 1_000  # lines of a text that are checked for columns
MIN_ROWS = 10  # with fewer lines, equal numbers of columns may be a coincidence
MAX_TAGS = 100  # maximum number of different tags in a file of tagged words

_SHARES = {"train": [0.0, 0.9], "valid": [0.9, 1.0]}


class DetectedCorpus(NamedTuple):
    """Files of one form with the same columns.

    Attributes:
        source: the files, as a config names them.
        first: the first file.
        head: the form and the columns.
        split: the column that assigns rows to parts; None if there is no such column.
        parts: the number of rows of each part.
    """

    source: str | list[str]
    first: Path
    head: FileHead
    split: str | None
    parts: Mapping[str, int]


class CommonHead(NamedTuple):
    """Files of one form with the same columns, and the head of the first file."""

    files: list[Path]
    head: FileHead


def common_head(names: Sequence[Path]) -> CommonHead | None:
    """Return the head of files or patterns; None if they are not all readable with the same form and columns."""
    try:
        files = [file for name in names for file in named_files(name)]
        if not files or not all(file.is_file() for file in files):  # a pipe can be read only once
            return None
        heads = [read_head(file) for file in files]
    except RegardError:  # reported by the next reader
        return None
    if any(head.form != heads[0].form or _spelled(head) != _spelled(heads[0]) for head in heads):
        return None
    return CommonHead(files, heads[0])


def detect_corpus(
    names: Sequence[Path], accepts: Callable[[CommonHead], bool] = lambda common: True
) -> DetectedCorpus | None:
    """Return the corpus of files or patterns; None if they have no ``common_head`` or ``accepts`` is false for it.

    Reads the column of parts, of all rows, and therefore only of files that the head does not exclude.
    """
    common = common_head(names)
    if common is None or not accepts(common):
        return None
    files, head = common
    source = str(names[0]) if len(names) == 1 else [str(name) for name in names]
    column = first_of(head.names, SPLITS)
    parts = None if column is None else _rows_by_part(files, column)
    return DetectedCorpus(source, files[0], head, None if parts is None else column, parts or {})


def require_known_form(path: Path) -> None:
    """Raise DataError for a file in an unsupported form that would be read as plain text.

    The help of the error is a command that converts the file.
    """
    if path.name.lower().endswith((".npz", ".npy", ".parquet", ".pq")):
        return  # read by their own libraries
    first = first_bytes(path).lstrip()
    stem = path.name.split(".")[0]
    if path.name.lower().endswith((".json", ".json.gz")) and first[:1] in (b"[", b"{"):
        convert = "python3 -c 'import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]'"
        command = filter_command(convert, path, f"{stem}.jsonl")
        what = "unsupported format .json: examples are read from .jsonl files, one object per line"
        raise DataError(what, where=str(path), help=command)
    if form_of(path) == "text" and first.startswith(b"__label__"):
        command = filter_command(r"sed -E 's/^__label__([^ ]+) (.*)$/\2\t\1/'", path, f"{stem}.tsv")
        why = "its lines start with __label__; a language model would learn the labels as text"
        raise DataError("unsupported format: labels of fastText", where=str(path), why=why, help=command)


def refuse_rows(path: Path) -> None:
    """Raise DataError for a text whose lines are table rows, which a language model would learn as text.

    Lines are rows if all have the same number of tabs or ``::``. Lines of tagged words have the same number of cells
    separated by spaces, with blank lines between sentences.
    """
    if form_of(path) != "text" or not path.is_file():
        return
    lines = list(islice(read_lines(path), SAMPLED))
    rows = [line for line in lines if line.strip() and not line.startswith(DOCUMENT_START)]
    if len(rows) < MIN_ROWS:
        return
    separator = _separator(rows, blank=len(rows) < len(lines))
    if separator is None:
        return
    columns = len(rows[0].split() if separator == " " else rows[0].split(separator))
    between = {"\t": "tabs", "::": "'::'", " ": "spaces"}[separator]
    raise DataError(
        "the lines of this text are rows of a table",
        where=str(path),
        why=f"each line has {columns} columns separated by {between}; a language model would learn them as text",
        help=f"{_as_rows(path, separator, '.conll' if len(rows) < len(lines) else '.tsv')}, then train on that file; "
        "or use --task language-model to read the lines as text",
    )


def _separator(rows: Sequence[str], *, blank: bool) -> str | None:
    """Return the separator of columns: a tab or ``::``, or a space for tagged words with blank lines; else None."""
    for separator in ("\t", "::"):
        counts = {row.count(separator) for row in rows}
        if len(counts) == 1 and 0 not in counts:
            return separator
    return " " if blank and _are_tagged(rows) else None


def _as_rows(path: Path, separator: str, ending: str) -> str:
    """Return the command that writes the same lines to a file with the extension of a table."""
    packed = ".gz" if is_gzipped(path) else ""
    name = Path(path.name[: -len(packed)] if packed else path.name).stem + ending
    if separator == "::":
        return filter_command(r"sed 's/::/\t/g'", path, name)
    return f"cp {shlex.quote(str(path))} {shlex.quote(str(path.with_name(name + packed)))}"


def _are_tagged(rows: Sequence[str]) -> bool:
    """Return whether lines are words with tags: equal numbers of cells, and few different values in the last one."""
    cells = [row.split() for row in rows]
    equal = len({len(row) for row in cells}) == 1 and len(cells[0]) > 1
    tags = {row[-1] for row in cells}
    return equal and len(tags) <= min(MAX_TAGS, len(rows) // 2)


def _spelled(head: FileHead) -> set[str]:
    """Return the column names in lower case; an empty set for JSON lines, whose first object may lack keys."""
    return set() if head.form == "json-lines" else {name.strip().lower() for name in head.names}


def _rows_by_part(files: Sequence[Path], column: str) -> Counter[str] | None:
    """Count the rows of each part; return None if a cell of the column is not the name of a part."""
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


def describe_columns(corpus: DetectedCorpus, read: Mapping[str, Sequence[str]]) -> list[str]:
    """Describe in one line the columns that are read and those that are not; return no line without column names."""
    if not corpus.head.names:
        return []
    roles = {**read, "part": [corpus.split] if corpus.split is not None else []}
    used = [f"{', '.join(names)} ({role})" for role, names in roles.items() if names]
    known = {name for names in roles.values() for name in names}
    left = [name or "(unnamed)" for name in corpus.head.names if name not in known]
    return [f"columns read: {', '.join(used)}" + (f"; not read: {', '.join(left)}" if left else "")]


def held_out_parts(
    corpus: DetectedCorpus,
    valid: Sequence[Path],
    *,
    examples: str,
    hashed: str,
    keys: Callable[[FilesConfig], Iterable[str]] | None = None,
) -> tuple[dict[str, list[dict[str, Any]]], str]:
    """Return the keys ``train`` and ``valid`` of the section ``data``, and the reason for people.

    The validation data is, in this order: ``valid``, the rows that a column of parts marks, or a tenth of the examples.

    Args:
        corpus: the files.
        valid: validation files of the user.
        examples: the name of examples, in the plural.
        hashed: the name of the text whose hash selects the held-out tenth.
        keys: yields the text to hash, for each example of files.
    """
    whole: dict[str, Any] = {"source": corpus.source}
    marked = ""
    if corpus.split is not None:
        if not corpus.parts.get("train"):
            what = f"the column {corpus.split!r} marks no row as train"
            known = ", ".join(f"{name} {count:,}" for name, count in corpus.parts.items())
            help = "rename the column if it does not assign rows to parts"
            raise DataError(what, where=str(corpus.first), why=f"its parts are {known}", help=help)
        test = corpus.parts.get("test", 0)
        rest = f", {pluralize(test, 'test row')} for regard evaluate" if test else ""
        marked = f"column {corpus.split}: {pluralize(corpus.parts['train'], 'training row')}{rest}; "
        whole["part"] = [corpus.split, "train"]
    if valid:
        files = [{"source": str(path)} for path in valid]
        return {"train": [whole], "valid": files}, f"{marked}validation: {', '.join(map(str, valid))}"
    if corpus.parts.get("valid"):
        held_out = {**whole, "part": [corpus.split, "valid"]}
        reason = f"{marked}validation: {pluralize(corpus.parts['valid'], 'row')}"
        return {"train": [whole], "valid": [held_out]}, reason
    shares = _shares(whole, keys)
    if shares is None:
        reason = f"{marked}no validation: all {examples} are equal (--valid-file adds validation data)"
        return {"train": [whole]}, reason
    parts = {name: [{**whole, "share": share}] for name, share in shares.items()}
    if shares != _SHARES:
        end = "lowest" if shares["valid"][0] == 0 else "highest"
        return parts, f"{marked}validation: the {examples} with the {end} hash of {hashed} (few {examples} differ)"
    return parts, f"{marked}validation: a tenth of the {examples}, selected by a hash of {hashed}"


def _shares(
    whole: dict[str, Any], keys: Callable[[FilesConfig], Iterable[str]] | None
) -> dict[str, list[float]] | None:
    """Return the shares for training and validation; the default ones if the files cannot be read."""
    if keys is None:
        return _SHARES
    try:
        return split_shares(keys(FilesConfig.model_validate(whole)))
    except RegardError:  # the next reader reports it
        return _SHARES


def wide_reasons(overrides: Mapping[str, Any], *, combined: bool = False) -> list[str]:
    """Return the reason for ``model.wide``, which is set unless the user turns it or the baseline off.

    ``combined``: the network is trained alone, and combined with the baseline afterwards.
    """
    if not overrides.get("baseline", True) or not overrides.get("model", {}).get("wide", True):
        return []
    if combined:
        why = "the weights of both are chosen on the validation data (model.wide_training = apart)"
        return [f"outputs: those of the network and of a simple baseline, which are trained apart; {why}"]
    return ["outputs: those of the network are added to those of a linear baseline, fitted first (model.wide)"]
