"""Labelled texts from TSV, JSON lines, FASTA and tables with named columns, strict about what they accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import shortened
from regard.core.wording import counted
from regard.data.column_names import text_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import ConfigError, DataError
from regard.tasks.classification.data_config import LabelledDataConfig
from regard.tasks.row_inputs import require_text_rows
from regard.tasks.split import read_part

__all__ = ["NO", "YES", "LabelledText", "read_labelled", "read_labelled_part", "read_texts"]

YES, NO = ("1", "1.0", "true", "yes"), ("", "0", "0.0", "false", "no")


class LabelledText(NamedTuple):
    """The texts of one example, its label or labels, and where they stand."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    where: str


def read_labelled(corpora: Sequence[FilesConfig], data: LabelledDataConfig) -> Iterator[LabelledText]:
    """Yield the examples of files, in their order. DataError, with file and line, for one without a text or a label."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            texts, labels = _columns(path, data)
            lists = labels if data.label_kind == "several" and len(labels) == 1 else ()
            for row in read_rows(path, [*texts, *labels], lists=lists, part=corpus.part):
                values = tuple(text_of(row, column) for column in texts)
                example = LabelledText(values, _labels(row, labels, data), row.where)
                if data.label_kind != "several" and not example.labels[0]:
                    what = "an example has no label"
                    raise DataError(what, where=row.where, why=f"{data.label!r} is empty", help="give it one")
                if falls_into("\t".join(example.texts), corpus.share):
                    yield example


def read_labelled_part(data: LabelledDataConfig, name: str) -> list[LabelledText]:
    """Read a part of the data, ``train`` or ``valid``: see ``tasks.split.read_part``."""

    def read(corpora: Sequence[FilesConfig]) -> Iterator[LabelledText]:
        return read_labelled(corpora, data)

    labels = (lambda each: ()) if data.label_kind == "number" else (lambda each: each.labels)
    return read_part(data, name, read, key=lambda each: each.texts, labels=labels)


def read_texts(config: Any, path: Path, given: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the place and the texts of each row, tabs between several: see ``core.task.Task.row_inputs``."""
    data: LabelledDataConfig = config.data
    columns: Sequence[Column] = given
    if not columns:
        require_text_rows(path)
        names = column_names(path)
        columns = _columns(path, data)[0]
        if form_of(path) != "fasta" and all(isinstance(column, int) for column in columns) and names:
            columns = text_columns(names) if len(text_columns(names)) == len(columns) else columns
    if len(columns) != len(data.text):
        what = f"an input of this model has {counted(len(data.text), 'text column')}"
        raise ConfigError(what, where="--column", why=f"{len(columns)} given")
    for row in read_rows(path, columns):
        texts = [text_of(row, column) for column in columns]
        yield row.where, texts[0] if len(texts) == 1 else "\t".join(text.replace("\t", " ") for text in texts)


def _columns(path: Path, data: LabelledDataConfig) -> tuple[Sequence[Column], Sequence[Column]]:
    """Return the columns of texts and of labels in a file.

    Where the config names none they are ``text`` and ``label`` of JSON lines and of tables that have both, and else
    the first two.
    """
    form = form_of(path)
    if data.by_default and (
        form == "json-lines" or (form in ("csv", "parquet") and {"text", "label"} <= {*column_names(path)})
    ):
        return ("text",), ("label",)
    return data.text, data.labels


def _labels(row: Row, columns: Sequence[Column], data: LabelledDataConfig) -> tuple[str, ...]:
    """Return the label or labels of a row, without white space around them."""
    if isinstance(data.label, tuple):
        return _marked({str(column): text_of(row, column) for column in columns}, row.where)
    cell = row.cells[columns[0]]
    if not isinstance(cell, str) and data.label_kind == "several":
        return tuple(dict.fromkeys(label.strip() for label in cell if label.strip()))
    return _split(text_of(row, columns[0]), data)


def _marked(cells: Mapping[str, str], where: str) -> tuple[str, ...]:
    """Return the labels, a column each, that a row marks. DataError for a cell that is neither yes nor no."""
    found = []
    for label, cell in cells.items():
        value = cell.strip().lower()
        if value not in YES + NO:
            why = f"in a label's own column {', '.join(YES)} tell it, {', '.join(NO[1:])} or nothing do not"
            raise DataError(f"{shortened(cell)!r} under {label} is neither yes nor no", where=where, why=why)
        if value in YES:
            found.append(label)
    return tuple(found)


def _split(label: str, data: LabelledDataConfig) -> tuple[str, ...]:
    """Return the labels of a cell: itself, or the different ones between separators."""
    if data.label_kind != "several":
        return (label.strip(),)
    parts = (each.strip() for each in label.split(data.label_separator))
    return tuple(dict.fromkeys(each for each in parts if each))
