"""Outcomes of answers: targets and predictions from the outputs of networks."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from regard.core.outcomes import TargetOutcome
from regard.metrics.ranking import ranks


def class_outcomes(names: Sequence[str], log_p: Tensor, targets: Tensor) -> list[TargetOutcome]:
    """Return the outcomes of one class per row.

    Args:
        names: the names of the classes.
        log_p: (rows, classes), log-probabilities.
        targets: (rows,), indices of classes; a negative one is unknown.
    """
    best, predicted = log_p.exp().max(-1)
    own = log_p.gather(1, targets[:, None].clamp_min(0))[:, 0].exp()
    return [
        TargetOutcome(names[target], names[number], p, own_p) if target >= 0 else TargetOutcome("", names[number], p)
        for target, number, p, own_p in zip(
            targets.tolist(), predicted.tolist(), best.tolist(), own.tolist(), strict=True
        )
    ]


def item_outcomes(names: Sequence[str], scores: Tensor, targets: Tensor) -> list[TargetOutcome]:
    """Return the outcomes of rankings with the rank of each target; arguments as in ``class_outcomes``.

    ``scores``: (rows, items), logits. An unknown item ranks after all others.
    """
    place = (ranks(scores.float(), targets) + 1).tolist()
    outcomes = class_outcomes(names, scores.log_softmax(-1), targets)
    return [outcome._replace(rank=rank) for outcome, rank in zip(outcomes, place, strict=True)]
