"""Evaluation of a trained run of any task on data files, by the loss and the metrics of the task."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from pydantic import ValidationError
from torch import nn

from regard.config.explain import explain
from regard.config.settings import SearchConfig, override_search
from regard.core.baseline import FOLDER
from regard.core.predictor import Predictor
from regard.core.task import (
    Examples,
    MetricSums,
    MetricTable,
    OutputBaseline,
    ProgressCallback,
    Task,
    TaskBaseline,
)
from regard.core.wording import did_you_mean
from regard.data.file_names import named_files
from regard.data.foreign_errors import unreadable
from regard.data.rows import column_names, form_of
from regard.errors import ConfigError, DataError
from regard.metrics.text import OUTPUT_METRICS
from regard.models.transformer.segment_memory import SegmentMemory
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load, load_net
from regard.tasks.measured_outcomes import MeasuredOutcomes, measure_outcomes, measure_values, require_outcomes
from regard.tasks.reference_test import ReferenceTest
from regard.training.baseline import BaselineComparison, added, baseline_groups, compare, network_groups
from regard.training.canonical_ranks import CanonicalRanks
from regard.training.ranks import ProcessGroup
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy, Trainable
from regard.training.validation import objective_sums, predictor_sums


class Evaluation(NamedTuple):
    """Metrics of a run on data files, and how they were computed.

    Attributes:
        figures: loss, perplexity, bleu, ….
        signatures: exact definition of each metric that has several.
        sums: tokens, bytes, …: the scalar sums from which the metrics are computed.
        tables: metrics by class, confusion matrix, ….
        settings: settings of the search, or of the windows of the data.
        examples: the number of examples.
        checkpoint: the evaluated checkpoint.
        seconds: of the evaluation.
        outputs: decoded texts of a translation run.
        units: number of units (nodes, words, …) that the loss is averaged over; None if not counted.
        unit: plural noun of these units.
        baseline: with the baseline of the run, on the same examples.
        outcomes: each target with its prediction, if requested.
    """

    figures: dict[str, float]
    signatures: dict[str, str]
    sums: dict[str, float]
    tables: dict[str, MetricTable]
    settings: dict[str, Any]
    examples: int
    checkpoint: str
    seconds: float
    outputs: list[str]
    units: int | None = None
    unit: str = "tokens"
    baseline: BaselineComparison | None = None
    outcomes: MeasuredOutcomes | None = None


def evaluate_run(
    run: RunFolder,
    files: Sequence[Path],
    metrics: Sequence[str] | None = None,
    *,
    checkpoint: str | None = None,
    device: str | None = None,
    engine: str | None = None,
    ensemble: Sequence[str | Path] = (),
    progress: ProgressCallback | None = None,
    peers: ProcessGroup | None = None,
    memory: int | None = None,
    outcomes: bool = False,
    **settings: Any,
) -> Evaluation:
    """Return the metrics of a run on data files.

    Outputs are compared with references if the task has a ``reference_test``. Otherwise the files are prepared in a
    temporary folder and evaluated as in validation.

    Args:
        run: the trained run.
        files: the data files, in the form of the training data.
        metrics: the names of the metrics; None: see ``require_metrics``.
        checkpoint: see ``tasks.load.load``.
        device: see ``tasks.load.load``.
        engine: the engine that decodes; only for tasks whose outputs are compared with references.
        ensemble: further runs.
        progress: called with the number of newly finished examples.
        peers: the ranks that share the examples; each returns the metrics of all examples.
        memory: the number of positions in memory, for layers with memory; None: as in training.
        outcomes: whether to return each target with its prediction.
        settings: search settings, such as ``beam=1``, or keys of the section ``data``, such as ``stride=64``.
    """
    shared: dict[str, Any] = {"checkpoint": checkpoint, "progress": progress, "peers": peers}
    if run.task.reference_test is None and outcomes:
        require_outcomes(run.task)
    if run.task.reference_test is not None:
        names = require_metrics(run, metrics)
        chosen: dict[str, Any] = {"checkpoint": checkpoint, "device": device} | ({"engine": engine} if engine else {})
        test = run.task.reference_test(run.config, load(run.path, ensemble=ensemble, **chosen), files)
        settings |= {} if memory is None else {"memory": memory}
        return evaluate_outputs(run, test, names, _search(test.search, settings), outcomes=outcomes, **shared)
    if engine or ensemble:
        raise ConfigError("no engine and no ensemble applies to this task", where="engine")
    config, names = config_with_files(run, files, settings), require_metrics(run, metrics)
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device=device)
    _set_memory(run, net, memory)
    shared |= {"requested": metrics is not None, "outcomes": outcomes}
    return _evaluate_objective(run, config, net, codecs, names, **shared)


def _evaluate_objective(
    run: RunFolder, config: RunConfig, net: nn.Module, codecs: Any, names: Sequence[str], *,
    requested: bool, outcomes: bool, checkpoint: str | None, progress: ProgressCallback | None,
    peers: ProcessGroup | None,
) -> Evaluation:  # fmt: skip
    """Return the metrics of the objective and of the predictor on the data of ``config``, as in validation."""
    with tempfile.TemporaryDirectory() as folder:
        examples = open_files(run, config, Path(folder))
        if not len(examples):
            where = config.data.train[0].name
            raise DataError("the file contains no examples to evaluate on", where=where)
        return evaluate_examples(
            run, config, net, codecs, names, examples, requested=requested, outcomes=outcomes, checkpoint=checkpoint,
            progress=progress, peers=peers,
        )  # fmt: skip


def evaluate_examples(
    run: RunFolder, config: RunConfig, net: nn.Module, codecs: Any, names: Sequence[str], examples: Examples, *,
    requested: bool = False, outcomes: bool = False, checkpoint: str | None = None,
    progress: ProgressCallback | None = None, peers: ProcessGroup | None = None,
) -> Evaluation:  # fmt: skip
    """Return the metrics of prepared examples, whose config is ``config``; other arguments: see ``evaluate_run``."""
    task = run.task
    predictor_metrics = [name for name in names if name != "loss" and task.metrics[name].by_predictor]
    predictor, began = task.predictor(net, codecs, run.config), time.perf_counter()
    model, device = Trainable(net.eval(), task.objective(run.config)), next(net.parameters()).device
    baseline = task.open_baseline(run, codecs) if peers is None else None
    comparison = None
    if baseline is None:
        strategy = _strategy(device, peers)
        with torch.no_grad():
            sums = objective_sums(model, examples, strategy, done=progress) or {}
        if predictor_metrics:
            sums = sums | (predictor_sums(predictor, examples, predictor_metrics, strategy) or {})
    else:
        groups = network_groups(model, predictor, examples, predictor_metrics, device, progress)
        sums = added(groups)
        comparison = _compare_baseline(task, predictor, baseline, examples, predictor_metrics, groups)
    number, units = _sizes(examples)
    measured = measure_outcomes(task, predictor, examples) if outcomes else None
    return Evaluation(
        figures=_figures(task.compute_metrics(sums), names, run, requested=requested),
        signatures={},
        sums={name: float(value) for name, value in sums.items() if value.numel() == 1},
        tables=dict(task.tables(sums, codecs)),
        settings=dict(task.evaluated_as(config)),
        examples=number,
        checkpoint=str(run.selected(checkpoint)),
        seconds=time.perf_counter() - began,
        outputs=[],
        units=units,
        unit=task.unit,
        baseline=comparison,
        outcomes=measured,
    )


def _compare_baseline(
    task: Task, predictor: Predictor[Any], baseline: TaskBaseline, examples: Examples, names: Sequence[str],
    groups: Sequence[MetricSums],
) -> BaselineComparison | None:  # fmt: skip
    """Compare a network with its baseline by groups of examples, or of the nodes or pairs of one graph.

    Args:
        task: the task.
        predictor: the predictor of the network.
        baseline: the baseline.
        examples: the examples.
        names: the metrics of the predictor.
        groups: the sums of the network by group of examples.
    """
    if task.baseline_outcomes is not None:
        groups = measure_outcomes(task, predictor, examples).groups
        other = measure_values(task.baseline_outcomes(baseline, examples), ()).groups
    else:
        other = baseline_groups(baseline, examples, names)
    if not any(other):  # a baseline without a loss has no sums unless its metrics are requested
        return None
    return compare(task.compute_metrics, baseline.description, groups, other)


def evaluate_outputs(
    run: RunFolder,
    test: ReferenceTest,
    metrics: Sequence[str],
    search: SearchConfig,
    *,
    checkpoint: str | None = None,
    progress: ProgressCallback | None = None,
    peers: ProcessGroup | None = None,
    outcomes: bool = False,
) -> Evaluation:
    """Return the metrics of outputs that are compared with references.

    Args:
        run: the trained run.
        test: the test set.
        metrics: the names of the metrics.
        search: the search settings of the outputs.
        checkpoint: the checkpoint of ``test``.
        progress: called with the number of newly finished inputs.
        peers: the ranks that share the work.
        outcomes: whether to return a row for each line.
    """
    began = time.perf_counter()
    outputs = test.outputs(search, progress or (lambda count: None), peers)
    seconds = time.perf_counter() - began
    scores = [test.score(name, outputs) for name in metrics]
    baseline = _output_baseline(run) if peers is None and not run.is_baseline(checkpoint) else None
    return Evaluation(
        figures={score.metric: score.value for score in scores},
        signatures={score.metric: score.signature for score in scores},
        sums={"distinct_sources": len(test.inputs)},
        tables=dict(test.tables(metrics, outputs)),
        settings=search.model_dump(mode="json", exclude_none=True),
        examples=len(test),
        checkpoint=str(run.selected(checkpoint)),
        seconds=seconds,
        outputs=outputs,
        baseline=None if baseline is None else test.compare_baseline(metrics, outputs, baseline),
        outcomes=MeasuredOutcomes(test.rows(outputs), [], "lines") if outcomes else None,
    )


def _output_baseline(run: RunFolder) -> OutputBaseline | None:
    """Return the baseline of a run whose outputs are compared with references."""
    if not (run.path / FOLDER).is_dir():
        return None
    return cast("OutputBaseline | None", run.task.open_baseline(run, run.task.open(run).codecs))


def _search(base: SearchConfig, settings: Mapping[str, Any]) -> SearchConfig:
    try:
        return override_search(base, **{"nbest": 1, **settings})
    except ValidationError as error:
        raise explain(error, SearchConfig, (), ()) from error


def _sizes(examples: Examples) -> tuple[int, int]:
    """Return the number of examples, and their number of units of the task."""
    batches, weights = examples.batches(None), examples.token_counts()
    return sum(len(batch.index) for batch in batches), sum(int(weights[batch.index].sum()) for batch in batches)


def _set_memory(run: RunFolder, net: nn.Module, memory: int | None) -> None:
    """Set the number of positions in memory of the layers of a network; None keeps the value of training.

    Raises:
        ConfigError: if the network has no memory, or its layers do not support this number.
    """
    if memory is None:
        return
    mixers = [module for module in net.modules() if isinstance(module, SegmentMemory)]
    if not mixers:
        why = "only the mixers segment-memory and compressive have a memory"
        raise ConfigError("`memory` does not apply to this model", where=str(run.path), why=why)
    try:
        for mixer in mixers:
            mixer.set_memory(memory)
    except ValueError as problem:
        raise ConfigError(f"`memory` cannot be {memory}", where=str(run.path), why=str(problem)) from problem


def _strategy(device: torch.device, peers: ProcessGroup | None) -> Strategy:
    """Return the strategy: whole batches in one process; with ranks, the examples of a batch divided among them."""
    workers = Workers(1, torch.get_num_threads())
    if peers is None:
        return Shards(1, workers, device)
    return CanonicalRanks(1 << (peers.world - 1).bit_length(), workers, peers, device)


class EvaluationFiles(NamedTuple):
    """The ``core.task.RunFiles`` of an evaluation: other data than the run's, prepared in another folder."""

    path: Path
    data: Path
    tokenizers: Path
    config: RunConfig
    contents: Mapping[str, str]  # empty: any data is accepted
    makes_codecs: bool = False  # the codecs of the run are used


