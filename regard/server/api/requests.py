"""Parsing of requests, common to all interfaces: fields in JSON, a form or the query, and credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import Request
from starlette.requests import HTTPConnection

from regard.server.api.json_route import parse_request_json
from regard.server.api_error import ApiError

Result = TypeVar("Result")
KEY_FIELD = "api_key"  # field of LibreTranslate


class ClientDisconnected(Exception):
    """The client disconnected and will not read the response."""


class Credentials(NamedTuple):
    """API key of a client, if it sent one, and its network address."""

    key: str | None
    address: str


def credentials(request: HTTPConnection, scheme: str, key: Any = None) -> Credentials:
    """Return the client's credentials: ``key``, else the key after ``scheme`` in the header Authorization."""
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    if not isinstance(key, str) and kind.lower() == scheme.lower() and rest.strip():
        key = rest.strip()
    return Credentials(
        key if isinstance(key, str) else None, client_network(request.client.host if request.client else "")
    )


def client_network(host: str) -> str:
    """Return the network that identifies a client: its IPv4 address, or its /64 network for IPv6.

    An IPv6 client usually owns all addresses of its /64 network.
    """
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return str(ip_network((address, 64), strict=False)) if address.version == 6 else str(address)


class RawRequest(NamedTuple):
    """Query, body and media type of a request; call ``fields`` outside the thread of the event loop."""

    query: str
    body: bytes
    media_type: str

    @classmethod
    async def receive(cls, request: Request) -> RawRequest:
        """Wait for the complete body and return the parts of the request."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        return cls(request.url.query, await request.body(), kind)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the query and of the body; those of the body have priority.

        An API key in the query is ignored. Repeated fields of a form become a list. JSON must have the type JSON,
        because a page of another site can send other types without permission.

        Raises:
            ApiError: if the body is neither JSON nor a form.
        """
        values = _parse_form(self.query)
        values.pop(KEY_FIELD, None)  # URLs are logged and remain in the history of browsers
        if not self.body.strip():
            return values
        try:
            text = self.body.decode()
        except UnicodeDecodeError as error:
            raise ApiError(400, "Invalid request: the body is not UTF-8") from error
        if self.media_type == "application/json":
            return values | _parse_json(text)
        if self.media_type in ("", "application/x-www-form-urlencoded"):
            if text.lstrip().startswith("{"):
                raise ApiError(415, "Unsupported media type: send JSON as application/json.")
            return values | _parse_form(text)
        raise ApiError(415, f"Unsupported media type: {self.media_type[:80]}")


def _parse_form(text: str) -> dict[str, Any]:
    """Return the fields of a URL-encoded form."""
    try:
        parsed = parse_qs(text, keep_blank_values=True, max_num_fields=1000)
    except ValueError as error:
        raise ApiError(400, "Invalid request: too many fields") from error
    return {key: values[0] if len(values) == 1 else values for key, values in parsed.items()}


def _parse_json(text: str) -> dict[str, Any]:
    """Return the fields of a JSON object."""
    values = parse_request_json(text)
    if not isinstance(values, dict):
        raise ApiError(400, "Invalid request: the body is not a JSON object")
    return values


def validate_texts(value: Any, field: str) -> list[str]:
    """Return the value of a field as a list of texts; raise ApiError if it is neither a text nor a list of texts."""
    texts = value if isinstance(value, list) else [value]
    if value is None or not all(isinstance(text, str) for text in texts):
        raise ApiError(400, f"Invalid request: missing or wrong {field} parameter")
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:  # JSON may contain half of a surrogate pair
            raise ApiError(400, f"Invalid request: {field} is not Unicode") from error
    return texts


async def unless_disconnected(request: Request, work: Awaitable[Result]) -> Result:
    """Return the result of ``work``, and cancel it if the client disconnects. The body must have been read."""
    task, disconnected = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({task, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnected
        return task.result()
    finally:
        disconnected.cancel()
        task.cancel()


async def _disconnected(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
