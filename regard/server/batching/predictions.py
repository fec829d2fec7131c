"""Inputs, settings and outputs of a request for predictions, with their limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.core.deadline import Deadline
from regard.core.predictor_interface import PredictorInterface, input_cost, read_input
from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError, DataError, ModelError
from regard.server.api_error import ApiError, public_message

if TYPE_CHECKING:
    from regard.server.settings import ServerSettings

__all__ = ["output_json", "predict_one", "read_inputs", "request_settings", "require_cost", "validate_settings"]

LONGEST_NAME = 40  # characters of a setting's name that are repeated in a message


def read_inputs(predictor: Any, lines: Sequence[str], limit: int, deadline: Deadline) -> list[Any]:
    """Return the inputs that lines spell. ApiError for one that is not of the model's format, or costs too much."""
    inputs = []
    for number, line in enumerate(lines, start=1):
        deadline.check()
        try:
            inputs.append(read_input(predictor, line))
            require_cost(predictor, inputs[-1], limit, f"input {number}")
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
    return inputs


def require_cost(predictor: Any, input: Any, limit: int, what: str) -> None:
    """Raise ApiError 413 for an input of more numbers than a layer may hold at once. ``what``: names the input."""
    if (cost := input_cost(predictor, input)) > limit:
        raise ApiError(413, f"Too long: {what} needs {cost:,} numbers in a layer, and the limit is {limit:,}.")


def predict_one(
    predictor: Any,
    interface: PredictorInterface,
    input: Any,
    settings: BaseModel | None,
    interrupted: Callable[[], bool],
) -> Any:
    """Return the output for one input, as JSON."""
    return output_json(predictor, interface.predict(input, settings, interrupted))


def output_json(predictor: Any, output: Any) -> Any:
    """Return an output as the predictor writes it in JSON. ModelError for one that is not finite."""
    return json.loads(predictor.write(output, json=True), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    """Refuse NaN and infinities, which JSON does not have."""
    raise ModelError("an output is not finite", why=f"it has {name}")


def request_settings(
    interface: PredictorInterface, given: Mapping[str, Any], limits: ServerSettings, *,
    length_name: str = "settings.length",
) -> BaseModel | None:  # fmt: skip
    """Return the run's settings with those of a request. ApiError for unknown or wrong ones, and beyond a limit.

    ``length_name``: what the request calls its length.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if interface.settings is None:
        if given:
            raise ApiError(422, f"Invalid request: settings.{next(iter(given))[:LONGEST_NAME]}: this model takes none")
        return None
    checked = validate_settings(type(interface.settings), given)
    chosen = interface.settings.model_copy(update=checked.model_dump(exclude_unset=True))
    if (beam := getattr(checked, "beam", None)) is not None and beam > limits.beam:
        raise ApiError(400, f"Invalid request: a beam of {beam} is wider than {limits.beam}")
    if (getattr(checked, "nbest", None) or 1) > limits.nbest:
        raise ApiError(400, f"Invalid request: more than {limits.nbest} outputs of a text")
    if "length" not in type(chosen).model_fields:
        return chosen
    length, longest = getattr(checked, "length", None), limits.length
    if length is not None and length > longest:
        raise ApiError(
            400, f"Invalid request: {length_name}: {length} tokens exceed the limit of {longest} (--length-limit)"
        )
    own = getattr(chosen, "length", None)
    return chosen.model_copy(update={"length": min(own or longest, longest)})


Settings = TypeVar("Settings", bound=BaseModel)


def validate_settings(kind: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Return the settings of a request. ApiError 422 with the field and the reason for the first that is wrong."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        failure = error.errors(include_url=False)[0]
        name = str(failure["loc"][0])[:LONGEST_NAME] if failure["loc"] else ""
        reason = describe_failure(failure)
        if failure["type"] == "extra_forbidden":
            hint = did_you_mean(name, kind.model_fields)
            reason = "there is no such setting" + (f"; {hint}" if hint else "")
        raise ApiError(422, f"Invalid request: settings.{name}: {reason}") from error
