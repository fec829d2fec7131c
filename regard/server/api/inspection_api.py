"""Inspection over HTTP: the page, and the endpoints from which it reads models and sentences."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.errors import ConfigError
from regard.inspection.observed_sentence import LONGEST
from regard.inspection.page import FOLDER, offline, require_page
from regard.inspection.run_history import checkpoints
from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.file_translation import FILE_SUFFIXES
from regard.server.api.requests import credentials, unless_disconnected, validate_texts
from regard.server.api_error import ApiError
from regard.server.batching.models import ServedModel
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.tasks.translation.config import translation_config

__all__ = ["pages", "router"]

JSON_OBJECT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}


class InspectRequest(BaseModel):
    """Sentence to inspect, and how to search. Settings left out are those of the model's config."""

    model_config = ConfigDict(extra="forbid")

    text: str
    sentence: Annotated[
        int, Field(ge=0, lt=2**31, description="Number of the sentence in the text; 0 is the first.")
    ] = 0
    model: str | None = Field(None, description="Name of the model; the first one if left out.")
    checkpoint: Annotated[str, Field(pattern="^(average|best|[0-9]{1,9})$")] | None = Field(
        None, description="Weights to inspect: `average`, `best`, or the number of a step."
    )
    beam: Annotated[int, Field(ge=1)] | None = None
    nbest: Annotated[int, Field(ge=1)] | None = None
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    coverage_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    force: Annotated[
        list[Annotated[int, Field(ge=0, lt=2**31)]],
        Field(max_length=256, description="Numbers of the pieces that the output must begin with."),
    ] = []
    candidate: Annotated[
        int, Field(ge=0, lt=1000, description="Number of the output to inspect, of `nbest`; 0 is the best.")
    ] = 0
    include: Annotated[
        list[Literal["ablation", "beam", "vectors"]],
        Field(max_length=3, description="Parts that cost more to compute."),
    ] = []


def router(service: Service) -> APIRouter:
    """Return the routes that inspect models."""
    routes = APIRouter(tags=["Regard"])

    @routes.get("/v1/models/{name}", response_class=Response, responses=JSON_OBJECT | ERROR_RESPONSES)
    async def model(name: str, request: Request) -> Response:
        """Describe a model: parts, checkpoints, training history, an example sentence, and the limits of the server."""
        service.admit(credentials(request, "Bearer"))
        inspector = _inspector(service.models.get(name))
        details = await asyncio.to_thread(inspector.details)
        pieces = min(LONGEST, translation_config(inspector.run).data.max_length)
        return _json_response(details | {"limits": _limits(service.settings, pieces)})

    @routes.post("/v1/inspect", response_class=Response, responses=JSON_OBJECT | ERROR_RESPONSES)
    async def inspect(body: InspectRequest, request: Request) -> Response:
        """Return all that the page shows of one sentence: attention, alternatives, the search, and what heads do.

        `unknown` is a list of the characters or words without a piece; /v1/translate counts them in an object.
        """
        client, key = service.admit(credentials(request, "Bearer"))
        texts = validate_texts(body.text, "text")
        service.check_size(texts)
        served = service.models.get(body.model) if body.model else service.models.all[0]
        overrides = body.model_dump(include={"beam", "nbest", "length_penalty", "coverage_penalty"})
        settings = service.search_settings(served, overrides)

        def build() -> Response:
            """Return the document of the sentence; runs in the thread for auxiliary work."""
            if body.checkpoint and body.checkpoint not in checkpoints(_inspector(served).run):
                raise ApiError(404, f"The model {served.name} has no checkpoint {body.checkpoint}.")
            inspection = _inspector(served).inspect(
                texts[0], checkpoint=body.checkpoint, settings=settings, force=body.force, candidate=body.candidate,
                include=body.include, sentence=body.sentence,
            )  # fmt: skip
            return _json_response(inspection.document)

        try:
            with service.charge(len(texts[0]), client, key):
                return await unless_disconnected(request, service.run_auxiliary(build))
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {_public_message(error)}") from error

    return routes


def pages() -> APIRouter:
    """Return the routes of the page's files."""
    routes = APIRouter(include_in_schema=False)

    for path, name in (("/", "index.html"), ("/app.js", "app.js"), ("/app.css", "app.css")):
        routes.get(path, name=name)(_page_file(name))

    @routes.get("/offline.html")
    def offline_page() -> Response:
        """Return the page in one file, into which it puts what it shows."""
        _require_page()
        return Response(offline(), media_type="text/html; charset=utf-8")

    return routes


def _page_file(name: str) -> Callable[[], FileResponse]:
    """Return the endpoint of one file of the page."""

    def file() -> FileResponse:
        """Return the file."""
        _require_page()
        return FileResponse(FOLDER / name, headers={"cache-control": "no-cache"})

    return file


def _require_page() -> None:
    """Raise ApiError 404 if the page was not built."""
    try:
        require_page()
    except ConfigError as error:
        raise ApiError(404, f"{_public_message(error)}; the interfaces are described by /openapi.json") from error


def _limits(settings: ServerSettings, pieces: int) -> dict[str, Any]:
    """Return the limits that the page names before a request is refused."""
    return {
        "characters": settings.characters, "pieces": pieces, "beam": settings.beam, "nbest": settings.nbest,
        "file_bytes": settings.body_bytes, "files": list(FILE_SUFFIXES),
    }  # fmt: skip


def _inspector(model: ServedModel) -> Any:
    """Return the model's inspector. ApiError 404 if it has none."""
    if model.inspector is None:
        raise ApiError(404, f"The model {model.name} cannot be inspected.")
    return model.inspector


def _public_message(error: ConfigError) -> str:
    """Return an error's message without paths of the server."""
    return "; ".join(part for part in (error.what, error.why) if part and "/" not in part)


def _json_response(document: dict[str, Any]) -> Response:
    """Return a document as a response in JSON."""
    return Response(json.dumps(document, ensure_ascii=False, allow_nan=False), media_type="application/json")
