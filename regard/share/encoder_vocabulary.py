"""The tokenizer of a foreign encoder, renumbered with the special pieces first and the mask last.

The mask is not a piece of the tokenizer, so no text contains it. Rows without a piece, as in a padded table, get a
piece that no text contains.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.wording import pluralize
from regard.data.tokenizers.subword import HuggingFaceTokenizer
from regard.data.tokenizers.tokenizer import SPECIALS, Tokenizer, TokenizerConfig
from regard.share.causal_vocabulary import MAX_UNUSED, step_types, with_type
from regard.share.marian_folder import LARGE, bytes_of, invalid_folder, json_of
from regard.share.pretrained_encoder import EncoderSettings, PretrainedEncoder

SMALL = 1 << 20
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


class EncoderVocabulary(NamedTuple):
    """A tokenizer with Regard's ids, and the rows of the foreign tables."""

    tokenizer: Tokenizer
    rows: list[int]  # for each id, and for the mask after the last id, the row in the foreign tables


def read_encoder_vocabulary(folder: Path, family: PretrainedEncoder, settings: EncoderSettings) -> EncoderVocabulary:
    """Return the vocabulary of a folder.

    Raises:
        ModelError: the tokenizer is of an unsupported type, or does not match the model.
    """
    path = folder / "tokenizer.json"
    document = with_type(json_of(path)) if path.is_file() else _document_of_list(folder, family)
    ids = _ids(path, document, settings.vocab_size)
    specials = _specials(path, _spelled(folder, family), ids)
    *framing, mask = specials
    special_rows = {*specials}
    rows = [*framing, *(row for row in range(settings.vocab_size) if row not in special_rows)]
    pieces = {row: piece for piece, row in ids.items()}
    names = [pieces.get(row) or _unused(row, ids) for row in rows]
    return EncoderVocabulary(_tokenizer(path, document, names, pieces[mask]), [*rows, mask])


def _document_of_list(folder: Path, family: PretrainedEncoder) -> dict[str, Any]:
    """Return the content of a ``tokenizer.json`` for the list of pieces ``vocab.txt``, which older folders have."""
    path = folder / "vocab.txt"
    if family.listed is None or not path.is_file():
        raise invalid_folder(folder / "tokenizer.json", "the file is missing")
    try:
        pieces = [line.rstrip("\r") for line in bytes_of(path, LARGE).decode().rstrip("\n").split("\n")]
    except UnicodeDecodeError as error:
        raise invalid_folder(path, str(error)) from error
    if len({*pieces}) < len(pieces):
        raise invalid_folder(path, "two lines are equal")
    return family.listed({piece: row for row, piece in enumerate(pieces)}, _settings(folder))


def _settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the tokenizer: ``special_tokens_map.json``, updated by ``tokenizer_config.json``."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            settings |= {key: value for key, value in json_of(folder / name, SMALL).items() if value is not None}
    return settings


def _spelled(folder: Path, family: PretrainedEncoder) -> list[str]:
    """Return the spelling of padding, unknown, begin, end and mask piece."""
    settings, spelled = _settings(folder), list[str]()
    for role, usual in zip(ROLES, family.specials, strict=True):
        value = settings.get(role, usual)
        value = value.get("content") if isinstance(value, dict) else value
        spelled.append(value if isinstance(value, str) else usual)
    return spelled


def _ids(path: Path, document: dict[str, Any], types: int) -> dict[str, int]:
    """Return the row of each piece, including added tokens.

    Raises:
        ModelError: a piece has no row from 0 to ``types`` − 1, or two pieces have the same row.
    """
    model, added = document.get("model"), document.get("added_tokens") or []
    if not isinstance(model, dict) or model.get("type") not in ("WordPiece", "BPE"):
        raise invalid_folder(path, "`model.type` is neither WordPiece nor BPE (byte-pair encoding)")
    if not isinstance(model.get("vocab"), dict) or not isinstance(added, list):
        raise invalid_folder(path, "`model.vocab` is not a table of pieces, or `added_tokens` is not a list")
    ids = dict(model["vocab"])
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


def _specials(path: Path, spelled: list[str], ids: dict[str, int]) -> list[int]:
    """Return the rows of the special pieces. Raises ModelError if one is missing or has two roles."""
    for piece, role in zip(spelled, ROLES, strict=True):
        if piece not in ids:
            raise invalid_folder(path, f"the {role} {piece[:50]!r} is not a piece of the tokenizer")
    if len({*spelled}) < len(spelled):
        raise invalid_folder(path, "two of padding, unknown, begin, end and mask piece are equal")
    return [ids[piece] for piece in spelled]


def _unused(row: int, ids: dict[str, int]) -> str:
    name = f"<row {row}>"
    while name in ids:
        name = f"<{name}>"
    return name


def _tokenizer(path: Path, document: dict[str, Any], names: list[str], mask: str) -> Tokenizer:
    """Return the tokenizer without its mask, with the pieces ``names`` in the order of their ids."""
    model, ids = document["model"], {name: id for id, name in enumerate(names)}
    kind = _kind(path, document)
    added = [token for token in document.get("added_tokens") or [] if token["content"] != mask]
    added = [token | {"id": ids[token["content"]]} for token in added]
    known = {token["content"] for token in added}
    added += [FLAGS | {"id": ids[name], "content": name} for name in names[: len(SPECIALS)] if name not in known]
    whole = document | {
        "model": model | {"vocab": ids},
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "post_processor": None, "truncation": None, "padding": None,
    }  # fmt: skip
    try:
        return HuggingFaceTokenizer(kind, json.dumps(whole, ensure_ascii=False).encode("utf-8"))
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error


def _kind(path: Path, document: dict[str, Any]) -> TokenizerConfig:
    """Return the config of the tokenizer. Raises ModelError if it splits text in an unsupported way."""
    steps = {part: step_types(document.get(part)) for part in ("normalizer", "pre_tokenizer", "decoder")}
    if document["model"]["type"] == "WordPiece":
        if (steps["normalizer"], steps["pre_tokenizer"]) != (["BertNormalizer"], ["BertPreTokenizer"]):
            raise invalid_folder(path, "its WordPiece tokenizer does not split text like that of BERT")
        return TokenizerConfig(kind="wordpiece")
    if steps["decoder"] == ["Fuse"] and steps["pre_tokenizer"] == ["WhitespaceSplit"]:
        return TokenizerConfig(kind="bpe", library="tokenizers")
    if "ByteLevel" not in steps["decoder"] or "ByteLevel" not in steps["pre_tokenizer"]:
        raise invalid_folder(path, "its tokenizer is not a byte-level BPE")
    if unsupported := [step for step in steps["normalizer"] if step != "NFC"]:
        raise invalid_folder(path, f"its normalizer {unsupported[0][:50]} is not supported; only NFC is")
    return TokenizerConfig(kind="byte-bpe", word_space=True)
