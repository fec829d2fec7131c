"""Lines to lines by the predictor of any task."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.task import Predictor
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError, RegardError


def require_settings(predictor: Predictor, settings: Mapping[str, Any]) -> None:
    """ConfigError for a setting that the predictor does not take, as far as its signature tells."""
    known = inspect.signature(predictor).parameters
    free = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
    named = [name for name, each in list(known.items())[1:] if each.kind is not inspect.Parameter.VAR_KEYWORD]
    unknown = [name for name in settings if name not in named]
    if unknown and not free:
        why = f"its settings are {', '.join(named)}" if named else "it has no settings"
        raise ConfigError(f"this model takes no setting {unknown[0]}", where=f"--set {unknown[0]}", why=why)


def read_inputs(
    predictor: Predictor, lines: Sequence[str], *, name: str, first: int = 1, places: Sequence[str] | None = None
) -> tuple[list[Any], Any]:
    """Read the inputs of the lines up to the first that is none, and the error for that one, or None.

    Args:
        predictor: reads the lines.
        lines: texts of inputs.
        name: the file, for messages.
        first: the number of the first line.
        places: where each line is, for messages; instead of ``name`` and ``first``.
    """
    inputs: list[Any] = []
    for number, line in enumerate(lines):
        where = f"{name}:{first + number}" if places is None else places[number]
        try:
            inputs.append(predictor.read(line))
        except RegardError as error:
            error.where = where if error.where is None else error.where
            return inputs, error
        except ValueError as error:
            return inputs, DataError("the line is no input of this model", where=where, why=str(error))
    return inputs, None


def predict_lines(
    predictor: Predictor, inputs: Sequence[Any], settings: Mapping[str, Any], *, json: bool = False
) -> list[str]:
    """The outputs of the inputs, a line each, in order. ConfigError where their numbers differ."""
    outputs = predictor(inputs, **settings) if inputs else []
    if len(outputs) != len(inputs):
        what = (
            f"{type(predictor).__name__} gave {pluralize(len(outputs), 'output')} for {pluralize(len(inputs), 'input')}"
        )
        raise ConfigError(what, where="predictor", help="regard.testing.check_task checks a task of your own")
    return [predictor.write(output, json=json) for output in outputs]
