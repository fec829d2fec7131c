"""Routes with a JSON body: the body is parsed, and the response written, off the event loop's thread."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, FailFast, ValidationError

from regard.core.untrusted_files import TooDeep, parse_json, shortened
from regard.core.wording import describe_failure, did_you_mean
from regard.server.api_error import ApiError
from regard.server.json_pieces import write_json
from regard.server.off_loop import off_loop

Body = TypeVar("Body", bound=BaseModel)


class _FirstError(FailFast):
    """Mark of a list whose validation ends at its first error: a request could ask for 60,000 of them."""

    __hash__ = object.__hash__  # unions of annotated types need it


FIRST_ERROR = _FirstError()
Strings = Annotated[list[str], FIRST_ERROR]
LONGEST_NAME = 40  # characters of an unknown field's name


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
            result = await endpoint(body=await off_loop(parse_body, model, raw, media_type), request=request)
            return result if isinstance(result, Response) else await off_loop(json_response, result)

        return handle


def json_response(result: Any) -> Response:
    """Return a model or an object as a response in JSON. Call it off the event loop's thread."""
    return Response(write_json(result), media_type="application/json")


def parse_request_json(raw: str | bytes) -> Any:
    """Return the value that a body spells in JSON. ApiError 400 if it spells none, or half a surrogate pair."""
    try:
        return parse_json(raw)
    except TooDeep as error:
        raise ApiError(400, f"Invalid request: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, "Invalid request: the body is not JSON") from error
    except ValueError as error:
        raise ApiError(400, f"Invalid request: the body is not Unicode: {error}") from error


def parse_body(model: type[Body], raw: bytes, media_type: str) -> Body:
    """Return the body of a request.

    ``media_type``: the header Content-Type. A browser sends JSON of another site's page only after that server allows
    it, unless the type is one of a form or of plain text.

    Raises:
        ApiError: 415 for another type than JSON, 400 for what is not JSON, 422 for wrong fields.
    """
    kind = media_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise ApiError(415, "Unsupported media type: send the body as application/json.")
    values = parse_request_json(raw)
    if not isinstance(values, dict):
        raise ApiError(422, "Invalid request: body: it should be a table of keys")
    if model.model_config.get("extra") == "forbid":
        _refuse_unknown(values, list(model.model_fields))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        failure = error.errors(include_url=False, include_input=False)[0]
        field = shortened(".".join(map(str, failure["loc"]))) or "body"
        raise ApiError(422, f"Invalid request: {field}: {describe_failure(failure)}") from error


def _refuse_unknown(values: dict[str, Any], known: list[str]) -> None:
    """Raise ApiError for the first field that a model does not have; pydantic would list all of them."""
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known) if len(name) <= LONGEST_NAME else None
            reason = "there is no such field" + (f"; {hint}" if hint else "")
            raise ApiError(422, f"Invalid request: {shortened(name)}: {reason}")
