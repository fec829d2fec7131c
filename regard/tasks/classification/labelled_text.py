"""Labelled texts from TSV and JSON lines, strict about what they accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import parse_json, shortened
from regard.data.file_names import named_files
from regard.data.molecules import FastaRecord, is_fasta, read_fasta
from regard.data.reading import read_lines, refuse_pipe, told_keys
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import DataError
from regard.tasks.classification.config import LabelledDataConfig

__all__ = ["LabelledText", "read_labelled"]


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
    columns = (*data.text, data.label)
    if is_fasta(path):
        yield from (_of_record(record, data) for record in read_fasta(path))
        return
    places: list[int] | None = None
    if path.name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        keys = ("text", "label") if columns == (1, 2) else columns
        for number, line in enumerate(read_lines(path), start=1):
            where = f"{path}:{number}"
            row = _object(line, where)
            texts = tuple(_value(row, key, where) for key in keys[:-1])
            yield LabelledText(texts, _labels_of(row, keys[-1], data, where), where)
        return
    for number, line in enumerate(read_lines(path), start=1):
        where, cells = f"{path}:{number}", line.split("\t")
        if places is None:
            places = _places(columns, cells, where)
            if isinstance(columns[0], str):
                continue
        if len(cells) <= max(places):
            raise DataError(
                f"the line has {len(cells)} columns",
                where=where,
                why=f"columns {', '.join(map(str, columns))} are read",
                help="a tab stands between columns; --set data.text=1 --set data.label=2 says which are read",
            )
        *read, label = (cells[place] for place in places)
        yield LabelledText(tuple(read), _split(label, data), where)


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
            names = ", ".join(shortened(name) for name in first)
            raise DataError(f"there is no column {column}", where=where, why=f"the first line names {names}")
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
    help = "--set data.text=KEY --set data.label=KEY name others"
    raise DataError(f"the line has no text under {key}", where=where, why=told_keys(row), help=help)
