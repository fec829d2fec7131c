"""A language model's config for a text nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config.settings import TRAINING_ENDS
from regard.core.untrusted_files import shortened
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
from regard.runs.run_config import Proposal
from regard.tasks.detect_files import DetectedCorpus, describe_columns, detect_corpus, held_out_parts, refuse_rows

CHARACTERS = 512  # so few different ones are pieces of their own
HELD_OUT_SHARE, HELD_OUT = 0.1, 1_000_000  # for validation where no text is given: whichever is fewer characters
COMPUTED = 10_000_000_000  # characters, above which the order of an epoch is computed rather than listed
FEWEST = 2_000  # characters: of a shorter text nothing is held out
FEWEST_DOCUMENTS, HELD_OUT_DOCUMENTS = 10, 2_000  # of fewer none is held out, and never more
GIVE_SOME = "--valid-file FILE gives a text to validate on"


class _Size(NamedTuple):
    """Up to so many characters: this preset, dropout, context and epochs."""

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
NOTES: tuple[dict[str, Any], str] = ({"kind": "notes"}, "pitches and ends of frames as pieces")
LOOKED_AT = 20  # documents, to tell whether they are music


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal:
    """Read the text once and choose. ``given``: keys of ``train`` that the user sets. DataError for an empty text.

    JSON lines are a document each, and so are the files of a folder; any other text is one stream.
    """
    kind, count, seen, digests = _kind(files, named="task" in given), 0, set[str](), set[bytes]()
    for piece in _pieces(files, kind, digests):
        count += len(piece)
        if len(seen) <= CHARACTERS:
            seen.update(piece)
    if not count:
        raise DataError("there is no text to learn from", where=str(files[0]), why="it is empty")
    small = len(seen) <= CHARACTERS and count <= SIZES[1].characters
    music = kind == "json-line" and _is_music(files)
    size = MUSIC if music else next(size for size in SIZES if count <= size.characters)
    tokenizer, pieces = NOTES if music else _tokenizer(len(seen), small=small)
    order = {"order": "feistel"} if count > COMPUTED else {}
    packed = {} if kind == "stream" else {"documents": kind}
    corpus = detect_corpus(files) if packed and not any(file.is_dir() for file in files) else None
    if corpus is not None and corpus.split is not None:
        parts, told = held_out_parts(corpus, valid, examples="documents", hashed="their content")
    else:
        parts, told = _held_out(files, valid, len(digests)) if packed else _parts(files, valid, count)
    settings: dict[str, Any] = {} if "optimizer" in given else {
        "optimizer": "adamw", "betas": [0.9, 0.95], "weight_decay": 0.1, "clip_norm": 1.0,
        "learning_rate": 3e-3 if size.preset == "tiny" else 1e-3,
        "schedule": "linear" if {"steps", "minutes", "tokens"} & given.keys() else "inverse-sqrt",
    }  # fmt: skip
    settings |= division(given)
    if not set(TRAINING_ENDS) & given.keys():
        settings |= {"epochs": size.epochs} | ({"early_stopping": 5} if "valid" in parts else {})
    other = ": music" if music else "" if packed else "; two files would train a translation model"
    reasons = [
        f"{_documents(len(digests), 'different') if packed else 'one text alone'}: a language model "
        f"({count:,} characters, {pieces}, preset {size.preset}){other}",
        told,
        *_described(corpus, given),
        *_unread(files),
        *(["the order of an epoch is computed batch by batch: data.order = feistel"] if order else []),
    ]
    config = {
        "task": {"kind": "language-model"},
        "data": {**parts, **packed, **order, "tokenizer": tokenizer, "context": size.context},
        "model": {"preset": size.preset, "dropout": size.dropout},
        "train": settings,
    }
    return Proposal(config, reasons)


def _described(corpus: DetectedCorpus | None, given: Mapping[str, Any]) -> list[str]:
    """Return the line on the columns that are read.

    DataError where the columns that are not read look like labels or targets, unless the task was named.
    """
    if corpus is None or not corpus.head.names:
        return []
    read = document_columns(corpus.head.names) or ()
    dropped = label_like(name for name in corpus.head.names if name not in read)
    if dropped and "task" not in given:
        raise DataError(
            f"a language model would not read the column {dropped[0]!r}, which looks like a label or a target",
            where=str(corpus.first),
            why=f"the columns are {shortened(', '.join(corpus.head.names))}",
            help="--set data.text=… --set data.label=… names the columns of a classifier; "
            f"--task language-model reads {' and '.join(read)} alone",
        )
    roles = {"prompt": read[:1], "completion": read[1:]} if len(read) > 1 else {"text": read}
    return describe_columns(corpus, roles)


def _unread(files: Sequence[Path]) -> list[str]:
    """Return lines on what may be labels and is not read: the lines above sequences, and the names of folders."""
    lines = []
    if any(map(is_fasta, named_files(tuple(files)))):
        lines.append(
            "the lines above the sequences are not read; --task classification learns their last words as labels"
        )
    for folder in filter(Path.is_dir, files):
        names = sorted({path.relative_to(folder).parts[0] for path in text_files(folder)})
        if len(names) > 1 and all((folder / name).is_dir() for name in names):
            told = f"{', '.join(names[:5])}{' …' if len(names) > 5 else ''}"
            lines.append(
                f"the names of the folders ({told}) are not read as labels; a .csv with text and label has them"
            )
    return lines


def _tokenizer(characters: int, *, small: bool) -> tuple[dict[str, Any], str]:
    """The tokenizer of a text, and how to call its pieces."""
    if small:
        return {"kind": "character"}, f"{characters} different ones as pieces"
    return {"kind": "byte-bpe", "size": 8_000}, "8,000 pieces of bytes"


def _is_music(files: Sequence[Path]) -> bool:
    """Return whether every word of the first documents names a pitch (``data/notes``)."""
    documents = islice(
        (each for file in files for each in read_documents(TextConfig(source=file), Cut("json-line"))), LOOKED_AT
    )
    words = [word for each in documents for word in (each.prompt + each.text).split()]
    return bool(words) and all(pitch_of(word) is not None for word in words)


def _kind(files: Sequence[Path], *, named: bool) -> DocumentKind:
    """Return how texts are cut. DataError where they are rows, unless the task was named."""
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
    """DataError for a table or JSON lines whose columns tell no task."""
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
        "the names of the columns do not tell what is to be learned",
        where=str(file),
        why=f"the {source} are {shortened(', '.join(column_names(file)))}",
        help="name them text and label, source and target, prompt and completion, tokens and tags, items, or text; or "
        "say which is the text and which the label: --set data.text=… --set data.label=…",
    )


def _pieces(files: Sequence[Path], kind: DocumentKind, digests: set[bytes]) -> Iterator[str]:
    """All text, piece by piece; ``digests`` gets that of each document."""
    for text in (TextConfig(source=file) for file in files):
        if kind == "stream":
            yield from read_text_lines(text)
            continue
        for document in read_documents(text, Cut(kind)):
            digests.add(document.digest)
            yield document.prompt + document.text


def _held_out(files: Sequence[Path], valid: Sequence[Path], number: int) -> tuple[dict[str, Any], str]:
    """The tables ``train`` and ``valid`` of so many different documents, and the reason."""
    train = [{"source": str(file)} for file in files]
    if valid:
        return {"train": train, "valid": [{"source": str(file)} for file in valid]}, "validates on the text given"
    if number < FEWEST_DOCUMENTS:
        return {
            "train": train
        }, f"fewer than {FEWEST_DOCUMENTS} documents: none is held out, so there is no validation; {GIVE_SOME}"
    held = min(max(round(HELD_OUT_SHARE * number), 1), HELD_OUT_DOCUMENTS)
    share = 1 - held / number
    parts = {"train": [0.0, share], "valid": [share, 1.0]}
    tables = {name: [{"source": str(file), "share": part} for file in files] for name, part in parts.items()}
    are = "is" if held == 1 else "are"
    return tables, f"no validation text given: {_documents(held, 'whole')} {are} held out, drawn by their content"


def _documents(number: int, which: str) -> str:
    return f"{number:,} {which} document{'' if number == 1 else 's'}"


def division(given: Mapping[str, Any]) -> dict[str, int]:
    """Two workers where a CPU has threads for them, unless ``given`` says how an update is divided.

    Two of the two shards that an update has take less time than one after the other by twice the threads
    (bench/nanogpt_speed.py): what is small is not worth splitting further, and the rest is half as large.
    """
    if {"workers", "shards"} & given.keys():
        return {}
    import torch  # here, since a config that is refused needs none

    threads = given.get("threads") or torch.get_num_threads()
    return {"workers": 2} if isinstance(threads, int) and threads > 1 and not torch.cuda.is_available() else {}


def _parts(files: Sequence[Path], valid: Sequence[Path], count: int) -> tuple[dict[str, Any], str]:
    """The tables ``train`` and ``valid``, and the reason."""
    train = [{"source": str(file)} for file in files]
    if valid:
        return {"train": train, "valid": [{"source": str(file)} for file in valid]}, "validates on the text given"
    if count < FEWEST:
        return {
            "train": train
        }, f"fewer than {FEWEST:,} characters: nothing is held out, so there is no validation; {GIVE_SOME}"
    share = round(1 - min(HELD_OUT_SHARE, HELD_OUT / count), 6)
    held = [{"source": str(file), "share": [share, 1.0]} for file in files]
    kept = [{"source": str(file), "share": [0.0, share]} for file in files]
    return {"train": kept, "valid": held}, f"no validation text given: the last {1 - share:.1%} are held out"
