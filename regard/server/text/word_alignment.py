"""Word alignment of an output with its source, by the attention head with the best alignment."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inspection.aligner import Aligner
from regard.server.text.word_spans import WordSpan, word_spans

# The index of a source word for each word of the output (``word_spans``); empty if the source has no words.
WordAlignment = Sequence[int]


def even_alignment(source_count: int, target_count: int) -> list[int]:
    """Align words by position only, in equal proportions of both sides."""
    if not source_count:
        return []
    return [round(word * (source_count - 1) / max(target_count - 1, 1)) for word in range(target_count)]


def align_words(translation: Translation, aligner: Aligner | None) -> list[int]:
    """Align the best output with its source by the weights of a head. Costs one pass of the model.

    Words without weights are aligned by position. So are all words if ``aligner`` is None or the input was split into
    parts.
    """
    source, target = word_spans(translation.source), word_spans(translation.text)
    even = even_alignment(len(source), len(target))
    if aligner is None or not source or not target:
        return even
    try:
        weights = aligner.weights(dict(translation.attention)).float().cpu()
    except ConfigError:  # the input was split into parts, which have separate matrices of weights
        return even
    source_overlap = _overlaps(source, piece_spans(translation.pieces, translation.source))
    target_overlap = _overlaps(target, piece_spans(translation.candidates[0].pieces, translation.text))
    weights = weights[: target_overlap.shape[1], : source_overlap.shape[1]]
    shared = target_overlap[:, : len(weights)] @ weights @ source_overlap[:, : weights.shape[1]].T
    best = shared.argmax(1).tolist()
    has_weight = (shared.amax(1) > 0).tolist()
    return [link if sure else even[word] for word, (link, sure) in enumerate(zip(best, has_weight, strict=True))]


def _overlaps(words: Sequence[WordSpan], pieces: Sequence[WordSpan]) -> Tensor:
    """Return a matrix (words, pieces): 1 if a piece shares a character with a word, else 0."""
    starts, ends = (torch.tensor([word[side] for word in words]) for side in (0, 1))
    first, last = (torch.tensor([piece[side] for piece in pieces], dtype=torch.int64) for side in (0, 1))
    return ((starts[:, None] < last) & (first < ends[:, None])).float()


def piece_spans(pieces: Sequence[str], text: str) -> list[WordSpan]:
    """Return the span of the text of each piece in ``text``; an empty span if it is not found."""
    spans, end, folded = [], 0, text.casefold()
    if len(folded) != len(text):  # case folding to more characters would shift all later positions
        folded = text
    for piece in pieces:
        plain = piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip().removesuffix("@@")
        needle = plain if folded is text else plain.casefold()
        start = folded.find(needle, end, end + len(needle) + 40) if needle else -1
        spans.append(WordSpan(start, start + len(needle)) if start >= 0 else WordSpan(end, end))
        end = spans[-1].end
    return spans
