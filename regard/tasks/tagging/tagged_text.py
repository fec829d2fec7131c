"""Tagged sentences from CoNLL-U, TSV, JSON lines and tables of named columns, strict about what they accept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.untrusted_files import parse_json
from regard.core.wording import counted
from regard.data.file_names import CONLL_U, JSON_LINES, has_ending, named_files
from regard.data.reading import read_lines, refuse_pipe, told_keys
from regard.data.shared_files import FilesConfig, falls_into
from regard.data.tables import column_names, first_of, is_table, read_table
from regard.errors import DataError
from regard.tasks.tagging.data_config import TaggedDataConfig

__all__ = ["TaggedSentence", "read_tagged", "tagged_columns"]

TOKENS = ("tokens", "words")
TAGS = ("tags", "ner_tags", "pos_tags", "upos", "pos", "labels")


class TaggedSentence(NamedTuple):
    """The tokens of a sentence, their tags, and where it begins."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    where: str


def read_tagged(corpora: Sequence[FilesConfig], data: TaggedDataConfig) -> Iterator[TaggedSentence]:
    """The sentences of files, in their order. DataError, with file and line, for what is none."""
    for corpus in corpora:
        for path in named_files(corpus.source):
            refuse_pipe(path)
            for found in _of_file(path, data):
                if falls_into("\t".join(found.tokens), corpus.share):
                    yield found


def _of_file(path: Path, data: TaggedDataConfig) -> Iterator[TaggedSentence]:
    if has_ending(path, JSON_LINES):
        for number, line in enumerate(read_lines(path), start=1):
            yield _of_json(line, (str(data.token or "tokens"), str(data.tag or "tags")), f"{path}:{number}")
        return
    if is_table(path):
        yield from _of_table(path, data)
        return
    tokens: list[str] = []
    tags: list[str] = []
    where = ""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            if tokens:
                yield TaggedSentence(tuple(tokens), tuple(tags), where)
            tokens, tags = [], []
            continue
        cells = line.split("\t")
        if has_ending(path, CONLL_U) and (line.startswith("#") or not cells[0].isdigit()):
            continue  # a comment; 1-2, a token of several words; 1.1, a word that is not written
        where = where if tokens else f"{path}:{number}"
        token, tag = _cells(cells, _places(path, data), f"{path}:{number}")
        tokens.append(token)
        tags.append(tag)
    if tokens:
        yield TaggedSentence(tuple(tokens), tuple(tags), where)


def _of_table(path: Path, data: TaggedDataConfig) -> Iterator[TaggedSentence]:
    """A sentence a row: lists of words and of tags, or texts with spaces between both."""
    names = column_names(path)
    usual = tagged_columns(names) or ("tokens", "tags")
    columns = (str(data.token or usual[0]), str(data.tag or usual[1]))
    for row in read_table(path, columns):
        where = f"{path}:{row.number}"
        tokens, tags = (tuple(cell.split()) if isinstance(cell, str) else cell for cell in row.cells)
        if not all(map(_is_one_line, (*tokens, *tags))):
            raise DataError("a word or a tag is empty", where=where, why="each is a text in one line")
        yield _fitting(tokens, tags, where)


def tagged_columns(names: Sequence[str]) -> tuple[str, str] | None:
    """The columns of words and of tags, by names that are well known; None where they do not tell."""
    token, tag = first_of(names, TOKENS), first_of(names, TAGS)
    return None if token is None or tag is None else (token, tag)


def _places(path: Path, data: TaggedDataConfig) -> tuple[int, int]:
    usual = (2, 4) if has_ending(path, CONLL_U) else (1, 2)
    chosen = (data.token or usual[0], data.tag or usual[1])
    for column in chosen:
        if isinstance(column, str):
            what = f"{column} is no number of a column"
            raise DataError(what, where=str(path), why="keys have names in JSON lines", help="--set data.tag=2")
    return int(chosen[0]), int(chosen[1])


def _cells(cells: Sequence[str], places: tuple[int, int], where: str) -> tuple[str, str]:
    if len(cells) < max(places):
        raise DataError(
            f"the line has {counted(len(cells), 'column')}", where=where,
            why=f"column {places[0]} is read as the token and column {places[1]} as its tag",
            help="a tab stands between columns, a blank line between sentences; --set data.token=1 --set data.tag=2",
        )  # fmt: skip
    token, tag = (cells[place - 1].strip() for place in places)
    for name, value in (("token", token), ("tag", tag)):
        if not value:
            raise DataError(f"there is no {name}", where=where, why="its column is empty")
    return token, tag


def _of_json(line: str, keys: tuple[str, str], where: str) -> TaggedSentence:
    try:
        row = parse_json(line)
    except ValueError as error:
        raise DataError("the line is not JSON", where=where, why=str(error)) from error
    if not isinstance(row, dict):
        what = "the line is no JSON object"
        raise DataError(what, where=where, why="a sentence is an object with a list of tokens and one of tags")
    tokens, tags = (_texts(row, key, where) for key in keys)
    return _fitting(tokens, tags, where)


def _fitting(tokens: tuple[str, ...], tags: tuple[str, ...], where: str) -> TaggedSentence:
    if len(tokens) != len(tags) or not tokens:
        what = f"{len(tags)} tags do not fit {len(tokens)} tokens"
        raise DataError(what, where=where, why="every token has one tag, and a sentence has tokens")
    return TaggedSentence(tokens, tags, where)


def _texts(row: dict[str, Any], key: str, where: str) -> tuple[str, ...]:
    found = row.get(key)
    if not isinstance(found, list) or not all(isinstance(each, str) and _is_one_line(each) for each in found):
        help = "--set data.token=KEY --set data.tag=KEY name others"
        raise DataError(f"the line has no list of words under {key}", where=where, why=told_keys(row), help=help)
    return tuple(found)


def _is_one_line(text: str) -> bool:
    """Return whether a text is there, and in one line."""
    return bool(text.strip()) and len(text.splitlines()) == 1
