"""The contract of a field: one input of a network, from the cells of a row to padded positions; and its defaults.

A field is learned from the values of the training rows, saved in the run, and opened again. It depends on no network
and no loss. Its values have a type of its own, such as a tuple of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regard.core.observation import SurfaceKind, SurfaceNumbers
from regard.core.randomness import example_generator
from regard.core.task import Report, RunFiles

EncodedRow = (
    Any  # an array (positions, *numbers) of any dtype; of a PackedField another object, its length the positions
)


class EncodedRows(NamedTuple):
    """The encoded rows of values.

    A field with an answer per position may split a long value into several rows, each a separate example in training.

    Attributes:
        rows: the row of each value.
        truncated: for each value, whether it was shortened to the limit of the config.
        counts: the number of rows of each value, 0 for an empty one; None: each value has one row.
    """

    rows: list[EncodedRow]
    truncated: list[bool]
    counts: Sequence[int] | None = None


class InputBatch(Protocol):
    """Rows of one field as a network reads them: ``Padded``, or the NamedTuple of a ``PackedField``."""

    @property
    def answered(self) -> Tensor | None:
        """The positions (rows, positions) with an answer of their own; None if a row has one answer."""

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Return, for each row, the values that a network computed for its positions."""


class Padded(NamedTuple):
    """A batch of one field.

    A field whose parts are encoded separately has (rows, parts, positions, …) in ``values`` and ``valid``.

    Attributes:
        values: (rows, positions, …) numbers of each position.
        valid: (rows, positions) False in padding.
        answered: (rows, positions) whether a position has an answer of its own; None if a row has one answer.
    """

    values: Tensor
    valid: Tensor
    answered: Tensor | None = None

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Return the rows of values in the shape of ``valid``, padding included."""
        return values.unbind()

    def at_end(self) -> Padded:
        """Return the batch with an answer at the last valid position of each row only."""
        positions = torch.arange(self.valid.shape[1], device=self.valid.device)
        return self._replace(answered=positions == self.valid.sum(1, keepdim=True) - 1)


class VisitDraws(NamedTuple):
    """The random numbers of one visit of an example: a function of these three numbers and the stream only.

    Attributes:
        seed: the seed of the run.
        index: the number of the example.
        visit: 0 in evaluation.
    """

    seed: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    visit: int

    def stream(self, number: int) -> np.random.Generator:
        """Return the generator of a stream. Different uses, such as masks and noise, take different streams."""
        return example_generator(self.seed, number, self.index, self.visit)


class Field(Protocol):
    """One input of a network."""

    columns: tuple[int | str, ...]  # of a row, in the order of its texts
    reads_json: bool  # whether ``parse`` reads JSON values
    packed: bool  # whether it is a PackedField
    kind: ClassVar[SurfaceKind]  # of its positions
    window: int | None  # positions that the network reads at once; longer rows are read in windows. None: no limit
    max_windows: int  # maximum number of windows of a row

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that the network requires, such as the size of the vocabulary."""

    def value(self, row: Any) -> Any:
        """Return the value of a row of ``data/rows.py``. Raises DataError, with the location, if a cell is wrong."""

    def accept(self, value: Any, where: str | None = None) -> Any:
        """Return the value that Python code passes to a predictor. Raises DataError for any other object."""

    def is_value(self, value: Any) -> bool:
        """Return whether an object of Python code is one value for ``accept``; other iterables hold several."""

    def parse(self, text: str) -> Any:
        """Return the value of a line of text. Raises DataError if its format is wrong."""

    def learn(self, run: RunFiles, values: Sequence[Any], log: Report) -> Self:
        """Learn codecs from the values of the training rows, save them in ``run.tokenizers``, and return self."""

    def open(self, run: RunFiles) -> Self:
        """Open the codecs that ``learn`` saved, and return self. Raises ModelError if they are damaged."""

    def encode(self, values: Sequence[Any]) -> EncodedRows:
        """Encode each value independently of the others."""

    def variants(self, values: Sequence[Any]) -> list[list[EncodedRow]]:
        """Return additional rows of each value for ``augment``; [] if the field has no variants."""

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        """Return the row for training; at visit 0 the encoded row. ``rows``: the encoded row, then its variants."""

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        """Split a row into the sequences that the network encodes separately; usually one, the row itself."""

    def windows(self, row: EncodedRow) -> list[EncodedRow]:
        """Split a part into the windows that the network encodes separately; usually one, the part itself."""

    def pad(self, rows: Sequence[EncodedRow]) -> InputBatch:
        """Pad rows to equal lengths, or concatenate them."""

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        """Return the values of a row's own positions from ``InputBatch.by_row(…)[i]``."""

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        """Return a readable text for each position."""

    def text(self, value: Any) -> str:
        """Return the line that ``parse`` accepts."""

    def summary(self, value: Any) -> str:
        """Return a readable text of a value for reports, such as its text or its size."""

    def unknown(self, value: Any) -> list[str]:
        """Return the words, items or characters of a value that the vocabulary lacks, each once."""

    def cost(self, value: Any) -> int:
        """Return the number of values that one layer holds for this input (``predictor_interface.input_cost``)."""


