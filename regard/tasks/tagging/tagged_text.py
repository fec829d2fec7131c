"""Tagged sentences from CoNLL-U, TSV, JSON lines and tables of named columns, strict about what they accept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import counted, counted_with
from regard.data.column_names import WORDS, first_of, tagged_columns
from regard.data.file_names import named_files
from regard.data.rows import Column, Form, Row, column_names, form_of, read_rows
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import Cell
from regard.data.text_files import read_lines
from regard.errors import DataError
from regard.tasks.split import read_part
from regard.tasks.tagging.data_config import TaggedDataConfig

__all__ = ["TaggedSentence", "read_tagged", "read_tagged_part", "read_words", "word_and_tag"]

USUAL: dict[Form, tuple[Column, Column]] = {"tsv": (1, 2), "text": (1, 2), "conll-u": (2, 4)}


class TaggedSentence(NamedTuple):
    """The tokens of a sentence, their tags, and where it begins."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_tagged(corpora: Sequence[FilesConfig], data: TaggedDataConfig) -> Iterator[TaggedSentence]:
    """Yield the sentences of files, in their order. DataError, with file and line, for what is none."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            columns = word_and_tag(path, data.token, data.tag)
            for row in read_rows(path, columns, lists=columns, grouped=True, part=corpus.part):
                sentence = _sentence(row, columns)
                if falls_into("\t".join(sentence.tokens), corpus.share):
                    yield sentence


def read_tagged_part(data: TaggedDataConfig, name: str) -> list[TaggedSentence]:
    """Read a part of the data, ``train`` or ``valid``: see ``tasks.split.read_part``."""

    def read(corpora: Sequence[FilesConfig]) -> Iterator[TaggedSentence]:
        return read_tagged(corpora, data)

    return read_part(data, name, read, key=lambda each: each.tokens, labels=lambda each: each.tags)


def read_words(config: Any, path: Path, given: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Yield the place and the words of each sentence as a JSON list: see ``core.task.Task.row_inputs``."""
    column = given[0] if given else word_and_tag(path, config.data.token, config.data.tag)[0]
    if not given and isinstance(column, str) and form_of(path) in ("csv", "parquet", "json-lines"):
        column = first_of(column_names(path), (column, *WORDS, "text", "sentence")) or column
    for row in read_rows(path, [column], lists=[column], grouped=True):
        yield row.where, json.dumps(_words(row.cells[column]), ensure_ascii=False)


def word_and_tag(path: Path, token: Column | None, tag: Column | None) -> tuple[Column, Column]:
    """Return the columns of the word and of its tag: those of the config, or else the usual ones of such a file.

    Of lines with a word each these are the first column and the second; the fourth (UPOS) of CoNLL-U; the last of
    CoNLL-2003. Of rows, ``tokens`` and ``tags`` or other names that are well known.
    """
    form = form_of(path)
    if form in USUAL:
        usual = USUAL[form]
        if isinstance(token, str) or isinstance(tag, str):  # the first line has names
            usual = tagged_columns(column_names(path), word_a_line=True) or usual
    elif form == "word-lines":
        usual = tagged_columns(column_names(path), word_a_line=True) or (1, _width(path))
    else:
        usual = tagged_columns(column_names(path)) or ("tokens", "tags")
    return token or usual[0], tag or usual[1]


def _width(path: Path) -> int:
    """Return the number of columns of the first line."""
    row = next(iter(read_lines(path)))
    return max(len(row.split()), 2)


def _sentence(row: Row, columns: tuple[Column, Column]) -> TaggedSentence:
    """Return the sentence of a row: lists of words and of tags, or texts with spaces between both."""
    tokens, tags = (_words(row.cells[column]) for column in columns)
    if not all(map(_is_one_line, (*tokens, *tags))):
        raise DataError("a word or a tag is empty", where=row.where, why="each is a text in one line")
    if len(tokens) != len(tags) or not tokens:
        what = f"{counted_with(len(tags), 'tag', 'does', 'do')} not fit {counted(len(tokens), 'token')}"
        raise DataError(what, where=row.where, why="every token has one tag, and a sentence has tokens")
    return TaggedSentence(tokens, tags, row.where)


def _words(cell: Cell) -> tuple[str, ...]:
    return tuple(cell.split()) if isinstance(cell, str) else cell


def _is_one_line(text: str) -> bool:
    """Return whether a text is not blank, and in one line."""
    return bool(text.strip()) and len(text.splitlines()) == 1
