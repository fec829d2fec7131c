"""Example inputs for text models, from validation data: beginnings of texts, and texts with a gap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.data.document_stream import DocumentStream
from regard.data.masked_examples import MaskedExamples
from regard.data.notes import FRAME
from regard.data.packs import PackExamples
from regard.data.stream import Stream
from regard.data.tokenizers.tokenizer import BEGIN, SPECIALS, UNKNOWN, Tokenizer
from regard.data.windows import WindowExamples

NUMBER, APART = 24, 8  # inputs that are yielded; the first three are in different thirds of the data
TOKENS, CHARACTERS = 48, 160  # read for an example, of words and of single characters
FIRST_WORDS = re.compile(r"\s*(?:\S+\s+){0,5}\S+")
FRAMES = 4  # of music
SINGLE = ("character", "byte")  # tokenizers whose tokens are not words


def spread(count: int) -> list[int]:
    """Return up to ``NUMBER`` indices below ``count``, evenly spaced, in an order that first visits each third."""
    indices = np.unique(np.linspace(0, max(count - 1, 0), min(count, NUMBER)).astype(np.int64)).tolist()
    return [index for first in range(APART) for index in indices[first::APART]]


def prompts(examples: WindowExamples | PackExamples, tokenizer: Tokenizer, context: int) -> Iterator[str]:
    """Yield the first words of texts, or the first frames of music, which ``tokenizer`` can encode."""
    length = min(_length(tokenizer), context - 1)
    for stream in examples.streams:
        for begin in _beginnings(stream):
            tokens = _plain(stream.tokens[begin + 1 : begin + 1 + length])
            text = tokenizer.decode(tokens)
            if stream.tokens[begin] != BEGIN:  # inside of a text: without the rest of a line or a word
                text = re.sub(r"\A[^\n]*\n|\A\S*\s+", "", text, count=1)
            prompt = _first_words(text, tokenizer)
            encoded = tokenizer.encode(prompt)
            if prompt.strip() and UNKNOWN not in encoded and len(encoded) < context:
                yield prompt


def _beginnings(stream: Stream | DocumentStream) -> list[int]:
    """Return the position before each text to show: of BEGIN of a document, or any position of a text."""
    if isinstance(stream, DocumentStream):
        return [int(stream.offsets[index]) for index in spread(stream.documents)]
    return spread(len(stream) - 1)


def gapped(examples: MaskedExamples, tokenizer: Tokenizer, blank: str) -> Iterator[str]:
    """Yield texts in which ``blank`` replaces one token; texts with a single token come last."""
    yield from sorted(_gapped(examples, tokenizer, blank), key=lambda text: text.strip() == blank)


def _gapped(examples: MaskedExamples, tokenizer: Tokenizer, blank: str) -> Iterator[str]:
    for index in spread(len(examples)):
        tokens = _plain(examples.text(index)[1 : 1 + _length(tokenizer)])
        visible = [
            place for place, token in enumerate(tokens) if token != UNKNOWN and tokenizer.decode([token]).strip()
        ]
        if not visible:
            continue
        place = visible[len(visible) // 2]
        before, after = tokenizer.decode(tokens[:place]), tokenizer.decode(tokens[place + 1 :])
        if tokenizer.config.kind not in SINGLE:  # gaps are separate words, on the same line
            before = f"{before.rstrip(' ')} " if before and not before.endswith(FRAME) else before
            after = f" {after.lstrip(' ')}" if after and not after.startswith(FRAME) else after
        text = before + blank + after
        if text.count(blank) == 1:
            yield text


def _length(tokenizer: Tokenizer) -> int:
    return CHARACTERS if tokenizer.config.kind in SINGLE else TOKENS


def _plain(tokens: npt.NDArray[Any]) -> list[int]:
    """Return the tokens of the first text among ``tokens``, which may contain unknown ones."""
    plain = []
    for token in tokens.tolist():
        if token < len(SPECIALS) and token != UNKNOWN:
            break
        plain.append(token)
    return plain


def _first_words(text: str, tokenizer: Tokenizer) -> str:
    if tokenizer.config.kind == "notes":
        return "".join(text.splitlines(keepends=True)[:FRAMES])
    match = FIRST_WORDS.match(text)
    return "" if match is None else match[0].lstrip("\n")
