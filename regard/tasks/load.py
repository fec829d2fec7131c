"""A trained network of any task, opened from its run folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.core.out_of_memory import explain_out_of_memory
from regard.runs.checkpoint import load as read_checkpoint
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import require_fitting

__all__ = ["load"]


def load(path: str | Path, *, checkpoint: str | None = None, device: str | None = None, **options: Any) -> Any:
    """The predictor of a run folder: a ``Translator``, a ``Generator``, … ``regard.load("runs/m30k")("A dog.").text``.

    ``checkpoint``: ``average``, ``best``, ``last`` or a step; the first of these that exists unless given. ``device``:
    as torch names it; CUDA if there is any, else the CPU. ``options`` are the predictor's, such as ``engine`` of a
    Translator. Raises ModelError where the folder is not whole.
    """
    run = RunFolder.open(Path(path))
    task = run.task
    codecs, spec = task.open(run)
    chosen = run.weights_path(checkpoint).path
    build = partial(task.build, run.config, spec)
    require_fitting(chosen, build, layers=run.config.layers)
    where = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with explain_out_of_memory("loading the model", help="close other programs, or take a machine with more memory"):
        weights = read_checkpoint(chosen, only={"model"}).groups["model"]
        net = build()
        net.load_state_dict(weights, strict=False)
        net.to(where)
    return task.predictor(net, codecs, run.config, **options)
