"""Surfaces of numbers as text: a spectrogram and an image as shades, series as dots of braille, values as bars."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.core.wording import pluralize
from regard.inspection.number_surfaces import (
    MAX_CHANNELS,
    Channel,
    NumberSurface,
    PieceValue,
    channels,
    position_name,
    value_range,
)
from regard.inspection.terminal_heat_map import BARS, CELL, SHADES, fitted, padded

Table = npt.NDArray[np.float64]
MISSING = "·"
ROWS, SERIES_ROWS = 10, 4  # lines of a spectrogram, and of a series
SIDE = 24  # rows of an image
MARGIN = 11  # columns to the left of a drawing
# The bits of the eight dots of a character of braille: rows from the top, two columns.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def draw_surface(shown: NumberSurface, strips: Sequence[tuple[str, Sequence[PieceValue]]], columns: int) -> list[str]:
    """Return the lines of a surface, and of the values of its pieces, each with its name."""
    if shown.surface.kind == "image":
        return _image(shown, strips, columns)
    width = max(columns - MARGIN, 8)
    steps = len(shown.surface.pieces) + (len(shown.forecast.pieces) if shown.forecast is not None else 0)
    width = min(width, steps)
    lines = _frames(shown, width) if shown.surface.kind == "frames" else _series(shown, width)
    for name, spans in strips:
        lines.append(f"{padded(name, MARGIN - 1)} {_bars(spans, steps, width)}".rstrip())
    return lines


def _means(values: Table, parts: int, axis: int) -> Table:
    """Return the means of ``parts`` equal parts along an axis; NaN where all values of a part are missing."""
    size = values.shape[axis]
    starts = [part * size // parts for part in range(parts)]
    stops = [max(start + 1, (part + 1) * size // parts) for part, start in enumerate(starts)]
    return np.stack([_mean(values.take(range(*span), axis), axis) for span in zip(starts, stops, strict=True)], axis)


def _mean(values: Table, axis: int) -> Table:
    known = ~np.isnan(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _shade(share: float) -> str:
    return MISSING if math.isnan(share) else SHADES[min(int(share * len(SHADES)), len(SHADES) - 1)]


def _number(value: float) -> str:
    return f"{value:.3g}"


def _frames(shown: NumberSurface, width: int) -> list[str]:
    """Return frames as shades: time to the right, channels upwards."""
    values = np.asarray(shown.numbers.values, np.float64)
    low, high = value_range([shown.numbers.values])
    table = _means(_means(values, width, 0), min(values.shape[1], ROWS), 1)
    lines = []
    for row in range(table.shape[1] - 1, -1, -1):
        label = {table.shape[1] - 1: f"channel {values.shape[1]}", 0: "channel 1"}.get(row, "")
        shades = "".join(_shade((float(value) - low) / ((high - low) or 1.0)) for value in table[:, row])
        lines.append(f"{padded(label, MARGIN - 1)} {shades}".rstrip())
    last = position_name(shown, len(values) - 1)
    unit = f" {shown.numbers.unit}" if shown.numbers.unit else ""
    lines.append(
        " " * MARGIN
        + f"{position_name(shown, 0)} to {last}; {SHADES[-1]} = {_number(high)}{unit}, blank = {_number(low)}{unit}"
    )
    return lines


def _series(shown: NumberSurface, width: int) -> list[str]:
    """Return series as lines of dots, the forecast after a bar, and the last forecast with its band."""
    lines: list[str] = []
    shown_channels = channels(shown)
    unit = f" ({shown.numbers.unit})" if shown.numbers.unit else ""
    for channel in shown_channels[:MAX_CHANNELS]:
        known = np.concatenate([channel.history, channel.forecast])
        low, high = value_range([known])
        lines.append(channel.name + unit)
        for row, dots in enumerate(_braille(channel, len(known), width, low, high)):
            label = {0: _number(high), SERIES_ROWS - 1: _number(low)}.get(row, "")
            lines.append(f"{label:>{MARGIN - 1}} {dots}".rstrip())
        lines += [" " * MARGIN + line for line in _last(channel, shown)]
    if len(shown_channels) > MAX_CHANNELS:
        lines.append(f"the first {MAX_CHANNELS} of {pluralize(len(shown_channels), 'channel')}")
    pieces = shown.surface.pieces + (shown.forecast.pieces if shown.forecast is not None else ())
    return [*lines, " " * MARGIN + f"{pieces[0]} to {pieces[-1]}"]


def _braille(channel: Channel, steps: int, width: int, low: float, high: float) -> list[str]:
    """Return the dots of a series in ``SERIES_ROWS`` lines of ``width`` characters."""
    cells = np.zeros((SERIES_ROWS, width), np.uint8)
    last: int | None = None
    for step, value in enumerate(np.concatenate([channel.history, channel.forecast]).tolist()):
        if math.isnan(value):
            last = None
            continue
        x = min(step * 2 * width // max(steps, 1), 2 * width - 1)
        y = round((1 - (value - low) / ((high - low) or 1.0)) * (4 * SERIES_ROWS - 1))
        for row in {y} if last is None else range(min(last, y), max(last, y) + 1):  # a line from the last value
            cells[row // 4, x // 2] |= DOTS[row % 4][x % 2]
        last = y
    lines = ["".join(chr(0x2800 + int(cell)) if cell else " " for cell in row) for row in cells]
    if len(channel.forecast):
        bar = min(len(channel.history) * width // max(steps, 1), width - 1)
        lines = [f"{line[:bar]}│{line[bar:]}"[:width] for line in lines]
    return lines


def _last(channel: Channel, shown: NumberSurface) -> list[str]:
    """Return the last step of the forecast with its bands."""
    if not len(channel.forecast) or shown.forecast is None:
        return []
    bands = "".join(
        f", {level} %: {_number(low[-1])} to {_number(high[-1])}" for level, (low, high) in channel.bands.items()
    )
    return [f"{shown.forecast.pieces[-1]}: {_number(float(channel.forecast[-1]))}{bands}"]


def _bars(spans: Sequence[PieceValue], steps: int, width: int) -> str:
    """Return a bar for each column; ``-`` marks a negative value. A column has the largest of its values."""
    values = np.zeros(width)
    for span in spans:
        value = math.inf if span.value is None else span.value
        for column in range(
            span.start * width // steps, max(span.stop * width // steps, span.start * width // steps + 1)
        ):
            if column < width and abs(value) > abs(values[column]):
                values[column] = value
    largest = max((abs(span.value) for span in spans if span.value is not None), default=0.0)
    return "".join(_bar(float(value), largest) for value in values)


def _bar(value: float, largest: float) -> str:
    if not largest or not value:
        return " "
    bar = BARS[math.ceil(round(min(abs(value) / largest, 1.0), 6) * (len(BARS) - 1))]
    return "-" if value < 0 and bar != " " else bar


def _image(shown: NumberSurface, strips: Sequence[tuple[str, Sequence[PieceValue]]], columns: int) -> list[str]:
    """Return an image as shades of its light, and the values of its patches as a table of bars."""
    values = np.asarray(shown.numbers.values, np.float64)
    light = values[..., :3] @ np.array([0.3, 0.59, 0.11]) if values.shape[-1] >= 3 else values[..., 0]
    rows = min(light.shape[0], SIDE)
    wide = max(min(light.shape[1], columns // CELL, max(round(rows * light.shape[1] / light.shape[0]), 1)), 1)
    table = _means(_means(light, rows, 0), wide, 1)
    lines = ["".join(_shade(float(value)) * CELL for value in row).rstrip() for row in table]
    grid = shown.numbers.grid or (1, 1)
    for name, spans in strips:
        largest = max((abs(span.value) for span in spans if span.value is not None), default=0.0)
        cells = [" "] * (grid[0] * grid[1])
        for span in spans:
            for piece in range(span.start, span.stop):
                cells[piece] = _bar(math.inf if span.value is None else span.value, largest)
        lines += ["", fitted(f"{name} of each patch", columns)]
        lines += [
            fitted("".join(cell * CELL for cell in cells[row * grid[1] : (row + 1) * grid[1]]), columns).rstrip()
            for row in range(grid[0])
        ]
    return lines
