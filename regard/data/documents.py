"""Splitting of texts into documents: files, lines, parts between separator lines, JSON lines, rows of tables."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator
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
RUN_RECORDS = ("environment.json", "plan.json", "metrics.jsonl")  # files of a run folder in addition to config.toml


class Cut(NamedTuple):
    """Way of splitting texts into documents. With ``completions``, prompts of JSON lines do not count in the loss."""

    kind: DocumentKind
    separator: str | None = None
    completions: bool = True


class TextDocument(NamedTuple):
    """One document. All tokens of ``text`` count in the loss, the preceding ``prompt`` does not."""

    prompt: str
    text: str

    @property
    def digest(self) -> bytes:
        """16-byte digest of the content."""
        return hashlib.blake2b(self.prompt.encode() + b"\0" + self.text.encode(), digest_size=16).digest()


def is_json_lines(names: FileNames) -> bool:
    """Return whether the name is that of JSON lines, ``.gz`` or not; for a list, whether any name is."""
    if not isinstance(names, Path):
        return any(map(is_json_lines, names))
    return has_ending(names, JSON_LINES)


def holds_records(names: FileNames) -> bool:
    """Return whether files of this name have one document per record, as JSON lines; for a list, whether any has."""
    return holds_prompts(names) or any(map(is_fasta, [names] if isinstance(names, Path) else names))


def holds_prompts(names: FileNames) -> bool:
    """Return whether files of this name may hold prompts: JSON lines and tables."""
    return is_json_lines(names) or any(map(is_table, [names] if isinstance(names, Path) else names))


def holds_documents(names: FileNames) -> bool:
    """Return whether the rows of a table or of JSON lines are documents, judged by the names of their columns or keys.

    Such rows have a text, or a prompt and a completion. Rows with both sides of a pair belong to a translation.
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
    """Return the files; for a folder, its text and JSON-lines files by name.

    Raises:
        DataError: for a folder without any, and for one that is or contains a run folder.
    """
    return [file for name in named_files(names) for file in _text_files(name)]


def _text_files(source: Path) -> list[Path]:
    refuse_pipe(source)
    if not source.is_dir():
        return [source]
    files = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
    run = _first_run(files)
    if run is not None:
        raise _run_as_data(source, run)
    texts = sorted(path for path in files if holds_records(path) or _is_text(path))
    if not texts:
        raise DataError(
            "the folder contains no text files",
            where=str(source),
            why=f"text files end in {', '.join(TEXTS)}, .jsonl or .csv",
            help=f"regard data notes {shlex.quote(str(source))} -o music.jsonl" if any(map(_is_midi, files)) else None,
        )
    return texts


def _first_run(files: Iterable[Path]) -> Path | None:
    """Return the first run folder among the folders of these files, by name; None without one."""
    folders = sorted(path.parent for path in files if path.name == "config.toml")
    return next((folder for folder in folders if any((folder / name).is_file() for name in RUN_RECORDS)), None)


def _run_as_data(source: Path, run: Path) -> DataError:
    """Return the error for a folder that is a run or contains one: its metrics and model card are not texts."""
    name = shlex.quote(str(run))
    return DataError(
        "a run folder is not a text" if run == source else "the folder contains runs, which are not texts",
        where=str(source),
        why=f"{run} is a run folder: training wrote its metrics.jsonl and README.md",
        help=f"regard train --resume {name} resumes the run, regard train --continue {name} trains it longer; to train "
        "on texts, name their files",
    )


def _is_midi(path: Path) -> bool:
    return path.suffix.lower() in (".mid", ".midi")


def read_documents(text: TextConfig, cut: Cut) -> Iterator[TextDocument]:
    """Yield the documents of a text in order, without blank ones; with a ``share``, only those within it.

    Shares divide the distinct documents, sorted by digest. Documents with equal content are therefore always in the
    same share, in any order of the file. DataError, with file and line, for unreadable input.
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
            yield from (document for document in _rows(path, cut.completions, text.part) if document.text.strip())
            continue
        if is_fasta(path) and kind != "stream":
            yield from (TextDocument("", record.sequence) for record in read_fasta(path))
            continue
        if kind != "stream" and form_of(path) in ("conll-u", "word-lines"):
            what = "cannot read texts from a file with one word and tag per line"
            raise DataError(what, where=str(path), help="write one text per line to a .txt file")
        if kind in ("auto", "stream", "file") or (kind == "line" and is_json_lines(path)):
            kind = "json-line" if kind != "stream" and is_json_lines(path) else "file"
        documents = _json_lines(path, cut.completions) if kind == "json-line" else _plain(path, kind, cut.separator)
        yield from (document for document in documents if document.text.strip())


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
    """Return the document of a JSON line: ``text``, or ``prompt`` and ``completion``. DataError naming ``where``."""
    row = parse_object(line, where=where)
    keys = ("text",) if "text" in row else ("prompt", "completion")
    if missing := [name for name in keys if name not in row]:
        help = 'write documents as {"text": …} or {"prompt": …, "completion": …}'
        raise DataError(f'the line has no key "{missing[0]}"', where=where, why=describe_keys(row), help=help)
    for name in keys:
        if not isinstance(row[name], str):
            raise DataError(f'"{name}" is not a string', where=where)
        if any("\ud800" <= character <= "\udfff" for character in row[name]):
            raise DataError(f'"{name}" contains an unpaired surrogate, which is not valid text', where=where)
    return TextDocument("", row["text"]) if "text" in row else TextDocument(row["prompt"], row["completion"])


def _is_text(path: Path) -> bool:
    return has_ending(path, TEXTS)
