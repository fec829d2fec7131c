"""Catalog of tokenizers: training and loading of all kinds."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from regard.core.installation import upgrade_advice
from regard.core.untrusted_files import LARGE, parse_json, read_bytes
from regard.core.wording import describe_error
from regard.data.tokenizers.closed import (
    ByteTokenizer,
    CharacterTokenizer,
    ClosedVocabulary,
    KmerTokenizer,
    WordTokenizer,
    count_pieces,
)
from regard.data.tokenizers.notes import NotesTokenizer
from regard.data.tokenizers.subword import (
    HuggingFaceTokenizer,
    MarianTokenizer,
    SentencePieceTokenizer,
    train_byte_bpe,
    train_hugging_face,
    train_sentencepiece,
)
from regard.data.tokenizers.tokenizer import (
    FIXED,
    FORMAT,
    IMPORTED,
    SizeMisfit,
    Tokenizer,
    TokenizerConfig,
)
from regard.errors import ConfigError, ModelError

# Kinds whose vocabulary is counted in the corpus.
COUNTED: dict[str, type[ClosedVocabulary]] = {
    "character": CharacterTokenizer, "k-mer": KmerTokenizer, "pretokenized": WordTokenizer, "word": WordTokenizer,
}  # fmt: skip


def train_tokenizer(lines: Iterable[str], config: TokenizerConfig, key: str = "data.tokenizer") -> Tokenizer:
    """Return a tokenizer with the vocabulary of ``lines``; for a joint vocabulary, chain the lines of both sides.

    Deterministic, except for kind = unigram of library = tokenizers. Takes about 0.4 s (BPE) to 3 s (unigram) for
    60,000 sentences.

    Args:
        lines: the corpus for the vocabulary.
        config: settings of the tokenizer.
        key: key of ``config`` in a run's config, for errors.

    Raises:
        ConfigError: the corpus allows no vocabulary of that size; the error states the largest size.
        DataError: the corpus has no text.
    """
    if config.kind in IMPORTED:
        help = "use another kind, such as bpe"
        what = f"a {config.kind} vocabulary cannot be trained; it is part of an imported model"
        raise ConfigError(what, where=f"{key}.kind", help=help)
    try:
        return _trained(lines, config)
    except SizeMisfit as error:
        raise ConfigError(error.what, where=f"{key}.size", why=error.why, help=error.help) from error


def _trained(lines: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    if config.kind in FIXED:
        return (NotesTokenizer if config.kind == "notes" else ByteTokenizer)(config)
    if config.kind in COUNTED:
        return COUNTED[config.kind](config, count_pieces(lines, config))
    if config.kind == "byte-bpe":
        return train_byte_bpe(lines, config)
    if config.library == "sentencepiece":
        return train_sentencepiece(lines, config)
    return train_hugging_face(lines, config)


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """Return the tokenizer that ``Tokenizer.save`` wrote.

    Args:
        folder: the folder.
        name: of its files, without the suffix.

    Raises:
        ModelError: for a missing, damaged, foreign or newer file.
    """
    head_path = folder / f"{name}.json"
    head = _read_head(head_path)
    try:
        config = TokenizerConfig.model_validate(head["config"])
        digests = dict(head["files"])
        pieces = head["pieces"]
    except (KeyError, TypeError, ValueError) as error:
        raise _not_a_tokenizer(head_path, describe_error(error)) from error
    if config.kind in FIXED:
        return (NotesTokenizer if config.kind == "notes" else ByteTokenizer)(config)
    if config.kind in (*COUNTED, "listed") and not _is_list_of_text(pieces):
        raise _not_a_tokenizer(head_path, '"pieces" is not a list of strings')
    if config.kind in COUNTED:
        return COUNTED[config.kind](config, pieces)
    build: Callable[[TokenizerConfig, bytes], Tokenizer]
    if config.kind == "listed":
        suffix, build = "model", partial(MarianTokenizer, pieces=pieces)
    elif config.library == "sentencepiece" and config.kind not in ("byte-bpe", "wordpiece"):
        suffix, build = "model", SentencePieceTokenizer
    else:
        suffix, build = "tokenizer.json", HuggingFaceTokenizer
    path = folder / f"{name}.{suffix}"
    model = _read(path)
    if hashlib.sha256(model).hexdigest() != digests.get(suffix):
        raise ModelError(
            f"the tokenizer file {path.name} is damaged or belongs to another model",
            where=str(path),
            why=f"its sha256 differs from the one in {head_path.name}",
            help="copy the whole model folder again",
        )
    try:
        return build(config, model)
    except ValueError as error:
        raise _not_a_tokenizer(path, str(error)) from error


def _is_list_of_text(value: object) -> bool:
    """Return whether ``value`` is a list of encodable texts: JSON may contain unpaired surrogates."""
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        return False
    return not any("\ud800" <= character <= "\udfff" for piece in value if not piece.isascii() for character in piece)


def _read_head(path: Path) -> dict[str, Any]:
    """Return the content of a tokenizer's JSON file after checking its format and version."""
    try:
        head = parse_json(_read(path))
    except ValueError as error:
        raise ModelError(
            f"the tokenizer file {path.name} is truncated or not JSON",
            where=str(path),
            why=str(error),
            help="copy the whole model folder again",
        ) from error
    if not isinstance(head, dict) or head.get("format") != FORMAT["format"]:
        raise _not_a_tokenizer(path, f'it lacks "format": "{FORMAT["format"]}"')
    if head.get("version") != FORMAT["version"]:
        raise ModelError(
            f"the tokenizer {path.name} has format version {head.get('version')}",
            where=str(path),
            why=f"this version of Regard reads {FORMAT['version']}",
            help=upgrade_advice(),
        )
    return head


def _read(path: Path) -> bytes:
    """Return the content of a file. ModelError if it is missing or unreadable."""
    try:
        return read_bytes(path, LARGE)
    except FileNotFoundError as error:
        names = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, n=1)
        raise ModelError(
            f"the tokenizer file {path.name} is missing",
            where=str(path),
            why=f"the nearest name in the folder is {near[0]}" if near else None,
            help="copy the whole model folder again",
        ) from error
    except (OSError, ValueError) as error:
        why = describe_error(error)
        raise ModelError(f"the tokenizer file {path.name} cannot be read", where=str(path), why=why) from error


def _not_a_tokenizer(path: Path, why: str) -> ModelError:
    """Return the error for a file of another format."""
    return ModelError(f"{path.name} is not a Regard tokenizer", where=str(path), why=why)
