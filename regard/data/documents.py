"""Texts cut into documents: whole files, lines, parts between blank or other lines, JSON lines, rows of tables."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from regard.data.column_names import document_columns, pair_columns
from regard.data.file_names import JSON_LINES, FileNames, first_file, has_ending, named_files
from regard.data.molecules import is_fasta, read_fasta
from regard.data.rows import Part, column_names, describe_keys, form_of, parse_object, read_rows, text_of
from regard.data.stream import TextConfig, read_text_lines
from regard.data.tables import is_table, missing_column
from regard.data.text_files import read_lines, refuse_pipe
from regard.errors import DataError

DocumentKind = Literal["auto", "stream", "file", "line", "blank-line", "separator", "json-line"]
TEXTS = (".txt", ".text", ".md")


class Cut(NamedTuple):
    """Way of cutting texts into documents; with ``completions`` a prompt of a JSON line does not count in the loss."""

    kind: DocumentKind
    separator: str | None = None
    completions: bool = True


class TextDocument(NamedTuple):
    """One document; of ``text`` every token counts in the loss, of the ``prompt`` before it none."""

    prompt: str
    text: str

    @property
    def digest(self) -> bytes:
        """16 bytes that tell documents of other content apart."""
        return hashlib.blake2b(self.prompt.encode() + b"\0" + self.text.encode(), digest_size=16).digest()


def is_json_lines(names: FileNames) -> bool:
    """Return whether the name is that of JSON lines, ``.gz`` or not; of a list, whether one of them is."""
    if not isinstance(names, Path):
        return any(map(is_json_lines, names))
    return has_ending(names, JSON_LINES)


def holds_records(names: FileNames) -> bool:
    """Whether a file has a document after the other by its name, as JSON lines have; of a list, whether one has."""
    return holds_prompts(names) or any(map(is_fasta, [names] if isinstance(names, Path) else names))


def holds_prompts(names: FileNames) -> bool:
    """Return whether documents of such a file, by its name, may have prompts: JSON lines and tables."""
    return is_json_lines(names) or any(map(is_table, [names] if isinstance(names, Path) else names))


def holds_documents(names: FileNames) -> bool:
    """Return whether the rows of a table or of JSON lines are documents, by the names of their columns or keys.

    They have a text, or a prompt and a completion. Rows with both sides of a pair are of a translation.
    """
    path = first_file(names)
    if path is None or not holds_prompts(path) or not path.is_file():
        return False
    try:
        columns = column_names(path)
    except DataError:
        return False
    known = {"text"} <= {*columns} or {"prompt", "completion"} <= {*columns} or is_table(path)
    return known and document_columns(columns) is not None and pair_columns(columns) is None


def text_files(names: FileNames) -> list[Path]:
    """The files; of a folder all texts and JSON lines in it, by name. DataError where there are none."""
    return [file for name in named_files(names) for file in _text_files(name)]


def _text_files(source: Path) -> list[Path]:
    refuse_pipe(source)
    if not source.is_dir():
        return [source]
    every = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
    found = sorted(path for path in every if holds_records(path) or _is_text(path))
    if not found:
        raise DataError(
            "there is no text in this folder",
            where=str(source),
            why=f"its texts end in {', '.join(TEXTS)}, .jsonl or .csv",
            help=f"regard data notes {shlex.quote(str(source))} -o music.jsonl" if any(map(_is_midi, every)) else None,
        )
    return found


def _is_midi(path: Path) -> bool:
    return path.suffix.lower() in (".mid", ".midi")


def read_documents(text: TextConfig, cut: Cut) -> Iterator[TextDocument]:
    """The documents of a text in their order, blank ones left out; of a ``share`` those that are in it.

    Shares are of the distinct documents in the order of their digests, so that documents of the same content are
    always in the same share, whatever the order of the file. DataError for what cannot be read, with file and line.
    """
    if text.share == (0.0, 1.0):
        yield from _every(text, cut)
        return
    distinct = sorted({document.digest for document in _every(text, cut)})
    begin, end = (round(part * len(distinct)) for part in text.share)
    chosen = set(distinct[begin:end])
    yield from (document for document in _every(text, cut) if document.digest in chosen)


def _every(text: TextConfig, cut: Cut) -> Iterator[TextDocument]:
    for path in text_files(text.source):
        kind = cut.kind
        if kind != "stream" and (is_table(path) or text.part is not None):
            yield from (each for each in _rows(path, cut.completions, text.part) if each.text.strip())
            continue
        if is_fasta(path) and kind != "stream":
            yield from (TextDocument("", record.sequence) for record in read_fasta(path))
            continue
        if kind != "stream" and form_of(path) in ("conll-u", "word-lines"):
            what = "the file has a word and its tag a line, and texts are read"
            raise DataError(what, where=str(path), help="write a text a line to a .txt file")
        if kind in ("auto", "stream", "file") or (kind == "line" and is_json_lines(path)):
            kind = "json-line" if kind != "stream" and is_json_lines(path) else "file"
        found = _json_lines(path, cut.completions) if kind == "json-line" else _plain(path, kind, cut.separator)
        yield from (document for document in found if document.text.strip())


def _plain(path: Path, kind: DocumentKind, separator: str | None) -> Iterator[TextDocument]:
    lines = (line.removesuffix("\r") for line in read_lines(path))
    if kind == "line":
        yield from (TextDocument("", line) for line in lines)
    elif kind == "file":
        yield TextDocument("", "".join(read_text_lines(TextConfig(source=path))))
    else:
        ends: Callable[[str], bool] = (lambda line: not line.strip()) if kind == "blank-line" else separator.__eq__
        yield from (TextDocument("", "\n".join(part)) for part in _parts(lines, ends))


def _parts(lines: Iterator[str], ends: Callable[[str], bool]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        if ends(line):
            yield part
            part = []
        else:
            part.append(line)
    yield part


def _rows(path: Path, completions: bool, part: Part | None) -> Iterator[TextDocument]:
    names = column_names(path)
    columns = document_columns(names)
    if columns is None:
        raise missing_column("text", names, str(path))
    for row in read_rows(path, columns, part=part):
        *prompt, text = (text_of(row, column) for column in columns)
        document = TextDocument("".join(prompt), text)
        yield document if completions else TextDocument("", document.prompt + document.text)


def _json_lines(path: Path, completions: bool) -> Iterator[TextDocument]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            document = parse_document(line, where=f"{path}:{number}")
            yield document if completions else TextDocument("", document.prompt + document.text)


def parse_document(line: str, *, where: str) -> TextDocument:
    """The document of a JSON line: its ``text``, or its ``prompt`` and ``completion``. DataError naming ``where``."""
    row = parse_object(line, where=where)
    wanted = ("text",) if "text" in row else ("prompt", "completion")
    if missing := [name for name in wanted if name not in row]:
        help = 'a document is {"text": …} or {"prompt": …, "completion": …}'
        raise DataError(f'a line has no key "{missing[0]}"', where=where, why=describe_keys(row), help=help)
    for name in wanted:
        if not isinstance(row[name], str):
            raise DataError(f'"{name}" is not a string', where=where)
        if any("\ud800" <= character <= "\udfff" for character in row[name]):
            raise DataError(f'"{name}" holds half of a surrogate pair, which is no text', where=where)
    return TextDocument("", row["text"]) if "text" in row else TextDocument(row["prompt"], row["completion"])


def _is_text(path: Path) -> bool:
    return has_ending(path, TEXTS)
