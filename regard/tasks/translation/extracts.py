"""Summaries that need no model: a sentence of the text itself, beside which those of a model are printed."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from regard.data.sentence_split import split_sentences

DAMPING, PASSES = 0.85, 50
WORD = re.compile(r"\w+")


def first_sentence(text: str, language: str | None) -> str:
    """The first sentence; the whole text where it has none."""
    return next(iter(split_sentences(text, language).sentences), text)


def central_sentence(text: str, language: str | None) -> str:
    """The sentence that shares most words with others that do, as TextRank ranks (Mihalcea & Tarau 2004, Eq. 2, 3).

    Similarity of two sentences: words in common / (log of the words of one + log of those of the other); of the graph
    of all sentences the page rank, damped by 0.85. Of equal ones the first. Cost: sentences².
    """
    sentences = split_sentences(text, language).sentences
    if len(sentences) < 3:
        return sentences[0] if sentences else text
    words = [set(_words(each)) for each in sentences]
    edges = np.array([[_similarity(one, other) for other in words] for one in words])
    np.fill_diagonal(edges, 0.0)
    shares = edges / np.maximum(edges.sum(0), 1e-12)
    rank = np.ones(len(sentences))
    for _ in range(PASSES):
        rank = 1 - DAMPING + DAMPING * shares @ rank
    return sentences[int(rank.argmax())]


def copied_share(sources: Sequence[str], outputs: Sequence[str]) -> float:
    """The share of the outputs' words, in percent, that stand in their source; case apart."""
    found = total = 0
    for source, output in zip(sources, outputs, strict=True):
        there, said = set(_words(source)), _words(output)
        found, total = found + sum(word in there for word in said), total + len(said)
    return 100 * found / max(total, 1)


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
