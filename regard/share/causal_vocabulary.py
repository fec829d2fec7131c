"""The ``tokenizer.json`` of a foreign language model, its pieces renumbered with the special ones first.

A model without a symbol of its own for padding, what is unknown, or the beginning gets a copy of the end's row for it,
which is never predicted. Rows without a piece, as there are where a table was padded, get a piece that no text has.
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

SPARE = 1 << 16  # rows without a piece, at most: tables are padded to a round number


class CausalVocabulary(NamedTuple):
    """A tokenizer in our numbers."""

    tokenizer: Tokenizer
    rows: list[int]  # for each of our numbers, the row in the folder's tables
    copies: list[int]  # of our numbers, those whose row belongs to another


def read_vocabulary(folder: Path, settings: CausalSettings) -> CausalVocabulary:
    """The vocabulary of a folder; ModelError where it is none of bytes or characters, or does not fit the model."""
    path = folder / "tokenizer.json"
    found = json_of(path)
    numbers = _numbers(path, found, settings.vocab_size)
    specials = _specials(path, found, numbers, settings)
    copies = [number for number in range(END) if specials[number] in [*specials[:number], specials[END]]]
    taken = set(specials)
    rows = [*specials, *(row for row in range(settings.vocab_size) if row not in taken)]
    spelled = {row: piece for piece, row in numbers.items()}
    names = _names(spelled, rows, copies)
    tokenizer = _tokenizer(path, found, names)
    if len(tokenizer) != len(rows):
        raise invalid_folder(path, f"it makes {pluralize(len(tokenizer), 'piece')}, not {len(rows):,}")
    return CausalVocabulary(tokenizer, rows, copies)


def _numbers(path: Path, found: dict[str, Any], types: int) -> dict[str, int]:
    """The row of each piece, added ones included; ModelError unless each has one of ``types`` rows to itself."""
    model = found.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        raise invalid_folder(path, "it is no byte-pair encoding")
    vocabulary, added = model.get("vocab"), found.get("added_tokens") or []
    if not isinstance(vocabulary, dict) or not isinstance(added, list):
        raise invalid_folder(path, "its pieces are no table")
    numbers = dict(vocabulary)
    for each in added:
        if not isinstance(each, dict) or not isinstance(each.get("content"), str):
            raise invalid_folder(path, "an added token has no content")
        if numbers.setdefault(each["content"], each.get("id")) != each.get("id"):
            raise invalid_folder(path, f"{each['content'][:50]!r} has two numbers")
    if not all(type(number) is int and 0 <= number < types for number in numbers.values()):
        raise invalid_folder(path, f"its numbers are not all from 0 to {types - 1:,}, as the model has rows")
    if types - len(numbers) > SPARE:
        raise invalid_folder(
            path, f"it has {pluralize(len(numbers), 'piece')}, and the model {pluralize(types, 'row')}"
        )
    if len(set(numbers.values())) < len(numbers):
        raise invalid_folder(path, "two of its pieces have one number")
    return numbers


def _specials(path: Path, found: dict[str, Any], numbers: dict[str, int], settings: CausalSettings) -> list[int]:
    """Rows of padding, what is unknown, the beginning and the end; the end's where the folder names none."""
    ends = settings.eos_token_id
    end = ends[0] if isinstance(ends, list) and ends else ends
    if not isinstance(end, int):
        raise invalid_folder(path.parent / "config.json", "it names no eos_token_id")
    unknown = numbers.get(str(found["model"].get("unk_token")), numbers.get(SPECIALS[1]))
    begin = settings.bos_token_id
    rows = [end if row is None else row for row in (settings.pad_token_id, unknown, begin, end)]
    if max(rows) >= settings.vocab_size:
        raise invalid_folder(path.parent / "config.json", f"it has no row {max(rows):,} for a special token")
    return rows


def _names(spelled: dict[int, str], rows: list[int], copies: list[int]) -> list[str]:
    """The spelling of each piece in our order, all different."""
    names, taken = list[str](), set(spelled.values())
    for number, row in enumerate(rows):
        name = None if number in copies else spelled.get(row)
        if name is None:
            name = SPECIALS[number] if number in copies else f"<row {row}>"
            while name in taken:
                name = f"<{name}>"
        taken.add(name)
        names.append(name)
    return names


def _tokenizer(path: Path, found: dict[str, Any], names: list[str]) -> Tokenizer:
    model, specials = found["model"], names[: len(SPECIALS)]
    kinds = _kinds(found.get("decoder")), _kinds(found.get("pre_tokenizer"))
    if not model.get("merges") and kinds == (["Fuse"], []) and all(len(each) == 1 for each in names[len(SPECIALS) :]):
        return CharacterTokenizer(TokenizerConfig(kind="character"), names[len(SPECIALS) :])
    if "ByteLevel" not in kinds[0] or "ByteLevel" not in kinds[1] or model.get("byte_fallback"):
        raise invalid_folder(path, "its pieces are not those of bytes (byte-level BPE)")
    if strange := [kind for kind in _kinds(found.get("normalizer")) if kind != "NFC"]:
        raise invalid_folder(path, f"it changes text before it is cut ({strange[0][:50]})")
    numbers = {name: number for number, name in enumerate(names)}
    plain = [each | {"id": numbers[each["content"]]} for each in found.get("added_tokens") or []]
    known = {each["content"] for each in plain}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [flags | {"id": numbers[name], "content": name} for name in specials if name not in known]
    whole = found | {
        "model": model | {"vocab": numbers, "unk_token": None},
        "added_tokens": sorted([*added, *plain], key=lambda each: each["id"]),
        "post_processor": None, "truncation": None, "padding": None,
    }  # fmt: skip
    try:
        return HuggingFaceTokenizer(
            TokenizerConfig(kind="byte-bpe"), json.dumps(whole, ensure_ascii=False).encode("utf-8")
        )
    except ValueError as error:
        raise invalid_folder(path, str(error)) from error


def _kinds(part: Any) -> list[str]:
    """Kinds of the steps of a part of the file."""
    if not isinstance(part, dict):
        return []
    steps = next((part[key] for key in ("decoders", "pretokenizers", "normalizers") if key in part), [part])
    return [str(each.get("type")) for each in steps if isinstance(each, dict)] if isinstance(steps, list) else []
