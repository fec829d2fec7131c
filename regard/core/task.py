"""The contract of a task: examples, batches, losses, metrics and outputs.

A task is a record of functions, ``Task``; the table of tasks is in ``core/task_table.py``. Training, validation,
checkpoints and averages use these functions and do not depend on text, classes, sound or graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from regard.core.export_forms import ExportForm
from regard.core.task_table import locate
from regard.errors import ConfigError

Indices = npt.NDArray[np.int64]
MetricSums = dict[str, Tensor]  # sums over examples, of any shape, detached: added over shards, batches and ranks
Carry = tuple[Tensor, ...]  # state carried from batch to batch, dimension 0 is the row; () for most tasks


class ExampleIndices(NamedTuple):
    """The examples of a batch.

    Attributes:
        index: (examples,) the number of each example.
        visit: (examples,) the number of times that the run has used it.
    """

    index: Indices  # type: ignore[assignment]  # hides tuple.index
    visit: Indices

    def shards(self, number: int) -> list[ExampleIndices]:
        """Deal the examples to ``number`` shards, none empty: with few examples, to fewer shards."""
        parts = min(number, len(self.index))
        return [ExampleIndices(self.index[first::parts], self.visit[first::parts]) for first in range(parts)]


class Batch(Protocol):
    """A NamedTuple of tensors, dimension 0 the row; the targets and their weights are fields like any other.

    If state is carried, rows are lanes: row r continues row r of the previous batch. Lanes may end before an epoch
    does, the last rows first, and no lane is added. If a lane starts a new sequence, such as another document, a field
    ``fresh`` (rows,) marks it. The objective then resets the state of those rows.
    """

    @property
    def index(self) -> Any:
        """The example of each row, int64; −1: none."""

    @property
    def weight(self) -> float:
        """The denominator of the mean loss, such as the number of tokens; counted on the host by ``collate``."""


class Examples(Protocol):
    """One part of the data, for training or for validation."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """Return the batches of an epoch in order, a pure function; ``None``: for evaluation, each example once."""

    def token_counts(self) -> npt.NDArray[np.int64]:
        """Return (examples,) the weight of each example in the loss."""

    def collate(self, examples: ExampleIndices) -> Batch:
        """Return the batch of these examples: a pure function, with independent draws for each example."""

    def where(self, index: int) -> str:
        """Return the file and line of an example, for messages."""


class LossTerms(NamedTuple):
    """The loss of one batch, and the sums to report.

    Attributes:
        minimized: the loss in units of ``batch.weight``; it carries the gradient and includes smoothing and auxiliary
            losses.
        sums: sums to report, detached.
        carry: initial state of the next batch of the same lanes, a tuple of tensors with rows as in the batch; () for
            most tasks. It is carried from update to update of an epoch and into checkpoints, detached from the
            gradient. It is () at the start of an epoch or validation, and after an update without a finite loss.
    """

    minimized: Tensor
    sums: MetricSums
    carry: Carry = ()


Objective = Callable[[nn.Module, Any, Carry], LossTerms]  # (net, batch, carry)


class CodecsAndSpec(NamedTuple):
    """The codecs of a run, and the sizes of its network.

    Attributes:
        codecs: between inputs and numbers: tokenizers, classes, …
        spec: sizes as plain JSON, for ``plan.json``.
    """

    codecs: Any
    spec: dict[str, int]


class Data(NamedTuple):
    """All inputs of training.

    Attributes:
        train: the training examples.
        valid: the validation examples; None without validation data.
        codecs: the codecs of the run.
        spec: the sizes of its network.
        contents: digest of each prepared part, by the name of its folder.
        longest: tokens of the longest sequence, for warnings; 0: unknown.
    """

    train: Examples
    valid: Examples | None
    codecs: Any
    spec: dict[str, int]
    contents: dict[str, str]
    longest: int = 0


class Combined(NamedTuple):
    """The choice of a run whose network was trained alone.

    Attributes:
        network: the weight of the output of the network.
        wide: the weight of the output of the baseline.
        chosen: ``network``, ``baseline`` or ``both``.
        figures: the loss and the metrics of the combination on the validation data.
        data: the data, whose codecs and validation examples now have these weights.
    """

    network: float
    wide: float
    chosen: str
    figures: dict[str, float]
    data: Data


class Metric(NamedTuple):
    """A metric that validation may report in addition to the loss.

    Attributes:
        lower_is_better: whether a lower value is better.
        by_predictor: its sums come from ``Predictor.measure``; otherwise from the objective.
        ratio: of sums; False if it also depends on the number of examples.
        baseline: the metric of a model that ignores its inputs, or its value.
        slow: computed for the baseline of a run on request only.
    """

    lower_is_better: bool
    by_predictor: bool = False
    ratio: bool = True
    baseline: str | float | None = None
    slow: bool = False


class MetricTable(NamedTuple):
    """Results of an evaluation that are more than one number: rows under the names of columns.

    Attributes:
        columns: the names of the columns.
        rows: the cells of each row.
        square: after the first column, which names the rows, the table is a square of counts and can be drawn.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    square: bool = False


