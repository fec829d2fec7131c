"""The codecs of supervised tasks: the learned fields, the answer, and the wide part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from regard.core.answer import TaskAnswer
from regard.core.baseline import WidePart, baseline_outputs
from regard.core.combination import EQUAL, OutputWeights
from regard.core.field import ContinuedField, EncodedRow, Field, PackedField, PositionField

Row = tuple[EncodedRow, ...]  # encoded fields of an example, in the order of the fields


class EncodedInputs(NamedTuple):
    """Encoded rows of values, concatenated over the values.

    Attributes:
        rows: the encoded fields.
        truncated: for each value, whether one of its fields was truncated.
        starts: the index of the first row of each value, and the number of all rows.
    """

    rows: list[Row]
    truncated: list[bool]
    starts: list[int]


class SupervisedCodecs(NamedTuple):
    """The learned fields of a run, by name, and its answer.

    An answer per position belongs to the first field, which is then a ``PositionField``.
    """

    fields: Mapping[str, Field]
    answer: TaskAnswer
    wide: WidePart | None = None  # fitted; its outputs are added to those of the network (``model.wide``)
    weights: OutputWeights = EQUAL  # of the outputs of the network and of the wide part

    def encode(self, columns: Sequence[Sequence[Any]]) -> EncodedInputs:
        """Encode the columns of values, one per field."""
        encoded = [field.encode(column) for field, column in zip(self.fields.values(), columns, strict=True)]
        rows = list(zip(*(field.rows for field in encoded), strict=True))
        truncated = [any(flags) for flags in zip(*(field.truncated for field in encoded), strict=True)]
        counts = encoded[0].counts
        return EncodedInputs(rows, truncated, [0, *accumulate([1] * len(rows) if counts is None else counts)])

    def encode_inputs(self, columns: Sequence[Sequence[Any]]) -> EncodedInputs:
        """Encode values for prediction: as in training, or as the beginning that an answer continues."""
        if self.continued is None:
            return self.encode(columns)
        encoded = self.continued.continued(columns[0])
        return EncodedInputs([(row,) for row in encoded.rows], encoded.truncated, [*range(len(encoded.rows) + 1)])

    @property
    def continued(self) -> ContinuedField | None:
        """Field whose values the answer continues; None if the answer is about the values themselves."""
        field = next(iter(self.fields.values()))
        return field if isinstance(field, ContinuedField) else None

    def wide_outputs(self, columns: Sequence[Sequence[Any]]) -> Tensor | None:
        """Return (answers, outputs) of the wide part times its weight for columns of values; None without one."""
        if self.wide is None:
            return None
        return self.weights.wide * torch.from_numpy(baseline_outputs(self.wide, columns))

    def answers(self, row: Row) -> int:
        """Return the number of targets of a row: one, or one per answered position."""
        return self._position_field.answers(row[0]) if self.answer.per_position else 1

    def unknown(self, values: Sequence[Any]) -> list[str]:
        """Return the parts of an input that the vocabularies lack."""
        pairs = zip(self.fields.values(), values, strict=True)
        return [part for field, value in pairs for part in field.unknown(value)]

    def tokens(self, values: Sequence[Any]) -> tuple[str, ...]:
        """Return the text of each answered position; () if a row has one answer."""
        return self._position_field.tokens(values[0]) if self.answer.per_position else ()

    @property
    def _position_field(self) -> PositionField:
        return cast("PositionField", next(iter(self.fields.values())))

    @property
    def window(self) -> int | None:
        """Number of positions that the network reads at once; None: a row is one sequence."""
        return next(iter(self.fields.values())).window

    @property
    def packed_field(self) -> PackedField | None:
        """The only field, if its rows are packed without padding; else None."""
        field = next(iter(self.fields.values()))
        return cast("PackedField", field) if field.packed else None

    @property
    def spec(self) -> dict[str, int]:
        """Sizes of the network."""
        sizes = [*(field.sizes for field in self.fields.values()), self.answer.sizes]
        return {name: size for part in sizes for name, size in part.items()}

    @property
    def tokenizer(self) -> Any:
        """Tokenizer of the field ``text``, for exports."""
        field: Any = self.fields["text"]
        return field.tokenizer
