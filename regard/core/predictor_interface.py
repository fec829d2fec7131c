"""Interface of a predictor for HTTP requests: descriptions of inputs and outputs, and the settings of a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import DataError

if TYPE_CHECKING:
    from pydantic import BaseModel


class PredictionInterrupted(Exception):
    """The prediction was interrupted because its client has gone."""


class PredictorInterface(NamedTuple):
    """Descriptions of a predictor's inputs and outputs, and how a server calls it.

    ``settings``: the run's own values of the fields that a request may set, all of which may be None; a field
    ``length`` counts tokens of an output, which servers limit. None: a request has no settings. ``predict``: (input,
    settings, interrupted) → output; a long prediction raises PredictionInterrupted soon after ``interrupted()`` is
    true.
    """

    takes: str
    gives: str
    settings: BaseModel | None
    predict: Callable[[Any, Any, Callable[[], bool]], Any]


def interface_of(predictor: Any) -> PredictorInterface:
    """Return the predictor's ``interface``, or one that calls it with a list of one input."""
    own = getattr(predictor, "interface", None)
    if isinstance(own, PredictorInterface):
        return own
    return PredictorInterface(
        "one input per line, in the format of `read`", "one output per input, in the format of `write`", None,
        lambda input, settings, interrupted: predictor([input])[0],
    )  # fmt: skip


def read_input(predictor: Any, line: str) -> Any:
    """Return the input of a line, as the predictor parses it. Raises DataError if its format is wrong."""
    try:
        return predictor.read(line)
    except ValueError as error:  # of a user-defined task
        raise DataError("cannot parse the input", why=str(error)) from error


def reads_json(predictor: Any) -> bool:
    """Return whether ``predictor.read`` parses JSON; for any other model a list is a text with brackets."""
    return bool(getattr(predictor, "reads_json", False))


def input_cost(predictor: Any, input: Any) -> int:
    """Return the number of values that one layer of a predictor holds for an input, in addition to its weights.

    This is ``predictor.cost(input)``: for a sequence the square of its length, for a graph its edges or the square of
    its nodes. 0 for a predictor without this method.
    """
    cost = getattr(predictor, "cost", None)
    return int(cost(input)) if cost is not None else 0