class Card(NamedTuple):
    """The task's lines of a model card.

    Attributes:
        pipeline_tag: the tag of the task on model hubs.
        usage: Python that continues ``model = regard.load(…)``.
        command: the command line after ``regard`` that uses a run, with {run} for its folder.
        languages: (config) → codes of the languages of a model.
    """

    pipeline_tag: str
    usage: str
    command: str
    languages: Callable[[Any], list[str]] = lambda config: []


class RunFiles(Protocol):
    """The files of a run, as a task uses them: ``runs.run_folder.RunFolder``."""

    path: Path
    data: Path  # prepared examples; may be deleted once training is over
    tokenizers: Path

    @property
    def config(self) -> Any: ...

    @property
    def contents(self) -> dict[str, str] | None:
        """``Data.contents`` of the first preparation; None if the run has no plan yet."""

    @property
    def makes_codecs(self) -> bool:
        """Return whether codecs are to be created from the data; otherwise they exist."""


def not_interrupted() -> bool:
    """Return False: never interrupted."""
    return False


class TaskBaseline(Protocol):
    """The fitted baseline of a run, measured like its network."""

    @property
    def description(self) -> str:
        """A readable name."""

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """Return the sums of the objective, and those of the predictor's metrics ``names``, over these examples."""

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        """Save the baseline, and its loss and metrics on the validation data ({} without) in ``run``."""


class OutputBaseline(TaskBaseline, Protocol):
    """The baseline of a task whose evaluation compares outputs with references; its sums have no loss."""

    def outputs(self, inputs: Sequence[str]) -> list[str]:
        """Return the output for each input."""


