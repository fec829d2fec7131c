"""Baseline summaries without a model: a sentence of the text itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from regard.data.sentence_split import split_sentences

DAMPING, PASSES = 0.85, 50
WORD = re.compile(r"\w+")


def first_sentence(text: str, language: str | None) -> str:
    """Return the first sentence; the whole text if it has no sentence."""
    return next(iter(split_sentences(text, language).sentences), text)


def central_sentence(text: str, language: str | None) -> str:
    """Return the sentence with the highest TextRank, the first of equal ones (Mihalcea & Tarau 2004, Eq. 2, 3).

    TextRank is the PageRank (damping 0.85) of the graph of all sentences. Edge weight: similarity of two sentences =
    words in common / (log of the number of words of one + log of the number of words of the other). Cost:
    O(sentences²).
    """
    sentences = split_sentences(text, language).sentences
    if len(sentences) < 3:
        return sentences[0] if sentences else text
    words = [set(_words(sentence)) for sentence in sentences]
    edges = np.array([[_similarity(one, other) for other in words] for one in words])
    np.fill_diagonal(edges, 0.0)
    shares = edges / np.maximum(edges.sum(0), 1e-12)
    rank = np.ones(len(sentences))
    for _ in range(PASSES):
        rank = 1 - DAMPING + DAMPING * shares @ rank
    return sentences[int(rank.argmax())]


def copied_share(sources: Sequence[str], outputs: Sequence[str]) -> float:
    """Return the percentage of output words that occur in their source, ignoring case."""
    copied = total = 0
    for source, output in zip(sources, outputs, strict=True):
        source_words, words = set(_words(source)), _words(output)
        copied, total = copied + sum(word in source_words for word in words), total + len(words)
    return 100 * copied / max(total, 1)


EXTRACTS: dict[str, Callable[[str, str | None], str]] = {
    "first sentence": first_sentence,
    "central sentence": central_sentence,
}


def _similarity(one: set[str], other: set[str]) -> float:
    if len(one) < 2 or len(other) < 2:
        return 0.0
    return len(one & other) / (math.log(len(one)) + math.log(len(other)))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())
