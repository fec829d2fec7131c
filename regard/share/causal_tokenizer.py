"""Tokenizers of language models as ``tokenizer.json`` of the ``tokenizers`` library, with unchanged piece ids.

The exported tokenizer puts the begin symbol before each text, as in training. Text that spells a special piece is
encoded as text.
"""

from __future__ import annotations

import json
from typing import Any

from regard.data.tokenizers.subword import HuggingFaceTokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD, SPECIALS, UNKNOWN, Tokenizer, TokenizerConfig


def tokenizer_obstacles(config: TokenizerConfig) -> list[str]:
    """Return all reasons why a tokenizer of this config cannot be exported."""
    reasons = {
        "its tokenizer lowercases text": config.lowercase,
        f"its tokenizer has the kind {config.kind}": config.kind not in ("byte", "character", "byte-bpe"),
    }
    return [reason for reason, holds in reasons.items() if holds]


def tokenizer_files(tokenizer: Tokenizer, *, context: int, closed: str | None = None) -> dict[str, Any]:
    """Return the JSON of ``tokenizer.json`` and ``tokenizer_config.json``. ``tokenizer_obstacles`` must be empty.

    Args:
        tokenizer: the tokenizer.
        context: maximum number of tokens that the model attends to.
        closed: JSON of the library for a closed vocabulary; None: a byte-pair encoding without merges.
    """
    if isinstance(tokenizer, HuggingFaceTokenizer):
        document = json.loads(tokenizer.model)
    else:
        document = json.loads(closed or _closed(tokenizer))
    specials = dict(
        enumerate(tokenizer.spelled_specials() if isinstance(tokenizer, HuggingFaceTokenizer) else SPECIALS)
    )
    document["post_processor"] = _begin_processor(specials[BEGIN])
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
    return {"tokenizer.json": document, "tokenizer_config.json": settings}


def _closed(tokenizer: Tokenizer) -> str:
    """Return the JSON of a byte-pair encoding without merges, whose pieces are characters or bytes."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    pieces = tokenizer.pieces(range(len(tokenizer)))
    if tokenizer.config.kind == "byte":
        pieces[len(SPECIALS) :] = _byte_characters()
    ids = {piece: id for id, piece in enumerate(pieces)}
    unknown = SPECIALS[UNKNOWN] if tokenizer.config.kind == "character" else None
    library = Library(models.BPE(vocab=ids, merges=[], unk_token=unknown))
    if tokenizer.config.kind == "byte":
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        library.decoder = decoders.ByteLevel()
    else:
        library.decoder = decoders.Fuse()
    library.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in SPECIALS])
    return library.to_str()


def _byte_characters() -> list[str]:
    """Return the character of each byte in byte-level pieces: itself if it is printable, otherwise one from 256."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    substitutes = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printed else chr(next(substitutes)) for byte in range(0x100)]


def _begin_processor(begin: str) -> dict[str, Any]:
    """Return a post-processor that puts the begin symbol before each text."""
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    special = {"SpecialToken": {"id": begin, "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [special, one],
        "pair": [special, one, other],
        "special_tokens": {begin: {"id": begin, "ids": [BEGIN], "tokens": [begin]}},
    }
