"""Rules by which a validation is the best so far, and by which training has had enough of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from regard.config.settings import TrainConfig
from regard.training.progress import TrainingProgress

Better = Callable[[float, float | None], bool]  # of a value of ``train.best_by`` and the best before: strictly


def judge(settings: TrainConfig, progress: TrainingProgress, loss: float, value: float | None, better: Better) -> bool:
    """Whether this validation is the best; counts in ``progress.without_better`` toward ``train.early_stopping``.

    ``value``: of ``train.best_by``; None where this validation did not measure it, which counts for nothing.

    ``train.stop_by`` "best": validations without a new best in a row. "as_good": without a value as good as the best
    so far, which is the best from then on (what the authors of GAT did for Citeseer: PetarV-/GAT, issue 14). "either":
    without a loss or a value as good as the best so far; the best is then as good in both (code of Veličković et al.
    2018). "mean": training ends when the loss is above the mean of the last ``early_stopping`` losses (code of Kipf &
    Welling 2017).
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
    quieter = math.isfinite(loss) and (progress.least_loss is None or loss <= progress.least_loss)
    higher = math.isfinite(value) and not (progress.peak is not None and better(progress.peak, value))
    progress.without_better = 0 if quieter or higher else progress.without_better + 1
    progress.least_loss = loss if quieter else progress.least_loss
    progress.peak = value if higher else progress.peak
    return quieter and higher
