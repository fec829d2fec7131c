"""Automatic choice of a language model config for texts or documents, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.baselines.ngrams import MAX_TOKENS
from regard.core.untrusted_files import shortened
from regard.core.wording import pluralize
from regard.data.column_names import document_columns, label_like
from regard.data.documents import (
    Cut,
    DocumentKind,
    holds_documents,
    holds_records,
    is_json_lines,
    read_documents,
    text_files,
)
from regard.data.file_names import named_files
from regard.data.molecules import is_fasta
from regard.data.notes import pitch_of
from regard.data.rows import column_names, form_of
from regard.data.stream import TextConfig, read_text_lines
from regard.data.tables import is_table
from regard.errors import DataError
from regard.models.causal_config import PRESETS
from regard.runs.run_config import Proposal
from regard.tasks.automatic_training import is_short, newer_parts, optimizer_settings, training_settings, two_workers
from regard.tasks.detect_files import DetectedCorpus, describe_columns, detect_corpus, held_out_parts, refuse_rows

CHARACTERS = 512  # up to 512 different characters, a small text has one piece per character
HELD_OUT_SHARE, HELD_OUT = 0.1, 1_000_000  # held out without validation data: the smaller of both, in characters
COMPUTED = 10_000_000_000  # characters above which the order of an epoch is computed instead of stored as a list
MIN_CHARACTERS = 2_000  # nothing is held out of a shorter text
MIN_DOCUMENTS, HELD_OUT_DOCUMENTS = 10, 2_000  # no document is held out below the first, and at most the second
ADD_VALIDATION = "(--valid-file adds validation data)"


class _Size(NamedTuple):
    """Settings for texts of up to ``characters`` characters."""

    characters: float
    preset: str
    dropout: float
    context: int
    epochs: int


SIZES = (
    _Size(300_000, "tiny", 0.2, 64, 40),
    _Size(5_000_000, "tiny", 0.1, 128, 20),
    _Size(100_000_000, "small", 0.0, 256, 5),
    _Size(float("inf"), "base", 0.0, 512, 1),
)
MUSIC = _Size(float("inf"), "tiny", 0.3, 512, 60)
NOTES: tuple[dict[str, Any], str] = ({"kind": "notes"}, "notes tokenizer")
CHARACTERS_PER_PIECE = {"character": 1.0, "byte-bpe": 3.5, "notes": 3.0}  # approximately
SAMPLED = 20  # documents that are checked for music


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal:
    """Read the text once and choose a config; ``overrides`` are the settings of the user. DataError for empty files.

    Each JSON line is a document, and so is each file of a folder; any other text is one stream.
    """
    kind, count, seen, digests = _kind(files, named="task" in overrides), 0, set[str](), set[bytes]()
    for piece in _pieces(files, kind, digests):
        count += len(piece)
        if len(seen) <= CHARACTERS:
            seen.update(piece)
    if not count:
        raise DataError("no training text", where=str(files[0]), why="the file is empty")
    small = len(seen) <= CHARACTERS and count <= SIZES[1].characters
    music = kind == "json-line" and _is_music(files)
    size = MUSIC if music else next(size for size in SIZES if count <= size.characters)
    tokenizer, pieces = NOTES if music else _tokenizer(len(seen), small=small)
    order = {"order": "feistel"} if count > COMPUTED else {}
    packed = {} if kind == "stream" else {"documents": kind}
    corpus = detect_corpus(files) if packed and not any(file.is_dir() for file in files) else None
    if corpus is not None and corpus.split is not None:
        parts, reason = held_out_parts(corpus, valid, examples="documents", hashed="their content")
    else:
        parts, reason = _held_out(files, valid, len(digests)) if packed else _parts(files, valid, count)
    tokens = count / CHARACTERS_PER_PIECE[str(tokenizer["kind"])]
    carried = overrides.get("data", {}).get("order") == "lanes"
    wide = bool(overrides.get("baseline", True)) and tokens <= MAX_TOKENS and not carried
    newer = newer_parts(overrides)
    settings = _training(overrides, size, tokens, newer)
    content = pluralize(len(digests), "different document") if packed else "plain text"
    reasons = [
        f"{content}{' of music' if music else ''} → language model "
        f"({pluralize(count, 'character')}, {pieces}, preset `{size.preset}`)"
        f"{'' if packed else '; two files would train a translation model'}",
        reason,
        *_described(corpus, overrides),
        *_unread(files),
        *(["probabilities: those of the network, interpolated with those of n-grams (model.wide)"] if wide else []),
        *(['data.order = "feistel": the text is too large for a list of its windows'] if order else []),
    ]
    config = {
        "task": {"kind": "language-model"},
        "data": {**parts, **packed, **order, "tokenizer": tokenizer, "context": size.context},
        "model": {"preset": size.preset, "dropout": size.dropout, **newer, "wide": wide},
        "train": settings,
    }
    return Proposal(config, reasons)


def _training(overrides: Mapping[str, Any], size: _Size, tokens: float, newer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section ``train``; a batch has several windows."""
    short = is_short(overrides, tokens=tokens, epochs=size.epochs)
    optimizer = optimizer_settings(newer, PRESETS[size.preset]["width"], short=short)
    optimizer |= {"betas": [0.9, 0.95], "weight_decay": 0.1}
    settings = training_settings(overrides, tokens=tokens, epochs=size.epochs, optimizer=optimizer)
    settings["batch_tokens"] = max(settings["batch_tokens"], 4 * size.context)
    return settings | two_workers(overrides)


