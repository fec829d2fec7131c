"""The page, and what it asks for: models looked into, one text at a time."""

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
from regard.server.api.api_v1 import PROBLEMS
from regard.server.api.file_translation import FORMATS
from regard.server.api.requests import sender, texts_of, unless_gone
from regard.server.api_error import ApiError
from regard.server.batching.models import ServedModel
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.tasks.translation.config import translation_config

__all__ = ["pages", "router"]

OBJECT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}


class InspectRequest(BaseModel):
    """`sentence`: which of the text's, 0 the first. `force`: numbers of the pieces that the output begins with.
    `candidate`: which of the `nbest` outputs is looked at, 0 the best. `include` asks for what costs more.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    sentence: Annotated[int, Field(ge=0, lt=2**31)] = 0
    model: str | None = None
    checkpoint: Annotated[str, Field(pattern="^(average|best|[0-9]{1,9})$")] | None = None
    beam: Annotated[int, Field(ge=1)] | None = None
    nbest: Annotated[int, Field(ge=1)] | None = None
    length_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    coverage_penalty: Annotated[float, Field(ge=0, le=10)] | None = None
    force: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(max_length=256)] = []
    candidate: Annotated[int, Field(ge=0, lt=1000)] = 0
    include: Annotated[list[Literal["ablation", "beam", "vectors"]], Field(max_length=3)] = []


def router(service: Service) -> APIRouter:
    routes = APIRouter(tags=["Regard"])

    @routes.get("/v1/models/{name}", response_class=Response, responses=OBJECT | PROBLEMS)
    async def model(name: str, request: Request) -> Response:
        """What it is made of, its checkpoints, how its training went, a sentence to try, and the limits here."""
        service.admit(sender(request, "Bearer"))
        found = service.models.named(name)
        inspector = _inspector(found)
        details = await asyncio.to_thread(inspector.details)
        pieces = min(LONGEST, translation_config(inspector.run).data.max_length)
        return _json(details | {"limits": _limits(service.settings, pieces)})

    @routes.post("/v1/inspect", response_class=Response, responses=OBJECT | PROBLEMS)
    async def inspect(asked: InspectRequest, request: Request) -> Response:
        """All that the page shows of one sentence: its attention, alternatives, the search, and what heads do."""
        client, key = service.admit(sender(request, "Bearer"))
        texts = texts_of(asked.text, "text")
        service.check(texts)
        model = service.models.named(asked.model) if asked.model else service.models.all[0]
        given = asked.model_dump(include={"beam", "nbest", "length_penalty", "coverage_penalty"})
        search = service.search(model, given)

        def look() -> Response:
            if asked.checkpoint and asked.checkpoint not in checkpoints(_inspector(model).run):
                raise ApiError(404, f"The model {model.name} has no checkpoint {asked.checkpoint}.")
            found = _inspector(model).inspect(
                texts[0], checkpoint=asked.checkpoint, settings=search, force=asked.force, candidate=asked.candidate,
                include=asked.include, sentence=asked.sentence,
            )  # fmt: skip
            return _json(found.document)

        try:
            with service.spending(len(texts[0]), client, key):
                return await unless_gone(request, service.aside(look))
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {_said(error)}") from error

    return routes


def pages() -> APIRouter:
    """The page itself, where it was built."""
    routes = APIRouter(include_in_schema=False)

    for path, name in (("/", "index.html"), ("/app.js", "app.js"), ("/app.css", "app.css")):
        routes.get(path, name=name)(_file(name))

    @routes.get("/offline.html")
    def whole() -> Response:
        """The page in one file, for it to put what it shows into."""
        _require_page()
        return Response(offline(), media_type="text/html; charset=utf-8")

    return routes


def _file(name: str) -> Callable[[], FileResponse]:
    def file() -> FileResponse:
        _require_page()
        return FileResponse(FOLDER / name, headers={"cache-control": "no-cache"})

    return file


def _require_page() -> None:
    try:
        require_page()
    except ConfigError as error:
        raise ApiError(404, f"{_said(error)}; the interfaces are described by /openapi.json") from error


def _limits(allowed: ServerSettings, pieces: int) -> dict[str, Any]:
    """What the page names before a request is refused."""
    return {
        "characters": allowed.characters, "pieces": pieces, "beam": allowed.beam, "nbest": allowed.nbest,
        "file_bytes": allowed.body_bytes, "files": list(FORMATS),
    }  # fmt: skip


def _inspector(model: ServedModel) -> Any:
    if model.inspector is None:
        raise ApiError(404, f"The model {model.name} cannot be looked into.")
    return model.inspector


def _said(error: ConfigError) -> str:
    """Without the place, which is a path of the server."""
    return "; ".join(part for part in (error.what, error.why) if part and "/" not in part)


def _json(document: dict[str, Any]) -> Response:
    return Response(json.dumps(document, ensure_ascii=False, allow_nan=False), media_type="application/json")
