"""What the dialects have in common in reading a request: its fields from JSON, form or query, and who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from fastapi import Request

from regard.core.untrusted_files import parse_json
from regard.server.api_error import ApiError

__all__ = ["ClientGone", "Sender", "fields", "network_of", "sender", "texts_of", "unless_gone"]

Result = TypeVar("Result")


class ClientGone(Exception):
    """Nobody is there to read the answer."""


class Sender(NamedTuple):
    """Who asks: the key that was given, if any, and the address."""

    key: str | None
    address: str


def sender(request: Request, scheme: str, key: Any = None) -> Sender:
    """``key``, or what follows ``scheme`` in the header Authorization."""
    kind, _, rest = request.headers.get("authorization", "").partition(" ")
    if not isinstance(key, str) and kind.lower() == scheme.lower() and rest.strip():
        key = rest.strip()
    return Sender(key if isinstance(key, str) else None, network_of(request.client.host if request.client else ""))


def network_of(host: str) -> str:
    """What tells clients apart: an address; of IPv6 the network, since one has as many addresses there as it likes."""
    try:
        address = ip_address(host)
    except ValueError:
        return "unknown"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    return str(ip_network((address, 64), strict=False)) if address.version == 6 else str(address)


async def fields(request: Request) -> dict[str, Any]:
    """The query's fields, and the body's, which win. A field given several times in a form is a list."""
    found: dict[str, Any] = _from_form(request.url.query)
    body = await request.body()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body.strip():
        return found
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise ApiError(400, "Invalid request: the body is not UTF-8") from error
    if kind == "application/json" or (kind != "application/x-www-form-urlencoded" and text.lstrip().startswith("{")):
        return found | _from_json(text)
    if kind in ("", "application/x-www-form-urlencoded"):
        return found | _from_form(text)
    raise ApiError(415, f"Unsupported media type: {kind[:80]}")


def _from_form(text: str) -> dict[str, Any]:
    try:
        parsed = parse_qs(text, keep_blank_values=True, max_num_fields=1000)
    except ValueError as error:
        raise ApiError(400, "Invalid request: too many fields") from error
    return {key: values[0] if len(values) == 1 else values for key, values in parsed.items()}


def _from_json(text: str) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except ValueError as error:
        raise ApiError(400, "Invalid request: the body is not JSON") from error
    if not isinstance(found, dict):
        raise ApiError(400, "Invalid request: the body is not a JSON object")
    return found


def texts_of(given: Any, field: str) -> list[str]:
    """One text or a list of them."""
    texts = given if isinstance(given, list) else [given]
    if given is None or not all(isinstance(text, str) for text in texts):
        raise ApiError(400, f"Invalid request: missing or wrong {field} parameter")
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:  # JSON may name half of a pair of surrogates
            raise ApiError(400, f"Invalid request: {field} is not Unicode") from error
    return texts


async def unless_gone(request: Request, work: Awaitable[Result]) -> Result:
    """The result, unless the client hangs up first: then the work is cancelled. After the body has been read."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        gone.cancel()
        task.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
