"""The ``tokenizer.json`` of a foreign language model, renumbered with the special pieces first.

A model without a padding, unknown or begin symbol gets a copy of the row of its end symbol. Copies are never
predicted. Rows without a piece, as in a padded table, get a piece that no text contains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import pluralize
from regard.data.tokenizers.closed import CharacterTokenizer
from regard.data.tokenizers.subword import HuggingFaceTokenizer
from regard.data.tokenizers.tokenizer import END, SPECIALS, Tokenizer, TokenizerConfig
from regard.share.causal_family import CausalSettings
from regard.share.marian_folder import invalid_folder, json_of

MAX_UNUSED = 1 << 16  # rows without a piece: tables are padded to a round number


class CausalVocabulary(NamedTuple):
    """A tokenizer with Regard's ids, and the rows of the foreign tables."""

    tokenizer: Tokenizer
    rows: list[int]  # for each id, the row in the foreign tables
    copies: list[int]  # ids whose row belongs to another id


def read_vocabulary(folder: Path, settings: CausalSettings) -> CausalVocabulary:
    """Return the vocabulary of a folder.

    Raises:
        ModelError: the pieces are neither bytes nor characters, or they do not match the model.
    """
    path = folder / "tokenizer.json"
    document = with_type(json_of(path))
    ids = _ids(path, document, settings.vocab_size)
    specials = _specials(path, document, ids, settings)
    copies = [id for id in range(END) if specials[id] in [*specials[:id], specials[END]]]
    special_rows = set(specials)
    rows = [*specials, *(row for row in range(settings.vocab_size) if row not in special_rows)]
    pieces = {row: piece for piece, row in ids.items()}
    names = _names(pieces, rows, copies)
    tokenizer = _tokenizer(path, document, names)
    if len(tokenizer) != len(rows):
        raise invalid_folder(
            path, f"its tokenizer has {pluralize(len(tokenizer), 'piece')}; the model has {len(rows):,}"
        )
    return CausalVocabulary(tokenizer, rows, copies)


def _ids(path: Path, document: dict[str, Any], types: int) -> dict[str, int]:
    """Return the row of each piece, including added tokens.

    Raises:
        ModelError: a piece has no row from 0 to ``types`` − 1, or two pieces have the same row.
    """
    model = document.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise invalid_folder(path, "`model.type` is not BPE (byte-pair encoding)")
    vocabulary, added = model.get("vocab"), document.get("added_tokens") or []
    if not isinstance(vocabulary, dict) or not isinstance(added, list):
        raise invalid_folder(path, "`model.vocab` is not a table of pieces, or `added_tokens` is not a list")
    ids = dict(vocabulary)
    for token in added:
        if not isinstance(token, dict) or not isinstance(token.get("content"), str):
            raise invalid_folder(path, "an added token has no content")
        if ids.setdefault(token["content"], token.get("id")) != token.get("id"):
            raise invalid_folder(path, f"the piece {token['content'][:50]!r} has two ids")
    if not all(type(id) is int and 0 <= id < types for id in ids.values()):
        raise invalid_folder(path, f"its ids are not all from 0 to {types - 1:,}, the rows of the model")
    if types - len(ids) > MAX_UNUSED:
        raise invalid_folder(path, f"it has {pluralize(len(ids), 'piece')}; the model has {pluralize(types, 'row')}")
    if len(set(ids.values())) < len(ids):
        raise invalid_folder(path, "two pieces have the same id")
    return ids


def with_type(document: dict[str, Any]) -> dict[str, Any]:
    """Return the content of ``tokenizer.json`` with the type of its model, which early files omit."""
    model = document.get("model")
    if not isinstance(model, dict) or "type" in model:
        return document
    return document | {"model": {"type": "BPE" if "merges" in model else "WordPiece"} | model}


def _specials(path: Path, document: dict[str, Any], ids: dict[str, int], settings: CausalSettings) -> list[int]:
    """Return the rows of padding, unknown, begin and end symbol. A missing symbol gets the row of the end symbol."""
    ends = settings.eos_token_id
    end = ends[0] if isinstance(ends, list) and ends else ends
    if not isinstance(end, int):
        raise invalid_folder(path.parent / "config.json", "`eos_token_id` is missing")
    unknown = ids.get(str(document["model"].get("unk_token")), ids.get(SPECIALS[1]))
    begin = settings.bos_token_id
    rows = [end if row is None else row for row in (settings.pad_token_id, unknown, begin, end)]
    if max(rows) >= settings.vocab_size:
        raise invalid_folder(
            path.parent / "config.json",
            f"a special token has the id {max(rows):,}, and the model has {pluralize(settings.vocab_size, 'row')}",
        )
    return rows


def _names(pieces: dict[int, str], rows: list[int], copies: list[int]) -> list[str]:
    """Return the names of the pieces, ordered by id and unique."""
    names, used = list[str](), set(pieces.values())
    for id, row in enumerate(rows):
        name = None if id in copies else pieces.get(row)
        if name is None:
            name = SPECIALS[id] if id in copies else f"<row {row}>"
            while name in used:
                name = f"<{name}>"
        used.add(name)
        names.append(name)
    return names


def _tokenizer(path: Path, document: dict[str, Any], names: list[str]) -> Tokenizer:
    model, specials = document["model"], names[: len(SPECIALS)]
    steps = step_types(document.get("decoder")), step_types(document.get("pre_tokenizer"))
    if not model.get("merges") and steps == (["Fuse"], []) and all(len(name) == 1 for name in names[len(SPECIALS) :]):
        return CharacterTokenizer(TokenizerConfig(kind="character"), names[len(SPECIALS) :])
    if "ByteLevel" not in steps[0] or "ByteLevel" not in steps[1] or model.get("byte_fallback"):
        raise invalid_folder(path, "its tokenizer is not a byte-level BPE")
    if unsupported := [step for step in step_types(document.get("normalizer")) if step != "NFC"]:
        raise invalid_folder(path, f"its normalizer {unsupported[0][:50]} is not supported; only NFC is")
    ids = {name: id for id, name in enumerate(names)}
    plain = [token | {"id": ids[token["content"]]} for token in document.get("added_tokens") or []]
    known = {token["content"] for token in plain}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [flags | {"id": ids[name], "content": name} for name in specials if name not in known]
    whole = document | {
        "model": model | {"vocab": ids, "unk_token": None},
        "added_tokens": sorted([*added, *plain], key=lambda token: token["id"]),
        "post_processor": None, "truncation": None, "padding": None,
    }  # fmt: skip
    try:
        return HuggingFaceTokenizer(
            TokenizerConfig(kind="byte-bpe"), json.dumps(whole, ensure_ascii=False).encode("utf-8")
        )
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error


def step_types(section: Any) -> list[str]:
    """Return the types of the steps in one section of the file."""
    if not isinstance(section, dict):
        return []
    steps = next((section[key] for key in ("decoders", "pretokenizers", "normalizers") if key in section), [section])
    return [str(step.get("type")) for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
