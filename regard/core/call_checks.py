"""Checks of what a predictor is called with."""

from __future__ import annotations

from collections.abc import Mapping

from regard.errors import ConfigError, DataError


def require_list(inputs: object) -> None:
    """DataError for a text, whose letters would each be taken for one, a table, or what is no sequence."""
    if isinstance(inputs, str | bytes | Mapping) or not hasattr(inputs, "__iter__"):
        raise DataError(
            f"the inputs are one {type(inputs).__name__}, and should be a list",
            why="each input of a list has an answer",
            help="of one input: model([input])[0]",
        )


def require_count(name: str, value: object) -> None:
    """ConfigError for a setting that is no whole number from 1 on."""
    if type(value) is not int or value < 1:
        raise ConfigError(f"{name} cannot be {value!r}", where=name, why="it is a whole number from 1 on")
