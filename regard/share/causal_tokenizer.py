"""Tokenizers of language models as ``tokenizer.json`` of the ``tokenizers`` library, in our own numbers of pieces.

Text begins with our begin symbol there, as in training. What spells a special piece is text like any other.
"""

from __future__ import annotations

import json
from typing import Any

from regard.data.tokenizers.subword import HuggingFaceTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer


def tokenizer_obstacle(tokenizer: Tokenizer) -> str | None:
    """The reason why a tokenizer cannot be written so; None if it can."""
    if tokenizer.config.lowercase:
        return "its tokenizer lowers the case of text"
    if tokenizer.config.kind not in ("byte", "character", "byte-bpe"):
        return f"its tokenizer is of kind {tokenizer.config.kind}"
    return None


def tokenizer_files(tokenizer: Tokenizer, *, context: int, closed: str | None = None) -> dict[str, Any]:
    """The JSON of ``tokenizer.json`` and ``tokenizer_config.json``. ``tokenizer_obstacle`` must be None.

    ``closed``: the library's JSON of a vocabulary that is written otherwise than this module does.
    """
    if isinstance(tokenizer, HuggingFaceTokenizer):
        found = json.loads(tokenizer.model)
    else:
        found = json.loads(closed or _closed(tokenizer))
    specials = dict(
        enumerate(tokenizer.spelled_specials() if isinstance(tokenizer, HuggingFaceTokenizer) else SPECIALS)
    )
    found["post_processor"] = _begins_with(specials[BEGIN])
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": True,
        "pad_token": specials[PAD],
        "unk_token": specials[UNKNOWN],
        "bos_token": specials[BEGIN],
        "eos_token": specials[END],
    }
    return {"tokenizer.json": found, "tokenizer_config.json": settings}


def _closed(tokenizer: Tokenizer) -> str:
    """A byte-pair encoding without merges: every character, or byte, is a piece."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    pieces = tokenizer.pieces(range(len(tokenizer)))
    if tokenizer.config.kind == "byte":
        pieces[len(SPECIALS) :] = _byte_signs()
    numbers = {piece: number for number, piece in enumerate(pieces)}
    unknown = SPECIALS[UNKNOWN] if tokenizer.config.kind == "character" else None
    library = Library(models.BPE(vocab=numbers, merges=[], unk_token=unknown))
    if tokenizer.config.kind == "byte":
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.decoder = decoders.ByteLevel()
    else:
        library.decoder = decoders.Fuse()
    library.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in SPECIALS])
    return library.to_str()


def _byte_signs() -> list[str]:
    """The sign of each byte from 0 to 255 in byte-level pieces: itself where it is printed, else one from 256 on."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printed else chr(next(others)) for byte in range(0x100)]


def _begins_with(begin: str) -> dict[str, Any]:
    """A post-processor that puts the begin symbol before every text."""
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    special = {"SpecialToken": {"id": begin, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, one],
        "pair": [special, one, other],
        "special_tokens": {begin: {"id": begin, "ids": [BEGIN], "tokens": [begin]}},
    }
