"""The common part of supervised tasks, which are declared by fields, a network and an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from torch import nn

from regard.core.answer import TaskAnswer
from regard.core.atomic_files import fault_point
from regard.core.baseline import FOLDER, InputBaseline, WidePart, require_wide, save_baseline
from regard.core.combination import open_weights
from regard.core.contents import PreparedParts
from regard.core.field import Field, StoringField
from regard.core.outcomes import HeldOut, OutcomeRow
from regard.core.state import State
from regard.core.task import (
    CodecsAndSpec,
    Combined,
    Data,
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
from regard.data.rows import Row
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError
from regard.tasks.load import load_net
from regard.tasks.net_outputs import HeadOutputs, RunNetwork, run_network
from regard.tasks.split import is_own_split, read_part, report_moved
from regard.tasks.supervised_baseline import SupervisedBaseline, fit_supervised, open_supervised
from regard.tasks.supervised_codecs import SupervisedCodecs
from regard.tasks.supervised_combination import combine
from regard.tasks.supervised_examples import Example, SupervisedBatch, SupervisedExamples
from regard.tasks.supervised_outcomes import SupervisedOutcomes
from regard.tasks.supervised_predictor import SupervisedPredictor
from regard.tasks.supervised_wording import PLAIN, Wording

Reader = Callable[[tuple[FilesConfig, ...]], list[Example]]


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
            combine=self._combine, fit_baseline=self._fit_baseline, open_baseline=self._open_baseline,
            outcomes=SupervisedOutcomes, held_out=self._held_out,
            examples=lambda config, data: cast(Any, data.valid).lines(),
            metrics={name: metric for answer in self.answers for name, metric in answer.metrics.items()}, **options,
        )  # fmt: skip

    def open_codecs(self, run: RunFiles) -> SupervisedCodecs:
        """Open the learned fields and answer of a run; raise ModelError if they are missing or damaged."""
        fields = {name: field.open(run) for name, field in self.fields(run.config).items()}
        return SupervisedCodecs(fields, self.answer(run.config).open(run))

    def _add_wide(
        self, run: RunFiles, codecs: SupervisedCodecs, examples: Sequence[Example] | None
    ) -> SupervisedCodecs:
        """Return the codecs with the wide part, if the run has one: fitted on ``examples`` and saved, or opened.

        Raises:
            ModelError: without ``examples``, if the saved wide part is missing or damaged.
        """
        if not run.config.wide:
            return codecs
        model = self.baseline(run.config)
        if model is None:
            raise ConfigError("the task has no baseline for this data", where="model.wide", help="model.wide = false")
        if examples is not None:
            columns = [*zip(*(example.values for example in examples), strict=True)]
            values, row_names = [example.answer for example in examples], [example.where for example in examples]
            fit_supervised(model, columns, codecs.answer.targets(values, row_names), codecs.answer)
            save_baseline(run.path / FOLDER, model, {})
            return codecs._replace(wide=cast("WidePart", model))
        opened = require_wide(open_supervised(model, run, codecs), run)
        return codecs._replace(wide=cast("WidePart", opened))

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

    def _store(self, run: RunFiles, read: Reader, log: Report) -> None:
        """Write the rows of training and validation data to disk, for fields that keep them there."""
        for place, (name, field) in enumerate(self.fields(run.config).items()):
            if not isinstance(field, StoringField):
                continue
            for part in ("train", "valid"):
                if values := [example.values[place] for example in self.read(run.config, part, read)]:
                    field.store(run.data / f"{name}-{part}", values, log)

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
        codecs: SupervisedCodecs = data.codecs
        model, examples = codecs.wide or self.baseline(run.config), cast("SupervisedExamples", data.train)
        if model is None:
            return None
        if codecs.wide is None:
            fit_supervised(model, examples.value_columns(examples.starts[:-1]), examples.targets, codecs.answer)
        return SupervisedBaseline(model, codecs)

    def _open_baseline(self, run: RunFiles, codecs: SupervisedCodecs) -> TaskBaseline | None:
        model = self.baseline(run.config) if run.config.train.baseline else None
        opened = codecs.wide or (None if model is None else open_supervised(model, run, codecs))
        return None if opened is None else SupervisedBaseline(opened, codecs)

    def _combine(self, run: RunFiles, net: nn.Module, data: Data) -> Combined:
        """See ``core.task.Task.combine``."""
        return combine(run, self._predictor(net, data.codecs, run.config), data)

    def _open(self, run: RunFiles) -> CodecsAndSpec:
        codecs = self._add_wide(run, self.open_codecs(run), None)
        return CodecsAndSpec(codecs._replace(weights=open_weights(run)), codecs.spec)

    def _prepare(self, run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
        config, data = run.config, run.config.data
        read = self._reader(config)
        if run.contents != {}:
            self._store(run, read, log)
        codecs = self.learn_codecs(run, log, read) if run.makes_codecs else self.open_codecs(run)
        parts = PreparedParts(run.contents, log)
        trains = run.contents != {}  # an evaluation accepts any contents
        is_fitted = not run.makes_codecs and (not trains or (run.path / FOLDER).exists())
        codecs = self._add_wide(run, codecs, None if is_fitted else self.read(config, "train", read))
        codecs = codecs if trains else codecs._replace(weights=open_weights(run))

        def prepare(part: str, examples: list[Example], corpora: Sequence[FilesConfig]) -> SupervisedExamples:
            if not examples:
                why = "the files, or the share of them, are empty"
                raise DataError(f"the {part} data has no {self.noun}", where=corpora[0].name, why=why)
            keeps_values = config.train.baseline or not trains
            prepared = SupervisedExamples(examples, config, codecs, keep_values=keeps_values)
            if codecs.wide is not None and not (trains and config.is_combined):
                prepared.add_wide(codecs.wide, held_out=trains and part == "train")
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
        longest = longest if codecs.window is None else min(longest, codecs.window)
        return Data(train, valid, codecs, codecs.spec, parts.contents, longest)

    def _held_out(self, run: RunFiles) -> HeldOut:
        """Return the examples of ``data.train`` with learned labels, and predictions for the others."""
        codecs: SupervisedCodecs = self._open(run).codecs
        learned, unlearned = list[Example](), list[Example]()
        for example in self.read(run.config, "train"):
            (learned if _is_learned(codecs, example) else unlearned).append(example)
        targets = [
            len(codecs.answer.names(example.answer)) if codecs.answer.per_position else 1 for example in unlearned
        ]

        def prepared(examples: Sequence[Example]) -> SupervisedExamples:
            held_out = SupervisedExamples(examples, run.config, codecs)
            if codecs.wide is not None:
                held_out.add_wide(codecs.wide, held_out=False)
            return held_out

        rows = list[OutcomeRow]()
        if learned and unlearned and not codecs.answer.per_position:
            net, *_ = load_net(run.path)
            predictor = self._predictor(net, codecs, run.config)
            substitutes = prepared([example._replace(answer=learned[0].answer) for example in unlearned])
            measured = SupervisedOutcomes(predictor, substitutes).measure(range(len(unlearned)), ())
            for row, example in zip(measured.rows, unlearned, strict=True):
                target = ",".join(codecs.answer.names(example.answer))
                rows.append(
                    row._replace(loss=None, outcome=row.outcome._replace(target=target, target_probability=None))
                )
        return HeldOut(prepared(learned) if learned else None, len(unlearned), sum(targets), rows)

    def _objective(self, config: Any) -> Objective:
        """Return the loss of the answer times the weight of each row, with the label smoothing of the config."""
        names, answer = tuple(self.fields(config)), self.answer(config)

        def loss(net: nn.Module, batch: SupervisedBatch, carry: State = ()) -> LossTerms:
            outputs = self.network(net, dict(zip(names, batch.inputs, strict=True)))
            answered = batch.inputs[0].answered
            chosen: Any = ... if answered is None else answered
            targets, baseline = batch.targets[chosen], None if batch.baseline is None else batch.baseline[chosen]
            weights, smoothing = batch.row_weights[chosen], config.train.label_smoothing
            if isinstance(outputs, HeadOutputs) and batch.wide is None:
                return outputs.loss(
                    answer, targets, weights, baseline, smoothing=smoothing, evaluating=not net.training
                )
            logits = outputs.logits.float() if outputs.logits.dtype.itemsize < 4 else outputs.logits
            unit = batch.unit[chosen]
            logits = logits if batch.wide is None else batch.network_weight * logits + batch.wide[chosen]
            terms = answer.loss(logits, targets, unit, smoothing=smoothing, evaluating=not net.training)
            sums = terms.sums if baseline is None else {**terms.sums, **answer.compare(logits, targets, baseline)}
            return LossTerms((terms.loss * weights.to(terms.loss.dtype)).sum(), sums)

        return loss

    def _compute_metrics(self, sums: MetricSums) -> dict[str, float]:
        """Return the metrics of the answer that has these sums."""
        return next(answer for answer in self.answers if answer.marker in sums).compute_metrics(sums)


def _tables(sums: MetricSums, codecs: SupervisedCodecs) -> Mapping[str, MetricTable]:
    return codecs.answer.tables(sums) if codecs.answer.marker in sums else {}


def _is_learned(codecs: SupervisedCodecs, example: Example) -> bool:
    """Return whether training had all labels of an example; True for answers without labels."""
    if not codecs.answer.names(example.answer):
        return True
    try:
        codecs.answer.targets([example.answer], [example.where])
    except DataError:
        return False
    return True
