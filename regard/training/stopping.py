"""Rules for the best validation so far, and for early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.config.settings import TrainConfig
from regard.training.progress import TrainingProgress

Better = Callable[[float, float | None], bool]  # value of ``train.best_by``, best one so far → strictly better


def is_best(
    settings: TrainConfig, progress: TrainingProgress, loss: float, value: float | None, better: Better
) -> bool:
    """Return whether this validation is the best, and update ``progress.without_better`` for ``train.early_stopping``.

    ``value``: that of ``train.best_by``; None if this validation did not measure it, which then does not count.

    Rules of ``train.stop_by``:

    - "best": counts consecutive validations without a new best.
    - "as_good": counts those without a value as good as the best one; an equal value becomes the best (as the authors
      of GAT for Citeseer: PetarV-/GAT, issue 14).
    - "either": counts those with neither a loss nor a value as good as the best; the best one must be as good in both
      (code of Veličković et al. 2018).
    - "mean": stops when the loss exceeds the mean of the last ``early_stopping`` losses (code of Kipf & Welling 2017).
    """
    if value is None:
        return False
    if settings.stop_by == "either":
        return _either(progress, loss, value, better)
    best = better(value, progress.best_value)
    if settings.stop_by == "as_good":
        best = best or value == progress.best_value
    if settings.stop_by in ("best", "as_good"):
        progress.without_better = 0 if best else progress.without_better + 1
        return best
    number = settings.early_stopping or 0
    if number and math.isfinite(loss):
        before = progress.recent[-number:]
        risen = len(before) == number and loss > sum(before) / number
        progress.without_better = number if risen else 0
        progress.recent = [*before, loss][-number:]
    return best


def _either(progress: TrainingProgress, loss: float, value: float, better: Better) -> bool:
    loss_is_least = math.isfinite(loss) and (progress.least_loss is None or loss <= progress.least_loss)
    value_is_peak = math.isfinite(value) and not (progress.peak is not None and better(progress.peak, value))
    progress.without_better = 0 if loss_is_least or value_is_peak else progress.without_better + 1
    progress.least_loss = loss if loss_is_least else progress.least_loss
    progress.peak = value if value_is_peak else progress.peak
    return loss_is_least and value_is_peak
