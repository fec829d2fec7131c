"""Which word of the source each word of an output stands for, by the attention of the head that aligns best."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inspection.aligner import Aligner
from regard.server.text.word_spans import Word, words

__all__ = ["Links", "even_links", "links", "piece_places"]

Links = Sequence[int]  # of each word of the output (``words``), the number of the source's; none where that has none


def even_links(source: int, target: int) -> list[int]:
    """By place alone: the words of both go from the first to the last at the same pace."""
    if not source:
        return []
    return [round(word * (source - 1) / max(target - 1, 1)) for word in range(target)]


def links(translation: Translation, aligner: Aligner | None) -> list[int]:
    """Of the best output; one pass of the model. By place alone where there is no aligner, or no one pass tells all."""
    source, target = words(translation.source), words(translation.text)
    even = even_links(len(source), len(target))
    if aligner is None or not source or not target:
        return even
    try:
        weights = aligner.weights(dict(translation.attention)).float().cpu()
    except ConfigError:  # the input was cut into parts
        return even
    mine = _overlaps(source, piece_places(translation.pieces, translation.source))
    its = _overlaps(target, piece_places(translation.candidates[0].pieces, translation.text))
    weights = weights[: its.shape[1], : mine.shape[1]]
    shared = its[:, : len(weights)] @ weights @ mine[:, : weights.shape[1]].T
    found = shared.argmax(1).tolist()
    told = (shared.amax(1) > 0).tolist()
    return [link if sure else even[word] for word, (link, sure) in enumerate(zip(found, told, strict=True))]


def _overlaps(these: Sequence[Word], pieces: Sequence[Word]) -> Tensor:
    """(words, pieces): 1 where a piece has a letter of a word."""
    starts, ends = (torch.tensor([each[side] for each in these]) for side in (0, 1))
    first, last = (torch.tensor([each[side] for each in pieces], dtype=torch.int64) for side in (0, 1))
    return ((starts[:, None] < last) & (first < ends[:, None])).float()


def piece_places(pieces: Sequence[str], text: str) -> list[Word]:
    """Where each piece, as it is spelled for a reader, stands in ``text``. One that is not found there is nowhere."""
    places, at, known = [], 0, text.casefold()
    if len(known) != len(text):  # a letter that becomes two
        known = text
    for piece in pieces:
        plain = piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip().removesuffix("@@")
        spelled = plain if known is text else plain.casefold()
        found = known.find(spelled, at, at + len(spelled) + 40) if spelled else -1
        places.append(Word(found, found + len(spelled)) if found >= 0 else Word(at, at))
        at = places[-1].end
    return places
