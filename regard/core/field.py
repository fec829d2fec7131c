"""The contract of a field: one input of a network, from the cells of a row to padded positions.

A field is learned from the values of the training rows, saved in the run, and opened again. It knows no network and no
loss. Value is its own type, such as a tuple of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from regard.core.observation import SurfaceKind
from regard.core.randomness import example_generator
from regard.core.task import Report, RunFiles

EncodedRow = (
    Any  # an array (positions, *numbers) of any dtype; of a PackedField another object, its length the positions
)


class EncodedRows(NamedTuple):
    """The row of each value, and whether it was shortened to the limit of the config.

    A field with an answer per position may split a long value into several rows, each an example of its own in
    training: ``counts`` is then the number of rows of each value, 0 for an empty one.
    """

    rows: list[EncodedRow]
    truncated: list[bool]
    counts: Sequence[int] | None = None  # None: each value has one row


class InputBatch(Protocol):
    """Rows of one field as a network reads them: ``Padded``, or the NamedTuple of a ``PackedField``."""

    @property
    def answered(self) -> Tensor | None:
        """The positions (rows, positions) with an answer of their own; None where a row has one answer."""

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Return those of each row, of values that a network gives for positions."""


class Padded(NamedTuple):
    """A batch of one field: ``values`` (rows, positions, *numbers), and ``valid`` (rows, positions), False in padding.

    A field whose parts are encoded apart has (rows, parts, positions, …) in both. ``answered`` (rows, positions): the
    positions with an answer of their own; None where a row has one answer.
    """

    values: Tensor
    valid: Tensor
    answered: Tensor | None = None

    def by_row(self, values: Tensor) -> Sequence[Tensor]:
        """Return the rows of values in the shape of ``valid``, padding included."""
        return values.unbind()

    def at_end(self) -> Padded:
        """Return the batch with an answer at the last valid position of each row, and nowhere else."""
        places = torch.arange(self.valid.shape[1], device=self.valid.device)
        return self._replace(answered=places == self.valid.sum(1, keepdim=True) - 1)


class VisitDraws(NamedTuple):
    """The random numbers of one visit of an example: a function of these three numbers and the stream alone."""

    seed: int
    index: int  # type: ignore[assignment]  # hides tuple.index
    visit: int  # 0 in evaluation

    def stream(self, number: int) -> np.random.Generator:
        """Return the generator of a stream. Different uses, such as masks and noise, take different streams."""
        return example_generator(self.seed, number, self.index, self.visit)


class Field(Protocol):
    """One input of a network."""

    columns: tuple[int | str, ...]  # of a row, in the order of their texts
    reads_json: bool  # whether ``parse`` reads JSON values
    packed: bool  # whether it is a PackedField
    kind: ClassVar[SurfaceKind]  # of its positions

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes that the network needs, such as the size of the vocabulary."""

    def value(self, row: Any) -> Any:
        """Return the value of a row of ``data/rows.py``. Raises DataError, with the place, if a cell is wrong."""

    def accept(self, value: Any, where: str | None = None) -> Any:
        """Return the value that Python code passes to a predictor. Raises DataError for any other object."""

    def parse(self, text: str) -> Any:
        """Return the value of a line of text. Raises DataError if it has another form."""

    def learn(self, run: RunFiles, values: Sequence[Any], log: Report) -> Self:
        """Learn codecs from the values of the training rows, save them in ``run.tokenizers``, and return self."""

    def open(self, run: RunFiles) -> Self:
        """Open the codecs that ``learn`` saved, and return self. Raises ModelError if they are damaged."""

    def encode(self, values: Sequence[Any]) -> EncodedRows:
        """Encode each value independently of the others."""

    def variants(self, values: Sequence[Any]) -> list[list[EncodedRow]]:
        """Return further rows of each value, which ``augment`` may choose; [] where there are none."""

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        """Return the row for training. ``rows``: the encoded row, then its variants. Visit 0 has the encoded row."""

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        """Split a row into the sequences that the network encodes separately; in general there is one, the row."""

    def pad(self, rows: Sequence[EncodedRow]) -> InputBatch:
        """Pad rows to equal lengths, or lay them one after the other."""

    def unpad(self, row: EncodedRow, values: Tensor) -> Tensor:
        """Return the numbers of a row's own positions, of ``InputBatch.by_row(…)[i]``."""

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        """Return a text for each position, for people."""

    def text(self, value: Any) -> str:
        """Return the line that ``parse`` reads."""

    def cost(self, value: Any) -> int:
        """Return how many numbers one layer holds at once for this value (``predictor_interface.input_cost``)."""


@runtime_checkable
class HidingField(Field, Protocol):
    """A field whose pieces can be hidden from the network, to see what a prediction owes to each of them."""

    hiding: ClassVar[str]  # how pieces are hidden

    def hidden(self, row: EncodedRow) -> list[EncodedRow]:
        """Return for each piece that is inspected the row without it; the row itself where it cannot be hidden."""


class PositionField(Field, Protocol):
    """A field with an answer at some positions, such as the first piece of each token; ``pad`` marks them.

    A row may hold more than the network reads, such as these marks; ``parts`` returns the numbers that it reads.
    """

    def answers(self, row: EncodedRow) -> int:
        """Return how many positions of a row have an answer."""

    def tokens(self, value: Any) -> tuple[str, ...]:
        """Return the text of each answered position, over all rows of a value."""


@runtime_checkable
class ContinuedField(PositionField, Protocol):
    """A field with the position after each of its own as the answer: the prediction of a value continues it."""

    def continued(self, values: Sequence[Any]) -> EncodedRows:
        """Encode values as one row each, whose last position is answered by what follows the value.

        ``labels`` of the row without its first are the texts of the positions that the network predicts.
        """


class PackedField(Field, Protocol):
    """A field whose rows are laid one after the other without padding, such as graphs.

    So examples need not be batched by length, and a batch of N positions has rows of N positions in all. The network
    reads the batch itself.
    """

    def digest(self, row: EncodedRow) -> str:
        """Return a hash of a row's value."""

    def describe(self, rows: Sequence[EncodedRow]) -> str:
        """Return the sizes of rows, for people: ``of 3 to 8 nodes``."""
