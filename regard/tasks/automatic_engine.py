"""The engine of a run by trial on its own validation data, remembered beside it."""

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
    run: RunFolder, net: nn.Module, codecs: Any, checkpoint: Path, say: Report,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine | None:  # fmt: skip
    """The fastest engine that is exact enough for a run on this machine; None where there is nothing to choose.

    ``say`` is told which, and why.
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
                say(f"engine float32: {run.data} holds no prepared lines to measure others on")
                return "float32"
            measured = measure({name: trials.trial(name, lines) for name in names}, clock)
            save_choice(run.path, key, measured)
    say(explain(measured))
    return choose(measured)


def _key(checkpoint: Path) -> str:
    """A sha256 over all that decides what is measured: the weights, versions, instructions and threads."""
    manifest = hashlib.sha256((checkpoint / "manifest.json").read_bytes()).hexdigest()
    now = environment()
    conditions = [manifest, kernel_set(), *(now[each] for each in CONDITIONS)]
    return hashlib.sha256(json.dumps(conditions).encode()).hexdigest()
