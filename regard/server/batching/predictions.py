"""Inputs, settings and outputs of prediction requests, with their limits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from regard.core.deadline import Deadline
from regard.core.predictor_interface import (
    PredictorInterface,
    ReadsFiles,
    input_cost,
    interface_of,
    read_input,
    reads_json,
)
from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError, DataError, ModelError
from regard.inference.search_model import Searches
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob

if TYPE_CHECKING:
    from regard.server.settings import ServerSettings

LONGEST_NAME = 40  # maximum number of characters of an unknown setting in an error


Work = Callable[[Callable[[], bool]], Any]


class UploadedFile(NamedTuple):
    """An input that a client sent as a file: its contents and its name, which is no path on this machine."""

    contents: bytes
    name: str


class JsonLine(str):
    """Line of an input that a client sent as a JSON list or object."""

    __slots__ = ()


def works_of(
    predictor: Any,
    lines: Sequence[str | UploadedFile],
    requested: Mapping[str, Any],
    limits: ServerSettings,
    deadline: Deadline,
) -> list[Work]:
    """Return a work per line, whose result is the output as JSON; raise ApiError for invalid inputs or settings."""
    interface = interface_of(predictor)
    settings = request_settings(interface, requested, limits)
    inputs = read_inputs(predictor, lines, limits.numbers, deadline)
    return [partial(_predict, predictor, interface, input, settings) for input in inputs]


class SearchRequestJobs:
    """The inputs of a request as search jobs, and their outputs as JSON.

    Raises:
        ApiError: for an invalid input or setting.
    """

    def __init__(
        self,
        predictor: Searches,
        lines: Sequence[str | UploadedFile],
        requested: Mapping[str, Any],
        limits: ServerSettings,
        client: str,
        deadline: Deadline,
    ) -> None:
        self._predictor = predictor
        validated = request_settings(interface_of(predictor), requested, limits)
        self._inputs = read_inputs(predictor, lines, limits.numbers, deadline)
        try:
            self._settings = predictor.requested(validated)
            self._parts = [predictor.search_inputs(input, self._settings) for input in self._inputs]
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        self.jobs = [
            SearchJob(part, self._settings, client=client, deadline=deadline.end)
            for parts in self._parts
            for part in parts
        ]

    def outputs(self, hypotheses: Sequence[list[Hypothesis]]) -> list[Any]:
        """Return the output of each input, from the hypotheses of each job."""
        remaining = iter(hypotheses)
        return [
            _json(
                self._predictor,
                self._predictor.output(input, parts, [next(remaining) for _ in parts], self._settings),
            )
            for input, parts in zip(self._inputs, self._parts, strict=True)
        ]


def read_inputs(
    predictor: Any, lines: Sequence[str | UploadedFile], limit: int, deadline: Deadline, *,
    field: str = "inputs", embedding: bool = False,
) -> list[Any]:  # fmt: skip
    """Parse the inputs in lines.

    Args:
        predictor: the predictor, which parses the lines.
        lines: the lines and files of a request.
        limit: the maximum number of values per layer of an input.
        deadline: the deadline of the request.
        field: the name of the list in the request, for errors.
        embedding: whether the inputs are for ``Predictor.embed``.

    Raises:
        ApiError: for an invalid or too expensive input.
    """
    if not (hasattr(predictor, "read") and hasattr(predictor, "write")):
        raise ApiError(400, "This model cannot be used over HTTP: its predictor has no methods read and write.")
    inputs = []
    for number, line in enumerate(lines, start=1):
        deadline.check()
        if isinstance(line, UploadedFile) and not (isinstance(predictor, ReadsFiles) and predictor.suffixes):
            raise ApiError(422, "Invalid request: file: this model does not read files")
        if isinstance(line, JsonLine) and not reads_json(predictor):
            raise ApiError(422, f"Invalid request: {field}.{number - 1}: expected a text")
        try:
            inputs.append(_read(predictor, line, embedding))
            require_cost(predictor, inputs[-1], limit, f"input {number}")
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
    return inputs


def _read(predictor: Any, line: str | UploadedFile, embedding: bool) -> Any:
    """Return the input of a line or of an uploaded file."""
    if isinstance(line, UploadedFile):
        return predictor.read_file(*line)
    return read_input(predictor, line, embedding=embedding)


def require_cost(predictor: Any, input: Any, limit: int, what: str) -> None:
    """Raise ApiError 413 for an input with more values per layer than the limit; ``what`` is the name of the input."""
    if (cost := input_cost(predictor, input)) > limit:
        raise ApiError(413, f"Too long: {what} needs {cost:,} values per layer; the limit is {limit:,}.")


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
    """Return an output in the JSON format of the predictor; raise ModelError if it is not finite."""
    return json.loads(predictor.write(output, json=True), parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    """Raise ModelError for NaN and infinities, which JSON does not support."""
    raise ModelError("the output is not finite", why=f"it contains {name}")


def request_settings(
    interface: PredictorInterface, requested: Mapping[str, Any], limits: ServerSettings, *,
    length_name: str = "settings.length",
) -> BaseModel | None:  # fmt: skip
    """Return the settings of the run, overridden by those of a request.

    Args:
        interface: the interface of the predictor.
        requested: the settings of the request; None is the default.
        limits: the limits of the server.
        length_name: the name of the length in the request, for errors.

    Raises:
        ApiError: for unknown or invalid settings, or values above a limit.
    """
    requested = {name: value for name, value in requested.items() if value is not None}
    if interface.settings is None:
        if requested:
            name = next(iter(requested))[:LONGEST_NAME]
            raise ApiError(422, f"Invalid request: settings.{name}: this model has no settings")
        return None
    checked = _validated(type(interface.settings), requested)
    chosen = interface.settings.model_copy(update=checked.model_dump(exclude_unset=True))
    if (beam := getattr(checked, "beam", None)) is not None and beam > limits.beam:
        raise ApiError(400, f"Invalid request: beam {beam} exceeds the limit of {limits.beam}")
    if (getattr(checked, "nbest", None) or 1) > limits.nbest:
        raise ApiError(400, f"Invalid request: nbest exceeds the limit of {limits.nbest}")
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


def _validated(kind: type[Settings], requested: Mapping[str, Any]) -> Settings:
    """Return the settings of a request; raise ApiError 422 with the name and the reason of the first invalid one."""
    try:
        return kind.model_validate(dict(requested))
    except ValidationError as error:
        failure = error.errors(include_url=False)[0]
        name = str(failure["loc"][0])[:LONGEST_NAME] if failure["loc"] else ""
        reason = describe_failure(failure)
        if failure["type"] == "extra_forbidden":
            hint = did_you_mean(name, kind.model_fields)
            reason = "unknown setting" + (f"; {hint}" if hint else "")
        raise ApiError(422, f"Invalid request: settings.{name}: {reason}") from error
