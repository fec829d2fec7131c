"""Line-by-line prediction with the predictor of any task."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.core.predictor import Predictor, settings_of_call
from regard.core.wording import pluralize
from regard.errors import ConfigError, DataError, RegardError


def require_settings(predictor: Predictor[Any], settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for a setting that is not a parameter of the predictor."""
    known, keyword = settings_of_call(predictor), inspect.Parameter.VAR_KEYWORD
    free = any(parameter.kind is keyword for parameter in known.values())
    named = [name for name, parameter in known.items() if parameter.kind is not keyword]
    unknown = [name for name in settings if name not in named]
    if unknown and not free:
        why = f"the settings of this model are {', '.join(named)}" if named else "this model has no settings"
        raise ConfigError(f"unknown setting {unknown[0]}", where=f"--set {unknown[0]}", why=why)


def read_inputs(
    predictor: Predictor[Any],
    lines: Sequence[str],
    *,
    name: str,
    first: int = 1,
    row_names: Sequence[str] | None = None,
    read: Callable[[str], Any] | None = None,
) -> tuple[list[Any], Any]:
    """Parse the inputs of lines up to the first invalid one.

    Args:
        predictor: the predictor, which parses the lines.
        lines: the texts of the inputs.
        name: the name of the file, for errors.
        first: the number of the first line.
        row_names: the name of each row, for errors; replaces ``name`` and ``first``.
        read: parses a line; None: ``Predictor.read``.

    Returns:
        The valid inputs, and the error of the first invalid line or None.
    """
    inputs: list[Any] = []
    read = read or predictor.read
    for number, line in enumerate(lines):
        where = f"{name}:{first + number}" if row_names is None else row_names[number]
        try:
            inputs.append(read(line))
        except RegardError as error:
            error.where = where if error.where is None else error.where
            return inputs, error
        except ValueError as error:
            return inputs, DataError("cannot parse the input", where=where, why=str(error))
    return inputs, None


def predict_lines(
    predictor: Predictor[Any], inputs: Sequence[Any], settings: Mapping[str, Any], *, json: bool = False
) -> list[str]:
    """Return the output of each input as one line, in order.

    Raises:
        ConfigError: if the predictor returns another number of outputs.
    """
    outputs = predictor(inputs, **settings) if inputs else []
    if len(outputs) != len(inputs):
        numbers = f"{pluralize(len(outputs), 'output')} for {pluralize(len(inputs), 'input')}"
        what = f"{type(predictor).__name__} returned {numbers}"
        raise ConfigError(what, where="predictor", help="check your task with regard.testing.check_task")
    return [predictor.write(output, json=json) for output in outputs]