def config_with_files(run: RunFolder, files: Sequence[Path], settings: Mapping[str, Any]) -> RunConfig:
    """Return the config of a run with these files as its data.

    Args:
        run: the run folder.
        files: the data files.
        settings: changed keys of the section ``data``.

    Raises:
        ConfigError: if the task does not have these settings or does not read such files.
    """
    files = [file for name in files for file in named_files(name)]
    for file in files:
        if not file.exists():
            raise unreadable(file, FileNotFoundError())
    data: Any = run.config.data
    if unknown := [name for name in settings if name not in type(data).model_fields]:
        why = f"the section data of {run.config.task.kind} has no such key"
        raise ConfigError(f"unknown setting {unknown[0]}", where=unknown[0], why=why)
    new_files = {"train": [{"source": str(file)} | _test_part(data, file) for file in files], "valid": None}
    unchanged = data.model_dump(mode="json", exclude={"train", "valid"}, exclude_none=True)
    try:
        changed = type(data).model_validate({**unchanged, **settings, **new_files})
    except ValidationError as error:
        raise explain(error, type(data), (), ()) from error
    return run.config.model_copy(update={"data": changed})


def _test_part(data: Any, file: Path) -> dict[str, Any]:
    """Return the key that selects the test part of a file, if training used a column of parts that the file has."""
    if (selects := getattr(data, "test_part", None)) is not None:
        return dict(selects(file))
    column = next((part[0] for corpus in data.train if (part := getattr(corpus, "part", None)) is not None), None)
    if column is None or not file.is_file() or form_of(file) == "text" or column not in column_names(file):
        return {}
    return {"part": [column, "test"]}


