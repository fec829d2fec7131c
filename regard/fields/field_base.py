"""Defaults of the contract of ``core/field.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.core.field import EncodedRow, VisitDraws


class FieldBase:
    """A field whose rows are padded, encoded as one sequence, and the same in training as in prediction."""

    packed = False

    def variants(self, values: Sequence[Any]) -> list[list[EncodedRow]]:
        return [[] for _ in values]

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        return rows[0]

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [row]

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        return values[: len(row)]
