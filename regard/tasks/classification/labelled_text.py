"""Labelled texts from TSV, JSON lines, FASTA and tables with named columns, strict about what they accept."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import parse_json, shortened
from regard.core.wording import counted
from regard.data.file_names import named_files
from regard.data.molecules import FastaRecord, is_fasta, read_fasta
from regard.data.reading import read_lines, refuse_pipe, told_keys
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import Cell, column_names, is_table, missing_column, read_table, text_of
from regard.errors import DataError
from regard.tasks.classification.data_config import LabelledDataConfig

__all__ = ["NO", "YES", "LabelledText", "read_labelled"]

YES, NO = ("1", "1.0", "true", "yes"), ("", "0", "0.0", "false", "no")


class LabelledText(NamedTuple):
    """The texts of one example, its label or labels, and where they stand."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    where: str


def read_labelled(corpora: Sequence[FilesConfig], data: LabelledDataConfig) -> Iterator[LabelledText]:
    """The examples of files, in their order. DataError, with file and line, for one without a text or a label."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            for found in _of_file(path, data):
                if data.label_kind != "several" and not found.labels[0].strip():
                    what = "an example has no label"
                    raise DataError(what, where=found.where, why=f"{data.label!r} is empty", help="give it one")
                if falls_into("\t".join(found.texts), corpus.share):
                    yield found


def _of_file(path: Path, data: LabelledDataConfig) -> Iterator[LabelledText]:
    columns = (*data.text, *data.labels)
    if is_fasta(path):
        yield from (_of_record(record, data) for record in read_fasta(path))
        return
    if is_table(path):
        yield from _of_table(path, data)
        return
    places: list[int] | None = None
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        keys = ("text", "label") if columns == (1, 2) else columns
        for number, line in enumerate(read_lines(path), start=1):
            where = f"{path}:{number}"
            row = _object(line, where)
            texts = tuple(_value(row, key, where) for key in keys[: len(data.text)])
            if isinstance(data.label, tuple):
                told = _told({key: _value(row, key, where) for key in data.label}, where)
            else:
                told = _labels_of(row, keys[-1], data, where)
            yield LabelledText(texts, told, where)
        return
    for number, line in enumerate(read_lines(path), start=1):
        where, cells = f"{path}:{number}", line.split("\t")
        if places is None:
            places = _places(columns, cells, where)
            if isinstance(columns[0], str):
                continue
        if len(cells) <= max(places):
            raise DataError(
                f"the line has {counted(len(cells), 'column')}",
                where=where,
                why=f"columns {', '.join(map(str, columns))} are read",
                help="a tab stands between columns; --set data.text=1 --set data.label=2 says which are read",
            )
        yield _example([cells[place] for place in places], data, where)


def _of_table(path: Path, data: LabelledDataConfig) -> Iterator[LabelledText]:
    """The rows of a table. Where nothing is said of columns they are ``text`` and ``label``, or the first two."""
    names = column_names(path)
    columns: list[str] = []
    for column in (
        ("text", "label") if data.by_default and {"text", "label"} <= {*names} else (*data.text, *data.labels)
    ):
        if isinstance(column, int):
            if column > len(names):
                raise missing_column(f"number {column}", names, f"{path}:1")
            column = names[column - 1]
        columns.append(column)
    for row in read_table(path, columns):
        yield _example(row.cells, data, f"{path}:{row.number}")


def _example(cells: Sequence[Cell], data: LabelledDataConfig, where: str) -> LabelledText:
    """The example of a row: cells of the texts, then of the labels."""
    texts, labels = cells[: len(data.text)], cells[len(data.text) :]
    read = tuple(text_of(cell, str(name), where) for cell, name in zip(texts, data.text, strict=True))
    if isinstance(data.label, tuple):
        told = (text_of(cell, name, where) for cell, name in zip(labels, data.label, strict=True))
        return LabelledText(read, _told(dict(zip(data.label, told, strict=True)), where), where)
    if not isinstance(labels[0], str) and data.label_kind == "several":
        return LabelledText(read, tuple(dict.fromkeys(labels[0])), where)
    return LabelledText(read, _split(text_of(labels[0], str(data.label), where), data), where)


def _told(cells: Mapping[str, str], where: str) -> tuple[str, ...]:
    """The labels, a column each, that are told. DataError for a cell that is neither yes nor no."""
    found = []
    for label, cell in cells.items():
        value = cell.strip().lower()
        if value not in YES + NO:
            why = f"in a label's own column {', '.join(YES)} tell it, {', '.join(NO[1:])} or nothing do not"
            raise DataError(f"{shortened(cell)!r} under {label} is neither yes nor no", where=where, why=why)
        if value in YES:
            found.append(label)
    return tuple(found)


def _of_record(record: FastaRecord, data: LabelledDataConfig) -> LabelledText:
    """The sequence of a FASTA record, and the last word of the line above it as its label."""
    if len(record.words) < 2:
        what = "the record has no label"
        raise DataError(what, where=record.where, why="it is the last word of the line: >name label")
    return LabelledText((record.sequence,), _split(record.words[-1], data), record.where)


def _split(label: str, data: LabelledDataConfig) -> tuple[str, ...]:
    """The labels of a cell: itself, or the different ones between separators."""
    if data.label_kind != "several":
        return (label,)
    parts = (each.strip() for each in label.split(data.label_separator))
    return tuple(dict.fromkeys(each for each in parts if each))


def _labels_of(row: dict[str, Any], key: int | str, data: LabelledDataConfig, where: str) -> tuple[str, ...]:
    """The labels of a JSON object: a text or a number, or a list of texts where there may be several."""
    found = row.get(str(key))
    if data.label_kind == "several" and isinstance(found, list) and all(isinstance(each, str) for each in found):
        return tuple(dict.fromkeys(found))
    return _split(_value(row, key, where), data)


def _places(columns: Sequence[int | str], first: Sequence[str], where: str) -> list[int]:
    """Places of columns, by number or by the names in the first line."""
    for column in columns:
        if isinstance(column, str) and column not in first:
            raise missing_column(column, first, where)
    return [column - 1 if isinstance(column, int) else list(first).index(column) for column in columns]


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError("the line is not JSON", where=where, why=str(error)) from error
    if not isinstance(row, dict):
        raise DataError("the line is no JSON object", where=where, why="an example is an object with text and label")
    return row


def _value(row: dict[str, Any], key: int | str, where: str) -> str:
    value = row.get(str(key))
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    near = difflib.get_close_matches(str(key), row, n=1)
    help = f"did you mean {near[0]!r}?" if near else "--set data.text=KEY --set data.label=KEY name others"
    raise DataError(f"the line has no text under {key}", where=where, why=told_keys(row), help=help)
