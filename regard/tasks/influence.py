"""Influence of each piece of an input on a prediction: the prediction without the piece, for each piece in turn."""

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
    """Return the influence of each piece of a row on each of its predictions; () where pieces cannot be hidden.

    Args:
        field: of the row.
        answer: what outputs mean.
        row: the encoded input.
        predictions: of the input, from the outputs of the row.
        logits: computes the outputs (answers, outputs) of some rows.
    """
    if not isinstance(field, HidingField) or len(field.parts(row)) > 1:
        return ()
    whole, *others = logits([row, *field.hidden(row)])
    changes = []
    for number, prediction in enumerate(predictions):
        place = _place(prediction.site)
        before = _score(answer, whole[place], prediction)
        values = tuple(before - _score(answer, other[place], prediction) for other in others)
        changes.append(Influence(number, 0, values, field.hiding))
    return tuple(changes)


def _place(at: Site) -> int:
    """Return the row of the outputs in which a prediction is."""
    return at.pieces[0] if at.kind == "piece" else 0


def _score(answer: TaskAnswer, outputs: Tensor, prediction: Prediction) -> float:
    """Return the log probability of the predicted label, or the number."""
    if answer.kind == "number":
        return float(answer.predict(outputs, answer.settings(), InputContext()).value)
    return {each.label: each.log_probability for each in answer.alternatives(outputs)}[prediction.label]
