"""Description of a run for the page: model and data, checkpoints, and training curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.predictor_interface import PredictorInterface
from regard.core.task import Metric
from regard.core.untrusted_files import FileVersion
from regard.errors import RegardError
from regard.inspection.about import about
from regard.runs import checkpoint
from regard.runs.baseline_choice import BASELINE
from regard.runs.metrics_log import read_updates, read_validations
from regard.runs.network_comparison import read_comparison
from regard.runs.run_examples import read_examples
from regard.runs.run_folder import RunFolder

POINTS = 400  # of a curve: more than a screen shows
MAX_LABELS = 50


def describe_run(
    run: RunFolder, *, name: str, checkpoint: str, interface: PredictorInterface | None = None
) -> dict[str, Any]:
    """Return the run as JSON for the page.

    Args:
        run: the run.
        name: the name of the model.
        checkpoint: the default checkpoint.
        interface: the interface of its predictor, for purpose and classes; None if it is not loaded.
    """
    config, plan = run.config, run.read_plan()
    parts = [["model", config.summary]]
    if plan is not None:
        parts.append(["sizes", ", ".join(f"{size:,} {name.replace('_', ' ')}" for name, size in plan.spec.items())])
        parts.append(["trained in", plan.precision])
    comparison, alone = read_comparison(run.path), [BASELINE] if checkpoint == BASELINE else []
    if comparison is not None:
        parts.append(["baseline", comparison.description + (", used alone" if alone else "")])
        parts += [["compared by " + name, figures] for name, figures in comparison.rows(run.task.metrics)]
    source, target = config.languages
    search, examples = config.search_settings, list(read_examples(run).lines)
    curves = training_curves(run.path / "metrics.jsonl")
    described = {
        "name": name,
        "task": config.task.kind,
        "source": source,
        "target": target,
        "checkpoints": [*checkpoints(run), *alone],
        "checkpoint": checkpoint,
        "weights": weight_digests(run),
        "examples": examples,
        "about": about(run, "" if interface is None else interface.purpose, curves),
        "labels": [] if interface is None else list(interface.classes[:MAX_LABELS]),
        "parts": parts,
        "comparison": None if comparison is None else comparison.as_dict(),
        "curves": [
            _described(curve, run.task.metrics, config.loss_unit)
            for curve in curves
            if is_shown(curve["name"].removeprefix("validation "), curve["points"], run.task.metrics)
        ],
    }
    if search is not None:
        described["search"] = search.model_dump(include={"beam", "length_penalty", "nbest"})
    return described


def _described(curve: dict[str, Any], metrics: Mapping[str, Metric], loss_unit: str) -> dict[str, Any]:
    """Return a curve with its unit, and the name of its baseline metric if that metric has a curve."""
    metric = metrics.get(curve["name"].removeprefix("validation "))
    unit = loss_unit if curve["name"].endswith(" loss") else ""
    baseline = {"baseline": metric.baseline} if metric and isinstance(metric.baseline, str) else {}
    return {**curve, "unit": unit, **baseline}


def is_shown(name: str, points: Sequence[tuple[float, float]], metrics: Mapping[str, Metric]) -> bool:
    """Return whether figures of training and validation are drawn.

    Figures that no network changes, such as the errors of the last value, are drawn as baselines of a metric or not at
    all.
    """
    varies = len({value for _, value in points}) != 1
    return varies or name in metrics or name.endswith("loss") or name == "training rate"


def checkpoints(run: RunFolder) -> list[str]:
    """Return names of checkpoints for ``--checkpoint``: steps, oldest first, then ``best`` and ``average``."""
    steps = [str(step) for step in checkpoint.list_steps(run.checkpoints)]
    best = ["best"] if checkpoint.read_best(run.checkpoints) else []
    return [*steps, *best, *(["average"] if (run.checkpoints / "average").is_dir() else [])]


def weight_digests(run: RunFolder) -> dict[str, str]:
    """Return a digest of the weights of each checkpoint; equal digests mean equal models."""
    digests = {}
    for name in checkpoints(run):
        with suppress(RegardError):  # a damaged checkpoint is reported when it is opened
            digests[name] = checkpoint.identity(run.weights_path(name).path)[:16]
    return digests


def chosen_checkpoint(run: RunFolder, which: str | None = None) -> str:
    """Return the name of checkpoint ``which``, or of the default of the run, for ``--checkpoint``."""
    chosen = run.selected(which)
    return chosen.name if chosen.name in ("average", "best", BASELINE) else str(chosen.steps[-1])


def training_curves(path: Path) -> list[dict[str, Any]]:
    """Return the curves of ``metrics.jsonl``: up to POINTS means of training loss and rate; validation metrics."""
    if not path.is_file():
        return []
    return _read_curves(FileVersion.of(path))


@lru_cache(maxsize=8)
def _read_curves(file: FileVersion) -> list[dict[str, Any]]:
    trained: dict[str, list[tuple[int, float]]] = defaultdict(list)
    validated: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for step, figures in read_updates(file.path):
        for name in ("loss", "rate"):
            if name in figures:
                trained[f"training {name}"].append((step, figures[name]))
    for step, figures in read_validations(file.path):
        for name, value in figures.items():
            points = validated[f"validation {name}"]
            if not points or points[-1][0] < step:  # figures of a combination follow those of its network
                points.append((step, value))
    finite = {name: [point for point in points if isfinite(point[1])] for name, points in (trained | validated).items()}
    return [{"name": name, "points": _thinned(points)} for name, points in finite.items() if points]


def _thinned(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    groups = np.array_split(np.array(points, dtype=np.float64), min(POINTS, len(points)))
    return [(round(float(group[-1, 0])), float(group[:, 1].mean())) for group in groups]
