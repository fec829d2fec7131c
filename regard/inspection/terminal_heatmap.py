"""An attention map as text, for terminals."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

SHADES = " ░▒▓█"


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
