"""Preparation of a training from its run folder: examples, network, and a plan that is made once.

Measured and counted values (number format, number of updates within the minutes) are written to ``plan.json`` once and
read from there later. A resumed run is therefore the same run. Training adds the decisions of its clock.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, count
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.config.settings import TRAINING_ENDS
from regard.core.out_of_memory import explain_out_of_memory
from regard.core.processor import bfloat16_in_hardware, limit_threads
from regard.core.reference_mode import reference_mode
from regard.core.task import Data, Task, find_task
from regard.core.tensors import kept_buffers
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError
from regard.models.build import mechanism_warnings
from regard.runs import checkpoint
from regard.runs.plan import Plan
from regard.runs.run_config import RunConfig
from regard.runs.run_examples import save_examples
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import require_fitting, require_memory, sketch
from regard.training.adapted_names import AdaptedNames
from regard.training.baseline import fit_baseline
from regard.training.layer_rates import LayerRates
from regard.training.muon import hidden_matrices
from regard.training.optim import make_optimizer
from regard.training.origin import (
    OriginWeights,
    copy_codecs,
    copy_reading_tokenizer,
    origin_weights,
    require_origin,
)
from regard.training.pace import fit, updates_within
from regard.training.reading_part import overlay_weights
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable
from regard.training.trainable import set_trainable, trainable_line
from regard.training.updater import batch_memory

MAX_EPOCHS = 100_000  # limit for train.tokens, whose end requires the order of each epoch
TRIALS = 8  # updates that are timed
BFLOAT16_WIDTH = 64  # narrower networks are not faster in bfloat16
SHARDS = 2  # default number of shards; most machines do not gain from more workers
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class TrainingInputs(NamedTuple):
    """The arguments of ``Trainer``, and its initial weights; ``steps``: number of updates, None if unknown."""

    net: nn.Module
    data: Data
    steps: int | None
    start: Mapping[str, Tensor] | None = None  # initial weights from another run


def require_trainable(config: RunConfig) -> None:
    """Raise errors that would otherwise appear only after the data is prepared. Takes seconds.

    Raises:
        ConfigError: training has no end, or the model cannot be built.
        TrainingError: the model does not fit into the memory of this machine.
    """
    _require_data(config)
    if config.start is not None:
        require_origin(config.start.origin)
    settings = config.train
    if all(getattr(settings, key) is None for key in TRAINING_ENDS):
        raise ConfigError(
            "the training has no end",
            where="train",
            why="steps, epochs, minutes, tokens and early_stopping are all unset",
            help="set an end: --set train.epochs=20, train.steps=5000 or train.minutes=30",
        )
    task = find_task(config.task.kind)
    net = _sketch(task, config, task.small_spec)
    require_memory(net)
    _shards(config, net)
    _require_matrices(config, net)
    _require_layers(config, net)


def set_up(
    run: RunFolder, *, log: Callable[[str], None], progress: Callable[[int], None] | None = None, ranks: int = 1
) -> TrainingInputs:
    """Prepare or reopen everything that training needs.

    Args:
        run: the run folder.
        log: receives messages about the preparation and about omitted data.
        progress: called with the number of prepared examples.
        ranks: number of ranks that share an update, which has at least as many shards. Rank 0 calls this first; the
            other ranks then only open the files.
    """
    config = run.config
    if config.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS before its first product
    if torch.are_deterministic_algorithms_enabled() != config.train.deterministic:
        torch.use_deterministic_algorithms(config.train.deterministic)  # takes seconds: it imports the compiler
    limit_threads(config.train.threads)
    data = prepare(run, log=log, progress=progress)
    task = run.task
    _require_sizes(run, task, data.spec)
    start = _start(run, data.spec)
    plan = run.read_plan()
    begins = plan is None
    if plan is None:
        data.train.batches(0)  # raises DataError for an example that fits no batch, before a plan is written
        if config.train.baseline:
            fit_baseline(run, data, log)
        plan = _make_plan(run, task, data, ranks)
        plan = plan if start is None else plan.model_copy(update={"origin": start.planned})
        run.write_plan(plan)
        for message in _plan_lines(plan):
            log(message)
    if config.train.precision == "bfloat16" and _device().type == "cpu" and not bfloat16_in_hardware():
        log("warning: this processor emulates bfloat16; train.precision = auto uses float32")
    torch.set_num_threads(plan.all_threads(config.train.workers))  # of the optimizer and of validation
    net = _build(task, config, data.spec, plan.precision)
    if task.initialize is not None and not checkpoint.list_steps(run.checkpoints):
        task.initialize(run, net, data)
    if plan.shards is None and config.train.workers > 1 and kept_buffers(net):
        raise _depends_on_passes("train.workers")
    for message in (*(_optimizer_lines(config, net) if begins else ()), *_warnings(net, data.longest)):
        log(message)
    if start is None:
        return TrainingInputs(net, data, plan.steps)
    log(str(start))
    return TrainingInputs(net, data, plan.steps, overlay_weights(net, AdaptedNames(net).own(start.weights)))


def _start(run: RunFolder, spec: Mapping[str, int]) -> OriginWeights | None:
    """Return the initial weights from another run; None once the run has a checkpoint."""
    start = run.config.start
    return None if start is None or checkpoint.list_steps(run.checkpoints) else origin_weights(run, start, spec)


def rehearse(run: RunFolder, *, progress: Callable[[int], None] | None = None) -> list[str]:
    """Do everything before the first update except measurements, and return the warnings.

    Raises the errors of ``require_trainable`` and ``set_up``.
    """
    require_trainable(run.config)
    data = prepare(run, log=lambda message: None, progress=progress)
    data.train.batches(0)
    return _warnings(_sketch(run.task, run.config, data.spec), data.longest)


def prepare(run: RunFolder, *, log: Callable[[str], None], progress: Callable[[int], None] | None = None) -> Data:
    """Prepare the examples of a run, or reopen them."""
    _require_data(run.config)
    start = run.config.start
    if start is not None and run.contents is None:
        (copy_codecs if start.part == "all" else copy_reading_tokenizer)(run, start.origin)
    data = run.task.prepare(run, log, progress)
    save_examples(run, data)
    return data


def _require_data(config: RunConfig) -> None:
    if not config.data.train:
        raise ConfigError(
            "the config names no training data",
            where="data.train",
            why="data.train is empty, as in imported and exported models",
            help="set data.train; regard translate, score, evaluate and serve work without it",
        )


def _warnings(net: nn.Module, longest: int) -> list[str]:
    """Return warnings about settings that are unsuitable for sequences of this length; none is an error."""
    return [f"warning: {text}" for text in mechanism_warnings(net, longest)]


def _shards(config: RunConfig, net: nn.Module, ranks: int = 1) -> int:
    """Return the number of shards of an update: the configured one, else two, or the workers of all ranks if more.

    One for a network whose buffers each pass updates; then ConfigError if the config requests more. ConfigError also
    for more workers than shards.
    """
    settings = config.train
    if kept_buffers(net):
        if settings.workers > 1 or (settings.shards or 1) > 1:
            raise _depends_on_passes("train.workers" if settings.workers > 1 else "train.shards")
        return 1
    fewest = 1 << (settings.workers * ranks - 1).bit_length()
    shard_count = settings.shards or max(SHARDS, fewest)
    if settings.workers > shard_count:
        raise ConfigError(
            f"{settings.workers} workers cannot share {shard_count} shards",
            where="train.shards",
            why="each worker needs at least one whole shard",
            help=f"use more shards: --set train.shards={fewest}; or lower train.workers",
        )
    return shard_count


def _depends_on_passes(where: str) -> ConfigError:
    return ConfigError(
        "the model cannot be trained with several passes per update",
        where=where,
        why="its buffers, such as BatchNorm's running statistics, would depend on the order of passes",
        help=f"--set {where}=1",
    )


def _plan_lines(plan: Plan) -> Iterator[str]:
    yield f"number format {plan.precision}" + (f", {pluralize(plan.steps, 'update')} planned" if plan.steps else "")
    if plan.fit is not None and plan.steps is not None and plan.fit.warmup > max(plan.steps - 1, 1):
        yield (
            f"warning: the warm-up of {pluralize(plan.fit.warmup, 'update')} is longer than the training of "
            f"{plan.steps:,}; shorten it: --set train.warmup={plan.steps // 10}"
        )


def _require_layers(config: RunConfig, net: nn.Module) -> None:
    """Raise ConfigError if rates depend on the layer, and the network has no layers."""
    settings = config.train
    key = "layer_decay" if settings.layer_decay != 1 else "unfreeze_every" if settings.unfreeze_every else None
    if key is not None and not any(LayerRates([name for name, _ in net.named_parameters()]).layers_above):
        why = "rates and unfreezing by layer require an encoder or decoder with layers"
        raise ConfigError("the network has no layers", where=f"train.{key}", why=why, help=f"remove train.{key}")


def _require_matrices(config: RunConfig, net: nn.Module) -> None:
    """Raise ConfigError for an optimizer of hidden matrices if the network has no hidden matrices."""
    trained = {name for name, p in net.named_parameters() if p.requires_grad}
    if config.train.optimizer == "muon" and not trained & hidden_matrices(net).keys():
        raise ConfigError(
            '`optimizer = "muon"`: the network has no matrix that Muon can update',
            where="train.optimizer",
            why="Muon updates hidden matrices only, not embeddings, the output projection, vectors or filters",
            help="use AdamW: --set train.optimizer=adamw",
        )


def _optimizer_lines(config: RunConfig, net: nn.Module) -> Iterator[str]:
    """Yield lines about frozen weights, and about the division of the others between two optimizers."""
    if (line := trainable_line(config, net)) is not None:
        yield line
    if config.train.optimizer == "muon":
        sizes = {name: p.numel() for name, p in net.named_parameters() if p.requires_grad}
        stacked = {name: number for name, number in hidden_matrices(net).items() if name in sizes}
        yield (
            f"muon updates {sum(sizes[name] for name in stacked):,} parameters, in {sum(stacked.values()):,} hidden "
            f"matrices; adamw updates the other {sum(sizes[name] for name in sizes.keys() - stacked.keys()):,}"
        )


def _require_sizes(run: RunFolder, task: Task, spec: Mapping[str, int]) -> None:
    """Check, before a model is built, that it fits into memory and matches the newest readable checkpoint."""
    build = partial(task.build, run.config, spec)
    require_memory(_sketch(task, run.config, spec))
    for step in reversed(checkpoint.list_steps(run.checkpoints)):
        path = checkpoint.step_path(run.checkpoints, step)
        try:
            checkpoint.shapes(path, "model")
        except ModelError:
            continue  # reported on resuming, which then uses the previous one
        require_fitting(path, build, layers=run.config.layers)
        return


def _build(task: Task, config: RunConfig, spec: Mapping[str, int], precision: str) -> nn.Module:
    torch.manual_seed(config.seed)
    with explain_out_of_memory("building the model", help="lower model.width, model.feed_forward or the layers"):
        net = task.build(config, spec)
        set_trainable(config, net)
        return net.to(device=_device(), dtype=DTYPES[precision])


def _sketch(task: Task, config: RunConfig, spec: Mapping[str, int]) -> nn.Module:
    """Return the network of a training with shapes only."""
    net = sketch(partial(task.build, config, spec))
    set_trainable(config, net)
    return net


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _make_plan(run: RunFolder, task: Task, data: Data, ranks: int) -> Plan:
    config, settings = run.config, run.config.train
    precision = _precision(config)
    shards = _shards(config, _sketch(task, config, data.spec), ranks)
    threads = max(torch.get_num_threads() // settings.workers, 1)
    seconds = 0.0
    if settings.minutes is not None:
        with batch_memory("timing an update", config):
            timing = Shards(shards, Workers(settings.workers, threads), _device())
            seconds = _time_update(config, task, data, precision, timing) / ranks
    limits, fitting = counted_ends(config, data), None
    if settings.minutes is not None:
        fitting = updates_within(settings.minutes, seconds)
    steps = min([*limits, *([fitting] if fitting is not None else [])], default=None)
    return Plan(
        precision=precision,
        steps=steps,
        threads=threads,
        shards=shards,
        seconds_per_update={precision: seconds},
        spec=data.spec,
        corpora=data.contents,
        max_steps=min(limits, default=None),
        fit=fit(settings, planned_updates(steps, config, data), updates_per_epoch(config, data)),
        decisions=None if fitting is None else [],
    )


def _precision(config: RunConfig) -> Literal["float32", "bfloat16"]:
    """Return the number format of a training: bfloat16 if the processor multiplies it and the network is wide enough.

    It does not depend on a measurement, so equal configs compute equal bits on equal processors.
    """
    settings = config.train
    if settings.precision != "auto":
        return settings.precision
    if settings.engine == "reference" or config.width < BFLOAT16_WIDTH:
        return "float32"
    in_hardware = bfloat16_in_hardware() if _device().type == "cpu" else torch.cuda.is_bf16_supported()
    return "bfloat16" if in_hardware else "float32"


def counted_ends(config: RunConfig, data: Data) -> list[int]:
    """Return the updates at which ``train.steps`` and ``train.tokens`` end the training, as far as they are set.

    ``train.epochs`` too for the schedule ``linear``, which must know its last update.
    """
    settings = config.train
    ends = [] if settings.steps is None else [settings.steps]
    if settings.tokens is not None:
        ends.append(updates_of(settings.tokens, config, data))
    if settings.epochs is not None and settings.schedule == "linear":
        ends.append(settings.epochs * updates_per_epoch(config, data))
    return ends


def updates_per_epoch(config: RunConfig, data: Data) -> int:
    """Return the number of updates of the first epoch."""
    return math.ceil(len(data.train.batches(0)) / config.train.accumulate)


def planned_updates(steps: int | None, config: RunConfig, data: Data) -> int | None:
    """Return the number of updates of a training that is not stopped early; None if unknown."""
    if config.train.epochs is None:
        return steps
    by_epochs = config.train.epochs * updates_per_epoch(config, data)
    return by_epochs if steps is None else min(steps, by_epochs)


def updates_of(tokens: int, config: RunConfig, data: Data) -> int:
    """Return the first update after which ``tokens`` have been used for training.

    Takes the time of ordering each epoch. ConfigError if this exceeds ``MAX_EPOCHS`` epochs.
    """
    epoch = int(data.train.token_counts().sum())
    if tokens > MAX_EPOCHS * epoch:
        why = f"an epoch has {pluralize(epoch, 'token')}, and {MAX_EPOCHS:,} epochs are the limit"
        help = f"lower it: --set train.tokens={MAX_EPOCHS * epoch}; or use train.epochs"
        raise ConfigError(f"too few training data for {tokens:,} tokens", where="train.tokens", why=why, help=help)
    seen = accumulate(_tokens_by_update(config, data))
    return next(updates for updates, total in enumerate(seen, start=1) if total >= tokens)


def _tokens_by_update(config: RunConfig, data: Data) -> Iterator[int]:
    """Yield the tokens that count in the loss for each update of an endless training."""
    tokens, together = data.train.token_counts(), config.train.accumulate
    for epoch in count():
        plan = data.train.batches(epoch)
        for start in range(0, len(plan), together):
            yield sum(int(tokens[batch.index].sum()) for batch in plan[start : start + together])


def _time_update(config: RunConfig, task: Task, data: Data, precision: str, shards: Shards) -> float:
    """Return the mean seconds of an update in a number format, without the first one, on a temporary model."""
    net = _build(task, config, data.spec, precision)
    model, optimizer = Trainable(net, task.objective(config)), make_optimizer(net, config.train)
    times = []
    for batch in data.train.batches(0)[: TRIALS + 1]:
        started = time.perf_counter()
        with reference_mode(config.train.engine == "reference"):
            gradient = shards.gradient(model, data.train, [batch], {}, seed=(0,))
        optimizer.step(1e-6, gradient.values)
        times.append(time.perf_counter() - started)
    measured = times[1:] or times
    return sum(measured) / len(measured) * config.train.accumulate