def _described(corpus: DetectedCorpus | None, overrides: Mapping[str, Any]) -> list[str]:
    """Return the reason line about the columns that are read.

    Raises:
        DataError: an unused column looks like a label or a target, and the user did not name the task.
    """
    if corpus is None or not corpus.head.names:
        return []
    read = document_columns(corpus.head.names) or ()
    dropped = label_like(name for name in corpus.head.names if name not in read)
    if dropped and "task" not in overrides:
        raise DataError(
            f"the column {dropped[0]!r} looks like a label or a target, and a language model would ignore it",
            where=str(corpus.first),
            why=f"the columns are {shortened(', '.join(corpus.head.names))}",
            help="--set data.text=… --set data.label=… selects the columns of a classifier; "
            f"--task language-model reads only {' and '.join(read)}",
        )
    roles = {"prompt": read[:1], "completion": read[1:]} if len(read) > 1 else {"text": read}
    return describe_columns(corpus, roles)


def _unread(files: Sequence[Path]) -> list[str]:
    """Return reason lines about unused possible labels: FASTA header lines and the names of subfolders."""
    lines = []
    if any(map(is_fasta, named_files(tuple(files)))):
        lines.append("FASTA header lines are ignored; --task classification uses their last words as labels")
    for folder in filter(Path.is_dir, files):
        names = sorted({path.relative_to(folder).parts[0] for path in text_files(folder)})
        if len(names) > 1 and all((folder / name).is_dir() for name in names):
            shown = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
            lines.append(
                f"the folder names ({shown}) are not used as labels; a classifier needs a .csv with text and label"
            )
    return lines


def _tokenizer(characters: int, *, small: bool) -> tuple[dict[str, Any], str]:
    """Return the tokenizer table and its description."""
    if small:
        return {"kind": "character"}, f"character tokenizer of {pluralize(characters, 'piece')}"
    return {"kind": "byte-bpe", "size": 8_000}, "byte-bpe tokenizer of 8,000 pieces"


def _is_music(files: Sequence[Path]) -> bool:
    """True if every word of the first documents is the name of a pitch (``data/notes``)."""
    documents = chain.from_iterable(read_documents(TextConfig(source=file), Cut("json-line")) for file in files)
    words = [word for document in islice(documents, SAMPLED) for word in (document.prompt + document.text).split()]
    return bool(words) and all(pitch_of(word) is not None for word in words)


def _kind(files: Sequence[Path], *, named: bool) -> DocumentKind:
    """Return the kind of documents in the files; DataError for rows, unless ``named``: the user named the task."""
    for file in files:
        _require_documents(file)
    for file in () if named else named_files(tuple(files)):
        refuse_rows(file)
    if any(file.is_dir() for file in files) or any(map(is_table, files)):
        return "file"
    if any(map(is_json_lines, files)):
        return "json-line"
    return "file" if any(map(holds_records, files)) else "stream"


def _require_documents(file: Path) -> None:
    """Raise DataError for a table or JSON lines whose columns match no task."""
    if file.is_dir() or not (is_table(file) or is_json_lines(file)) or holds_documents(file):
        return
    source = (
        "keys of its first line"
        if is_json_lines(file)
        else "cells of its first line"
        if form_of(file) == "csv"
        else "columns"
    )
    raise DataError(
        "the column names match no task",
        where=str(file),
        why=f"the {source} are {shortened(', '.join(column_names(file)))}",
        help="rename them to text and label, source and target, prompt and completion, tokens and tags, items, "
        "date (and columns of numbers), or text; or select columns for a classifier: --set data.text=… "
        "--set data.label=…",
    )


def _pieces(files: Sequence[Path], kind: DocumentKind, digests: set[bytes]) -> Iterator[str]:
    """Yield all text in pieces, and add the digest of each document to ``digests``."""
    for text in (TextConfig(source=file) for file in files):
        if kind == "stream":
            yield from read_text_lines(text)
            continue
        for document in read_documents(text, Cut(kind)):
            digests.add(document.digest)
            yield document.prompt + document.text


def _held_out(files: Sequence[Path], valid: Sequence[Path], number: int) -> tuple[dict[str, Any], str]:
    """Return the tables ``train`` and ``valid`` for ``number`` different documents, and the reason."""
    train = [{"source": str(file)} for file in files]
    if valid:
        return {"train": train, "valid": [{"source": str(file)} for file in valid]}, _validation_files(valid)
    if number < MIN_DOCUMENTS:
        return {"train": train}, f"no validation: fewer than {MIN_DOCUMENTS} documents {ADD_VALIDATION}"
    held = min(max(round(HELD_OUT_SHARE * number), 1), HELD_OUT_DOCUMENTS)
    share = 1 - held / number
    parts = {"train": [0.0, share], "valid": [share, 1.0]}
    tables = {name: [{"source": str(file), "share": part} for file in files] for name, part in parts.items()}
    return tables, f"validation: {pluralize(held, 'document')}, selected by a hash of the content"


def _validation_files(files: Sequence[Path]) -> str:
    return f"validation: {', '.join(map(str, files))}"


def _parts(files: Sequence[Path], valid: Sequence[Path], count: int) -> tuple[dict[str, Any], str]:
    """Return the tables ``train`` and ``valid`` for a text of ``count`` characters, and the reason."""
    train = [{"source": str(file)} for file in files]
    if valid:
        return {"train": train, "valid": [{"source": str(file)} for file in valid]}, _validation_files(valid)
    if count < MIN_CHARACTERS:
        return {"train": train}, f"no validation: fewer than {MIN_CHARACTERS:,} characters {ADD_VALIDATION}"
    share = round(1 - min(HELD_OUT_SHARE, HELD_OUT / count), 6)
    held_out = [{"source": str(file), "share": [share, 1.0]} for file in files]
    rest = [{"source": str(file), "share": [0.0, share]} for file in files]
    return {"train": rest, "valid": held_out}, f"validation: the last {1 - share:.1%} of the text"
