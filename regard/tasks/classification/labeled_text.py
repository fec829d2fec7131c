"""Strict readers of labeled texts from TSV, JSON lines, FASTA and tables with named columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.answers.label_set import SeveralLabels
from regard.answers.number import Number
from regard.answers.one_class import OneClass
from regard.core.wording import pluralize
from regard.data.column_names import text_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Row, column_names, form_of, read_rows, text_of
from regard.data.shared_files import FilesConfig, falls_into
from regard.errors import ConfigError
from regard.fields.text import Text
from regard.models.classifier_config import ClassifierModelConfig
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.row_inputs import require_text_rows


class LabeledText(NamedTuple):
    """The texts of one example, its labels, and its file and line."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    where: str


def make_text(data: LabeledDataConfig, model: ClassifierModelConfig | None = None) -> Text:
    """Return the field of the texts; without ``model``, it only reads values."""
    separate = model is not None and model.pairs == "apart"
    return Text(
        data.text, max_length=data.max_length, subword_features=0 if model is None else model.affixes,
        word_dropout=data.hidden_tokens, other_strand=data.reverse_complement,
        separate=separate, separators=1 if model is None or separate else model.separators,
        matches=model is not None and model.matches, windows=data.windows,
    )  # fmt: skip


def make_answer(data: LabeledDataConfig) -> OneClass | SeveralLabels | Number:
    """Return the answer of the labels."""
    if data.label_kind == "number":
        return Number(data.labels)
    if data.label_kind == "several":
        marked = isinstance(data.label, tuple)
        return SeveralLabels(data.labels, separator=data.label_separator, marked=marked)
    return OneClass(data.labels, balanced=data.class_weights == "balanced")


def labeled_rows(data: LabeledDataConfig, corpora: Sequence[FilesConfig]) -> Iterator[Row]:
    """Yield the rows of files in order, with cells named by the columns of the config.

    Raises:
        DataError: with file and line, if a row lacks one of the columns.
    """
    for corpus in corpora:
        for path in named_files(corpus.source):
            texts, labels = _columns(path, data)
            lists = labels if data.label_kind == "several" and len(labels) == 1 else ()
            for row in read_rows(path, [*texts, *labels], lists=lists, part=corpus.part):
                if falls_into("\t".join(text_of(row, column) for column in texts), corpus.share):
                    names = zip((*data.text, *data.labels), (*texts, *labels), strict=True)
                    yield row._replace(cells={name: row.cells[column] for name, column in names})


def read_labeled(corpora: Sequence[FilesConfig], data: LabeledDataConfig) -> Iterator[LabeledText]:
    """Yield the examples of files in order; raise DataError with file and line if a text or label is missing."""
    text, answer = make_text(data), make_answer(data)
    for row in labeled_rows(data, corpora):
        yield LabeledText(text.value(row), answer.value(row), row.where)


def read_texts(config: Any, path: Path, columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the name and the texts of each row, separated by tabs: see ``core.task.Task.row_inputs``."""
    data: LabeledDataConfig = config.data
    if not columns:
        require_text_rows(path)
        names = column_names(path)
        columns = _columns(path, data)[0]
        if form_of(path) != "fasta" and all(isinstance(column, int) for column in columns) and names:
            columns = text_columns(names) if len(text_columns(names)) == len(columns) else columns
    if len(columns) != len(data.text):
        what = f"this model needs {pluralize(len(data.text), 'text column')}, but {len(columns)} are selected"
        raise ConfigError(what, where="--column", help="repeat --column for each text")
    for row in read_rows(path, columns):
        texts = [text_of(row, column) for column in columns]
        yield row.where, texts[0] if len(texts) == 1 else "\t".join(text.replace("\t", " ") for text in texts)


def _columns(path: Path, data: LabeledDataConfig) -> tuple[Sequence[Column], Sequence[Column]]:
    """Return the columns of texts and of labels in a file.

    If the config does not name them, they are ``text`` and ``label`` for JSON lines and for tables with both names.
    Otherwise they are the first two columns.
    """
    form = form_of(path)
    if data.by_default and (
        form == "json-lines" or (form in ("csv", "parquet") and {"text", "label"} <= {*column_names(path)})
    ):
        return ("text",), ("label",)
    return data.text, data.labels
