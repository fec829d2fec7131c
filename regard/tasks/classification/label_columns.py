"""The columns of a file that are texts and labels, told by their names and by what stands in them."""

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

LOOKED_AT = 20_000  # examples
SEPARATORS = (",", ";", "|")  # of several labels
SHORT = 20  # letters: a text of fewer may be one word
CLASSES, USES = 20, 10  # a column is a label's if it has no more different values, or each so often on average


class LabelColumns(NamedTuple):
    """The keys of ``data`` that name the columns, the examples looked at, and how to say what was found.

    ``spaced``: whether texts have words.
    """

    data: dict[str, Any]
    examples: int
    spaced: bool
    told: str


def labeled_columns(path: Path, given: Mapping[str, Any]) -> LabelColumns | None:
    """Return the columns that names tell, or ``given`` does (keys of data); None where there are none.

    DataError for what is no example where the names, or the keys that are given, say that it should be one.
    """
    names = column_names(path)
    if not names:
        return None
    text = _named(_listed(given["text"]), names, path) if "text" in given else text_columns(names)
    label: str | list[str] | None = first_of([name for name in names if name not in text], LABELS)
    if "label" in given:
        named = _named(_listed(given["label"]), names, path)
        label = named if isinstance(given["label"], list | tuple) else named[0]
    if not text:
        return None
    if label is None:
        several = _columns_of_labels(path, names, text)
        return None if several is None else _looked_at(path, {"text": text, "label": several, "label_kind": "several"})
    kind = {"label_kind": given["label_kind"]} if "label_kind" in given else {}
    if isinstance(label, list) or _holds_lists(path, label):
        kind = {"label_kind": "several"}
    elif "label_kind" not in kind and (separator := _separator(path, label)) is not None:
        kind = {"label_kind": "several"} | ({} if separator == "," else {"label_separator": separator})
    found = _looked_at(path, {"text": text, "label": label, **kind})
    if found is None and {"text", "label"} <= given.keys():
        raise DataError(
            f"the column {label!r} holds neither classes nor numbers",
            where=str(path),
            why=f"it has too many different values, more than {CLASSES} and more than one in {USES} rows",
            help=f"another column: {', '.join(names)}; or train on each value as a class: --set data.label_kind=class",
        )
    return found


def unnamed_label_column(path: Path) -> LabelColumns | None:
    """Return the columns of a TSV of two columns without names, one of which has labels; None where none has.

    A label is one word that comes often: of few different ones, or each ten times on average.
    """
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    try:
        for row in islice(read_rows(path, [1, 2]), LOOKED_AT):
            for column, count in zip((1, 2), counts, strict=True):
                count[str(row.cells[column]).strip()] += 1
    except RegardError:  # reported by the next reader
        return None
    for place in (1, 0):
        if _are_labels(counts[place]) and not _are_labels(counts[1 - place]):
            return _looked_at(path, {"text": [2 - place], "label": place + 1, "label_kind": "class"})
    return _looked_at(path, {"text": [1], "label": 2, "label_kind": "class"}) if _are_labels(counts[1]) else None


def fasta_labels(path: Path) -> LabelColumns | None:
    """Return the sequence and its label, the last word of the line above it; DataError for a record without one."""
    return _looked_at(path, {"text": [1], "label": 2})


def _are_labels(counts: Counter[str]) -> bool:
    few = 2 <= len(counts) and counts.total() >= USES * len(counts)
    return few and all(label and not any(map(str.isspace, label)) for label in counts)


def different_values(counts: Counter[str]) -> str:
    """The number of values, and a few of them."""
    return (
        f"{pluralize(len(counts), 'different value')}, {', '.join(sorted(counts)[:5])}{' …' if len(counts) > 5 else ''}"
    )


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _named(columns: Sequence[Any], names: Sequence[str], path: Path) -> list[str]:
    """The names of columns that are told by name or number. DataError for one that is not there."""
    found = list[str]()
    for column in columns:
        name = names[column - 1] if type(column) is int and 0 < column <= len(names) else str(column)
        if name not in names and first_of(names, [name.strip().lower()]) is None:
            raise missing_column(name, names, f"{path}:1")
        found.append(name if name in names else str(first_of(names, [name.strip().lower()])))
    return found


def _columns_of_labels(path: Path, names: Sequence[str], text: Sequence[str]) -> list[str] | None:
    """Two or more columns of a table that hold yes and no alone; None where there are fewer."""
    if not is_table(path):
        return None
    left = [name for name in names if name not in text and names.count(name) == 1 and name.strip()]
    if len(left) < 2:
        return None
    wrong = set[str]()
    for row in islice(read_rows(path, left), LOOKED_AT):
        wrong |= {name for name in left if not _is_yes_or_no(row.cells[name])}
    found = [name for name in left if name not in wrong]
    return found if len(found) > 1 else None


def _is_yes_or_no(cell: Cell) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in YES + NO


def _holds_lists(path: Path, label: Column) -> bool:
    """Return whether the first label is a list."""
    return any(isinstance(row.cells[label], tuple) for row in islice(read_rows(path, [label], lists=[label]), 1))


def _separator(path: Path, label: Column) -> str | None:
    """Return what stands between several labels of a cell, a comma, semicolon or bar; None where each has one.

    Each of the labels is the whole of another cell, too; or some are, and the column is named for several.
    """
    cells = {str(row.cells[label]).strip() for row in islice(read_rows(path, [label]), LOOKED_AT)}
    for separator in SEPARATORS:
        joined = {cell for cell in cells if separator in cell}
        parts = {part.strip() for cell in joined for part in cell.split(separator)}
        alone = parts & (cells - joined)
        if alone and (alone == parts or str(label).strip().lower() in ("labels", "tags", "categories", "topics")):
            return separator
    return None


def _looked_at(path: Path, keys: dict[str, Any]) -> LabelColumns | None:
    """Contents of the first examples of these columns; None where the labels are neither classes nor numbers."""
    data = LabeledDataConfig.model_validate({"train": [{"source": str(path)}], **keys})
    examples = list(islice(read_labeled(data.train, data), LOOKED_AT))
    counts = Counter(label for each in examples for label in each.labels)
    spaced = sum(" " in each.texts[0].strip() or len(each.texts[0]) < SHORT for each in examples)
    if "label_kind" not in keys:
        kind = _kind(counts)
        if kind is None:
            return None
        keys = keys | {"label_kind": kind}
    what = {"number": "numbers", "several": f"several labels of {different_values(counts)}"}
    labels = ", ".join(map(str, _listed(keys["label"])))
    told = (
        f"columns {', '.join(map(str, keys['text']))} and {labels}, "
        f"{what.get(keys['label_kind'], different_values(counts))}"
    )
    return LabelColumns(keys, len(examples), spaced > len(examples) / 2, told)


def _kind(counts: Counter[str]) -> str | None:
    """``class`` for few values, or such as come often; ``number`` for others that are numbers."""
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
