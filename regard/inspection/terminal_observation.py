"""Inspection as text, for terminals: each prediction with its alternatives, and one head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.inspection.document import Inspection

ALTERNATIVES = 4
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}
SHADES = " ░▒▓█"


def draw_inspection(inspection: Inspection, head: str | None, *, columns: int) -> str:
    """Return predictions and the weights of ``head`` (PLACE or PLACE:N), ``columns`` wide if labels allow it.

    Without ``head`` the mean over the heads of the last place is drawn. Raises ConfigError for an unknown head.
    """
    parts = [_predictions(inspection.document)]
    if inspection.attention:
        place, weights = _chosen(inspection.attention, head)
        queries, keys = (inspection.document["attention"][place][axis]["labels"] for axis in ("query", "key"))
        parts.append(f"{head or f'{place}, mean of its heads'}: rows are queries, columns are keys")
        parts += _blocks(weights, queries, keys, columns)
    elif head is not None:
        raise ConfigError("this model has no attention", where="--head")
    return "\n\n".join(part for part in parts if part)


def _predictions(document: Mapping[str, Any]) -> str:
    """Return one line for each prediction: the piece or label, its probability, and alternatives."""
    surfaces = document["surfaces"]
    rows = []
    for prediction in document["predictions"]:
        kind, pieces, surface = (prediction["at"][name] for name in ("kind", "pieces", "surface"))
        label, value = prediction["label"], prediction["log_probability"]
        if kind == "after" and pieces[0] + 1 >= len(surfaces[surface]["pieces"]):
            label, value = "…", None  # the end of the input
        elif kind in ("piece", "node", "gap"):
            label = surfaces[surface]["pieces"][pieces[0]]
        rows.append((label, value, prediction["alternatives"]))
    wide = max((len(_visible(label)) for label, _, _ in rows), default=0)
    return "\n".join(
        f"{_visible(label).rjust(wide)}  {'' if value is None else _percent(value):>7}  {_likely(best)}".rstrip()
        for label, value, best in rows
    )


def _likely(alternatives: Sequence[Mapping[str, Any]]) -> str:
    return "  ".join(
        f"{_visible(entry['label'])} {_percent(entry['log_probability'])}" for entry in alternatives[:ALTERNATIVES]
    )


def _percent(log_probability: float | None) -> str:
    return f"{100 * math.exp(-math.inf if log_probability is None else log_probability):.1f} %"


def _chosen(attention: Mapping[str, Tensor], head: str | None) -> tuple[str, Tensor]:
    """Return the place, and the weights (query, key) to draw."""
    if head is None:
        place = list(attention)[-1]
        return place, attention[place].float().mean(0)
    place, colon, number = head.rpartition(":")
    if not colon or head in attention:
        place, number = head, ""
    if place not in attention:
        help = did_you_mean(place, attention)
        raise ConfigError(
            f"the place {place} does not exist", where="--head", why=f"places: {', '.join(attention)}", help=help
        )
    heads = attention[place]
    if not number:
        return place, heads.float().mean(0)
    if not number.isdecimal() or int(number) >= len(heads):
        raise ConfigError(f"{place} has no head {number}", where="--head", why=f"it has {len(heads)}, counted from 0")
    return place, heads[int(number)].float()


def _blocks(weights: Tensor, queries: Sequence[str], keys: Sequence[str], columns: int) -> list[str]:
    """Return the heat map in blocks of keys that fit into the width."""
    rows, heads = [_visible(label) for label in queries], [_visible(label) for label in keys]
    wide = max(2, *(len(label) for label in heads)) + 1
    fitting = max(1, (columns - max(map(len, rows)) - 1) // wide)
    return [
        draw_attention(weights[:, start : start + fitting], heads[start : start + fitting], rows)
        for start in range(0, len(heads), fitting)
    ]


def _visible(label: str) -> str:
    """Return a label that is safe to print and visible."""
    signs = (VISIBLE.get(sign) or (sign if sign.isprintable() else f"U+{ord(sign):04X}") for sign in label)
    return "".join(signs) or "␀"


def draw_attention(weights: Tensor, source: Sequence[str], target: Sequence[str]) -> str:
    """Weights (target, source) in [0, 1] as a table of shades, one row a target piece, one column a source piece.

    The darkest cell of a row is the source piece with the largest weight when the target piece was predicted.
    """
    wide = max(2, *(len(piece) for piece in source)) + 1
    margin = max(len(piece) for piece in target) + 1
    head = " " * margin + "".join(piece.center(wide) for piece in source)
    rows = [
        piece.rjust(margin - 1) + " " + "".join(_shade(float(weight)) * (wide - 1) + " " for weight in row)
        for piece, row in zip(target, weights, strict=True)
    ]
    return "\n".join([head, *rows])


def _shade(weight: float) -> str:
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]
