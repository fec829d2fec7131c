"""Weights as text: bars of eighths below words, and heat maps that are scaled to their largest weight."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from torch import Tensor

BARS = " ▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
CELL = 2  # columns of a weight
LONGEST = 16  # columns of a label
HIDDEN = "··"  # a weight that the mask forbids


def fitted(text: str, columns: int) -> str:
    """Return a text, cut with an ellipsis if it is wider than ``columns``."""
    return text if cell_len(text) <= columns else set_cell_size(text, max(columns - 1, 0)) + "…"


def padded(text: str, columns: int) -> str:
    """Return a text that is exactly ``columns`` wide."""
    return set_cell_size(fitted(text, columns), columns)


def wrapped(parts: Iterable[str], columns: int, *, first: str = "", gap: str = "  ") -> list[str]:
    """Wrap parts into lines. ``first`` starts the first line; other lines are indented by its width."""
    indent, lines, empty = " " * cell_len(first), [first], True
    for part in (fitted(part, columns - cell_len(first)) for part in parts):
        if not empty and cell_len(lines[-1]) + cell_len(gap) + cell_len(part) > columns:
            lines.append(indent)
            empty = True
        lines[-1] += part if empty else gap + part
        empty = False
    return lines


def _level(share: float, levels: int) -> int:
    """Return the level of a share of the maximum; every share above 0 is visible."""
    return min(math.ceil(round(share, 6) * (levels - 1)), levels - 1)


class Bars(NamedTuple):
    """A row of bars: its name, a value for each word (None: no bar), and the value of a full bar."""

    name: str
    values: Sequence[float | None]
    largest: float


def draw_bars(labels: Sequence[str], rows: Sequence[Bars], columns: int) -> list[str]:
    """Return labels with one bar below each for every row of bars. A negative value is drawn with ``-`` signs.

    Args:
        labels: the words.
        rows: the bars below them.
        columns: the width.
    """
    margin = max(cell_len(row.name) for row in rows) + 2
    words = [fitted(label, min(LONGEST, columns - margin)) for label in labels]
    lines: list[str] = []
    start = 0
    while start < len(words):
        stop, used = start, margin
        while stop < len(words) and (stop == start or used + max(cell_len(words[stop]), 1) <= columns):
            used += max(cell_len(words[stop]), 1) + 1
            stop += 1
        part = slice(start, stop)
        lines.append(" " * margin + " ".join(words[part]))
        for name, values, largest in rows:
            bars = (
                _bar(value, largest) * max(cell_len(word), 1)
                for word, value in zip(words[part], values[part], strict=True)
            )
            lines.append((name.ljust(margin) + " ".join(bars)).rstrip())
        lines.append("")
        start = stop
    return lines[:-1]


def _bar(value: float | None, largest: float) -> str:
    if value is None or largest == 0:
        return " "
    bar = BARS[_level(abs(value) / largest, len(BARS))]
    return "-" if value < 0 and bar != " " else bar


def draw_attention(
    weights: Tensor, source: Sequence[str], target: Sequence[str], *, columns: int = 80, allowed: Tensor | None = None
) -> str:
    """Return weights (target, source) as shades: one row per target piece, two columns per source piece.

    Shades are scaled to the largest weight, so equal weights have equal shades. The column numbers refer to the list
    of source pieces below the table.

    Args:
        weights: at least 0.
        source: the labels of the columns.
        target: the labels of the rows.
        columns: the width; more source pieces are continued in a block below.
        allowed: (target, source) the weights that the mask allows; None for all.
    """
    if tuple(weights.shape) != (len(target), len(source)):
        raise ValueError(f"the labels do not match weights of {tuple(weights.shape)}")
    largest = float(weights.max()) if weights.numel() else 0.0
    longest = min(max(map(cell_len, target), default=0), LONGEST)
    rows = [f"{number} {padded(name, longest)}" for number, name in _numbered(target)]
    margin = cell_len(rows[0]) + 1 if rows else 0
    fitting = max((columns - margin) // CELL, 1)
    lines = []
    for start in range(0, len(source), fitting):
        keys = range(start, min(start + fitting, len(source)))
        lines += _numbers(keys, margin)
        for row, label in enumerate(rows):
            cells = "".join(
                HIDDEN if allowed is not None and not allowed[row, key] else _shade(float(weights[row, key]), largest)
                for key in keys
            )
            lines.append(f"{label} {cells}".rstrip())
        lines.append("")
    legend = [f"{number} {name}" for number, name in _numbered(source)]
    if list(source) != list(target):
        lines += [*wrapped(legend, columns, first="columns: "), ""]
    return "\n".join([*lines, f"{SHADES[-1] * CELL} = {largest:.2g} of the weight"])


def _numbered(labels: Sequence[str]) -> list[tuple[str, str]]:
    width = len(str(max(len(labels) - 1, 0)))
    return [(str(number).rjust(width), label) for number, label in enumerate(labels)]


def _numbers(keys: range, margin: int) -> list[str]:
    """Return the column numbers as two digits, with the hundreds in a line above if there are any."""
    last = " " * margin + "".join(f"{key % 100:>{CELL}}" if key < 100 else f"{key % 100:02}" for key in keys)
    if keys[-1] < 100:
        return [last]
    return [(" " * margin + "".join(f"{key // 100 or '':>{CELL}}" for key in keys)).rstrip(), last]


def _shade(weight: float, largest: float) -> str:
    return SHADES[_level(weight / largest, len(SHADES)) if largest else 0] * CELL
