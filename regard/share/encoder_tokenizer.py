"""Tokenizers of encoders as ``tokenizer.json``: our own numbers of pieces, a begin symbol, an end after each text."""

from __future__ import annotations

import json
from typing import Any

from regard.data.tokenizers.tokenizer import BEGIN, END, SPECIALS, UNKNOWN, Tokenizer
from regard.share.causal_tokenizer import tokenizer_files, tokenizer_obstacle

MASK = "<mask>"


def encoder_tokenizer_obstacle(tokenizer: Tokenizer) -> str | None:
    """The reason why a tokenizer cannot be written so, and which kinds can; None if it can."""
    if tokenizer.config.kind == "word" and not tokenizer.config.lowercase:
        return None
    reason = tokenizer_obstacle(tokenizer)
    return None if reason is None else f"{reason}; word, character, byte and byte-bpe can be said, as written"


def encoder_tokenizer_files(tokenizer: Tokenizer, *, columns: int, mask: bool) -> dict[str, Any]:
    """The JSON of ``tokenizer.json`` and ``tokenizer_config.json``. ``encoder_tokenizer_obstacle`` must be None.

    With ``mask`` there is a piece more, the last, that text may spell; then text that spells others is these, too.
    """
    words = tokenizer.config.kind == "word"
    files = tokenizer_files(tokenizer, context=columns, closed=_of_words(tokenizer) if words else None)
    found, settings = files["tokenizer.json"], files["tokenizer_config.json"]
    begin, end = (settings["bos_token"], settings["eos_token"])
    found["post_processor"] = _framed(begin, end)
    settings |= {"cls_token": begin, "sep_token": end}
    if mask:
        settings |= {"mask_token": MASK, "split_special_tokens": False}
        piece = {"id": len(tokenizer), "content": MASK, "special": True, "normalized": False}
        found["added_tokens"].append(piece | dict.fromkeys(("single_word", "lstrip", "rstrip"), False))
    return files


def _of_words(tokenizer: Tokenizer) -> str:
    """A vocabulary of words between white space."""
    from tokenizers import AddedToken, models, pre_tokenizers
    from tokenizers import Tokenizer as Library

    numbers = {piece: number for number, piece in enumerate(tokenizer.pieces(range(len(tokenizer))))}
    library = Library(models.WordLevel(vocab=numbers, unk_token=SPECIALS[UNKNOWN]))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.add_special_tokens([AddedToken(each, special=True, normalized=False) for each in SPECIALS])
    return str(json.dumps(json.loads(library.to_str())))


def _framed(begin: str, end: str) -> dict[str, Any]:
    """A post-processor: begin symbol, text, end symbol, and a second text with its end symbol."""
    one, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    first, last = ({"SpecialToken": {"id": name, "type_id": 0}} for name in (begin, end))
    return {
        "type": "TemplateProcessing",
        "single": [first, one, last],
        "pair": [first, one, last, other, last],
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ((begin, BEGIN), (end, END))
        },
    }
