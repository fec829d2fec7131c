"""The HTTP application: three dialects over one service, each with errors in its own shape."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import regard
from regard.core.wording import describe_failure
from regard.server.api import api_v1, deepl, deepl_glossaries, inspection_api, libretranslate
from regard.server.api.requests import ClientGone
from regard.server.api_error import ApiError
from regard.server.service import Service

__all__ = ["create_app"]

log = logging.getLogger("regard.server")
HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"content-security-policy": b"default-src 'self'; img-src 'self' data: blob:",
}


def create_app(service: Service, *, warm: bool = True) -> FastAPI:
    """``warm``: load the first model at once, in the background; the others when first asked."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(asyncio.to_thread(_warm, service)) if warm else None
        yield
        if warming is not None:
            await warming
        await asyncio.to_thread(service.stop)  # what was accepted is finished

    app = FastAPI(
        title="Regard", version=regard.__version__, lifespan=lifespan,
        description="Translates with models that Regard trained; also speaks LibreTranslate and DeepL v2.",
        docs_url=None, redoc_url=None, redirect_slashes=False,  # it would redirect to what the header Host says

    )  # fmt: skip
    for module in (api_v1, inspection_api, libretranslate, deepl, deepl_glossaries):
        app.include_router(module.router(service))
    app.include_router(inspection_api.pages())
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=service.settings.body_bytes)
    app.add_middleware(_Watched, service=service)  # the last one stands outside

    @app.exception_handler(ApiError)
    async def refused(request: Request, error: ApiError) -> Response:
        return _shape(request)(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        return _shape(request)(ApiError(422, f"Invalid request: {where or 'body'}: {describe_failure(first)}"))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        return _shape(request)(ApiError(error.status_code, str(error.detail)))

    @app.exception_handler(ClientGone)
    async def gone(request: Request, error: ClientGone) -> Response:
        return Response(status_code=499)  # nobody reads it

    return app


def _warm(service: Service) -> None:
    """A model that cannot be loaded is told when it is asked."""
    try:
        service.models.all[0].start()
    except Exception as error:  # noqa: BLE001 - the server stays up for its other models
        log.error("the model %s cannot be loaded: %s", service.models.all[0].name, error)


def _shape(request: Request) -> Callable[[ApiError], JSONResponse]:
    path = request.url.path
    if path.startswith("/v2/"):
        return deepl.shaped
    return libretranslate.shaped if libretranslate.speaks(path) else api_v1.shaped


class _Watched:
    """Counts requests, adds headers to answers, and logs who asked what, never which text."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, read = time.perf_counter(), 0, False

        async def hurried() -> Message:
            """The body has to arrive in time; what comes after it, a hang-up, may take for ever."""
            nonlocal read
            if read:
                return await receive()
            left = self.service.settings.seconds - (time.perf_counter() - began)
            try:
                message = await asyncio.wait_for(receive(), max(left, 0))
            except TimeoutError as error:
                raise ApiError(408, "The body did not arrive in time.") from error
            read = not message.get("more_body", False)
            return message

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *HEADERS.items()]
            await send(message)

        app, most = self.app, self.service.settings.body_bytes
        if _declared(scope) > most:  # in the shape of its dialect, which Starlette's own answer has not
            app = _shape(Request(scope))(ApiError(413, f"Invalid request: a body of more than {most} bytes"))
        try:
            await app(scope, hurried, watched)
        except Exception as error:
            # No more than its type: what it says may quote a text. Starlette would hand it on to be logged whole.
            log.error("a defect: %s", type(error).__name__)
            if status:
                raise
            await _shape(Request(scope))(ApiError(500, "Internal server error"))(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")  # never what a client made up
            self.service.metrics.requested(route, status, seconds)
            who = scope["client"][0] if scope.get("client") else "-"
            log.info("%s %s %s %d %.3f s", who, scope["method"], route, status, seconds)


def _declared(scope: Scope) -> int:
    """The length of the body, if its client says it."""
    given = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return int(given) if given.isdigit() else 0
