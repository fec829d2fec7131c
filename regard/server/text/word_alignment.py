"""Word alignment of an output with its source, by the attention head that aligns best."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inspection.aligner import Aligner
from regard.server.text.word_spans import WordSpan, word_spans

# For each word of the output (``word_spans``) the number of a source word; empty where the source has no words.
WordAlignment = Sequence[int]


def even_alignment(source_count: int, target_count: int) -> list[int]:
    """Align words by position alone: both sides advance from first to last word at an even pace."""
    if not source_count:
        return []
    return [round(word * (source_count - 1) / max(target_count - 1, 1)) for word in range(target_count)]


def align_words(translation: Translation, aligner: Aligner | None) -> list[int]:
    """Align the best output with its source by the weights of ``aligner``'s head; costs one pass of the model.

    Words without weights are aligned by position, and so are all words where ``aligner`` is None or the input was cut
    into parts.
    """
    source, target = word_spans(translation.source), word_spans(translation.text)
    even = even_alignment(len(source), len(target))
    if aligner is None or not source or not target:
        return even
    try:
        weights = aligner.weights(dict(translation.attention)).float().cpu()
    except ConfigError:  # the input was cut into parts: there is no one matrix of weights
        return even
    source_overlap = _overlaps(source, piece_spans(translation.pieces, translation.source))
    target_overlap = _overlaps(target, piece_spans(translation.candidates[0].pieces, translation.text))
    weights = weights[: target_overlap.shape[1], : source_overlap.shape[1]]
    shared = target_overlap[:, : len(weights)] @ weights @ source_overlap[:, : weights.shape[1]].T
    best = shared.argmax(1).tolist()
    has_weight = (shared.amax(1) > 0).tolist()
    return [link if sure else even[word] for word, (link, sure) in enumerate(zip(best, has_weight, strict=True))]


def _overlaps(words: Sequence[WordSpan], pieces: Sequence[WordSpan]) -> Tensor:
    """Return a matrix (words, pieces): 1 where a piece shares a character with a word, else 0."""
    starts, ends = (torch.tensor([word[side] for word in words]) for side in (0, 1))
    first, last = (torch.tensor([piece[side] for piece in pieces], dtype=torch.int64) for side in (0, 1))
    return ((starts[:, None] < last) & (first < ends[:, None])).float()


def piece_spans(pieces: Sequence[str], text: str) -> list[WordSpan]:
    """Return the span of each piece, as spelled for a reader, in ``text``; an empty span where it is not found."""
    spans, at, folded = [], 0, text.casefold()
    if len(folded) != len(text):  # a letter that folds to two would shift all positions after it
        folded = text
    for piece in pieces:
        plain = piece.replace("\N{LOWER ONE EIGHTH BLOCK}", " ").strip().removesuffix("@@")
        spelled = plain if folded is text else plain.casefold()
        start = folded.find(spelled, at, at + len(spelled) + 40) if spelled else -1
        spans.append(WordSpan(start, start + len(spelled)) if start >= 0 else WordSpan(at, at))
        at = spans[-1].end
    return spans
