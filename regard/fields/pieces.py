"""Rows of tokens: which positions are pieces of a text, and rows without one of them (``core.field.HidingField``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.field import EncodedRow
from regard.data.tokenizers.tokenizer import END, UNKNOWN

UNKNOWN_PIECE = "replaced by the unknown piece"
MEAN_FRAME = "replaced by the mean frame of the training data"


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


def hidden_pieces(row: EncodedRow) -> list[EncodedRow]:
    """Return one row without each of its pieces; for a special piece, the row itself."""
    return [without(row, position) if is_text else row for position, is_text in enumerate(is_piece(numbers_of(row)))]


def values_without_pieces(
    value: Sequence[str], row: EncodedRow, decode: Callable[[Sequence[int]], str]
) -> list[Sequence[str]]:
    """Return the texts of an example without each piece; for a special piece or several texts, the texts themselves."""
    text_pieces = is_piece(numbers_of(row))
    ids, position_of = numbers_of(row)[text_pieces].tolist(), text_pieces.cumsum().tolist()  # windows have inner ENDs
    return [
        (decode([*ids[: place - 1], *ids[place:]]),) if is_text and len(value) == 1 else value
        for place, is_text in zip(position_of, text_pieces.tolist(), strict=True)
    ]


def hidden_tokens(row: EncodedRow) -> list[EncodedRow]:
    """Return one row without each of its tokens; the last column of a row marks the first pieces of tokens."""
    rows = []
    for token in range(1, int(row[:, -1].sum()) + 1):
        positions = np.flatnonzero((row[:, -1].cumsum() == token) & is_piece(numbers_of(row)))
        hidden = without(row, positions)
        hidden[:, -1] = row[:, -1]
        rows.append(hidden)
    return rows


def hidden_frames(row: EncodedRow) -> list[EncodedRow]:
    """Return one row of standardized frames with each of them replaced by 0, the mean."""
    return [np.where(np.arange(len(row))[:, None] == frame, np.float32(0), row) for frame in range(len(row))]
