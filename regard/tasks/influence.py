"""Influence of each piece of an input on a prediction: the change of the score when the piece is hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from regard.core.answer import InputContext, TaskAnswer
from regard.core.field import EncodedRow, Field, HidingField
from regard.core.observation import Influence, Observation, Prediction
from regard.core.wording import pluralize
from regard.errors import ConfigError

MAX_VARIANTS = 256  # maximum number of inputs without a piece, which are computed for one input
BATCH_ROWS = 64  # maximum number of inputs that are computed together
RESOLUTION = 1e-5  # smaller changes may be rounding errors of float32: they are 0

Scores = Callable[[list[Any]], Sequence[Sequence[float]]]


class HiddenInput(NamedTuple):
    """An input of a supervised network, with or without a hidden piece: the row and the value of each field."""

    row: tuple[EncodedRow, ...]
    values: tuple[Any, ...]


class HiddenPieces(NamedTuple):
    """Inputs that each lack one piece of a surface.

    Attributes:
        surface: the index of the surface.
        how: how the pieces are hidden.
        variants: the input without each piece; None if a piece cannot be hidden.
    """

    surface: int
    how: str
    variants: Sequence[Any | None]


def influences(
    predictions: Sequence[Prediction], surfaces: Sequence[HiddenPieces], scores: Scores
) -> tuple[Influence, ...]:
    """Return score(whole input) − score(input without the piece) for each prediction and each piece of each surface.

    It is 0 for pieces that cannot be hidden, and for pieces that come after the site of the prediction.

    Args:
        predictions: the predictions for the whole input.
        surfaces: the inputs without each piece.
        scores: returns the scores of the predictions with the whole input, then with each of a list of variants:
            (1 + variants, predictions). A score is the log-probability of the label, or a number.

    Raises:
        ConfigError: if more than ``MAX_VARIANTS`` pieces can be hidden.
    """
    variants = [variant for surface in surfaces for variant in surface.variants if variant is not None]
    require_few(len(variants))
    if not predictions or not surfaces:
        return ()
    before, *without = scores(variants)
    changes: list[Influence] = []
    for number, prediction in enumerate(predictions):
        values = iter([before[number] - after[number] for after in without])
        for surface in surfaces:
            end = len(surface.variants)
            if prediction.site.kind == "after" and prediction.site.surface == surface.surface:
                end = prediction.site.pieces[0] + 1
            own = [0.0 if variant is None else next(values) for variant in surface.variants]
            read = (value if piece < end and abs(value) > RESOLUTION else 0.0 for piece, value in enumerate(own))
            changes.append(Influence(number, surface.surface, tuple(read), surface.how))
    return tuple(changes)


def require_few(pieces: int) -> None:
    """Raise ConfigError for more than ``MAX_VARIANTS`` pieces."""
    if pieces > MAX_VARIANTS:
        why = f"it has {pluralize(pieces, 'piece')}; the limit is {MAX_VARIANTS}"
        raise ConfigError("the input is too long to hide each of its pieces", why=why, help="shorten the input")


def hidden_inputs(fields: Sequence[Field], values: tuple[Any, ...], row: tuple[EncodedRow, ...]) -> list[HiddenPieces]:
    """Return the input without each piece of the fields whose pieces can be hidden."""
    surfaces, surface = list[HiddenPieces](), 0
    for number, field in enumerate(fields):
        if not isinstance(field, HidingField):
            surface += len(field.parts(row[number]))
            continue
        before, after = slice(number), slice(number + 1, None)
        for pieces in field.hidden(values[number], row[number]):
            variants = [
                hidden
                and HiddenInput(
                    (*row[before], hidden.row, *row[after]), (*values[before], hidden.value, *values[after])
                )
                for hidden in pieces
            ]
            surfaces.append(HiddenPieces(surface, field.hiding, variants))
            surface += 1
    return surfaces


def answer_scores(answer: TaskAnswer, observation: Observation, outputs: Sequence[Tensor]) -> list[list[float]]:
    """Return the score of each prediction for each input: the log-probability of its label, or the number.

    Args:
        answer: the interpretation of the outputs.
        observation: the observation of the whole input.
        outputs: (answers, outputs) of each input. Answers after pieces are at the end, also if a piece was removed.
    """
    predictions = observation.predictions
    if answer.kind == "number":
        return [[float(answer.predict(rows[0], answer.settings(), InputContext()).value)] for rows in outputs]
    numbers = {name: number for number, name in enumerate(answer.class_names)}
    labels, positions = [numbers[prediction.label] for prediction in predictions], list[int]()
    for site in (prediction.site for prediction in predictions):
        after = len(observation.surfaces[site.surface].pieces) if site.kind == "after" else 0
        positions.append(site.pieces[0] - after if site.pieces else 0)
    return [
        answer.log_probabilities(rows)[[max(position, -len(rows)) for position in positions], labels].tolist()
        for rows in outputs
    ]
