"""Choice of the engine of a run by a trial on its validation data; the run folder stores the measurements."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from regard.core.task import Report
from regard.inference.decoding import Engine
from regard.inference.engine_choice import EngineTrials, choose, explain, kernel_set, measure
from regard.inference.remembered_choice import exclusive, load_choice, save_choice
from regard.runs.run_folder import RunFolder, environment

CONDITIONS = ("regard", "torch", "processor", "vector_instructions", "threads")


def automatic_engine(
    run: RunFolder, net: nn.Module, codecs: Any, checkpoint: Path, log: Report,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine | None:  # fmt: skip
    """Return the fastest engine that is accurate enough for a run on this machine, and log the reason.

    Returns:
        The engine; None if the model has fewer than two.
    """
    if run.task.engine_trials is None:
        return None
    trials: EngineTrials = run.task.engine_trials(run, net, codecs)
    names = trials.candidates()
    if len(names) < 2:
        return None
    key = _key(checkpoint)
    with exclusive(run.path):
        measured = load_choice(run.path, key)
        if measured is None or set(measured) != set(names):
            lines = trials.lines()
            if lines is None:
                log(f"engine float32: {run.data} has no prepared lines for a trial of other engines")
                return "float32"
            measured = measure({name: trials.trial(name, lines) for name in names}, clock)
            save_choice(run.path, key, measured)
    log(explain(measured))
    return choose(measured)


def _key(checkpoint: Path) -> str:
    """Return a sha256 over all conditions of a measurement: weights, versions, instructions and threads."""
    manifest = hashlib.sha256((checkpoint / "manifest.json").read_bytes()).hexdigest()
    now = environment()
    conditions = [manifest, kernel_set(), *(now[condition] for condition in CONDITIONS)]
    return hashlib.sha256(json.dumps(conditions).encode()).hexdigest()
