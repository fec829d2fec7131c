"""Evaluation of a trained run over given data files by the loss and the metrics of its task, whatever that is."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from pydantic import ValidationError
from torch import nn

from regard.config.explain import explain
from regard.config.settings import SearchConfig, override_search
from regard.core.task import Examples, MetricTable, ProgressCallback
from regard.core.wording import did_you_mean
from regard.data.file_names import named_files
from regard.data.foreign_errors import unreadable
from regard.data.rows import column_names, form_of
from regard.errors import ConfigError, DataError
from regard.metrics.significance import BootstrapDifference
from regard.metrics.text import MetricScore
from regard.models.transformer.segment_memory import SegmentMemory
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load, load_net
from regard.training.canonical_ranks import CanonicalRanks
from regard.training.ranks import ProcessGroup
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy, Trainable
from regard.training.validation import objective_sums, predictor_sums

OUTPUT_METRICS = ("bleu", "chrf")  # of outputs, unless given


class Evaluation(NamedTuple):
    """The figures of a run over given data, and how they were computed."""

    figures: dict[str, float]  # loss, perplexity, bleu …
    signatures: dict[str, str]  # of figures that go by several definitions: how each was computed
    sums: dict[str, float]  # tokens, bytes …: what the figures are ratios of, where it is one number
    tables: dict[str, MetricTable]  # figures by class, and the like
    settings: dict[str, Any]  # of the search, or how the data were cut
    examples: int
    checkpoint: str
    seconds: float
    outputs: list[str]  # the decoded texts, of a translation's run
    units: int | None = None  # nodes, words …: what the loss is a mean over, in the task's unit; None: not counted
    unit: str = "tokens"


def evaluate_run(
    run: RunFolder,
    files: Sequence[Path],
    metrics: Sequence[str] | None = None,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    progress: ProgressCallback | None = None,
    peers: ProcessGroup | None = None,
    memory: int | None = None,
    **settings: Any,
) -> Evaluation:
    """Return the figures of a run over files.

    Outputs are compared with references if the task has a ``reference_test``. Otherwise files are prepared in a
    temporary folder, for the figures of the objective and of the predictor.

    Args:
        run: the trained run.
        files: of the form that its training reads.
        metrics: their names; None: see ``require_metrics``.
        checkpoint: see ``tasks.load.load``.
        device: see ``tasks.load.load``.
        progress: called with the number of examples that were finished.
        peers: the ranks that share the examples; each returns the figures of all.
        memory: positions that layers with memory attend to, if not as many as in training.
        settings: of the search, such as ``beam=1``; or else keys of the section ``data``, such as ``stride=64``.
    """
    shared: dict[str, Any] = {"checkpoint": checkpoint, "progress": progress, "peers": peers}
    if run.task.reference_test is not None:
        names = require_metrics(run, metrics)
        test = run.task.reference_test(run.config, load(run.path, checkpoint=checkpoint, device=device), files)
        settings |= {} if memory is None else {"memory": memory}
        return evaluate_outputs(run, test, names, _search(test.search, settings), **shared)
    config, names = given_files(run, files, settings), require_metrics(run, metrics)
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device=device)
    _remember(run, net, memory)
    return _evaluate_objective(run, config, net, codecs, names, requested=metrics is not None, **shared)


def _evaluate_objective(
    run: RunFolder, config: RunConfig, net: nn.Module, codecs: Any, names: Sequence[str], *,
    requested: bool, checkpoint: str | None, progress: ProgressCallback | None, peers: ProcessGroup | None,
) -> Evaluation:  # fmt: skip
    """Return the figures of the objective and of the predictor over the data of ``config``, as validation does."""
    task = run.task
    counted = [name for name in names if name != "loss" and task.metrics[name].by_predictor]
    predictor, began = task.predictor(net, codecs, run.config), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        examples = open_files(run, config, Path(folder))
        if not len(examples):
            where = config.data.train[0].name
            raise DataError("there is nothing to evaluate on", where=where, why="it holds no example")
        model = Trainable(net.eval(), task.objective(run.config))
        strategy = _strategy(next(net.parameters()).device, peers)
        with torch.no_grad():
            sums = objective_sums(model, examples, strategy, done=progress) or {}
        if counted:
            sums = sums | (predictor_sums(predictor, examples, counted, strategy) or {})
        number, units = _sizes(examples)
    return Evaluation(
        figures=_figures(task.compute_metrics(sums), names, run, requested=requested),
        signatures={},
        sums={name: float(value) for name, value in sums.items() if value.numel() == 1},
        tables=dict(task.tables(sums, codecs)),
        settings=dict(task.evaluated_as(config)),
        examples=number,
        checkpoint=str(run.weights_path(checkpoint)),
        seconds=time.perf_counter() - began,
        outputs=[],
        units=units,
        unit=task.unit,
    )


class ReferenceTest(Protocol):
    """Outputs of a model for a test set, compared with references: see ``core.task.Task.reference_test``."""

    search: SearchConfig  # the settings of the run

    def __len__(self) -> int:
        """Return the number of lines."""

    @property
    def inputs(self) -> list[str]:
        """The distinct inputs, for each of which there is one output."""

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about the files."""

    def outputs(
        self, search: SearchConfig, done: ProgressCallback = ..., peers: ProcessGroup | None = None
    ) -> list[str]:
        """Return an output for each line. ``peers``: the ranks that share the work."""

    def score(self, metric: str, outputs: Sequence[str]) -> MetricScore:
        """Return one metric of the outputs, with the signature of how it was computed."""

    def tables(self, metrics: Sequence[str], outputs: Sequence[str]) -> Mapping[str, MetricTable]:
        """Return tables next to these metrics."""

    def compare(self, metric: str, outputs: Sequence[str], others: Sequence[str]) -> BootstrapDifference:
        """Compare the outputs with those of another model."""


