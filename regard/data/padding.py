"""Padding of rows of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.tokenizers.tokenizer import PAD


def padded(rows: Sequence[npt.NDArray[Any]] | Sequence[Sequence[int]], filling: int = PAD) -> tuple[Tensor, Tensor]:
    """Return rows padded with ``filling``, and a mask of the valid positions, (rows, positions).

    A row may have several numbers per position: (rows, positions, numbers).
    """
    lengths = np.array([len(row) for row in rows])
    values = np.full((len(rows), int(lengths.max()), *np.shape(rows[0])[1:]), filling, np.int64)
    for number, row in enumerate(rows):
        values[number, : len(row)] = row
    return torch.from_numpy(values), torch.from_numpy(np.arange(values.shape[1]) < lengths[:, None])
