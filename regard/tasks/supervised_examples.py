"""The examples of supervised tasks, in memory, and their batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.baseline import WidePart, baseline_outputs
from regard.core.field import EncodedRow, InputBatch, VisitDraws
from regard.core.task import ExampleIndices
from regard.core.wording import pluralize
from regard.data.order import single_pass, single_pass_packed
from regard.tasks.example_lines import spread
from regard.tasks.supervised_codecs import SupervisedCodecs

MAX_SHOWN = 256  # maximum number of positions to inspect; an observation has MAX_SHOWN² weights per head


class Example(NamedTuple):
    """The values of the fields and of the answer of a row."""

    values: tuple[Any, ...]
    answer: Any
    where: str


class SupervisedBatch(NamedTuple):
    """Padded fields and their targets.

    For an answer per position, the target tensors have the shape (rows, positions, …) and are valid where the field is
    ``answered``. ``weight`` is the number of targets with a loss.
    """

    inputs: tuple[InputBatch, ...]  # in the order of the fields
    targets: Tensor  # (rows, …)
    row_weights: Tensor  # (rows,) factors of the loss
    unit: Tensor  # (rows,) scale of a numeric target, in the unit of the data
    baseline: Tensor | None  # (rows, …) predictions of the baseline
    wide: Tensor | None  # (rows, …, outputs), added to the outputs of the network times ``network_weight``
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float
    network_weight: float = 1.0


class SupervisedExamples:
    """Examples in memory, as ``core.task.Examples``. A value that its field splits gives several examples.

    Args:
        examples: the values of the fields and of the answer.
        config: the config of the run.
        codecs: the learned codecs.
        keep_values: whether to keep the values of the fields, which a baseline and an analysis of errors read. Those of
            a large corpus take memory.
    """

    def __init__(
        self, examples: Sequence[Example], config: Any, codecs: SupervisedCodecs, *, keep_values: bool = True
    ) -> None:
        self._fields, self._codecs, self._config = tuple(codecs.fields.values()), codecs, config
        columns = list(zip(*(example.values for example in examples), strict=True))
        self._columns = columns if keep_values else []
        self.wide: npt.NDArray[np.float32] | None = None  # (targets, outputs) of the wide part
        self._spread = {index: examples[index].values for index in spread(len(examples))}
        inputs = codecs.encode(columns)
        self.rows, self.truncated, self.starts = inputs.rows, sum(inputs.truncated), inputs.starts
        self._value = np.repeat(np.arange(len(examples)), np.diff(self.starts))  # index of the value of each example
        self._variants = [field.variants(column) for field, column in zip(self._fields, columns, strict=True)]
        values, self._places = [example.answer for example in examples], [example.where for example in examples]
        self.targets = codecs.answer.targets(values, self._places)  # concatenated over the examples
        self._baseline = codecs.answer.baseline_targets(values)
        self._row_weights, self._unit = codecs.answer.row_weights(self.targets), codecs.answer.unit
        self._sizes = np.array(
            [codecs.answers(row) for row in self.rows], np.int64
        )  # number of targets of each example
        self._ends = np.cumsum(self._sizes)
        self.lengths = np.array([sum(map(len, row)) for row in self.rows], np.int32)

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """Return the batches of an epoch, drawn by (seed, epoch); padded rows of a batch have similar lengths."""
        size, seed = self._config.train.batch_tokens, self._config.seed
        if self._codecs.packed_field is not None:
            return single_pass_packed(self.lengths, size, seed=seed, epoch=epoch)
        return single_pass(self.lengths, size, seed=seed, epoch=epoch, where=self.where)

    def token_counts(self) -> npt.NDArray[np.int64]:
        cumulative = np.concatenate([[0], np.cumsum(self._row_weights > 0)])
        return np.asarray(cumulative[self._ends] - cumulative[self._ends - self._sizes], np.int64)

    def collate(self, examples: ExampleIndices) -> SupervisedBatch:
        visits = list(zip(examples.index.tolist(), examples.visit.tolist(), strict=True))
        inputs = tuple(
            field.pad([self.training_row(field_index, index, visit) for index, visit in visits])
            for field_index, field in enumerate(self._fields)
        )
        positions = self.target_places(examples.index)
        targets, row_weights, unit = (
            _at_positions(torch.from_numpy(numbers), inputs)
            for numbers in (
                np.asarray(self.targets[positions]),
                np.asarray(self._row_weights[positions], np.float32),
                np.full(len(positions), self._unit),
            )
        )
        baseline = self.constant_targets(positions)
        baseline = None if baseline is None else _at_positions(baseline, inputs)
        wide = None if self.wide is None else _at_positions(torch.from_numpy(self.wide[positions]), inputs)
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        weight = float(np.count_nonzero(self._row_weights[positions]))
        scale = self._codecs.weights.network
        return SupervisedBatch(inputs, targets, row_weights, unit, baseline, wide, index, weight, scale)

    def add_wide(self, wide: WidePart, *, held_out: bool) -> None:
        """Compute the outputs of the wide part.

        ``held_out``: these are the data that it was fitted on. Each output is then that of a model that was fitted
        without the value; otherwise the network would learn to rely on a part that is too good.
        """
        columns = self.value_columns(self.starts[:-1])
        if held_out:
            (outputs,) = self._codecs.answer.sizes.values()
            table = wide.held_out_outputs(columns, self.targets, self._row_weights, outputs)
        else:
            table = self._codecs.weights.wide * baseline_outputs(wide, columns)
        self.wide = table.astype(np.float32)

    def combine(self, codecs: SupervisedCodecs) -> None:
        """Combine the outputs of the network and of the wide part of ``codecs``, with their weights there."""
        assert codecs.wide is not None
        self._codecs = codecs
        self.add_wide(codecs.wide, held_out=False)

    def target_places(self, index: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the indices in ``targets`` of these examples, concatenated."""
        if not self._codecs.answer.per_position:
            return np.asarray(index, np.int64)
        bounds = zip((self._ends[index] - self._sizes[index]).tolist(), self._ends[index].tolist(), strict=True)
        return np.concatenate([np.arange(start, end) for start, end in bounds])

    def training_row(self, field_index: int, index: int, visit: int) -> EncodedRow:
        """Return the augmented row of a field for an example at a visit."""
        rows = [self.rows[index][field_index], *self._variants[field_index][self._value[index]]]
        return self._fields[field_index].augment(rows, VisitDraws(self._config.seed, index, visit))

    def values_starting_in(self, index: npt.NDArray[Any]) -> list[npt.NDArray[np.int64]]:
        """Return the examples of each value whose first example is one of these; a value is counted only there."""
        values = dict.fromkeys(self._value[number] for number in index if self.starts[self._value[number]] == number)
        return [np.arange(self.starts[value], self.starts[value + 1]) for value in values]

    def value_columns(self, index: npt.NDArray[Any] | Sequence[int]) -> list[list[Any]]:
        """Return the values of these examples, one column per field."""
        values = self._value[np.asarray(index, np.int64)].tolist()
        return [[column[value] for value in values] for column in self._columns]

    def lines(self) -> Iterator[str]:
        """Yield a few values as lines for ``SupervisedPredictor.read``, without those that are too long to inspect."""
        whole = self._codecs.continued is not None  # the prediction reads a split value as one row
        for index, values in self._spread.items():
            rows = slice(self.starts[index], self.starts[index + 1])
            texts = [field.text(value) for field, value in zip(self._fields, values, strict=True)]
            separate = len(texts) == 1 or not any("\t" in text for text in texts)
            length = self._config.encoded_length(int(self.lengths[rows].sum()))
            if separate and 0 < length <= MAX_SHOWN and (whole or len(self.lengths[rows]) == 1):
                yield "\t".join(texts)

    def constant_targets(self, positions: npt.NDArray[np.int64]) -> Tensor | None:
        """Return the ``baseline_targets`` of the answer at these positions in ``targets``."""
        return None if self._baseline is None else torch.from_numpy(self._baseline[positions])

    def where(self, index: int) -> str:
        return self._places[self._value[index]]

    def digest(self) -> str:
        """Return a sha256 of the training data. Saved runs contain it, so the three forms must not change."""
        packed = self._codecs.packed_field
        if packed is not None:
            digests = "\n".join(packed.digest(row) for (row,) in self.rows)
            return hashlib.sha256(digests.encode() + self.targets.tobytes()).hexdigest()
        if self._codecs.answer.per_position:
            digest = hashlib.sha256(self.lengths.tobytes())
            for number, row in enumerate(self.rows):
                for field, part in zip(self._fields, row, strict=True):
                    digest.update(b"".join(read.tobytes() for read in field.parts(part)))
                digest.update(self.targets[self.target_places(np.array([number]))].tobytes())
            return digest.hexdigest()
        digest = hashlib.sha256(self.targets.tobytes() + self.lengths.tobytes())
        for row in (row for rows in zip(*self.rows, strict=True) for row in rows):
            digest.update(row.tobytes())
        return digest.hexdigest()

    def report(self, noun: str, position: str = "token") -> str:
        """Describe the numbers of examples, of answered positions, and of truncated examples."""
        number, packed = len(self.starts) - 1, self._codecs.packed_field
        if packed is not None:
            return f"{pluralize(number, noun)} {packed.describe([row for (row,) in self.rows])}"
        limit, window = self._config.data.max_length * self._fields[0].max_windows, self._codecs.window
        if self._codecs.answer.per_position:
            further = len(self) - number
            split = f", {pluralize(further, 'more part')} of those longer than {limit} positions" if further else ""
            return f"{pluralize(len(self.targets), position)} in {pluralize(number, noun)}{split}"
        truncated = f", {self.truncated:,} of them truncated to {limit} positions" if self.truncated else ""
        divided = 0 if window is None else int(np.count_nonzero(self.lengths > window))
        windows = f", {divided:,} of them in windows" if divided else ""
        return f"{pluralize(number, noun)}{windows}{truncated}"


def _at_positions(values: Tensor, inputs: Sequence[InputBatch]) -> Tensor:
    """Return a table (rows, positions, …) with the values at the answered positions and 0 elsewhere.

    Values with one entry per row are returned unchanged. Dimension 0 of all tensors of a batch is the row, because rows
    are divided among workers.
    """
    answered = inputs[0].answered
    if answered is None:
        return values
    table = values.new_zeros((*answered.shape, *values.shape[1:]))
    table[answered] = values
    return table