Report = Callable[[str], None]
ProgressCallback = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. Variants are made by ``dataclasses.replace``; every field is used in one place.

    Attributes:
        name: the name, as ``task.kind`` has it.
        open: codecs of a prepared run.
        prepare: files to examples; creates codecs or reopens them.
        build: (config, spec) to a net; reads no file.
        small_spec: the smallest sizes of a net, to validate a config without data.
        objective: (config) → the loss of a batch, see ``Objective``.
        predictor: (net, codecs, config, engine=…) → a ``core.predictor.Predictor``.
        compute_metrics: ratios of the objective's sums, and of those of the predictor that are present; "loss" is the
            validation loss.
        metrics: in addition to the loss.
        card: or a function of the config.
        sample: writes a tiny corpus and returns its config as nested tables, for the laws.
        sample_lines: a few inputs for ``Predictor.read``, for the laws.
        held_out_samples: for the laws: (folder, config of ``sample``) → configs with equal training data whose held-out
            data differ in every text and label; unset: the sample, and the same with fewer validation lines.
        unit: plural noun of the units of ``Batch.weight`` and ``Examples.token_counts``.
        serves: endpoints of a server beyond prediction: "translate", "generate".
        evaluated_as: how files are split for evaluation, for reports: {"context": 256, "stride": 256}.
        row_inputs: (config, file of rows, columns or () for the default ones) → the location and the text for
            ``Predictor.read`` of each row; None: inputs are lines only.
        lint_rows: (section data, corpora) → the input as text, the target if any, and the location of each example, for
            a check of the data; None: the data have no separate examples.
        lint: (config, maximum findings of a kind, progress) → a ``data.lint.check.LintReport`` of examples that are no
            texts; None: ``lint_rows``.
        lint_unit: noun of the space-separated units of these inputs, or a function of the section data; None if inputs
            are not text.
        tables: (sums of an evaluation, codecs) → tables such as metrics by class.
        baseline: (codecs) → the prediction of a model that ignores its inputs, such as the majority label or the mean.
        fit_baseline: fits a baseline that reads the inputs; None: the task has no baseline for this config.
        open_baseline: the saved one.
        combine: (run, trained network, data with a validation part): chooses and saves the weights of network and
            baseline for a config that ``is_combined``.
        baseline_predictor: (run, codecs) → the saved ``OutputBaseline`` with the interface of the predictor; None: it
            is never used alone.
        with_memory: (run, codecs, predictor, threshold) → a predictor that uses the saved ``OutputBaseline`` for near
            inputs.
        ensemble: (predictors) → one predictor, whose search averages their probabilities; None: not supported.
        choose_baseline: (config, predictor, baseline, validation examples, interrupted) →
            ``runs.baseline_choice.BaselineChoice``, or None if there are too few examples.
        outcomes: (predictor, examples of an evaluation) → ``core.outcomes.Outcomes``, for the analysis of errors and
            comparisons. The predictor has ``labels``, () for numbers. None: the task has no separate answers.
        held_out: (files of an evaluation) → ``core.outcomes.HeldOut`` of ``data.train``, for cross-validation; its
            corpora have a ``share`` by hash. None: no cross-validation.
        baseline_outcomes: (baseline, examples) → the ``Outcomes`` of a ``TaskBaseline``, with the same values as
            ``outcomes``, for a task whose examples are one graph; None: the network and the baseline are compared by
            groups of examples.
        reference_test: (config, predictor, files) → a ``tasks.reference_test.ReferenceTest``: evaluation compares
            outputs with references, and its baselines are ``OutputBaseline``; None: it uses the metrics of validation.
        scores: inputs of ``regard score``: see ``core.predictor_interface``.
        initialize: (run, network, data): sets initial weights that depend on the data, before the first update of a
            run.
        engine_trials: (run, net, codecs) → ``inference.engine_choice.EngineTrials`` for ``engine="auto"``; None: no
            choice.
        export_form: (config) → the form of the network for formats of other toolkits; None: not supported.
        examples: (config, prepared data) → inputs of the validation data as lines for ``Predictor.read``, for display.
    """

    name: str
    open: Callable[[RunFiles], CodecsAndSpec]
    prepare: Callable[[RunFiles, Report, ProgressCallback | None], Data]
    build: Callable[[Any, Mapping[str, int]], nn.Module]
    small_spec: Mapping[str, int]
    objective: Callable[[Any], Objective]
    predictor: Callable[..., Any]
    compute_metrics: Callable[[MetricSums], dict[str, float]]
    metrics: Mapping[str, Metric]
    card: Card | Callable[[Any], Card]
    sample: Callable[[Path], Mapping[str, Any]]
    sample_lines: Sequence[str]
    held_out_samples: Callable[[Path, Mapping[str, Any]], Sequence[Mapping[str, Any]]] | None = None
    unit: str = "tokens"
    serves: frozenset[str] = frozenset()
    evaluated_as: Callable[[Any], Mapping[str, Any]] = lambda config: {}
    row_inputs: Callable[[Any, Path, Sequence[str | int]], Iterator[tuple[str, str]]] | None = None
    lint_rows: Callable[[Any, Sequence[Any]], Iterator[tuple[str, str | None, str]]] | None = None
    lint: Callable[[Any, int, ProgressCallback], Any] | None = None
    lint_unit: str | Callable[[Any], str | None] | None = "word"
    tables: Callable[[MetricSums, Any], Mapping[str, MetricTable]] = lambda sums, codecs: {}
    baseline: Callable[[Any], Any] | None = None
    fit_baseline: Callable[[RunFiles, Data], TaskBaseline | None] = lambda run, data: None
    open_baseline: Callable[[RunFiles, Any], TaskBaseline | None] = lambda run, codecs: None
    combine: Callable[[RunFiles, nn.Module, Data], Combined] | None = None
    baseline_predictor: Callable[[RunFiles, Any], Any] | None = None
    with_memory: Callable[[RunFiles, Any, Any, float], Any] | None = None
    ensemble: Callable[[Sequence[Any]], Any] | None = None
    choose_baseline: Callable[[Any, Any, Any, Any, Callable[[], bool]], Any] | None = None
    outcomes: Callable[[Any, Any], Any] | None = None
    held_out: Callable[[RunFiles], Any] | None = None
    baseline_outcomes: Callable[[Any, Any], Any] | None = None
    reference_test: Callable[[Any, Any, Sequence[Path]], Any] | None = None
    scores: Literal["pairs", "texts"] | None = None
    initialize: Callable[[RunFiles, nn.Module, Data], None] | None = None
    engine_trials: Callable[[Any, Any, Any], Any] | None = None
    export_form: Callable[[Any], ExportForm] | None = None
    examples: Callable[[Any, Data], Iterable[str]] = lambda config, data: ()

    def card_of(self, config: Any) -> Card:
        """Return the lines of a run's model card."""
        return self.card if isinstance(self.card, Card) else self.card(config)

    def lint_unit_of(self, data: Any) -> str | None:
        """Return the unit of inputs in a check of the data."""
        return self.lint_unit(data) if callable(self.lint_unit) else self.lint_unit


def find_task(kind: str, *, saved: bool = False) -> Task:
    """Return the task of a name.

    Args:
        kind: a name of ``TASKS``, or ``package.module:NAME``.
        saved: whether the name comes from a run folder, which may come from someone else; only names of the table are
            accepted then.

    Raises:
        ConfigError: if it does not exist.
    """
    task = locate(kind, saved=saved).task()
    if not isinstance(task, Task):
        raise ConfigError(f"{kind} is not a task", where="task.kind", why=f"it is {type(task).__name__}")
    return task
