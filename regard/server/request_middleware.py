"""Middleware around all routes: ids of requests, the time for a body, security headers, counts and the log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from fastapi import Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.server.api_error import ApiError
from regard.server.request_guard import require_own_page, require_trustworthy
from regard.server.request_record import HEADER, RequestRecord
from regard.server.service import Service

log = logging.getLogger("regard.server")
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'self'; img-src 'self' data: blob:",
}


class RequestMiddleware:
    """Middleware that limits the time for a body, counts requests, adds headers, and logs requests without texts.

    Args:
        app: the application.
        service: the service.
        respond: returns the response for an error, in the format of the interface of the request.
    """

    def __init__(self, app: ASGIApp, service: Service, respond: Callable[[Request, ApiError], ASGIApp]) -> None:
        self.app, self.service, self.respond = app, service, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        if self.service.settings.root_path:  # before routing, which removes it from the path
            scope["root_path"] = self.service.settings.root_path
        record, tracing = RequestRecord.start(scope), self.service.tracing
        serve = self._serve if scope["type"] == "http" else self._connect
        if tracing is None:
            await serve(record, scope, receive, send)
            return
        with tracing.request(scope, record.id) as record.trace:
            await serve(record, scope, receive, send)

    async def _serve(self, record: RequestRecord, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        status, body_read, closing = 0, False, False
        settings = self.service.settings

        async def receive_in_time() -> Message:
            """Receive a message of the body within the time limit; messages after the body have no time limit."""
            nonlocal body_read
            if body_read:
                return await receive()
            left = settings.seconds - (time.perf_counter() - record.began)
            try:
                message = await asyncio.wait_for(receive(), max(left, 0))
            except TimeoutError as error:
                raise ApiError(408, "The body did not arrive in time.") from error
            body_read = not message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            """Send a message; add the id, security headers, and `close` from a stopping server, to its start."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                leaving = {b"connection": b"close"} if self.service.draining or closing else {}
                own = HEADERS | leaving | {HEADER: record.id.encode()}
                message["headers"] = [*message["headers"], *own.items()]
            await send(message)

        app = _to_page(scope) if settings.root_path and scope["path"] == settings.root_path else self.app
        try:
            _require_length(scope, self.service.body_bytes)
            require_trustworthy(scope, settings)
        except ApiError as error:
            app, closing = self.respond(Request(scope), error), error.status != 413  # the rest is not trusted
        try:
            await app(scope, receive_in_time, send_with_headers)
        except Exception as error:
            # Log only the type: the message may quote a text, and Starlette would log all of it.
            log.error("internal error: %s", type(error).__name__)
            if status:
                raise
            response = self.respond(Request(scope), ApiError(500, "Internal server error"))
            await response(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")  # the route and not the path, which the client chooses
            self.service.metrics.count_request(route, status, time.perf_counter() - record.began)
            record.log(scope, scope["method"], status)

    async def _connect(self, record: RequestRecord, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket, unless a page of another site opens it. Its route counts and logs it."""

        async def send_with_id(message: Message) -> None:
            """Send a message; add the id to the response that opens the connection."""
            if message["type"] == "websocket.accept":
                message["headers"] = [*message.get("headers", ()), (HEADER, record.id.encode())]
            await send(message)

        try:
            require_own_page(scope, self.service.settings)
        except ApiError as error:
            log.info("%s refused: %s", (scope.get("client") or "-")[0], error)
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        await self.app(scope, receive, send_with_id)


def _require_length(scope: Scope, limit: int) -> None:
    """Raise ApiError for a declared length above the limit; Starlette's response would have the wrong format."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if length.isdigit() and int(length) > limit:
        raise ApiError(413, f"Invalid request: a body of more than {limit} bytes")


def _to_page(scope: Scope) -> ASGIApp:
    """Return a redirection from the root path to the page, whose relative links need the slash at the end."""
    query = scope["query_string"].decode("latin-1")
    return RedirectResponse(f"{scope['root_path']}/" + (f"?{query}" if query else ""), status_code=308)
