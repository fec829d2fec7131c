"""From a run folder to everything training needs: examples, a network, and a plan made once.

What is measured (the number format, how many updates fit into the minutes) or counted is written to ``plan.json``
the first time and read from there ever after, so that a resumed run is the same run. Training adds what its
clock decides.
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
from regard.core.processor import bfloat16_in_hardware
from regard.core.reference_mode import reference_mode
from regard.core.task import Data, Task, find_task
from regard.core.tensors import kept_buffers
from regard.core.wording import pluralize, pluralize_with_verb
from regard.errors import ConfigError, ModelError
from regard.models.build import mechanism_warnings
from regard.models.hidden_matrices import hidden_matrices
from regard.runs import checkpoint
from regard.runs.plan import Plan
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import outline, require_fitting, require_room
from regard.training.optim import make_optimizer
from regard.training.origin import (
    OriginWeights,
    copy_codecs,
    copy_reading_tokenizer,
    origin_weights,
    require_origin,
)
from regard.training.pace import fit, updates_within
from regard.training.reading_part import freeze, laid_over
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable
from regard.training.updater import batch_memory

MAX_EPOCHS = 100_000  # of train.tokens, whose end is found by ordering each epoch
TRIALS = 8  # updates timed per number format
SHARDS = 2  # unless given: as many as the workers that most machines gain from
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class TrainingInputs(NamedTuple):
    """The arguments of ``Trainer``, and what it starts from; ``steps``: updates, None where nobody knows how many."""

    net: nn.Module
    data: Data
    steps: int | None
    start: Mapping[str, Tensor] | None = None  # weights of another run, where training begins with them


def require_trainable(config: RunConfig) -> None:
    """ConfigError for what would only show once the data is prepared: no end, a model that cannot be built. Seconds.

    TrainingError for a model that this machine has no room for.
    """
    _require_data(config)
    if config.start is not None:
        require_origin(config.start.origin)
    settings = config.train
    if all(getattr(settings, key) is None for key in TRAINING_ENDS):
        raise ConfigError(
            "this training would never end",
            where="train",
            why="it has neither steps nor epochs, minutes, tokens or early_stopping",
            help="say how long: --set train.epochs=20, train.steps=5000 or train.minutes=30",
        )
    task = find_task(config.task.kind)
    build = partial(task.build, config, task.small_spec)
    require_room(outline(build))
    with torch.device("meta"):  # shapes alone: no memory, whatever the size
        net = build()
    _shards(config, net)
    _require_matrices(config, net)


def set_up(
    run: RunFolder, *, say: Callable[[str], None], progress: Callable[[int], None] | None = None, ranks: int = 1
) -> TrainingInputs:
    """Prepare or reopen all of it. ``say`` is told what was done and what was left out of the data.

    ``ranks``: how many will share an update, which is cut into at least so many shards. The first of them calls this
    before the others, which then find everything made.
    """
    config = run.config
    if config.train.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS asks for it, before its first product
    if torch.are_deterministic_algorithms_enabled() != config.train.deterministic:
        torch.use_deterministic_algorithms(config.train.deterministic)  # costs seconds: it imports the compiler
    if config.train.threads is not None:
        torch.set_num_threads(config.train.threads)
    data = prepare(run, say=say, progress=progress)
    task = run.task
    _require_sizes(run, task, data.spec)
    start = _start(run, data.spec)
    plan = run.read_plan()
    begins = plan is None
    if plan is None:
        data.train.batches(0)  # DataError for an example that fits into no batch, before there is a plan to agree with
        plan = _make_plan(run, task, data, ranks)
        plan = plan if start is None else plan.model_copy(update={"origin": start.planned})
        run.write_plan(plan)
        for message in _about(plan):
            say(message)
    if config.train.precision == "bfloat16" and _device().type == "cpu" and not bfloat16_in_hardware():
        say("warning: this processor emulates bfloat16: train.precision = auto takes float32 on it")
    torch.set_num_threads(plan.threads)
    net = _build(task, config, data.spec, plan.precision)
    kept = _freeze(config, net)
    if begins and kept:
        say(f"{pluralize_with_verb(kept, 'weight', 'stays', 'stay')} frozen in the encoder; {_learned(net):,} learn")
    if plan.shards is None and config.train.workers > 1 and kept_buffers(net):
        raise _depends_on_passes("train.workers")
    for message in (*(_dealt(config, net) if begins else ()), *_warnings(net, data.longest)):
        say(message)
    if start is not None:
        say(str(start))
    return TrainingInputs(net, data, plan.steps, None if start is None else laid_over(net, start.weights))


def _start(run: RunFolder, spec: Mapping[str, int]) -> OriginWeights | None:
    """The weights of another run that this one begins with; None once it has a checkpoint of its own."""
    start = run.config.start
    return None if start is None or checkpoint.list_steps(run.checkpoints) else origin_weights(run, start, spec)


def _freeze(config: RunConfig, net: nn.Module) -> int:
    """Take from training what the config wants left as it came, and return how many weights that are."""
    sides = [getattr(net_config, "encoder", None) for net_config in map(partial(getattr, config), config.nets())]
    return sum(freeze(net, side) for side in sides if side is not None)


def _learned(net: nn.Module) -> int:
    return sum(each.numel() for each in net.parameters() if each.requires_grad)


def rehearse(run: RunFolder, *, progress: Callable[[int], None] | None = None) -> list[str]:
    """All that comes before the first update but for what is measured; returns the warnings.

    Raises what ``set_up`` would, with ``require_trainable`` before it.
    """
    require_trainable(run.config)
    data = prepare(run, say=lambda message: None, progress=progress)
    data.train.batches(0)
    with torch.device("meta"):
        net = run.task.build(run.config, data.spec)
    return _warnings(net, data.longest)


def prepare(run: RunFolder, *, say: Callable[[str], None], progress: Callable[[int], None] | None = None) -> Data:
    """The examples of a run, made or opened again."""
    _require_data(run.config)
    start = run.config.start
    if start is not None and run.contents is None:
        (copy_codecs if start.part == "all" else copy_reading_tokenizer)(run, start.origin)
    return run.task.prepare(run, say, progress)


def _require_data(config: RunConfig) -> None:
    if not config.data.train:
        raise ConfigError(
            "there is nothing to learn from",
            where="data.train",
            why="no corpus is named; a model that was imported, or exported to be given away, has none",
            help="regard translate, score, evaluate and serve need none",
        )


def _warnings(net: nn.Module, longest: int) -> list[str]:
    """Lines that report what suits the sequences badly; none is an error."""
    return [f"warning: {text}" for text in mechanism_warnings(net, longest)]


def _shards(config: RunConfig, net: nn.Module, ranks: int = 1) -> int:
    """Number of shards of an update: that of the config, else two or as many as workers of all ranks.

    One for a network that a pass over a batch changes. ConfigError for more of anything there, and for more workers
    than shards.
    """
    settings = config.train
    if kept_buffers(net):
        if settings.workers > 1 or (settings.shards or 1) > 1:
            raise _depends_on_passes("train.workers" if settings.workers > 1 else "train.shards")
        return 1
    fewest = 1 << (settings.workers * ranks - 1).bit_length()
    number = settings.shards or max(SHARDS, fewest)
    if settings.workers > number:
        raise ConfigError(
            f"{settings.workers} workers have no more than {number} shards to take",
            where="train.shards",
            why="an update is cut into shards, and a worker takes whole ones",
            help=f"--set train.shards={fewest}, or fewer train.workers",
        )
    return number


def _depends_on_passes(where: str) -> ConfigError:
    return ConfigError(
        "this model cannot be trained in several passes an update",
        where=where,
        why="what a batch leaves in it, such as BatchNorm's running statistics, would depend on who was first",
        help=f"--set {where}=1",
    )


def _about(plan: Plan) -> Iterator[str]:
    yield f"computing in {plan.precision}" + (f", {pluralize(plan.steps, 'update')}" if plan.steps else "")
    if plan.fit is not None and plan.steps is not None and plan.fit.warmup > max(plan.steps - 1, 1):
        yield (
            f"warning: the warm-up of {pluralize(plan.fit.warmup, 'update')} is not over when training ends, after "
            f"{plan.steps:,}; --set train.warmup={plan.steps // 10} makes it fit"
        )


def _require_matrices(config: RunConfig, net: nn.Module) -> None:
    """ConfigError for an optimizer of hidden matrices where the network has none."""
    if config.train.optimizer == "muon" and not hidden_matrices(net):
        raise ConfigError(
            "muon has nothing to do in this network",
            where="train.optimizer",
            why="it is for hidden matrices, and embeddings, the output projection, vectors and filters are none",
            help="--set train.optimizer=adamw",
        )


def _dealt(config: RunConfig, net: nn.Module) -> Iterator[str]:
    """A line about who updates what, where two optimizers share a network."""
    if config.train.optimizer == "muon":
        stacked, sizes = hidden_matrices(net), {name: each.numel() for name, each in net.named_parameters()}
        yield (
            f"muon updates {sum(sizes[name] for name in stacked):,} parameters, in {sum(stacked.values()):,} hidden "
            f"matrices; adamw the other {sum(sizes[name] for name in sizes.keys() - stacked.keys()):,}"
        )


def _require_sizes(run: RunFolder, task: Task, spec: Mapping[str, int]) -> None:
    """Before a model is built: there is room for it, and the newest checkpoint that can be read is of such a model."""
    build = partial(task.build, run.config, spec)
    require_room(outline(build))
    for step in reversed(checkpoint.list_steps(run.checkpoints)):
        path = checkpoint.step_path(run.checkpoints, step)
        try:
            checkpoint.shapes(path, "model")
        except ModelError:
            continue  # resuming tells of it, and goes to the one before
        require_fitting(path, build, layers=run.config.layers)
        return


def _build(task: Task, config: RunConfig, spec: Mapping[str, int], precision: str) -> nn.Module:
    torch.manual_seed(config.seed)
    with explain_out_of_memory("building the model", help="lower model.width, model.feed_forward or the layers"):
        return task.build(config, spec).to(device=_device(), dtype=DTYPES[precision])


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _make_plan(run: RunFolder, task: Task, data: Data, ranks: int) -> Plan:
    config, settings = run.config, run.config.train
    formats: list[Literal["float32", "bfloat16"]] = ["float32", "bfloat16"]
    if settings.precision != "auto":
        formats = [settings.precision]
    elif settings.engine == "reference" or (_device().type == "cpu" and not bfloat16_in_hardware()):
        formats = ["float32"]  # emulated, bfloat16 is at best as quick, and loses bits
    with torch.device("meta"):
        shards = _shards(config, task.build(config, data.spec), ranks)
    threads = max(torch.get_num_threads() // settings.workers, 1)
    timed = len(formats) > 1 or settings.minutes is not None
    with batch_memory("timing an update", config):
        timing = Shards(shards, Workers(settings.workers, threads), _device())
        seconds = {name: _time_update(config, task, data, name, timing) / ranks if timed else 0.0 for name in formats}
    precision = min(formats, key=lambda name: seconds[name])
    others = [settings.steps] if settings.steps is not None else []
    if settings.tokens is not None:
        others.append(updates_of(settings.tokens, config, data))
    fitting = None
    if settings.minutes is not None:
        fitting = updates_within(settings.minutes, seconds[precision])
    steps = min([*others, *([fitting] if fitting is not None else [])], default=None)
    return Plan(
        precision=precision,
        steps=steps,
        threads=threads,
        shards=shards,
        seconds_per_update=seconds,
        spec=data.spec,
        corpora=data.contents,
        most=min(others, default=None),
        fit=fit(settings, planned_updates(steps, config, data)),
        decisions=None if fitting is None else [],
    )


def planned_updates(steps: int | None, config: RunConfig, data: Data) -> int | None:
    """The updates of a training that nothing ends early; None where nobody knows."""
    if config.train.epochs is None:
        return steps
    by_epochs = config.train.epochs * math.ceil(len(data.train.batches(0)) / config.train.accumulate)
    return by_epochs if steps is None else min(steps, by_epochs)


def updates_of(tokens: int, config: RunConfig, data: Data) -> int:
    """Return the first update after which ``tokens`` have been learned from. Takes as long as ordering each epoch.

    ConfigError for tokens of more than ``MAX_EPOCHS`` epochs.
    """
    epoch = int(data.train.token_counts().sum())
    if tokens > MAX_EPOCHS * epoch:
        why = f"an epoch has {pluralize(epoch, 'token')}, and {MAX_EPOCHS:,} epochs are the limit"
        help = f"--set train.tokens={MAX_EPOCHS * epoch}, or train.epochs instead"
        raise ConfigError(f"the training data cannot give {tokens:,} tokens", where="train.tokens", why=why, help=help)
    seen = accumulate(_tokens_by_update(config, data))
    return next(updates for updates, total in enumerate(seen, start=1) if total >= tokens)


def _tokens_by_update(config: RunConfig, data: Data) -> Iterator[int]:
    """Tokens that count in the loss, in each update of a training that does not end."""
    tokens, together = data.train.token_counts(), config.train.accumulate
    for epoch in count():
        plan = data.train.batches(epoch)
        for start in range(0, len(plan), together):
            yield sum(int(tokens[batch.index].sum()) for batch in plan[start : start + together])


def _time_update(config: RunConfig, task: Task, data: Data, precision: str, shards: Shards) -> float:
    """Seconds of one update in a number format, on a model that is thrown away: the mean of a few, after a first."""
    net = _build(task, config, data.spec, precision)
    model, optimizer = Trainable(net, task.objective(config)), make_optimizer(net, config.train)
    times = []
    for batch in data.train.batches(0)[: TRIALS + 1]:
        started = time.perf_counter()
        with reference_mode(config.train.engine == "reference"):
            found = shards.gradient(model, data.train, [batch], {}, seed=(0,))
        optimizer.step(1e-6, found.values)
        times.append(time.perf_counter() - started)
    measured = times[1:] or times
    return sum(measured) / len(measured) * config.train.accumulate
