"""Loading of a trained model of any task from its run folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_origin, overload

import torch
from torch import Tensor, nn

from regard.core.out_of_memory import explain_out_of_memory
from regard.core.predictor import LoadCall, Predictor
from regard.core.processor import limit_threads
from regard.core.task import Report
from regard.core.task_table import locate
from regard.core.tensors import require_device
from regard.errors import ConfigError
from regard.inference.decoding import require_engine
from regard.runs.baseline_choice import read_choice
from regard.runs.checkpoint import load as read_checkpoint
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import require_fitting
from regard.tasks.automatic_engine import automatic_engine

Loaded = TypeVar("Loaded", bound=Predictor[Any])


def ignore(line: str) -> None:
    """Ignore a line: the default ``Report``."""


@overload
def load(
    path: str | Path, kind: type[Loaded], *, checkpoint: str | None = None, device: str | None = None,
    mapped: bool = False, ensemble: Sequence[str | Path] = (), log: Report = ignore, **options: Any,
) -> Loaded: ...  # fmt: skip


@overload
def load(
    path: str | Path, kind: None = None, *, checkpoint: str | None = None, device: str | None = None,
    mapped: bool = False, ensemble: Sequence[str | Path] = (), log: Report = ignore, **options: Any,
) -> Predictor[Any]: ...  # fmt: skip


def load(
    path: str | Path, kind: Any = None, *, checkpoint: str | None = None, device: str | None = None,
    mapped: bool = False, ensemble: Sequence[str | Path] = (), log: Report = ignore, **options: Any,
) -> Any:  # fmt: skip
    """Return the predictor of a run folder, such as a ``Translator``: ``regard.load("runs/m30k")("A dog.").text``.

    Args:
        path: the run folder.
        kind: the expected class, for type checkers: ``regard.load("runs/m30k", regard.Translator)`` is a
            ``Translator``, and ``regard.SupervisedPredictor[regard.Classification]`` names its outputs, too.
        checkpoint: ``average``, ``best``, ``last`` or a step. Default: the first of these names that exists.
            ``baseline``, the default of a run that chose it: the baseline alone, for tasks that support it.
        device: the name of a torch device. Default: CUDA if available, else the CPU.
        mapped: memory-map the weights on the CPU, to share them between processes. The checkpoint must not be
            overwritten in place.
        ensemble: further runs of the task, with equal vocabularies: at each step of a search, the probabilities of all
            models are averaged. For translation and language models.
        log: receives the engine that ``engine="auto"`` chose.
        options: options of the predictor, such as ``engine`` of a Translator. ``engine="auto"`` chooses the fastest
            engine that is accurate enough, by a trial of a few seconds whose result is saved in ``engine.json``.

    Raises:
        ConfigError: if the predictor is not of that class, or for an unknown device or engine.
        ModelError: if the run folder is incomplete or damaged.
    """
    if options.get("engine") is not None:
        require_engine(options["engine"])
    run = RunFolder.open(Path(path))
    loading: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "mapped": mapped, **options}
    predictor = _baseline(run) if run.is_baseline(checkpoint) else _predictor(run, log, **loading)
    if ensemble:
        predictor = _ensemble(run, predictor, [load(other, **loading) for other in ensemble])
        loading["ensemble"] = [str(Path(other).absolute()) for other in ensemble]
    if isinstance(predictor, Predictor):
        predictor.origin = LoadCall(load, run, loading)
    expected = get_origin(kind) or kind
    if expected is not None and not isinstance(predictor, expected):
        what = f"the predictor of {path} is a {type(predictor).__name__}, not a {expected.__name__}"
        raise ConfigError(what, where=str(path), why=f"the task of the run is {run.config.task.kind}")
    return predictor


def _predictor(
    run: RunFolder, log: Report, *, checkpoint: str | None, device: str | None, mapped: bool, **options: Any
) -> Any:
    """Return the predictor of the network of a run."""
    net, codecs, _ = load_net(run.path, checkpoint=checkpoint, device=device, mapped=mapped)
    if options.get("engine") == "auto":
        options["engine"] = automatic_engine(run, net, codecs, run.weights_path(checkpoint).path, log)
    predictor = run.task.predictor(net, codecs, run.config, **options)
    return predictor if checkpoint is not None else _with_memory(run, codecs, predictor)


def _with_memory(run: RunFolder, codecs: Any, predictor: Any) -> Any:
    """Return the predictor with the baseline for near inputs, if the run chose that.

    A published run has no baseline of training texts; its model is the network alone.
    """
    choice, make = read_choice(run.path), run.task.with_memory
    if choice is None or choice.memory is None or make is None or not run.uses_memory():
        return predictor
    return make(run, codecs, predictor, choice.memory.threshold)


def _ensemble(run: RunFolder, predictor: Any, further: Sequence[Any]) -> Any:
    """Return one predictor of several. Raises ConfigError if the task does not support it."""
    make = run.task.ensemble
    if make is None:
        what = f"models of the task {run.task.name} cannot be an ensemble"
        raise ConfigError(what, where="ensemble", why="their outputs are not searched step by step")
    if wrong := next((other.origin.run for other in further if other.origin.run.task.name != run.task.name), None):
        raise ConfigError(
            "the models have different tasks", where=str(wrong.path), why=f"its task is {wrong.task.name}"
        )
    return make([predictor, *further])


def _baseline(run: RunFolder) -> Any:
    """Return the predictor of the baseline alone; raise ConfigError if the task does not support it."""
    make = run.task.baseline_predictor
    if make is None:
        why = f"a run of the task {run.task.name} has checkpoints of a network only"
        raise ConfigError("the baseline cannot be used alone", where=str(run.path), why=why, help="--checkpoint best")
    return make(run, run.task.open(run).codecs)


def load_net(
    path: str | Path, *, checkpoint: str | None = None, device: str | None = None, mapped: bool = False
) -> tuple[nn.Module, Any, RunFolder]:
    """Return the trained network of a run folder, its codecs, and the folder.

    Args:
        path: the run folder.
        checkpoint: see ``load``.
        device: see ``load``.
        mapped: see ``load``.
    """
    limit_threads()
    if device is not None:
        require_device(device)
    run = RunFolder.open(Path(path))
    task = run.task
    codecs, spec = task.open(run)
    chosen = run.weights_path(checkpoint).path
    build = partial(task.build, run.config, spec)
    require_fitting(chosen, build, layers=run.config.layers)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with explain_out_of_memory("loading the model", help="close other programs, or use a machine with more memory"):
        weights = read_checkpoint(chosen, only={"model"}, mapped=mapped).groups["model"]
        net = build()
        if not (mapped and _adopt(net, weights)):
            net.load_state_dict(weights, strict=False)
        net.to(where)
    return net, codecs, run


def _adopt(net: nn.Module, weights: dict[str, Tensor]) -> bool:
    """Make a network use tensors without a copy; return False, without a change, if a type or shape differs.

    ``load_state_dict(assign=True)`` would create new parameters, and a tied parameter would keep its old values.
    """
    own = {name: value for name, value in net.state_dict(keep_vars=True).items() if name in weights}
    if any((weights[name].dtype, weights[name].shape) != (value.dtype, value.shape) for name, value in own.items()):
        return False
    for name, value in own.items():
        value.data = weights[name]
    return True


def require_task(run: RunFolder, *kinds: str) -> None:
    """Raise ConfigError if the task of the run is not one of these; the help names the verb of its task."""
    kind = run.config.task.kind
    if kind not in kinds:
        raise ConfigError(
            f"this verb requires a {' or '.join(kinds)} run; the task of {run.path} is {kind}",
            where=str(run.path),
            help=f"use regard {locate(kind, saved=True).verb} {run.path}",
        )
