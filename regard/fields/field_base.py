"""Default implementation of the contract in ``core/field.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.core.field import EncodedRow, VisitDraws


class FieldBase:
    """A field with padded rows, one row for each value, and the same rows in training and prediction."""

    packed = False

    def variants(self, values: Sequence[Any]) -> list[list[EncodedRow]]:
        return [[] for _ in values]

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        return rows[0]

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [row]

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        return values[: len(row)]
