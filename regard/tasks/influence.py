"""Influence of each piece of an input on a prediction: the change of the score when the piece is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from regard.core.answer import InputContext, TaskAnswer
from regard.core.field import HidingField
from regard.core.observation import Influence, Prediction, Site


def influences(
    field: Any,
    answer: TaskAnswer,
    row: Any,
    predictions: Sequence[Prediction],
    logits: Callable[[list[Any]], list[Tensor]],
) -> tuple[Influence, ...]:
    """Return the influence of each piece of a row on each of its predictions; () if pieces cannot be hidden.

    Args:
        field: the field of the row.
        answer: the interpretation of the outputs.
        row: the encoded input.
        predictions: the predictions for the row.
        logits: computes the outputs (answers, outputs) of rows.
    """
    if not isinstance(field, HidingField) or len(field.parts(row)) > 1:
        return ()
    hidden = field.hidden(row)
    # Equal rows in different places of a batch may differ in rounding: the row itself is computed once.
    whole, *computed = logits([row, *(changed for changed in hidden if changed is not row)])
    outputs = iter(computed)
    without = [whole if changed is row else next(outputs) for changed in hidden]
    changes = []
    for number, prediction in enumerate(predictions):
        place = _place(prediction.site)
        before = _score(answer, whole[place], prediction)
        values = tuple(before - _score(answer, other[place], prediction) for other in without)
        changes.append(Influence(number, 0, values, field.hiding))
    return tuple(changes)


def _place(site: Site) -> int:
    """Return the row of the outputs that a prediction was made from."""
    return site.pieces[0] if site.kind == "piece" else 0


def _score(answer: TaskAnswer, outputs: Tensor, prediction: Prediction) -> float:
    """Return the log probability of the predicted label, or the number."""
    if answer.kind == "number":
        return float(answer.predict(outputs, answer.settings(), InputContext()).value)
    alternatives = answer.alternatives(outputs)
    return {alternative.label: alternative.log_probability for alternative in alternatives}[prediction.label]