def open_files(run: RunFolder, config: RunConfig, folder: Path) -> Examples:
    """Return the data of ``config`` as examples of the task of the run, prepared in ``folder``."""
    files: Any = EvaluationFiles(run.path, folder, run.tokenizers, config, {})
    return run.task.prepare(files, lambda message: None, None).train


def require_metrics(run: RunFolder, metrics: Sequence[str] | None) -> list[str]:
    """Return the names of the metrics; by default all of the task, or BLEU and chrF of outputs.

    Raises:
        ConfigError: for an unknown metric.
    """
    outputs = run.task.reference_test is not None
    if metrics is None:
        return list(OUTPUT_METRICS if outputs else run.task.metrics)
    names, known = list(metrics), list(run.task.metrics) if outputs else ["loss", *run.task.metrics]
    if outputs and not names:
        raise ConfigError("no metric is named", why=f"the metrics of this task are {', '.join(known)}")
    if unknown := [name for name in names if name not in known]:
        why = f"the metrics of this task are {', '.join(known)}"
        raise ConfigError(f"unknown metric {unknown[0]}", why=why, help=did_you_mean(unknown[0], known))
    return names


def _figures(
    figures: Mapping[str, float], names: Sequence[str], run: RunFolder, *, requested: bool
) -> dict[str, float]:
    """Return the loss and the metrics with these names.

    Raises:
        ConfigError: if a ``requested`` metric is missing; a classifier, for example, has no metrics of numbers.
    """
    missing = [name for name in names if name not in figures]
    if requested and missing:
        why = f"the metrics of {run.path} are {', '.join(figures)}"
        raise ConfigError(f"the metric {missing[0]} is not available for this run", why=why)
    return {name: figures[name] for name in dict.fromkeys(["loss", *names]) if name in figures}
