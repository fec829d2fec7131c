"""Surfaces of numbers, for terminals and pictures: the pieces of the values of a strip, and forecasts by channel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from regard.core.observation import Observation, Surface, SurfaceNumbers
from regard.inspection.selection import Strip

Values = npt.NDArray[np.float32]
BAND = re.compile(r"(.*)-(lo|hi)-(\d+(?:\.\d+)?)")
MAX_CHANNELS = 6  # series that are drawn below each other


class NumberSurface(NamedTuple):
    """A surface with numbers.

    Attributes:
        surface: the surface.
        numbers: its numbers.
        forecast: the surface of the following steps, if it is a history with a forecast.
    """

    surface: Surface
    numbers: SurfaceNumbers
    forecast: Surface | None = None


class PieceValue(NamedTuple):
    """A value of the pieces from ``start`` up to but not including ``stop``; None is infinite."""

    start: int
    stop: int
    value: float | None


class Channel(NamedTuple):
    """A series and its forecast.

    Attributes:
        name: its name.
        history: (steps).
        forecast: (horizon); empty without a forecast.
        bands: by level in percent the lower and the upper bound (horizon) of the forecast, the widest band first.
    """

    name: str
    history: Values
    forecast: Values
    bands: Mapping[str, tuple[Values, Values]]


def number_surface(observation: Observation) -> NumberSurface | None:
    """Return the first surface with numbers, with its forecast; None if no surface has numbers."""
    for index, surface in enumerate(observation.surfaces):
        if surface.numbers is not None:
            following = observation.surfaces[index + 1 : index + 2]
            series = surface.kind == "series" and bool(following) and following[0].kind == "series"
            return NumberSurface(surface, surface.numbers, following[0] if series else None)
    return None


def piece_values(strip: Strip, surface: Surface) -> list[PieceValue]:
    """Return the pieces of each value of a strip; [] if the strip is about other pieces.

    The labels of the strip are pieces, or ranges of pieces such as ``1–4``, which a network reads as one position. A
    piece may also be named by its distance to the last one, such as ``-3`` and ``+0``.
    """
    last = len(surface.pieces) - 1
    for names in (surface.pieces, tuple(f"{number - last:+d}" for number in range(last + 1))):
        numbers = {name: number for number, name in enumerate(names)}
        ranges = [_range(label, numbers) for label in strip.labels] if len(numbers) == len(names) else [None]
        pairs = zip(ranges, strip.values, strict=False)
        if values := [PieceValue(*span, value) for span, value in pairs if span is not None]:
            return values
    return []


def _range(label: str, numbers: Mapping[str, int]) -> tuple[int, int] | None:
    if label in numbers:
        return numbers[label], numbers[label] + 1
    parts = label.split("–")
    for cut in range(1, len(parts)):
        first, last = "–".join(parts[:cut]), "–".join(parts[cut:])
        if first in numbers and last in numbers:
            return numbers[first], numbers[last] + 1
    return None


def channel_names(numbers: SurfaceNumbers) -> tuple[str, ...]:
    """Return the names of the channels; unnamed channels are numbered from 1."""
    return numbers.channels or tuple(f"channel {number + 1}" for number in range(numbers.values.shape[1]))


def channels(shown: NumberSurface) -> list[Channel]:
    """Return the channels of a history with their forecasts, whose channels are NAME, NAME-lo-80 and NAME-hi-80."""
    later = _columns(shown.forecast.numbers) if shown.forecast and shown.forecast.numbers else {}
    return [
        Channel(name, values, later.get(name, np.zeros(0, np.float32)), _bands(name, later))
        for name, values in _columns(shown.numbers).items()
    ]


def _columns(numbers: SurfaceNumbers) -> dict[str, Values]:
    return dict(zip(channel_names(numbers), np.asarray(numbers.values).T, strict=True))


def _bands(name: str, columns: Mapping[str, Values]) -> dict[str, tuple[Values, Values]]:
    matches = [match for match in map(BAND.fullmatch, columns) if match and match[1] == name and match[2] == "lo"]
    levels = sorted((match[3] for match in matches if f"{name}-hi-{match[3]}" in columns), key=float, reverse=True)
    return {level: (columns[f"{name}-lo-{level}"], columns[f"{name}-hi-{level}"]) for level in levels}


def position_name(shown: NumberSurface, piece: int) -> str:
    """Return the second, the date, or the row and column of a piece."""
    numbers = shown.numbers
    if numbers.grid is not None:
        return f"row {piece // numbers.grid[1] + 1}, column {piece % numbers.grid[1] + 1}"
    if numbers.rate is not None and shown.surface.kind == "frames":
        return f"{piece / numbers.rate:.2f} s"
    return shown.surface.pieces[piece]


def value_range(values: Sequence[Values] | Values) -> tuple[float, float]:
    """Return the smallest and the largest value that is not missing; (0, 1) if all are missing."""
    flat = np.concatenate([np.ravel(part) for part in values]) if len(values) else np.zeros(0)
    known = flat[~np.isnan(flat)]
    return (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
