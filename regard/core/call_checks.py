"""Checks of the arguments of a predictor."""

from __future__ import annotations

from collections.abc import Mapping

from regard.errors import ConfigError, DataError


def require_list(inputs: object) -> None:
    """Raise DataError for a text, whose characters would be taken for inputs, for a table, or for a non-sequence."""
    if isinstance(inputs, str | bytes | Mapping) or not hasattr(inputs, "__iter__"):
        raise DataError(
            f"the inputs must be a list, got {type(inputs).__name__}",
            why="a predictor returns one output for each input of a list",
            help="for one input: model([input])[0]",
        )


def require_count(name: str, value: object) -> None:
    """Raise ConfigError unless a setting is a whole number ≥ 1."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} cannot be {value!r}", where=name, why="it must be a whole number ≥ 1")
