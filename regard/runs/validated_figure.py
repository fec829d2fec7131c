"""Constants of predictors that are fitted to the validation data, such as a temperature."""

from __future__ import annotations

from regard.core.task import RunFiles
from regard.runs.checkpoint import read_best
from regard.runs.metrics_log import read_validations


def validated_figure(run: RunFiles, name: str) -> float:
    """Return a metric above 0 of the validation that is nearest to the checkpoint of a run; 1 without validations.

    An average of checkpoints has no validation of its own, and its last checkpoint is the nearest; otherwise it is that
    of the best checkpoint, or the last one.
    """
    figures = {
        validation.step: validation.figures[name]
        for validation in read_validations(run.path / "metrics.jsonl")
        if validation.figures.get(name, 0.0) > 0
    }
    checkpoints, last = run.path / "checkpoints", next(reversed(figures.values()), 1.0)
    best = None if (checkpoints / "average").is_dir() else read_best(checkpoints)
    return last if best is None else figures.get(best.step, last)
