"""Rows of the tokens of texts: division into windows and into texts, and columns of subword features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.core.field import EncodedRow
from regard.data.affixes import AFFIXES, word_features
from regard.data.tokenizers.tokenizer import BEGIN, END
from regard.fields.pieces import is_piece, numbers_of


def in_windows(pieces: Sequence[int], length: int) -> list[int]:
    """Return pieces with END and BEGIN between windows of ``length`` pieces, none of which is repeated."""
    further = (pieces[start : start + length] for start in range(length, len(pieces), length))
    return [*pieces[:length], *(piece for window in further for piece in (END, BEGIN, *window))]


def split_texts(row: EncodedRow) -> list[EncodedRow]:
    """Return a row for each text of a row, with the BEGIN of the row and its own END."""
    return [row[positions] for positions in text_positions(row)]


def text_positions(row: EncodedRow) -> list[list[int]]:
    """Return the positions of each text in a row: that of BEGIN, which all texts share, and its own."""
    ends = (np.flatnonzero(numbers_of(row) == END) + 1).tolist()
    return [[0, *range(start, end)] for start, end in zip([1, *ends[:-1]], ends, strict=True)]


def with_features(row: EncodedRow, words: Sequence[Sequence[str]], buckets: int, *, matches: bool) -> EncodedRow:
    """Return the table (positions, 1 + features) of a row's tokens and their subword features; see ``word_features``.

    ``words``: the pieces of each text of the row.
    """
    table = np.zeros((len(row), 1 + AFFIXES + matches), np.int64)
    table[:, 0] = row
    table[is_piece(row), 1:] = word_features(words, buckets, matches=matches)
    return table
