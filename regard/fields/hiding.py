"""Rows without one of their pieces, for the influence of each on a prediction (``core.field.HidingField``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.core.field import EncodedRow
from regard.data.tokenizers.tokenizer import UNKNOWN
from regard.fields.pieces import is_piece, numbers_of

UNKNOWN_PIECE = "replaced by the unknown piece"
MEAN_FRAME = "replaced by the mean frame of the training data"


def without(row: EncodedRow, places: Any) -> EncodedRow:
    """Return a row of pieces with some of them unknown, and without their subword features."""
    row = row.copy()
    row[places] = 0
    numbers_of(row)[places] = UNKNOWN
    return row


def hidden_pieces(row: EncodedRow) -> list[EncodedRow]:
    """Return a row without each of its pieces; as it is for a special one."""
    return [without(row, place) if hides else row for place, hides in enumerate(is_piece(numbers_of(row)))]


def hidden_tokens(row: EncodedRow) -> list[EncodedRow]:
    """Return a row without each of its tokens, whose first pieces the last column marks."""
    rows = []
    for token in range(1, int(row[:, -1].sum()) + 1):
        places = np.flatnonzero((row[:, -1].cumsum() == token) & is_piece(numbers_of(row)))
        hidden = without(row, places)
        hidden[:, -1] = row[:, -1]
        rows.append(hidden)
    return rows


def hidden_frames(row: EncodedRow) -> list[EncodedRow]:
    """Return a row of standardized frames with each of them 0, which is the mean."""
    return [np.where(np.arange(len(row))[:, None] == place, np.float32(0), row) for place in range(len(row))]
