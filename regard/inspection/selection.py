"""The part of an observation that the terminal and pictures draw: one attention, and one strip of values per piece."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.observation import AttentionMap, Influence, Observation, Prediction, Surface
from regard.core.wording import did_you_mean, pluralize
from regard.errors import ConfigError

VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
SYMBOLS = 2  # largest number of symbols around the pieces of a text
Weights = Float[Tensor, "query key"]


class ChosenAttention(NamedTuple):
    """The attention that is drawn: one head of a map, or the mean of its heads.

    Attributes:
        attention: the map.
        head: the head, counted from 0; None for the mean.
    """

    attention: AttentionMap
    head: int | None

    @property
    def weights(self) -> Weights:
        """The weights of the head, or the mean of all heads."""
        weights = self.attention.weights.float()
        return weights.mean(0) if self.head is None else weights[self.head]

    @property
    def name(self) -> str:
        """The layer and the head."""
        heads = len(self.attention.weights)
        if heads == 1:
            return self.attention.place
        part = f"mean of {pluralize(heads, 'head')}" if self.head is None else f"head {self.head}"
        return f"{self.attention.place}, {part}"


class Strip(NamedTuple):
    """A value for each piece of an input.

    Attributes:
        labels: the pieces.
        values: the value of each piece; None where no value exists.
        outside: the sum of the weights on special symbols, such as ``<s>``.
    """

    labels: tuple[str, ...]
    values: tuple[float | None, ...]
    outside: float = 0.0


def visible(label: str) -> str:
    """Return a label that is safe to print. Blanks at its ends are made visible."""
    start, end = len(label) - len(label.lstrip(" ")), len(label.rstrip(" "))
    inner = (sign if sign == " " else _visible(sign) for sign in label[start:end])
    return "".join([*map(_visible, label[:start]), *inner, *map(_visible, label[max(start, end) :])]) or "␀"


def _visible(sign: str) -> str:
    return VISIBLE.get(sign) or (sign if sign.isprintable() else f"U+{ord(sign):04X}")


def choose_attention(observation: Observation, head: str | None = None) -> ChosenAttention | None:
    """Return the attention of ``head`` (LAYER or LAYER:N).

    The default is the mean of the pooling, from which the answer is computed, otherwise the mean of the last layer;
    None if the model has no attention. Raises ConfigError for an unknown layer or head.
    """
    maps = observation.maps
    if head is None:
        place = "pooling" if "pooling" in maps else next(reversed(maps), None)
        return None if place is None else ChosenAttention(maps[place], None)
    if not maps:
        raise ConfigError("this model has no attention", where="--head", help="--influence needs no attention")
    place, colon, number = head.rpartition(":")
    if not colon or head in maps:
        place, number = head, ""
    if place not in maps:
        why, help = f"layers: {', '.join(maps)}", did_you_mean(place, maps)
        raise ConfigError(f"the layer {place} does not exist", where="--head", why=why, help=help)
    heads = len(maps[place].weights)
    if number and not (number.isdecimal() and int(number) < heads):
        why = f"it has {pluralize(heads, 'head')}, counted from 0"
        raise ConfigError(f"{place} has no head {number}", where="--head", why=why)
    return ChosenAttention(maps[place], int(number) if number else None)


def answers(observation: Observation) -> list[int]:
    """Return the indices of the predictions that answer the input.

    These are the tags of all pieces, the words of all gaps, or the tokens of an output. The answer to a continued text
    is the prediction after its last piece. For other inputs it is the first prediction.
    """
    predictions = observation.predictions
    if not predictions:
        return []
    site = predictions[0].site
    if site.kind in ("piece", "gap"):
        return [number for number, prediction in enumerate(predictions) if prediction.site.kind == site.kind]
    if site.kind == "after":
        return list(range(len(predictions))) if site.surface else [len(predictions) - 1]
    return [0]


def attention_strips(observation: Observation, chosen: ChosenAttention) -> list[Strip]:
    """Return the weights on the pieces of each surface, averaged over the rows of the answers.

    If the keys are not pieces, as in a text with gaps, the strip contains the keys.
    """
    attention, surfaces = chosen.attention, observation.surfaces
    rows = {_row(prediction, attention, surfaces) for prediction in _answering(observation)} - {None}
    existing = sorted(row for row in rows if row is not None) or list(range(len(chosen.weights)))
    weights = chosen.weights[existing].mean(0).tolist()
    strips = []
    for number, positions in _pieces_of(attention.key.labels, surfaces).items():
        values: list[float | None] = [None] * len(surfaces[number].pieces)
        for piece, weight in zip(positions, weights, strict=True):
            if piece is not None:
                values[piece] = weight
        strips.append(Strip(surfaces[number].pieces, tuple(values)))
    if not strips:
        return [Strip(attention.key.labels, tuple(weights))]
    inside = sum(value for strip in strips for value in strip.values if value is not None)
    return [strip._replace(outside=max(sum(weights) - inside, 0.0)) for strip in strips]


def influence_strips(observation: Observation) -> list[Strip]:
    """Return the influence of each piece, averaged over the answers: one strip for each surface."""
    chosen = set(answers(observation))
    by_surface: dict[int, list[Influence]] = {}
    for influence in observation.influences:
        if influence.prediction in chosen:
            by_surface.setdefault(influence.surface, []).append(influence)
    return [
        Strip(
            observation.surfaces[surface].pieces,
            tuple(torch.tensor([influence.values for influence in group]).double().mean(0).tolist()),
        )
        for surface, group in by_surface.items()
    ]


def influence_unit(observation: Observation) -> tuple[str, str]:
    """Return the quantity of the influence on the answers, and its unit."""
    numbers = any(prediction.kind in ("number", "series") for prediction in _answering(observation))
    return ("change of the number", "") if numbers else ("change of log p", "nats")


def answer_line(observation: Observation) -> str:
    """Return the answer as one line, such as ``positive 96.4 %``."""
    predictions = _answering(observation)
    labels = [visible(prediction.label) for prediction in predictions]
    if len(labels) != 1:
        return " ".join(labels)
    value = predictions[0].log_probability
    return labels[0] if value is None else f"{labels[0]} {percent(value)}"


def percent(log_probability: float) -> str:
    """Return a probability in percent."""
    return f"{100 * float(torch.tensor(log_probability).exp()):.1f} %"


def _answering(observation: Observation) -> list[Prediction]:
    return [observation.predictions[number] for number in answers(observation)]


def _row(prediction: Prediction, attention: AttentionMap, surfaces: Sequence[Surface]) -> int | None:
    """Return the row of the weights that computes a prediction; None if several rows do."""
    kind, pieces, surface = prediction.site
    queries = len(attention.query.labels)
    if queries == 1:
        return 0
    if kind == "after":
        return pieces[0] + 1 if pieces[0] + 1 < queries else None
    if kind in ("piece", "gap", "node"):
        return _row_of_piece(pieces[0], attention.query.labels, surfaces[surface])
    return None


def _row_of_piece(piece: int, labels: Sequence[str], surface: Surface) -> int | None:
    """Return the row of a piece, by its position or, if rows are missing, by its text and its occurrence number."""
    positions = _positions(labels, surface)
    if piece in positions:
        return positions.index(piece)
    text = surface.pieces[piece]
    equal = [number for number, label in enumerate(labels) if label == text]
    earlier = surface.pieces[:piece].count(text)
    return equal[earlier] if earlier < len(equal) else None


def _pieces_of(labels: Sequence[str], surfaces: Sequence[Surface]) -> dict[int, list[int | None]]:
    """Return, for each surface that the labels belong to, the piece index of each label; None for other symbols.

    Labels belong to one surface, or to all of them in their order; {} if they do not match.
    """
    if not surfaces:
        return {}
    ends = list(accumulate(len(surface.pieces) for surface in surfaces))
    whole = Surface(surfaces[0].kind, tuple(piece for surface in surfaces for piece in surface.pieces))
    joined, alone = _positions(labels, whole), [_positions(labels, surface) for surface in surfaces]
    scores = [_agreement(labels, *pair) for pair in zip(surfaces, alone, strict=True)]
    best = max(range(len(surfaces)), key=scores.__getitem__)
    if _agreement(labels, whole, joined) <= scores[best]:
        return {best: alone[best]} if any(piece is not None for piece in alone[best]) else {}
    return {
        number: [None if piece is None or not start <= piece < end else piece - start for piece in joined]
        for number, (start, end) in enumerate(pairwise([0, *ends]))
    }


def _positions(labels: Sequence[str], surface: Surface) -> list[int | None]:
    """Return the index of the piece of each label; None for labels that are no pieces.

    Nodes are matched by name. Pieces of a text are in order, with at most one symbol before and one after them.
    """
    pieces = surface.pieces
    if surface.kind == "graph":
        numbers = {piece: number for number, piece in enumerate(pieces)}
        return [numbers.get(label) for label in labels]
    if not 0 <= len(labels) - len(pieces) <= SYMBOLS:
        return [None] * len(labels)
    shifted = [
        [number - shift if 0 <= number - shift < len(pieces) else None for number in range(len(labels))]
        for shift in (0, 1)
    ]
    return max(shifted, key=lambda positions: _agreement(labels, surface, positions))


def _agreement(labels: Sequence[str], surface: Surface, positions: Sequence[int | None]) -> int:
    """Return the number of labels that equal their pieces, apart from blanks."""
    pairs = zip(labels, positions, strict=True)
    return sum(piece is not None and label.strip() == surface.pieces[piece].strip() for label, piece in pairs)
