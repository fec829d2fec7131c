"""Served model of any task but translation: its predictor reads inputs, predicts and writes outputs, one at a time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from regard.core.deadline import Deadline
from regard.core.predictor_interface import PredictorInterface, input_cost, interface_of, read_input
from regard.core.wording import describe_failure, did_you_mean
from regard.errors import ConfigError, DataError, ModelError
from regard.inspection.run_inspector import RunInspector
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import Limits, SchedulerObserver, WorkJob
from regard.server.batching.scheduler import Scheduler
from regard.server.batching.served import Served
from regard.server.off_loop import off_loop
from regard.server.settings import ServerSettings

__all__ = ["ServedPredictor", "request_settings", "require_cost", "validate_settings"]

Result = TypeVar("Result")
LONGEST_NAME = 40  # characters of a setting's name that are repeated in a message


class ServedPredictor(Served[Any]):
    """Model behind the server that computes in one thread, input by input."""

    def __init__(
        self, name: str, *, task: str, load_predictor: Callable[[], Any], waiting: int,
        observer: SchedulerObserver | None = None, threads: int | None = None,
        inspector: RunInspector[Any] | None = None,
    ) -> None:  # fmt: skip
        """Describe a model; nothing is loaded yet.

        ``load_predictor``: reads the weights. ``waiting``: inputs of one client that may wait. ``observer``: informed
        of the queue's work. The rest is as in ``Served``.
        """
        super().__init__(name, task=task, threads=threads, inspector=inspector)
        self._load_predictor, self._limits, self._observer = load_predictor, Limits(waiting=waiting), observer

    def _open(self) -> tuple[Any, Scheduler]:
        return self._load_predictor(), Scheduler(None, self._limits, observer=self._observer)

    async def predict(
        self, inputs: Sequence[str], settings: Mapping[str, Any], *, client: str, seconds: float, limits: ServerSettings
    ) -> list[Any]:
        began = time.monotonic()
        predictor, _ = await self.wait_until_loaded(seconds)
        if not (hasattr(predictor, "read") and hasattr(predictor, "write")):
            raise ApiError(400, f"The model {self.name} answers no requests: its predictor has no read and write.")
        interface = interface_of(predictor)
        chosen = await off_loop(request_settings, interface, settings, limits)
        read = await off_loop(_read_inputs, predictor, inputs, limits.numbers, Deadline(seconds))
        works = [partial(_predict, predictor, interface, input, chosen) for input in read]
        return await self.compute(works, client=client, seconds=seconds - (time.monotonic() - began))

    async def compute(
        self, works: Sequence[Callable[[Callable[[], bool]], Result]], *, client: str, seconds: float
    ) -> list[Result]:
        """Return the results of works, each done in the model's thread when it is the client's turn."""
        deadline = time.monotonic() + seconds
        _, scheduler = await self.wait_until_loaded(seconds)
        return await self._results(scheduler, [WorkJob(work, client, deadline) for work in works], seconds)


def _read_inputs(predictor: Any, lines: Sequence[str], limit: int, deadline: Deadline) -> list[Any]:
    """Return the inputs that lines spell. ApiError for one that is not of the model's format, or costs too much."""
    inputs = []
    for number, line in enumerate(lines, start=1):
        deadline.check()
        try:
            inputs.append(read_input(predictor, line))
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        require_cost(predictor, inputs[-1], limit, f"input {number}")
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
    output = interface.predict(input, settings, interrupted)
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
