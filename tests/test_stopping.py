"""Rules of stopping, by losses and accuracies written down, as the papers' code would end."""

from __future__ import annotations

import math

from regard.config.settings import TrainConfig
from regard.training.progress import TrainingProgress, is_best


def higher(value, best):
    return math.isfinite(value) and (best is None or value > best)


def run(settings, losses, values):
    """The steps that are best, and the one that training ends at."""
    progress, best = TrainingProgress(), []
    for step, (loss, value) in enumerate(zip(losses, values, strict=True)):
        if is_best(settings, progress, loss, value, higher):
            best.append(step)
            progress.best_value = value
        if progress.without_better >= settings.early_stopping:
            return best, step
    return best, None


def test_best_counts_validations_without_one():
    settings = TrainConfig(early_stopping=2, best_by="accuracy")
    assert run(settings, [1] * 5, [0.1, 0.3, 0.3, 0.2, 0.4]) == ([0, 1], 3)


def test_as_good_goes_on_from_the_last_of_equals():
    settings = TrainConfig(early_stopping=2, best_by="accuracy", stop_by="as_good")
    assert run(settings, [1] * 7, [0.1, 0.3, 0.2, 0.3, 0.2, 0.2, 0.4]) == ([0, 1, 3], 5)
    assert run(settings, [1] * 4, [float("nan")] * 4) == ([], 1)


def gat(losses, values, patience):
    """The loop of the authors' code, in its own order."""
    least, most, count, saved = float("inf"), 0.0, 0, []
    for step, (loss, value) in enumerate(zip(losses, values, strict=True)):
        if value >= most or loss <= least:
            if value >= most and loss <= least:
                saved.append(step)
            most, least, count = max(value, most), min(loss, least), 0
        else:
            count += 1
            if count == patience:
                return saved, step
    return saved, None


def test_either_goes_on_while_one_of_two_gets_better_and_keeps_what_is_best_in_both():
    losses = [1.0, 0.9, 0.95, 0.8, 0.8, 0.85, 0.9, 0.9, 0.9]
    values = [0.5, 0.5, 0.6, 0.4, 0.6, 0.5, 0.5, 0.4, 0.7]
    for patience in (1, 2, 3):
        settings = TrainConfig(early_stopping=patience, best_by="accuracy", stop_by="either")
        assert run(settings, losses, values) == gat(losses, values, patience)
    assert gat(losses, values, 3) == ([0, 1, 4], 7)


def test_mean_ends_when_the_loss_is_above_that_of_the_last():
    settings = TrainConfig(early_stopping=2, best_by="accuracy", stop_by="mean")
    assert run(settings, [3, 4, 3.4, 3.6, 3.5, 3.7], [0.1, 0.2, 0.2, 0.2, 0.2, 0.3]) == ([0, 1, 5], 5)
    assert run(settings, [3, 9, 6], [0.1] * 3) == ([0], None)


def test_what_was_not_measured_counts_for_nothing():
    settings, progress = TrainConfig(early_stopping=1, best_by="accuracy"), TrainingProgress()
    assert not is_best(settings, progress, 1.0, None, higher) and progress.without_better == 0
