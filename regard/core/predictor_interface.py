"""Interface of a predictor for requests over HTTP: inputs and outputs in words, and the settings of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import DataError

if TYPE_CHECKING:
    from pydantic import BaseModel


class PredictionInterrupted(Exception):
    """Nobody waits for the output any more."""


class PredictorInterface(NamedTuple):
    """Inputs and outputs of a predictor in words, and how a server calls it.

    ``settings``: the run's own values of the fields that a request may set, all of which may be None; a field
    ``length`` counts tokens of an output, which servers limit. None: a request sets nothing. ``predict``: (input,
    settings, interrupted) to an output; one that takes long raises PredictionInterrupted soon after ``interrupted()``
    is true.
    """

    takes: str
    gives: str
    settings: BaseModel | None
    predict: Callable[[Any, Any, Callable[[], bool]], Any]


def interface_of(predictor: Any) -> PredictorInterface:
    """The ``interface`` that a predictor has, or one that calls it with a list of one input."""
    own = getattr(predictor, "interface", None)
    if isinstance(own, PredictorInterface):
        return own
    return PredictorInterface(
        "one input a line, as `read` takes it", "one output each, as `write` gives it", None,
        lambda input, settings, interrupted: predictor([input])[0],
    )  # fmt: skip


def read_input(predictor: Any, line: str) -> Any:
    """The input that a line is, as the predictor reads it. DataError for one that is not of its format."""
    try:
        return predictor.read(line)
    except ValueError as error:  # of a task of one's own
        raise DataError("this input cannot be read", why=str(error)) from error


def reads_json(predictor: Any) -> bool:
    """Return whether ``predictor.read`` parses JSON: to any other model a list is a text with brackets."""
    return bool(getattr(predictor, "reads_json", False))


def input_cost(predictor: Any, input: Any) -> int:
    """Return how many numbers one layer of a predictor holds at once for an input, beyond its weights.

    It is what ``predictor.cost(input)`` states: of a sequence the square of its length, of a graph its edges or the
    square of its nodes. 0 for a predictor without this method.
    """
    state = getattr(predictor, "cost", None)
    return int(state(input)) if state is not None else 0
