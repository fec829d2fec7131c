"""Routes with a JSON body: body and response are processed outside the thread of the event loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, FailFast, ValidationError

from regard.core.untrusted_files import TooDeep, parse_json, shortened
from regard.core.wording import describe_failure, did_you_mean
from regard.server.api.forms import is_form
from regard.server.api_error import ApiError
from regard.server.json_pieces import write_json
from regard.server.off_loop import off_loop

Body = TypeVar("Body", bound=BaseModel)


class _FirstError(FailFast):
    """Mark of a list whose validation stops at the first error; a request could otherwise cause 60,000 errors."""

    __hash__ = object.__hash__  # unions of annotated types need it


FIRST_ERROR = _FirstError()
Strings = Annotated[list[str], FIRST_ERROR]
LONGEST_NAME = 40  # maximum length of an unknown field for which a suggestion is searched


class JsonRoute(APIRoute):
    """Route of an endpoint with the parameters ``body`` (a model) and ``request``, or without a body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        if self.body_field is None:
            return super().get_route_handler()
        model, endpoint = self.body_field.field_info.annotation, self.endpoint
        assert isinstance(model, type) and issubclass(model, BaseModel)

        async def handle(request: Request) -> Response:
            """Answer a request."""
            raw, media_type = await request.body(), request.headers.get("content-type", "")
            of_form = getattr(model, "of_form", None)  # of an endpoint that also takes uploaded files
            if of_form is not None and is_form(media_type):
                body = await off_loop(of_form, request.headers, raw)
            else:
                body = await off_loop(parse_body, model, raw, media_type)
            result = await endpoint(body=body, request=request)
            return result if isinstance(result, Response) else await off_loop(json_response, result)

        return handle


def json_response(result: Any) -> Response:
    """Return a model or an object as a JSON response. Call it outside the thread of the event loop."""
    return Response(write_json(result), media_type="application/json")


def parse_request_json(raw: str | bytes) -> Any:
    """Parse a JSON body; raise ApiError 400 if it is not JSON, or has a string that is not Unicode."""
    try:
        return parse_json(raw)
    except TooDeep as error:
        raise ApiError(400, f"Invalid request: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, "Invalid request: the body is not JSON") from error
    except ValueError as error:
        problem = "has a number of too many digits" if "digits" in str(error) else f"is not Unicode: {error}"
        raise ApiError(400, f"Invalid request: the body {problem}") from error


def parse_body(model: type[Body], raw: bytes, media_type: str) -> Body:
    """Parse and validate the body of a request.

    The type must be JSON: browsers send JSON from a page of another site only if the server allows it. They send forms
    and plain text without permission.

    Args:
        model: the model of the body.
        raw: the body.
        media_type: the header Content-Type.

    Raises:
        ApiError: 415 for another type than JSON, 400 for invalid JSON, 422 for invalid fields.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ApiError(415, "Unsupported media type: send the body as application/json.")
    values = parse_request_json(raw)
    if not isinstance(values, dict):
        raise ApiError(422, "Invalid request: body: expected a JSON object")
    return validated(model, values)


def validated(model: type[Body], values: dict[str, Any]) -> Body:
    """Return the validated body. Raises ApiError 422 for unknown or invalid fields."""
    if model.model_config.get("extra") == "forbid":
        _refuse_unknown(values, list(model.model_fields))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        failure = error.errors(include_url=False, include_input=False)[0]
        field = shortened(".".join(map(str, failure["loc"]))) or "body"
        raise ApiError(422, f"Invalid request: {field}: {describe_failure(failure)}") from error


def _refuse_unknown(values: dict[str, Any], known: list[str]) -> None:
    """Raise ApiError for the first unknown field; pydantic would list all of them."""
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known) if len(name) <= LONGEST_NAME else None
            reason = "unknown field" + (f"; {hint}" if hint else "")
            raise ApiError(422, f"Invalid request: {shortened(name)}: {reason}")
