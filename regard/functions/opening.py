"""Loading of a model for one call of a function, and its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.core.predictor import Predictor
from regard.runs.run_folder import RunFolder
from regard.tasks.input_files import inputs_of
from regard.tasks.load import load, require_task
from regard.tasks.prediction import require_settings

RunPath = str | Path


def load_options(
    checkpoint: str | None, device: str | None, threads: int | None, engine: str | None = None
) -> dict[str, Any]:
    """Return the keyword arguments of ``load``, after setting the number of threads."""
    if threads is not None:
        torch.set_num_threads(threads)
    return {"checkpoint": checkpoint, "device": device} | ({} if engine is None else {"engine": engine})


def open_model(run: RunPath, kinds: Sequence[str], loading: Mapping[str, Any]) -> Predictor[Any]:
    """Return the predictor of a run. Raises ConfigError unless its task is one of ``kinds``, or () for any."""
    if kinds:
        require_task(RunFolder.open(Path(run)), *kinds)
    return load(run, **loading)


def predict_with(
    run: RunPath,
    inputs: Any,
    kinds: Sequence[str],
    column: Any,
    loading: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> list[Any]:
    """Load a model and return its outputs."""
    model, chosen = open_model(run, kinds, loading), without_none(settings)
    require_settings(model, chosen)
    return model.predict(inputs_of(model, run, inputs, column), **chosen)


def without_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}
