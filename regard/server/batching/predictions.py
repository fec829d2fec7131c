"""Inputs, settings and outputs of a request for predictions, with their limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.core.deadline import Deadline
from regard.core.predictor_interface import PredictorInterface, input_cost, interface_of, read_input, reads_json
from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError, DataError, ModelError
from regard.inference.search_model import Searches
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob

if TYPE_CHECKING:
    from regard.server.settings import ServerSettings

LONGEST_NAME = 40  # characters of a setting's name that are repeated in a message


Work = Callable[[Callable[[], bool]], Any]


class JsonLine(str):
    """The line of an input that a client sent as a JSON list or object."""

    __slots__ = ()


def works_of(
    predictor: Any, lines: Sequence[str], given: Mapping[str, Any], limits: ServerSettings, deadline: Deadline
) -> list[Work]:
    """Return a work for each line, whose result is the output as JSON. ApiError for a wrong input or setting."""
    interface = interface_of(predictor)
    settings = request_settings(interface, given, limits)
    inputs = _read_inputs(predictor, lines, limits.numbers, deadline)
    return [partial(_predict, predictor, interface, input, settings) for input in inputs]


class SearchRequestJobs:
    """The inputs of a request as jobs of searches, and their outputs as JSON.

    ApiError for a wrong input or setting.
    """

    def __init__(
        self,
        predictor: Searches,
        lines: Sequence[str],
        given: Mapping[str, Any],
        limits: ServerSettings,
        client: str,
        deadline: Deadline,
    ) -> None:
        self._predictor = predictor
        requested = request_settings(interface_of(predictor), given, limits)
        self._inputs = _read_inputs(predictor, lines, limits.numbers, deadline)
        try:
            self._settings = predictor.requested(requested)
            self._parts = [predictor.search_inputs(input, self._settings) for input in self._inputs]
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        self.jobs = [
            SearchJob(part, self._settings, client=client, deadline=deadline.end)
            for parts in self._parts
            for part in parts
        ]

    def outputs(self, found: Sequence[list[Hypothesis]]) -> list[Any]:
        """Return the output of each input from the hypotheses of each job."""
        hypotheses = iter(found)
        return [
            _json(
                self._predictor,
                self._predictor.output(input, parts, [next(hypotheses) for _ in parts], self._settings),
            )
            for input, parts in zip(self._inputs, self._parts, strict=True)
        ]


def _read_inputs(predictor: Any, lines: Sequence[str], limit: int, deadline: Deadline) -> list[Any]:
    """Return the inputs that lines spell. ApiError for one that is not of the model's format, or costs too much."""
    if not (hasattr(predictor, "read") and hasattr(predictor, "write")):
        raise ApiError(400, "This model answers no requests: its predictor has no read and write.")
    inputs = []
    for number, line in enumerate(lines, start=1):
        deadline.check()
        if isinstance(line, JsonLine) and not reads_json(predictor):
            raise ApiError(422, f"Invalid request: inputs.{number - 1}: it should be a text")
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


def _predict(
    predictor: Any,
    interface: PredictorInterface,
    input: Any,
    settings: BaseModel | None,
    interrupted: Callable[[], bool],
) -> Any:
    """Return the output for one input, as JSON."""
    return _json(predictor, interface.predict(input, settings, interrupted))


def _json(predictor: Any, output: Any) -> Any:
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
    checked = _validated(type(interface.settings), given)
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


def _validated(kind: type[Settings], given: Mapping[str, Any]) -> Settings:
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
