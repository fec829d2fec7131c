"""HTTP application: several interfaces to one service, each with its own error format."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.core import VERSION
from regard.core.deadline import DeadlineExceeded
from regard.core.wording import describe_failure
from regard.server.api import (
    anomaly_api,
    api_v1,
    deepl,
    deepl_glossaries,
    forecast_api,
    generation_api,
    inspection_api,
    libretranslate,
    listening_api,
    openai,
    prediction_api,
    stream_api,
    transcriptions,
)
from regard.server.api.requests import ClientDisconnected
from regard.server.api_error import ApiError
from regard.server.request_guard import require_own_page, require_trustworthy
from regard.server.service import Service

log = logging.getLogger("regard.server")
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'self'; img-src 'self' data: blob:",
}


def create_app(service: Service, *, warm: bool = True) -> FastAPI:
    """Return the application; with ``warm``, load the models of ``ModelRegistry.at_start`` in the background."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Load models at start, if ``warm``, and complete accepted requests at shutdown."""
        if warm:  # in a daemon thread, to stop without delay while a large model is being loaded
            threading.Thread(target=_load_models, args=(service, app), name="loading", daemon=True).start()
        loads = asyncio.create_task(_report_loads(service)) if service.metrics.are_shared else None
        yield
        if loads is not None:
            loads.cancel()
        await asyncio.to_thread(service.stop)  # completes accepted requests

    app = FastAPI(
        title="Regard", version=VERSION, lifespan=lifespan,
        description="Predicts, generates and translates with models trained by Regard; compatible with OpenAI's "
        "completions, LibreTranslate and DeepL v2.",
        docs_url=None, redoc_url=None, redirect_slashes=False,  # a redirect would trust the header Host
    )  # fmt: skip
    for module in (
        api_v1,
        prediction_api,
        forecast_api,
        anomaly_api,
        generation_api,
        stream_api,
        listening_api,
        inspection_api,
        openai,
        transcriptions,
        libretranslate,
        deepl,
        deepl_glossaries,
    ):
        app.include_router(module.router(service))
    app.include_router(inspection_api.pages())
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=service.body_bytes)
    app.add_middleware(_RequestMiddleware, service=service)  # the last middleware added is the outermost
    _add_error_handlers(app)
    return app


def _add_error_handlers(app: FastAPI) -> None:
    """Add handlers that return each error in the format of its interface."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        """Return an error with its status and message."""
        return _error_format(request)(error)

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> Response:
        """Return status 422 for an invalid path or query."""
        failure = error.errors()[0]
        field = ".".join(map(str, failure["loc"]))
        return _error_format(request)(ApiError(422, f"Invalid request: {field}: {describe_failure(failure)}"))

    @app.exception_handler(DeadlineExceeded)
    async def too_late(request: Request, error: DeadlineExceeded) -> Response:
        """Return status 503 for a request whose texts took too long to prepare."""
        return _error_format(request)(ApiError(503, str(error), retry_after=5))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        """Return an error of the framework, such as an unknown path."""
        return _error_format(request)(ApiError(error.status_code, str(error.detail)))

    @app.exception_handler(ClientDisconnected)
    async def disconnected(request: Request, error: ClientDisconnected) -> Response:
        """Return status 499 for a client that disconnected; only the log shows it."""
        return Response(status_code=499)


async def _report_loads(service: Service) -> None:
    """Set the loads of the models of this process every second, because another process may serve the metrics."""
    while True:
        service.report_loads()
        await asyncio.sleep(1.0)


def _load_models(service: Service, app: FastAPI) -> None:
    """Load the models that are loaded at start; a failure is logged, and reported to each request for the model."""
    app.openapi()  # slow; otherwise built in the thread of the event loop for the first client that reads it
    for model in service.models.at_start:
        try:
            model.start()
        except Exception as error:  # noqa: BLE001 - the server stays up for its other models
            log.error("cannot load the model %s: %s", model.name, error)


def _error_format(request: Request) -> Callable[[ApiError], JSONResponse]:
    """Return the function that formats errors for the interface of a path."""
    path = request.url.path
    if openai.handles(path):
        return openai.error_response
    if path.startswith("/v2/"):
        return deepl.error_response
    return libretranslate.error_response if libretranslate.handles(path) else api_v1.error_response


class _RequestMiddleware:
    """Middleware that limits the time for a body, counts requests, adds headers, and logs requests without texts."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._pass_on(scope, receive, send)
            return
        start, status, body_read, closing = time.perf_counter(), 0, False, False
        settings = self.service.settings

        async def receive_in_time() -> Message:
            """Receive a message of the body within the time limit; messages after the body have no time limit."""
            nonlocal body_read
            if body_read:
                return await receive()
            left = settings.seconds - (time.perf_counter() - start)
            try:
                message = await asyncio.wait_for(receive(), max(left, 0))
            except TimeoutError as error:
                raise ApiError(408, "The body did not arrive in time.") from error
            body_read = not message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            """Send a message; add security headers, and `close` from a stopping server, to the start of a response."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                leaving = {b"connection": b"close"} if self.service.draining or closing else {}
                message["headers"] = [*message["headers"], *(HEADERS | leaving).items()]
            await send(message)

        app = self.app
        try:
            _require_length(scope, self.service.body_bytes)
            require_trustworthy(scope, settings)
        except ApiError as error:
            app, closing = _error_format(Request(scope))(error), error.status != 413  # the rest is not trusted
        try:
            await app(scope, receive_in_time, send_with_headers)
        except Exception as error:
            # Log only the type: the message may quote a text, and Starlette would log all of it.
            log.error("internal error: %s", type(error).__name__)
            if status:
                raise
            await _error_format(Request(scope))(ApiError(500, "Internal server error"))(
                scope, receive, send_with_headers
            )
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "other")  # the route and not the path, which the client chooses
            self.service.metrics.count_request(route, status, seconds)
            log.info("%s %s %s %d %.3f s", (scope.get("client") or "-")[0], scope["method"], route, status, seconds)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the start of the server, or a WebSocket unless a page of another site opens it."""
        try:
            if scope["type"] == "websocket":
                require_own_page(scope, self.service.settings)
        except ApiError as error:
            log.info("%s refused: %s", (scope.get("client") or "-")[0], error)
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        await self.app(scope, receive, send)


def _require_length(scope: Scope, limit: int) -> None:
    """Raise ApiError for a declared length above the limit; Starlette's response would have the wrong format."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if length.isdigit() and int(length) > limit:
        raise ApiError(413, f"Invalid request: a body of more than {limit} bytes")