def evaluate_outputs(
    run: RunFolder,
    test: ReferenceTest,
    metrics: Sequence[str],
    search: SearchConfig,
    *,
    checkpoint: str | None = None,
    progress: ProgressCallback | None = None,
    peers: ProcessGroup | None = None,
) -> Evaluation:
    """Return the figures of outputs that are compared with references; ``search``: settings of the outputs."""
    began = time.perf_counter()
    outputs = test.outputs(search, progress or (lambda count: None), peers)
    seconds = time.perf_counter() - began
    scores = [test.score(name, outputs) for name in metrics]
    return Evaluation(
        figures={score.metric: score.value for score in scores},
        signatures={score.metric: score.signature for score in scores},
        sums={"distinct_sources": len(test.inputs)},
        tables=dict(test.tables(metrics, outputs)),
        settings=search.model_dump(mode="json", exclude_none=True),
        examples=len(test),
        checkpoint=str(run.weights_path(checkpoint)),
        seconds=seconds,
        outputs=outputs,
    )


def _search(base: SearchConfig, settings: Mapping[str, Any]) -> SearchConfig:
    try:
        return override_search(base, **{"nbest": 1, **settings})
    except ValidationError as error:
        raise explain(error, SearchConfig, (), ()) from error


def _sizes(examples: Examples) -> tuple[int, int]:
    """Number of examples of an evaluation, and their weight in the task's unit."""
    batches, weights = examples.batches(None), examples.token_counts()
    return sum(len(batch.index) for batch in batches), sum(int(weights[batch.index].sum()) for batch in batches)


def _remember(run: RunFolder, net: nn.Module, memory: int | None) -> None:
    """Let the layers of a network remember so many columns; None: as in training.

    ConfigError where none remembers, or not so many.
    """
    if memory is None:
        return
    mixers = [module for module in net.modules() if isinstance(module, SegmentMemory)]
    if not mixers:
        why = "its layers remember no columns: mixers segment-memory and compressive do"
        raise ConfigError("memory is not for this model", where=str(run.path), why=why)
    try:
        for mixer in mixers:
            mixer.set_memory(memory)
    except ValueError as problem:
        raise ConfigError(f"memory cannot be {memory}", where=str(run.path), why=str(problem)) from problem


