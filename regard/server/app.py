"""HTTP application: several interfaces to one service, each with its own error format."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.requests import HTTPConnection

from regard.core import VERSION
from regard.core.deadline import DeadlineExceeded
from regard.core.wording import describe_failure
from regard.server.api import (
    anomaly_api,
    api_v1,
    deepl,
    deepl_glossaries,
    embedding_api,
    forecast_api,
    generation_api,
    inspection_api,
    libretranslate,
    listening_api,
    openai,
    prediction_api,
    reload_api,
    stream_api,
    transcriptions,
)
from regard.server.api.requests import ClientDisconnected
from regard.server.api_error import ApiError
from regard.server.request_middleware import RequestMiddleware
from regard.server.service import Service

log = logging.getLogger("regard.server")
READY = "/readyz"
# FastAPI would add queries and messages of exceptions, which may quote a text: see ``regard.server.tracing``.
WITHOUT_TELEMETRY: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


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
        "completions and embeddings, LibreTranslate and DeepL v2.",
        telemetry=WITHOUT_TELEMETRY,
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
        embedding_api,
        reload_api,
        libretranslate,
        deepl,
        deepl_glossaries,
    ):
        app.include_router(module.router(service))
    app.include_router(inspection_api.pages())
    respond = partial(_respond, service)
    app.add_middleware(RequestBodyLimitMiddleware, max_body_size=service.body_bytes)
    # The last middleware added is the outermost.
    app.add_middleware(RequestMiddleware, service=service, respond=respond)
    _add_error_handlers(app, respond)
    return app


def _add_error_handlers(app: FastAPI, respond: Callable[[HTTPConnection, ApiError], JSONResponse]) -> None:
    """Add handlers that return each error in the format of its interface."""

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        """Return an error with its status and message."""
        return respond(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid_request(request: Request, error: RequestValidationError) -> Response:
        """Return status 422 for an invalid path or query."""
        failure = error.errors()[0]
        field = ".".join(map(str, failure["loc"]))
        return respond(request, ApiError(422, f"Invalid request: {field}: {describe_failure(failure)}"))

    @app.exception_handler(DeadlineExceeded)
    async def too_late(request: Request, error: DeadlineExceeded) -> Response:
        """Return status 503 for a request whose texts took too long to prepare."""
        return respond(request, ApiError(503, str(error), retry_after=5, reason="deadline"))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        """Return an error of the framework, such as an unknown path."""
        return respond(request, ApiError(error.status_code, str(error.detail)))

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


def _respond(service: Service, request: HTTPConnection, error: ApiError) -> JSONResponse:
    """Count a refusal, and return the response for an error in the format of the interface of its path."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    if error.refusal is not None and path != READY:  # balancers call it every few seconds
        service.metrics.refuse(error.refusal)
    if openai.handles(path):
        return openai.error_response(error)
    if path.startswith("/v2/"):
        return deepl.error_response(error)
    return libretranslate.error_response(error) if libretranslate.handles(path) else api_v1.error_response(error)
