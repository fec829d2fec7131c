"""Rows of tokens, with or without subword features: which positions are pieces of a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from regard.core.field import EncodedRow
from regard.data.tokenizers.tokenizer import END, UNKNOWN


def numbers_of(row: EncodedRow) -> npt.NDArray[Any]:
    """Return the token of each position, a view of the row (positions,) or (positions, 1 + affixes)."""
    return row if row.ndim == 1 else row[:, 0]


def is_piece(numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return a mask of the positions that are pieces of a text, also unknown ones; not BEGIN, END or padding."""
    return np.asarray((numbers > END) | (numbers == UNKNOWN))
