"""Tokenizers of encoders as ``tokenizer.json``: unchanged ids, a begin symbol, an end symbol after each text."""

from __future__ import annotations

import json
from typing import Any

from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN, Tokenizer, TokenizerConfig
from regard.share.causal_tokenizer import tokenizer_files, tokenizer_obstacles

MASK = "<mask>"


def encoder_tokenizer_obstacles(config: TokenizerConfig) -> list[str]:
    """Return all reasons why a tokenizer of this config cannot be exported, and the kinds that can."""
    if config.kind == "word" and not config.lowercase:
        return []
    reasons = "; ".join(tokenizer_obstacles(config))
    return [f"{reasons}; supported are word, character, byte and byte-bpe, without lowercasing"] if reasons else []


def encoder_tokenizer_files(tokenizer: Tokenizer, *, columns: int, mask: bool) -> dict[str, Any]:
    """Return the JSON of ``tokenizer.json`` and ``tokenizer_config.json``.

    Args:
        tokenizer: the tokenizer.
        columns: maximum number of positions of the network.
        mask: whether to add ``<mask>`` as the last piece. Text that spells ``<mask>`` or another special piece is then
            encoded as that piece.
    """
    words = tokenizer.config.kind == "word"
    files = tokenizer_files(tokenizer, context=columns, closed=_word_level(tokenizer) if words else None)
    document, settings = files["tokenizer.json"], files["tokenizer_config.json"]
    begin, end = (settings["bos_token"], settings["eos_token"])
    document["post_processor"] = _frame_processor(begin, end)
    settings |= {"cls_token": begin, "sep_token": end}
    if mask:
        settings |= {"mask_token": MASK, "split_special_tokens": False}
        piece = {"id": len(tokenizer), "content": MASK, "special": True, "normalized": False}
        document["added_tokens"].append(piece | dict.fromkeys(("single_word", "lstrip", "rstrip"), False))
    return files


def _word_level(tokenizer: Tokenizer) -> str:
    """Return the JSON of a vocabulary of words that are split at white space."""
    from tokenizers import AddedToken, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    ids = {piece: id for id, piece in enumerate(tokenizer.pieces(range(len(tokenizer))))}
    library = Library(models.WordLevel(vocab=ids, unk_token=SPECIALS[UNKNOWN]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in SPECIALS])
    return str(json.dumps(json.loads(library.to_str())))


def _frame_processor(begin: str, end: str) -> dict[str, Any]:
    """Return a post-processor: begin symbol, text, end symbol, and a second text with its end symbol."""
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (begin, end))
    return {
        "type": "TemplateProcessing",
        "single": [first, one, last],
        "pair": [first, one, last, other, last],
        "special_tokens": {
            name: {"id": name, "ids": [id], "tokens": [name]} for name, id in ((begin, BEGIN), (end, END))
        },
    }
