"""Outcomes of answers: targets and predictions from the outputs of networks."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from regard.core.outcomes import TargetOutcome
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.metrics.ranking import ranks


def class_outcomes(name: Callable[[int], str], log_p: Tensor, targets: Tensor) -> list[TargetOutcome]:
    """Return the outcomes of one class per row.

    Args:
        name: returns the name of a class.
        log_p: (rows, classes), log-probabilities.
        targets: (rows,), indices of classes; a negative one is unknown.
    """
    best, predicted = log_p.exp().max(-1)
    own = log_p.gather(1, targets[:, None].clamp_min(0))[:, 0].exp()
    return [
        TargetOutcome(name(target), name(number), p, own_p) if target >= 0 else TargetOutcome("", name(number), p)
        for target, number, p, own_p in zip(
            targets.tolist(), predicted.tolist(), best.tolist(), own.tolist(), strict=True
        )
    ]


def item_outcomes(tokenizer: Tokenizer, first: int, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
    """Return the outcomes of rankings, with the rank of each target.

    Args:
        tokenizer: the items.
        first: the token of the first item; earlier tokens are special ones.
        outputs: (rows, tokens), logits.
        targets: (rows,), tokens; an unknown item ranks after all others.
    """
    scores, items = outputs[:, first:], targets - first
    place = (ranks(scores.float(), items) + 1).tolist()
    outcomes = class_outcomes(lambda item: tokenizer.pieces([item + first])[0], scores.log_softmax(-1), items)
    return [outcome._replace(rank=rank) for outcome, rank in zip(outcomes, place, strict=True)]
