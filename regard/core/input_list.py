"""Check that a predictor is given a list of inputs, and not one input, whose letters would each be taken for one."""

from __future__ import annotations

from collections.abc import Mapping

from regard.errors import DataError

__all__ = ["require_list"]


def require_list(inputs: object) -> None:
    """DataError for a text, a table, or what is no sequence: a predictor answers each of a list."""
    if isinstance(inputs, str | bytes | Mapping) or not hasattr(inputs, "__iter__"):
        raise DataError(
            f"the inputs are one {type(inputs).__name__}, and should be a list",
            why="each input of a list has an answer",
            help="of one input: model([input])[0]",
        )
