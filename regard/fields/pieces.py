"""Rows of tokens: which positions are pieces of a text, and rows without one of them (``core.field.HidingField``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.field import EncodedRow, Hidden
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN

UNKNOWN_PIECE = "replaced by the unknown piece"


def numbers_of(row: EncodedRow) -> npt.NDArray[Any]:
    """Return the token of each position, a view of the row (positions,) or (positions, 1 + affixes)."""
    return row if row.ndim == 1 else row[:, 0]


def is_piece(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions that are pieces of a text, also unknown ones; not BEGIN, END or padding."""
    return np.asarray((numbers > END) | (numbers == UNKNOWN))


def without(row: EncodedRow, positions: Any) -> EncodedRow:
    """Return a row in which the pieces at these positions are unknown and have no subword features."""
    row = row.copy()
    row[positions] = 0
    numbers_of(row)[positions] = UNKNOWN
    return row


def hidden_pieces(
    value: Sequence[str], row: EncodedRow, decode: Callable[[Sequence[int]], str], *, separators: int
) -> list[Hidden | None]:
    """Return the input without each position of its row; None for a special piece.

    Args:
        value: the texts of the row.
        row: the pieces of the texts; windows of one text have END and BEGIN between them.
        decode: returns the text of pieces.
        separators: the number of END between two texts.
    """
    numbers = numbers_of(row)
    pieces, ends = is_piece(numbers), (numbers == END) & (np.append(numbers[1:], END) != BEGIN)
    texts = (ends.cumsum() - ends) // separators
    variants: list[Hidden | None] = [None] * len(row)
    for number, text in enumerate(value):
        positions = np.flatnonzero(pieces & (texts == number)).tolist()
        rests = texts_without_pieces(text, numbers[positions].tolist(), decode)
        for position, rest in zip(positions, rests, strict=True):
            variants[position] = Hidden(without(row, position), (*value[:number], rest, *value[number + 1 :]))
    return variants


def texts_without_pieces(text: str, pieces: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[str]:
    """Return a text without each of its pieces; words, which may be unknown, are left out of the text itself."""
    words = text.split()
    if len(words) == len(pieces):
        return [" ".join([*words[:place], *words[place + 1 :]]) for place in range(len(words))]
    return [decode([*pieces[:place], *pieces[place + 1 :]]) for place in range(len(pieces))]


def hidden_tokens(row: EncodedRow) -> list[EncodedRow]:
    """Return one row without each of its tokens; the last column of a row marks the first pieces of tokens."""
    rows = []
    for token in range(1, int(row[:, -1].sum()) + 1):
        positions = np.flatnonzero((row[:, -1].cumsum() == token) & is_piece(numbers_of(row)))
        hidden = without(row, positions)
        hidden[:, -1] = row[:, -1]
        rows.append(hidden)
    return rows
