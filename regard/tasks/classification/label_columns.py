"""Detection of the columns of texts and labels in a file, by their names and contents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.answers.label_set import NO, YES
from regard.core.wording import pluralize
from regard.data.column_names import LABELS, first_of, text_columns
from regard.data.rows import Column, column_names, read_rows
from regard.data.tables import Cell, is_table, missing_column
from regard.errors import DataError, RegardError
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.labeled_text import read_labeled

SAMPLED = 20_000  # examples that are read
SEPARATORS = (",", ";", "|")  # of several labels
SHORT = 20  # characters; a shorter text may be a single word
CLASSES, USES = 20, 10  # labels have at most 20 different values, or each value occurs 10 times on average


class LabelColumns(NamedTuple):
    """The detected columns of a file.

    Attributes:
        data: the keys of ``data`` that name the columns.
        examples: the number of examples that were read.
        spaced: whether texts consist of words.
        description: the columns and their contents, for people.
    """

    data: dict[str, Any]
    examples: int
    spaced: bool
    description: str


def labeled_columns(path: Path, data_keys: Mapping[str, Any]) -> LabelColumns | None:
    """Return the columns of texts and labels, by their names or by the keys of ``data`` that the user sets.

    Returns:
        The columns; None if there are no such columns.

    Raises:
        DataError: if the named columns do not contain texts and labels.
    """
    names = column_names(path)
    if not names:
        return None
    text = _named(_listed(data_keys["text"]), names, path) if "text" in data_keys else text_columns(names)
    label: str | list[str] | None = first_of([name for name in names if name not in text], LABELS)
    if "label" in data_keys:
        named = _named(_listed(data_keys["label"]), names, path)
        label = named if isinstance(data_keys["label"], list | tuple) else named[0]
    if not text:
        return None
    if label is None:
        several = _columns_of_labels(path, names, text)
        return None if several is None else _inspect(path, {"text": text, "label": several, "label_kind": "several"})
    kind = {"label_kind": data_keys["label_kind"]} if "label_kind" in data_keys else {}
    if isinstance(label, list) or _holds_lists(path, label):
        kind = {"label_kind": "several"}
    elif "label_kind" not in kind and (separator := _separator(path, label)) is not None:
        kind = {"label_kind": "several"} | ({} if separator == "," else {"label_separator": separator})
    columns = _inspect(path, {"text": text, "label": label, **kind})
    if columns is None and {"text", "label"} <= data_keys.keys():
        raise DataError(
            f"the column {label!r} contains neither classes nor numbers",
            where=str(path),
            why=f"it has too many different values: more than {CLASSES}, and more than one per {USES} rows",
            help=f"name another column ({', '.join(names)}), or use each value as a class: --set data.label_kind=class",
        )
    return columns


def unnamed_label_column(path: Path) -> LabelColumns | None:
    """Return the columns of a two-column TSV without a header, if one of them has labels; else None.

    A label is a single frequent word: each value occurs ten times on average.
    """
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    try:
        for row in islice(read_rows(path, [1, 2]), SAMPLED):
            for column, count in zip((1, 2), counts, strict=True):
                count[str(row.cells[column]).strip()] += 1
    except RegardError:  # reported by the next reader
        return None
    for index in (1, 0):
        if _are_labels(counts[index]) and not _are_labels(counts[1 - index]):
            return _inspect(path, {"text": [2 - index], "label": index + 1, "label_kind": "class"})
    return _inspect(path, {"text": [1], "label": 2, "label_kind": "class"}) if _are_labels(counts[1]) else None


def fasta_labels(path: Path) -> LabelColumns | None:
    """Return the columns of a FASTA file: the sequence, and the last word of its header line as the label.

    Raises:
        DataError: for a record without a label.
    """
    return _inspect(path, {"text": [1], "label": 2})


def _are_labels(counts: Counter[str]) -> bool:
    few = 2 <= len(counts) and counts.total() >= USES * len(counts)
    return few and all(label and not any(map(str.isspace, label)) for label in counts)


def different_values(counts: Counter[str]) -> str:
    """Describe the number of values and a few of them."""
    return (
        f"{pluralize(len(counts), 'different value')}, {', '.join(sorted(counts)[:5])}{' …' if len(counts) > 5 else ''}"
    )


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _named(columns: Sequence[Any], names: Sequence[str], path: Path) -> list[str]:
    """Return the names of columns that are selected by name or number; raise DataError for a missing one."""
    selected = list[str]()
    for column in columns:
        name = names[column - 1] if type(column) is int and 0 < column <= len(names) else str(column)
        if name not in names and first_of(names, [name.strip().lower()]) is None:
            raise missing_column(name, names, f"{path}:1")
        selected.append(name if name in names else str(first_of(names, [name.strip().lower()])))
    return selected


def _columns_of_labels(path: Path, names: Sequence[str], text: Sequence[str]) -> list[str] | None:
    """Return the columns of a table that contain only yes and no, if there are at least two; else None."""
    if not is_table(path):
        return None
    left = [name for name in names if name not in text and names.count(name) == 1 and name.strip()]
    if len(left) < 2:
        return None
    wrong = set[str]()
    for row in islice(read_rows(path, left), SAMPLED):
        wrong |= {name for name in left if not _is_yes_or_no(row.cells[name])}
    binary = [name for name in left if name not in wrong]
    return binary if len(binary) > 1 else None


def _is_yes_or_no(cell: Cell) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in YES + NO


def _holds_lists(path: Path, label: Column) -> bool:
    """Return whether the first label is a list."""
    return any(isinstance(row.cells[label], tuple) for row in islice(read_rows(path, [label], lists=[label]), 1))


def _separator(path: Path, label: Column) -> str | None:
    """Return the separator of several labels in a cell (comma, semicolon or bar); None if each cell has one label.

    A separator is accepted if every separated label is also the only label of another cell. If the name of the column
    is a plural such as "tags", one such label suffices.
    """
    cells = {str(row.cells[label]).strip() for row in islice(read_rows(path, [label]), SAMPLED)}
    for separator in SEPARATORS:
        joined = {cell for cell in cells if separator in cell}
        parts = {part.strip() for cell in joined for part in cell.split(separator)}
        alone = parts & (cells - joined)
        if alone and (alone == parts or str(label).strip().lower() in ("labels", "tags", "categories", "topics")):
            return separator
    return None


def _inspect(path: Path, keys: dict[str, Any]) -> LabelColumns | None:
    """Describe the first examples of these columns; return None if the labels are neither classes nor numbers."""
    data = LabeledDataConfig.model_validate({"train": [{"source": str(path)}], **keys})
    examples = list(islice(read_labeled(data.train, data), SAMPLED))
    counts = Counter(label for example in examples for label in example.labels)
    spaced = sum(" " in example.texts[0].strip() or len(example.texts[0]) < SHORT for example in examples)
    if "label_kind" not in keys:
        kind = _kind(counts)
        if kind is None:
            return None
        keys = keys | {"label_kind": kind}
    contents = {"number": "numbers", "several": f"several labels of {different_values(counts)}"}
    labels = ", ".join(map(str, _listed(keys["label"])))
    description = (
        f"columns {', '.join(map(str, keys['text']))} (text) and {labels} "
        f"(label: {contents.get(keys['label_kind'], different_values(counts))})"
    )
    return LabelColumns(keys, len(examples), spaced > len(examples) / 2, description)


def _kind(counts: Counter[str]) -> str | None:
    """Return ``class`` for few or frequent values, ``number`` for other numbers, None for other texts."""
    if len(counts) <= CLASSES:
        return "class"
    numbers = all(map(_is_number, counts))
    if counts.total() >= USES * len(counts) and not (numbers and any("." in value for value in counts)):
        return "class"
    return "number" if numbers else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
