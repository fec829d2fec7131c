"""The contract of a task: examples, batches, losses, measures and outputs of one kind of work.

A task is a record of functions, ``Task``; the table of tasks is in ``core/task_table.py``. Training, validation,
checkpoints and averages use these functions and know nothing else of text, classes, sound or graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
Carry = tuple[Tensor, ...]  # state that goes from batch to batch, dimension 0 the row; () where there is none


class ExampleIndices(NamedTuple):
    """The examples of a batch, and how often the run has used each before (``visit``), both (examples,)."""

    index: Indices  # type: ignore[assignment]  # hides tuple.index
    visit: Indices

    def shards(self, number: int) -> list[ExampleIndices]:
        """The examples dealt out in turn to ``number`` shards, none empty: where examples are few, to fewer."""
        parts = min(number, len(self.index))
        return [ExampleIndices(self.index[first::parts], self.visit[first::parts]) for first in range(parts)]


class Batch(Protocol):
    """A NamedTuple of tensors, dimension 0 the row; the targets and their weights are fields like any other.

    Where state is carried, rows are lanes: row r goes on where row r of the batch before ended. Lanes may end before
    an epoch does, the last rows first, and none is added. Where a lane begins something new, such as another document,
    a field ``fresh`` (rows,) says so, and the objective lets those rows begin from nothing.
    """

    @property
    def index(self) -> Any:
        """Which example each row is, int64; −1: none."""

    @property
    def weight(self) -> float:
        """The number that the loss is a mean over, such as tokens; counted on the host by ``collate``."""


class Examples(Protocol):
    """One part of the data: for training or for validation."""

    def __len__(self) -> int: ...

    def batches(self, epoch: int | None) -> Sequence[ExampleIndices]:
        """The batches of an epoch in their order, a pure function; ``None``: for evaluation, each example once."""

    def token_counts(self) -> npt.NDArray[np.int64]:
        """(examples,): how much of the loss's weight each example is."""

    def collate(self, examples: ExampleIndices) -> Batch:
        """The batch of these examples: a pure function of them, each example's draws independent of the others."""

    def where(self, index: int) -> str:
        """The file and line of an example, for messages."""


class LossTerms(NamedTuple):
    """The loss of one batch, in units of ``batch.weight``, and the sums to report.

    ``minimized`` carries the gradient: smoothing and auxiliary losses included. ``sums`` are detached. ``carry``: what
    the next batch of the same lanes begins with, a tuple of tensors with rows as in the batch; () for most tasks. It
    goes from update to update of an epoch and into checkpoints, cut off from the gradient; an epoch, a validation and
    what follows an update without a finite loss begin with ().
    """

    minimized: Tensor
    sums: MetricSums
    carry: Carry = ()


Objective = Callable[[nn.Module, Any, Carry], LossTerms]  # (net, batch, carry)


class CodecsAndSpec(NamedTuple):
    """The codecs between inputs and numbers (tokenizers, classes …), and sizes as plain JSON for ``plan.json``."""

    codecs: Any
    spec: dict[str, int]


class Data(NamedTuple):
    """Everything that training reads."""

    train: Examples
    valid: Examples | None
    codecs: Any
    spec: dict[str, int]
    contents: dict[str, str]  # digest of each prepared part, by the name of its folder
    longest: int = 0  # tokens of the longest sequence that attention reads, for warnings; 0: not known


class Metric(NamedTuple):
    """A figure that validation may report beside the loss."""

    lower_is_better: bool
    by_predictor: bool = False  # its sums come from ``Predictor.measure``; otherwise from the objective
    ratio: bool = True  # of sums; False where a figure depends on the number of examples, too
    baseline: str | float | None = None  # the metric of a model that ignores its inputs, or its value


class MetricTable(NamedTuple):
    """Figures of an evaluation that are more than one number: rows under the names of columns.

    ``square``: after its first column, which names the rows, a square of counts: it can be drawn.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    square: bool = False


class Card(NamedTuple):
    """The task's lines of a model card."""

    pipeline_tag: str
    usage: str  # Python that continues ``model = regard.load(…)``
    command: str  # the command line after ``regard`` that uses a run, with {run} for its folder
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
        """``Data.contents`` of the first preparation; None where the run has no plan yet."""

    @property
    def makes_codecs(self) -> bool:
        """Return whether codecs are to be made of the data; else they are there."""


def not_interrupted() -> bool:
    """Answer of whoever does not interrupt."""
    return False


class Predictor(Protocol):
    """A trained network at work: Translator, Generator …; gives its task a verb, evaluation and Python functions."""

    def __call__(self, *inputs: Any, **settings: Any) -> Any:
        """``predictor(inputs, **settings)``: one output for each of a list of inputs, in order.

        What else is in the list changes no output. ``settings`` are the predictor's own; one that draws takes
        ``seed``: each output is then a function of its input and the seed.
        """

    def read(self, line: str) -> Any:
        """The input that a line of text spells, as text or as JSON. ValueError or RegardError where it spells none."""

    def write(self, output: Any, *, json: bool) -> str:
        """An output as exactly one line, without its end: for people, or as a JSON object."""

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = not_interrupted
    ) -> MetricSums:
        """Sums of the metrics ``names`` over these of the examples, such as counts over decoded outputs.

        Parts of the examples add up to the whole, however they are cut: what belongs to several examples, such as an
        input that stands there twice, is counted at the first of them. Where it takes long, ``interrupted`` is asked
        now and then, and KeyboardInterrupt raised where it says so.
        """