def _strategy(device: torch.device, peers: ProcessGroup | None) -> Strategy:
    """Whole batches in one process; with ranks, a batch's examples dealt to them, each once."""
    workers = Workers(1, torch.get_num_threads())
    if peers is None:
        return Shards(1, workers, device)
    return CanonicalRanks(1 << (peers.world - 1).bit_length(), workers, peers, device)


class _GivenFiles(NamedTuple):
    """The files of a run whose data are others, prepared elsewhere: as ``core.task.RunFiles``."""

    path: Path
    data: Path
    tokenizers: Path
    config: RunConfig
    contents: Mapping[str, str]  # nothing: the data may be any
    makes_codecs: bool = False  # those of the run are opened


def given_files(run: RunFolder, files: Sequence[Path], cut: Mapping[str, Any]) -> RunConfig:
    """The run's config with these files as its data. ConfigError where its task reads none such, or cuts none so."""
    files = [file for name in files for file in named_files(name)]
    for file in files:
        if not file.exists():
            raise unreadable(file, FileNotFoundError())
    data: Any = run.config.data
    if unknown := [name for name in cut if name not in type(data).model_fields]:
        why = f"a run of {run.config.task.kind} has none"
        raise ConfigError(f"evaluation takes no setting {unknown[0]}", where=unknown[0], why=why)
    given = {"train": [{"source": str(file)} | _test_part(data, file) for file in files], "valid": None}
    kept = data.model_dump(mode="json", exclude={"train", "valid"}, exclude_none=True)
    try:
        changed = type(data).model_validate({**kept, **cut, **given})
    except ValidationError as error:
        raise explain(error, type(data), (), ()) from error
    return run.config.model_copy(update={"data": changed})


def _test_part(data: Any, file: Path) -> dict[str, Any]:
    """Return the key that reads the test part alone, for a file whose column of parts training has read."""
    column = next((part[0] for corpus in data.train if (part := getattr(corpus, "part", None)) is not None), None)
    if column is None or not file.is_file() or form_of(file) == "text" or column not in column_names(file):
        return {}
    return {"part": [column, "test"]}


def open_files(run: RunFolder, config: RunConfig, folder: Path) -> Examples:
    """The files of ``given_files`` as examples of the run's task, prepared in ``folder``."""
    elsewhere: Any = _GivenFiles(run.path, folder, run.tokenizers, config, {})
    return run.task.prepare(elsewhere, lambda message: None, None).train


def require_metrics(run: RunFolder, metrics: Sequence[str] | None) -> list[str]:
    """Return the names of metrics: those of the task, or BLEU and chrF of outputs, unless given.

    Raises ConfigError for an unknown one.
    """
    outputs = run.task.reference_test is not None
    if metrics is None:
        return list(OUTPUT_METRICS if outputs else run.task.metrics)
    names, known = list(metrics), list(run.task.metrics) if outputs else ["loss", *run.task.metrics]
    if outputs and not names:
        raise ConfigError("there is no metric named", why=f"the metrics of this task are {', '.join(known)}")
    if unknown := [name for name in names if name not in known]:
        why = f"the metrics of this task are {', '.join(known)}"
        raise ConfigError(f"there is no metric {unknown[0]}", why=why, help=did_you_mean(unknown[0], known))
    return names


def _figures(
    figures: Mapping[str, float], names: Sequence[str], run: RunFolder, *, requested: bool
) -> dict[str, float]:
    """The loss and the figures of these names. ConfigError where one that was ``requested`` is missing.

    A model of classes has no figures of numbers, for example, though its task has.
    """
    missing = [name for name in names if name not in figures]
    if requested and missing:
        why = f"the figures of {run.path} are {', '.join(figures)}"
        raise ConfigError(f"there is no {missing[0]} of such a run", why=why)
    return {name: figures[name] for name in dict.fromkeys(["loss", *names]) if name in figures}