class Hidden(NamedTuple):
    """An input of a field without one of its pieces.

    Attributes:
        row: the row of the network.
        value: the value of the wide part.
    """

    row: EncodedRow
    value: Any


@runtime_checkable
class HidingField(Field, Protocol):
    """A field whose pieces can be hidden from the network, to measure their influence on a prediction."""

    hiding: ClassVar[str]  # how pieces are hidden

    def hidden(self, value: Any, row: EncodedRow) -> list[list[Hidden | None]]:
        """Return the input without each piece of each inspected surface; None if a piece cannot be hidden."""


@runtime_checkable
class FileField(Field, Protocol):
    """A field whose values may be the contents of files: see ``core.predictor_interface.ReadsFiles``."""

    suffixes: ClassVar[tuple[str, ...]]
    contents: ClassVar[Literal["audio", "image", "table"]]  # the kind of its ``predictor_interface.InputForm``

    def read_file(self, contents: bytes, name: str) -> Any:
        """Return the value in a file. Raises DataError, with the name, if it cannot be read."""


@runtime_checkable
class StoringField(Protocol):
    """A field whose rows of training data are kept on disk: they need no memory, and are computed once."""

    def store(self, folder: Path, values: Sequence[Any], log: Report) -> None:
        """Compute the rows and variants of values into a folder, or open those that an earlier call wrote there.

        ``encode`` and ``variants`` of these values then read the folder.
        """


@runtime_checkable
class NumericField(Field, Protocol):
    """A field of numbers, which a display draws."""

    def numbers(self, value: Any, row: EncodedRow) -> SurfaceNumbers:
        """Return the displayed numbers of a value and its row."""


class PositionField(Field, Protocol):
    """A field with an answer at some positions, such as the first piece of each token; ``pad`` marks them.

    A row may hold more than the network's input, such as these marks; ``parts`` returns the input.
    """

    def answers(self, row: EncodedRow) -> int:
        """Return the number of positions of a row that have an answer."""

    def tokens(self, value: Any) -> tuple[str, ...]:
        """Return the text of each answered position, over all rows of a value."""


@runtime_checkable
class ContinuedField(PositionField, Protocol):
    """A field whose answer at each position is the next position: the prediction of a value continues it."""

    def continued(self, values: Sequence[Any]) -> EncodedRows:
        """Encode values as one row each, whose last position is answered by the continuation of the value.

        ``labels`` of the row, without the first, are the texts of the positions that the network predicts.
        """

    def extended(self, value: Any) -> Any:
        """Return the value as ``continued`` reads it, with an unknown position at its end, for a baseline."""


class PackedField(Field, Protocol):
    """A field whose rows are concatenated without padding, such as graphs.

    Examples therefore need not be batched by length, and a batch of N positions has rows of N positions in total. The
    network reads the batch itself.
    """

    def digest(self, row: EncodedRow) -> str:
        """Return a hash of a row's value."""

    def describe(self, rows: Sequence[EncodedRow]) -> str:
        """Return a readable summary of the sizes of rows: ``of 3 to 8 nodes``."""


def is_number_array(value: Any, dimensions: int) -> bool:
    """Return whether a value is an array of numbers with at most that many dimensions."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim <= dimensions


class FieldBase:
    """A field with padded rows, one row for each value, and the same rows in training and prediction."""

    packed = False
    window: int | None = None
    max_windows = 1

    def is_value(self, value: Any) -> bool:
        return isinstance(value, str)

    def variants(self, values: Sequence[Any]) -> list[list[EncodedRow]]:
        return [[] for _ in values]

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        return rows[0]

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [row]

    def windows(self, row: EncodedRow) -> list[EncodedRow]:
        size = self.window or len(row)
        return [row[start : start + size] for start in range(0, len(row), size)] if len(row) > size else [row]

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        return values[: len(row)]

    def unknown(self, value: Any) -> list[str]:
        tokenizer: Any = getattr(self, "tokenizer", None)  # of a field whose values are tuples of texts
        return (
            [] if tokenizer is None else list(dict.fromkeys(part for text in value for part in tokenizer.unknown(text)))
        )

    def summary(self, value: Any) -> str:
        own: Any = self
        return str(own.text(value)).replace("\t", " | ")
