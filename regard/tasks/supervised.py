"""The common part of supervised tasks, which are declared by fields, a network and an answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from regard.core.answer import TaskAnswer
from regard.core.atomic_files import fault_point
from regard.core.baseline import InputBaseline
from regard.core.contents import PreparedParts
from regard.core.field import EncodedRow, Field, InputBatch, VisitDraws
from regard.core.state import State
from regard.core.task import (
    CodecsAndSpec,
    Data,
    ExampleIndices,
    LossTerms,
    MetricSums,
    MetricTable,
    Objective,
    ProgressCallback,
    Report,
    RunFiles,
    Task,
    TaskBaseline,
)
from regard.core.wording import pluralize
from regard.data.order import single_pass, single_pass_packed
from regard.data.rows import Row
from regard.data.shared_files import FilesConfig
from regard.errors import DataError
from regard.tasks.net_outputs import HeadOutputs, RunNetwork, run_network
from regard.tasks.split import is_own_split, read_part, report_moved
from regard.tasks.supervised_baseline import fit_supervised, open_supervised
from regard.tasks.supervised_predictor import PLAIN, SupervisedCodecs, SupervisedPredictor, Wording


class Example(NamedTuple):
    """The values of the fields and of the answer of a row."""

    values: tuple[Any, ...]
    answer: Any
    where: str


Reader = Callable[[tuple[FilesConfig, ...]], list[Example]]


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
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class SupervisedExamples:
    """Examples in memory, as ``core.task.Examples``. A value that its field splits gives several examples."""

    def __init__(self, examples: Sequence[Example], config: Any, codecs: SupervisedCodecs) -> None:
        self._fields, self._codecs, self._config = tuple(codecs.fields.values()), codecs, config
        columns = list(zip(*(example.values for example in examples), strict=True))
        self._columns = columns if config.train.baseline else []  # the texts of a large corpus take memory
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
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        weight = float(np.count_nonzero(self._row_weights[positions]))
        return SupervisedBatch(inputs, targets, row_weights, unit, baseline, index, weight)

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
        for rows in zip(*self.rows, strict=True):
            digest.update(np.concatenate(rows).tobytes())
        return digest.hexdigest()

    def report(self, noun: str, position: str = "token") -> str:
        """Describe the numbers of examples, of answered positions, and of truncated examples."""
        number, packed = len(self.starts) - 1, self._codecs.packed_field
        if packed is not None:
            return f"{pluralize(number, noun)} {packed.describe([row for (row,) in self.rows])}"
        limit = self._config.data.max_length
        if self._codecs.answer.per_position:
            further = len(self) - number
            split = f", {pluralize(further, 'more part')} of those longer than {limit} positions" if further else ""
            return f"{pluralize(len(self.targets), position)} in {pluralize(number, noun)}{split}"
        truncated = f", {self.truncated:,} of them truncated to {limit} positions" if self.truncated else ""
        return f"{pluralize(number, noun)}{truncated}"


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


@dataclass(frozen=True, kw_only=True)
class Supervised:
    """The declaration of a supervised task; ``task`` builds a ``Task`` from it.

    Attributes:
        fields: maps the config to the inputs of the network, by name, before learning.
        answer: maps the config to the answer, before learning.
        answers: all classes that ``answer`` may return; the ``marker`` of each is the name of one of its sums.
        rows: maps (section data, corpora) to rows, whose cells have the columns of the fields and of the answer.
        noun: the singular noun of an example, for messages.
        wording: further words for messages.
        network: calls the network with the padded fields of a batch.
        predictor: the class of the predictor, for a task with its own inspection or output.
        baseline: maps the config to the baseline, before it is fitted; None: there is no baseline.
    """

    fields: Callable[[Any], Mapping[str, Field]]
    answer: Callable[[Any], TaskAnswer]
    answers: Sequence[type[TaskAnswer]]
    rows: Callable[[Any, Sequence[FilesConfig]], Iterator[Row]]
    noun: str = "example"
    wording: Wording = PLAIN
    network: RunNetwork = run_network
    predictor: type[SupervisedPredictor] = SupervisedPredictor
    baseline: Callable[[Any], InputBaseline | None] = lambda config: None

    def task(self, **options: Any) -> Task:
        """Return the task; ``options`` are the fields of ``Task`` that the declaration does not determine."""
        return Task(
            open=self._open, prepare=self._prepare, objective=self._objective, predictor=self._predictor,
            compute_metrics=self._compute_metrics, tables=_tables, baseline=lambda codecs: codecs.answer.baseline,
            fit_baseline=self._fit_baseline, open_baseline=self._open_baseline,
            metrics={name: metric for answer in self.answers for name, metric in answer.metrics.items()}, **options,
        )  # fmt: skip

    def open_codecs(self, run: RunFiles) -> SupervisedCodecs:
        """Open the learned fields and answer of a run; raise ModelError if they are missing or damaged."""
        fields = {name: field.open(run) for name, field in self.fields(run.config).items()}
        return SupervisedCodecs(fields, self.answer(run.config).open(run))

    def learn_codecs(self, run: RunFiles, log: Report, read: Reader | None = None) -> SupervisedCodecs:
        """Learn the fields and the answer from the training data, and save them; raise DataError if impossible."""
        examples = self.read(run.config, "train", read)
        columns = zip(*(example.values for example in examples), strict=True) if examples else [()]
        fields = {
            name: field.learn(run, column, log)
            for (name, field), column in zip(self.fields(run.config).items(), columns, strict=True)
        }
        values, row_names = [example.answer for example in examples], [example.where for example in examples]
        answer = self.answer(run.config).learn(run, values, row_names, log, where=run.config.data.train[0].name)
        fault_point("vocabulary")
        return SupervisedCodecs(fields, answer)

    def read(self, config: Any, part: str, read: Reader | None = None) -> list[Example]:
        """Read the part ``train`` or ``valid`` of the data: see ``tasks.split.read_part``."""
        names = self.answer(config).names
        return read_part(
            config.data, part, read or self._reader(config), key=lambda example: example.values,
            labels=lambda example: names(example.answer),
        )  # fmt: skip

    def _reader(self, config: Any) -> Reader:
        """Return a cached reader of the examples of files."""
        fields, answer = tuple(self.fields(config).values()), self.answer(config)

        @cache
        def read(corpora: tuple[FilesConfig, ...]) -> list[Example]:
            rows = self.rows(config.data, corpora)
            return [Example(tuple(field.value(row) for field in fields), answer.value(row), row.where) for row in rows]

        return read

    def _predictor(
        self, net: nn.Module, codecs: SupervisedCodecs, config: Any, *, engine: Any = None
    ) -> SupervisedPredictor:
        return self.predictor(net, codecs, config, engine, network=self.network, wording=self.wording)

    def _fit_baseline(self, run: RunFiles, data: Data) -> TaskBaseline | None:
        model = self.baseline(run.config)
        return None if model is None else fit_supervised(model, data)

    def _open_baseline(self, run: RunFiles, codecs: SupervisedCodecs) -> TaskBaseline | None:
        model = self.baseline(run.config) if run.config.train.baseline else None
        return None if model is None else open_supervised(model, run, codecs)

    def _open(self, run: RunFiles) -> CodecsAndSpec:
        codecs = self.open_codecs(run)
        return CodecsAndSpec(codecs, codecs.spec)

    def _prepare(self, run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
        config, data = run.config, run.config.data
        read = self._reader(config)
        codecs = self.learn_codecs(run, log, read) if run.makes_codecs else self.open_codecs(run)
        parts = PreparedParts(run.contents, log)

        def prepare(part: str, examples: list[Example], corpora: Sequence[FilesConfig]) -> SupervisedExamples:
            if not examples:
                why = "the files, or the share of them, are empty"
                raise DataError(f"the {part} data has no {self.noun}", where=corpora[0].name, why=why)
            prepared = SupervisedExamples(examples, config, codecs)
            if not prepared.token_counts().any():
                why = f"none of these {self.wording.position}s is in the training data"
                what = f"all {self.wording.position}s are unknown"
                raise DataError(what, where=corpora[0].name, why=why)
            report = f"{part}: {prepared.report(self.noun, self.wording.position)}"
            parts.add(part, prepared.digest(), report, what=f"{self.noun}s", where=corpora[0].name)
            return prepared

        valid = None
        if data.valid:
            examples = self.read(config, "valid", read)
            report_moved(data, read, len(examples), log)
            valid = prepare("valid", examples, data.valid) if examples or not is_own_split(data) else None
        train = prepare("train", self.read(config, "train", read), data.train)
        longest = int(train.lengths.max()) if codecs.packed_field is None else 0
        return Data(train, valid, codecs, codecs.spec, parts.contents, longest)

    def _objective(self, config: Any) -> Objective:
        """Return the loss of the answer times the weight of each row, with the label smoothing of the config."""
        names, answer = tuple(self.fields(config)), self.answer(config)

        def loss(net: nn.Module, batch: SupervisedBatch, carry: State = ()) -> LossTerms:
            outputs = self.network(net, dict(zip(names, batch.inputs, strict=True)))
            answered = batch.inputs[0].answered
            chosen: Any = ... if answered is None else answered
            targets, baseline = batch.targets[chosen], None if batch.baseline is None else batch.baseline[chosen]
            weights, smoothing = batch.row_weights[chosen], config.train.label_smoothing
            if isinstance(outputs, HeadOutputs):
                return outputs.loss(
                    answer, targets, weights, baseline, smoothing=smoothing, evaluating=not net.training
                )
            logits = outputs.logits.float() if outputs.logits.dtype.itemsize < 4 else outputs.logits
            unit = batch.unit[chosen]
            terms = answer.loss(logits, targets, unit, smoothing=smoothing, evaluating=not net.training)
            sums = terms.sums if baseline is None else {**terms.sums, **answer.compare(logits, targets, baseline)}
            return LossTerms((terms.loss * weights.to(terms.loss.dtype)).sum(), sums)

        return loss

    def _compute_metrics(self, sums: MetricSums) -> dict[str, float]:
        """Return the metrics of the answer that has these sums."""
        return next(answer for answer in self.answers if answer.marker in sums).compute_metrics(sums)


def _tables(sums: MetricSums, codecs: SupervisedCodecs) -> Mapping[str, MetricTable]:
    return codecs.answer.tables(sums) if codecs.answer.marker in sums else {}