Report = Callable[[str], None]
ProgressCallback = Callable[[int], None]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kind of work. Variants are made by ``dataclasses.replace``; every field is used in one place."""

    name: str
    open: Callable[[RunFiles], CodecsAndSpec]  # codecs of a run that was prepared before
    prepare: Callable[
        [RunFiles, Report, ProgressCallback | None], Data
    ]  # files to examples; makes codecs or reopens them
    build: Callable[[Any, Mapping[str, int]], nn.Module]  # (config, spec) to a net; reads no file
    small_spec: Mapping[str, int]  # the smallest sizes of a net: to try a config alone
    objective: Callable[[Any], Objective]
    predictor: Callable[..., Predictor]  # (net, codecs, config, engine=…)
    compute_metrics: Callable[[MetricSums], dict[str, float]]
    # ratios of the objective's sums, and of those of the predictor's that are there; "loss" is the validation loss
    metrics: Mapping[str, Metric]  # the figures beside the loss
    card: Card | Callable[[Any], Card]  # or (config) to it
    sample: Callable[[Path], Mapping[str, Any]]  # writes a tiny corpus; its config as nested tables, for the laws
    sample_lines: Sequence[str]  # a few inputs for ``Predictor.read``, for the laws
    held_out_samples: Callable[[Path, Mapping[str, Any]], Sequence[Mapping[str, Any]]] | None = None
    # for the laws: (folder, config of ``sample``) to configs with equal training data whose held-out data differ in
    # every text and label; unset: the sample, and the same with fewer lines to validate on
    unit: str = "tokens"  # plural noun of what ``Batch.weight`` and ``Examples.token_counts`` count
    serves: frozenset[str] = frozenset()  # endpoints of a server beyond prediction: "translate", "generate"
    evaluated_as: Callable[[Any], Mapping[str, Any]] = lambda config: {}
    # how given data are cut for evaluation, for people: {"context": 256, "stride": 256}
    row_inputs: Callable[[Any, Path, Sequence[str | int]], Iterator[tuple[str, str]]] | None = None
    # (config, file of rows, columns or () for the usual ones) to the place and the text for ``Predictor.read`` of each
    # row; None: inputs are lines alone
    lint_rows: Callable[[Any, Sequence[Any]], Iterator[tuple[str, str | None, str]]] | None = None
    # (section data, corpora) to the input as text, the target if any, and the place of each example, for a check of the
    # data; None: there are no examples one by one
    lint_unit: str | Callable[[Any], str | None] | None = "word"
    # noun of what is between the spaces of these inputs, or (section data) to it; None of inputs that are no text
    tables: Callable[[MetricSums, Any], Mapping[str, MetricTable]] = lambda sums, codecs: {}
    # of the sums of an evaluation and the codecs: figures by class, and the like
    baseline: Callable[[Any], Any] | None = None
    # of the codecs: the prediction of a model that ignores its inputs, such as the majority label or the mean
    reference_test: Callable[[Any, Any, Sequence[Path]], Any] | None = None
    # (config, predictor, files) to a ``tasks.evaluation.ReferenceTest``: evaluation compares outputs with references;
    # None: it measures as validation does
    scores: Literal["pairs", "texts"] | None = None  # inputs that ``regard score`` reads: see ``core.scores``
    engine_trials: Callable[[Any, Any, Any], Any] | None = None
    # (run, net, codecs) to ``inference.engine_choice.EngineTrials``, by which ``engine="auto"`` is chosen; None: no
    # choice
    export_form: Callable[[Any], ExportForm] | None = None
    # (config) to the form in which formats of other toolkits write the network; None: none of them does
    example: Callable[[Any], str | None] | None = None
    # of a run folder: an input from the validation data that is easy to show

    def card_of(self, config: Any) -> Card:
        """Return the lines of a run's model card."""
        return self.card if isinstance(self.card, Card) else self.card(config)

    def lint_unit_of(self, data: Any) -> str | None:
        """Return the unit of inputs in a check of the data."""
        return self.lint_unit(data) if callable(self.lint_unit) else self.lint_unit


def find_task(kind: str, *, saved: bool = False) -> Task:
    """The task of that name, or of ``package.module:NAME``. ConfigError where there is none.

    ``saved``: the name comes from a run folder, which somebody else may have made: only names of the table count.
    """
    found = locate(kind, saved=saved).task()
    if not isinstance(found, Task):
        raise ConfigError(f"{kind} is no task", where="task.kind", why=f"it is {type(found).__name__}")
    return found
