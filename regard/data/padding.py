"""Rows of numbers of different lengths as one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import PAD


def padded(rows: Sequence[npt.NDArray[Any]] | Sequence[Sequence[int]], filling: int = PAD) -> tuple[Tensor, Tensor]:
    """Rows side by side, ``filling`` after their ends, and which columns are theirs.

    A row may hold several numbers a column: (rows, columns, numbers).
    """
    lengths = np.array([len(row) for row in rows])
    found = np.full((len(rows), int(lengths.max()), *np.shape(rows[0])[1:]), filling, np.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return torch.from_numpy(found), torch.from_numpy(np.arange(found.shape[1]) < lengths[:, None])
