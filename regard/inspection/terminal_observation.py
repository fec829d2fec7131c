"""Inspection as text, for terminals: each prediction with its alternatives, and one head."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.inspection.document import Inspection
from regard.inspection.terminal_heatmap import draw_attention

ALTERNATIVES = 4
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍"}


def draw_inspection(found: Inspection, head: str | None, *, columns: int) -> str:
    """Return predictions and the weights of ``head`` (PLACE or PLACE:N), in at most ``columns`` where labels allow.

    Without ``head`` the mean over the heads of the last place is drawn. ConfigError for a head that does not exist.
    """
    parts = [_predictions(found.document)]
    if found.attention:
        place, weights = _chosen(found.attention, head)
        queries, keys = (found.document["attention"][place][axis]["labels"] for axis in ("query", "key"))
        parts.append(f"{head or f'{place}, mean of its heads'}: rows look, columns are looked at")
        parts += _blocks(weights, queries, keys, columns)
    elif head is not None:
        raise ConfigError("this model has no attention", where="--head")
    return "\n\n".join(part for part in parts if part)


def _predictions(document: Mapping[str, Any]) -> str:
    """One line a prediction: the piece or label and its probability, and what else was likely there."""
    surfaces = document["surfaces"]
    rows = []
    for prediction in document["predictions"]:
        kind, pieces, surface = (prediction["at"][name] for name in ("kind", "pieces", "surface"))
        label, value = prediction["label"], prediction["log_probability"]
        if kind == "after" and pieces[0] + 1 >= len(surfaces[surface]["pieces"]):
            label, value = "…", None  # nothing follows there
        elif kind in ("piece", "node", "gap"):
            label = surfaces[surface]["pieces"][pieces[0]]
        rows.append((label, value, prediction["alternatives"]))
    wide = max((len(_visible(label)) for label, _, _ in rows), default=0)
    return "\n".join(
        f"{_visible(label).rjust(wide)}  {'' if value is None else _percent(value):>7}  {_likely(others)}".rstrip()
        for label, value, others in rows
    )


def _likely(alternatives: Sequence[Mapping[str, Any]]) -> str:
    return "  ".join(
        f"{_visible(each['label'])} {_percent(each['log_probability'])}" for each in alternatives[:ALTERNATIVES]
    )


def _percent(log_probability: float | None) -> str:
    return f"{100 * math.exp(-math.inf if log_probability is None else log_probability):.1f} %"


def _chosen(attention: Mapping[str, Tensor], head: str | None) -> tuple[str, Tensor]:
    """The place, and the weights (query, key) to draw."""
    if head is None:
        place = list(attention)[-1]
        return place, attention[place].float().mean(0)
    place, colon, number = head.rpartition(":")
    if not colon or head in attention:
        place, number = head, ""
    if place not in attention:
        help = did_you_mean(place, attention)
        raise ConfigError(
            f"there is no place {place}", where="--head", why=f"there are {', '.join(attention)}", help=help
        )
    heads = attention[place]
    if not number:
        return place, heads.float().mean(0)
    if not number.isdecimal() or int(number) >= len(heads):
        raise ConfigError(f"{place} has no head {number}", where="--head", why=f"it has {len(heads)}, counted from 0")
    return place, heads[int(number)].float()


def _blocks(weights: Tensor, queries: Sequence[str], keys: Sequence[str], columns: int) -> list[str]:
    """The heat map, cut into blocks of keys that fit beside each other."""
    rows, heads = [_visible(each) for each in queries], [_visible(each) for each in keys]
    wide = max(2, *(len(each) for each in heads)) + 1
    fitting = max(1, (columns - max(map(len, rows)) - 1) // wide)
    return [
        draw_attention(weights[:, at : at + fitting], heads[at : at + fitting], rows)
        for at in range(0, len(heads), fitting)
    ]


def _visible(label: str) -> str:
    """A label that is safe to print and can be seen."""
    signs = (VISIBLE.get(sign) or (sign if sign.isprintable() else f"U+{ord(sign):04X}") for sign in label)
    return "".join(signs) or "␀"
