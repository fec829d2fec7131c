"""Reload of the models over HTTP, for operators."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from regard.errors import RegardError
from regard.server.api.api_v1 import ERROR_RESPONSES, ErrorBody
from regard.server.api.requests import credentials
from regard.server.api_error import ApiError, public_message
from regard.server.request_guard import is_loopback
from regard.server.service import Service

FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")  # headers of proxies


class ReloadResponse(BaseModel):
    """The reload has begun."""

    status: str = "reloading"


def router(service: Service) -> APIRouter:
    """Return the route that reloads."""
    routes = APIRouter(tags=["Regard"])

    @routes.post("/v1/models/reload", status_code=202, responses=ERROR_RESPONSES | {409: {"model": ErrorBody}})
    async def reload(request: Request) -> ReloadResponse:
        """Load all models again from their run folders. The server continues to serve, and loses no request.

        Requires an administrator's key; on a server without keys, a client on the same machine.
        """
        _, key = service.admit(credentials(request, "Bearer"))
        if not (key.admin if key else _is_local(request)):
            raise ApiError(403, "Only administrators can reload models: see `regard keys add --admin`.")
        if service.reload is None:
            raise ApiError(409, "This server cannot reload its models.")
        try:
            await asyncio.to_thread(service.reload)
        except RegardError as error:
            raise ApiError(409, f"The models cannot be reloaded: {public_message(error)}") from error
        return ReloadResponse()

    return routes


def _is_local(request: HTTPConnection) -> bool:
    """Return whether a request comes from this machine, and not through a proxy on it."""
    if any(name in request.headers for name in FORWARDED):
        return False
    return request.client is None or is_loopback(request.client.host)
