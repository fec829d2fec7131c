"""A trained network of any task, opened from its run folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.out_of_memory import explain_out_of_memory
from regard.core.task import Report
from regard.core.task_table import locate
from regard.errors import ConfigError
from regard.runs.checkpoint import load as read_checkpoint
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import require_fitting
from regard.tasks.automatic_engine import automatic_engine


def ignore(line: str) -> None:
    """A ``Report`` that nobody reads."""


def load(
    path: str | Path, *, checkpoint: str | None = None, device: str | None = None, mapped: bool = False,
    say: Report = ignore, **options: Any,
) -> Any:  # fmt: skip
    """The predictor of a run folder: a ``Translator``, a ``Generator``, … ``regard.load("runs/m30k")("A dog.").text``.

    ``checkpoint``: ``average``, ``best``, ``last`` or a step; the first of these that exists unless given. ``device``:
    as torch names it; CUDA if there is any, else the CPU. ``mapped``: on the CPU, the weights are the checkpoint's own
    pages, which several processes share; nobody may overwrite that file in place. ``options`` are the predictor's, such
    as ``engine`` of a Translator; ``auto`` is the fastest that is exact enough by a trial of seconds, remembered in
    ``engine.json`` of the folder, and ``say`` is told which it is. Raises ModelError where the folder is not whole.
    """
    net, codecs, run = load_net(path, checkpoint=checkpoint, device=device, mapped=mapped)
    if options.get("engine") == "auto":
        options["engine"] = automatic_engine(run, net, codecs, run.weights_path(checkpoint).path, say)
    return run.task.predictor(net, codecs, run.config, **options)


def load_net(
    path: str | Path, *, checkpoint: str | None = None, device: str | None = None, mapped: bool = False
) -> tuple[nn.Module, Any, RunFolder]:
    """The trained network of a run folder, its codecs, and the folder; ``mapped``: see ``load``."""
    run = RunFolder.open(Path(path))
    task = run.task
    codecs, spec = task.open(run)
    chosen = run.weights_path(checkpoint).path
    build = partial(task.build, run.config, spec)
    require_fitting(chosen, build, layers=run.config.layers)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with explain_out_of_memory("loading the model", help="close other programs, or take a machine with more memory"):
        weights = read_checkpoint(chosen, only={"model"}, mapped=mapped).groups["model"]
        net = build()
        if not (mapped and _adopt(net, weights)):
            net.load_state_dict(weights, strict=False)
        net.to(where)
    return net, codecs, run


def _adopt(net: nn.Module, weights: dict[str, Tensor]) -> bool:
    """Let a network compute with tensors as they are, uncopied; False, and nothing done, where one does not fit.

    ``load_state_dict(assign=True)`` would make new parameters, so that a name tied to another kept its old values.
    """
    own = {name: value for name, value in net.state_dict(keep_vars=True).items() if name in weights}
    if any((weights[name].dtype, weights[name].shape) != (value.dtype, value.shape) for name, value in own.items()):
        return False
    for name, value in own.items():
        value.data = weights[name]
    return True


def require_task(run: RunFolder, *kinds: str) -> None:
    """ConfigError where the run is of none of these tasks; it names the verb for what the run is."""
    found = run.config.task.kind
    if found not in kinds:
        raise ConfigError(
            f"this needs a {' or '.join(kinds)} run, and {run.path} is of {found}",
            where=str(run.path),
            help=f"regard {locate(found, saved=True).verb} {run.path} is for it",
        )
