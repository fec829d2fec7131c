"""Division of padded rows into consecutive windows that an encoder reads separately."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn.functional import pad


class Windows:
    """Consecutive windows of padded rows, without those that have only padding.

    A window is a row of its own for the encoder: its positions start at 0, and it attends to no other window. The
    memory of attention therefore grows with rows · windows · size², not with the square of the whole length.

    Args:
        valid: False for padding, which is at the end of a row.
        size: number of positions of a window.
    """

    def __init__(self, valid: Bool[Tensor, "rows length"], size: int) -> None:
        self.rows, self.length = valid.shape
        self.size, self.number = size, -(-self.length // size)
        self.is_traced = torch.compiler.is_exporting()  # a traced graph also encodes windows of padding
        self.present = self._cut(valid).any(-1)  # (rows, windows): True if the window has a valid position

    def split(self, values: Shaped[Tensor, "rows length *features"]) -> Shaped[Tensor, "windows size *features"]:
        """Return the windows of all rows, one after the other; positions after the end of a row are 0."""
        return self._cut(values).flatten(0, 1) if self.is_traced else self._cut(values)[self.present]

    def join(self, values: Float[Tensor, "windows size"]) -> Float[Tensor, "rows length"]:
        """Return the values of windows as rows, the inverse of ``split``; padding has 0."""
        return self._table(values).flatten(1)[:, : self.length]

    def add(self, vectors: Float[Tensor, "windows width"]) -> Float[Tensor, "rows width"]:
        """Return the sum of the vectors of each row's windows, in their order."""
        return self._table(vectors).sum(1)

    def _table(self, values: Float[Tensor, "encoded features"]) -> Float[Tensor, "rows windows features"]:
        if self.is_traced:
            return values.view(self.rows, self.number, values.shape[-1])
        table = values.new_zeros(self.rows, self.number, values.shape[-1])
        table[self.present] = values
        return table

    def _cut(self, values: Shaped[Tensor, "rows length *features"]) -> Shaped[Tensor, "rows windows size *features"]:
        missing = self.number * self.size - self.length
        padded = pad(values, (*[0, 0] * (values.dim() - 2), 0, missing))
        return padded.unflatten(1, (self.number, self.size))
