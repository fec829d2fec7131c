"""Inspection over HTTP: the page, and its endpoints for models and inputs of any task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.config.search_settings import INSPECTED, SearchSettings
from regard.config.setting_models import request_model
from regard.config.settings import SearchConfig
from regard.core.predictor_interface import InputForm, interface_of, read_input
from regard.errors import ConfigError, DataError
from regard.inspection.build_document import SearchOptions
from regard.inspection.observed_sentence import LONGEST
from regard.inspection.page import FOLDER, offline, require_page
from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.file_translation import FILE_SUFFIXES
from regard.server.api.json_route import FIRST_ERROR, JsonRoute, json_response
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError, public_message
from regard.server.batching.predictions import request_settings, require_cost
from regard.server.batching.served import ServedModel
from regard.server.batching.translating import search_settings
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.tasks.influence import BATCH_ROWS

JSON_OBJECT: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"schema": {"type": "object"}}}}}

if TYPE_CHECKING:
    InspectSettings = BaseModel
else:
    InspectSettings = request_model(SearchSettings, only=INSPECTED, base=BaseModel)


class InspectRequest(InspectSettings):
    """Input to inspect. All tasks: `text`, `model`, `checkpoint`, `include`, `settings`. Other fields: translation."""

    model_config = ConfigDict(extra="forbid")

    text: str
    sentence: Annotated[int, Field(ge=0, lt=2**31, description="Index of the sentence in the text, from 0.")] = 0
    model: str | None = Field(None, description="Name of the model; left out: the first one.")
    checkpoint: Annotated[str, Field(pattern="^(average|best|[0-9]{1,9})$")] | None = Field(
        None, description="Checkpoint to inspect: `average`, `best`, or the number of a step."
    )
    force: Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], FIRST_ERROR] = Field(
        [], max_length=256, description="Ids of the pieces that the output must begin with."
    )
    candidate: Annotated[
        int, Field(ge=0, lt=1000, description="Index of the output to inspect, of `nbest`; 0 is the best.")
    ] = 0
    settings: dict[str, Any] | None = Field(
        None,
        description="Settings of the output of a model without a search, as in /v1/predict: part `output` or `next`.",
    )
    include: Annotated[list[Literal["ablation", "beam", "influence", "lens", "vectors"]], FIRST_ERROR] = Field(
        [],
        max_length=5,
        description="Parts that are expensive to compute; `beam` is for translation models.",
    )


def router(service: Service) -> APIRouter:
    """Return the routes that inspect models."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.get("/v1/models/{name}", response_class=Response, responses=JSON_OBJECT | ERROR_RESPONSES)
    async def model(name: str, request: Request) -> Response:
        """Describe a model: its task, layers, checkpoints, training history, and the limits of the server.

        The answer includes the input form, settings, and up to three validation inputs, if the model has them.
        """
        service.admit(credentials(request, "Bearer"))
        served = service.models.get(name)
        inspector = _inspector(served)
        interface = None
        if not _translates(served):
            predictor, _ = await served.wait_until_loaded(service.settings.seconds)
            interface = interface_of(predictor)
        details = await asyncio.to_thread(inspector.details, interface)
        openai = {"id": served.name, "object": "model", "created": served.created, "owned_by": "regard"}
        offer = await asyncio.to_thread(_offer, served, service.settings)
        return await off_loop(json_response, openai | details | offer)

    @routes.post("/v1/inspect", response_class=Response, responses=JSON_OBJECT | ERROR_RESPONSES)
    async def inspect(body: InspectRequest, request: Request) -> Response:
        """Return all that the page shows for an input: attention, and the probability of each step with alternatives.

        For translations, it includes the search. `facts.unknown` lists the characters or words that are not in the
        vocabulary. In /v1/translate, `unknown` is an object with their counts.
        """
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        served = service.models.get(body.model)
        service.check_size([body.text], files=served.reads_files)
        try:
            with service.charge(0 if served.reads_files else len(body.text), client, key):
                if _translates(served, body.checkpoint):
                    work = service.run_auxiliary(_translation_work(service, served, body), client=client)
                else:
                    seconds = max(service.settings.seconds - (time.monotonic() - began), 0.0)
                    work = _observe(served, body, client, seconds, service.settings)
                return await off_loop(json_response, await unless_disconnected(request, work))
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error

    return routes


def _translation_work(service: Service, served: ServedModel, body: InspectRequest) -> Callable[[], dict[str, Any]]:
    """Return the function that builds the document of a sentence; raise ApiError beyond a limit."""
    if body.settings is not None:
        what = "settings: only for models without a search; a translation has fields such as beam"
        raise ApiError(400, f"Invalid request: {what}")
    overrides = body.model_dump(include=set(INSPECTED))
    settings = search_settings(cast(SearchConfig, served.settings), overrides, service.settings)

    def build() -> dict[str, Any]:
        """Return the document. Runs in the thread for auxiliary work."""
        options = SearchOptions(settings, tuple(body.force), body.candidate, body.include, body.sentence)
        inspection = _inspector(served, body.checkpoint).inspect(body.text, options, checkpoint=body.checkpoint)
        return dict(inspection.document)

    return build


async def _observe(
    served: ServedModel, body: InspectRequest, client: str, seconds: float, limits: ServerSettings
) -> dict[str, Any]:
    """Return the document of an observation, computed in the thread of the model.

    Raises:
        ApiError: for fields that only translation models have.
    """
    influence = "influence" in body.include
    own = {"text", "model", "checkpoint", "settings"} | (set() if "beam" in body.include else {"include"})
    if foreign := sorted(body.model_fields_set - own):
        raise ApiError(
            400,
            f"Invalid request: {', '.join(foreign)}: only for translation models; the task of {served.name} is "
            f"{served.task}",
        )
    inspector = await asyncio.to_thread(_inspector, served, body.checkpoint)
    predictor, _ = await served.wait_until_loaded(seconds)
    chosen = None if body.settings is None else request_settings(interface_of(predictor), body.settings, limits)
    # Influence computes batches of up to BATCH_ROWS copies of the input, each without one piece.
    await off_loop(_require_cost, predictor, body.text, limits.numbers // BATCH_ROWS if influence else limits.numbers)
    work = partial(
        _document_of, inspector, body.text, checkpoint=body.checkpoint, include=body.include, settings=chosen
    )
    (document,) = await served.compute([work], client=client, seconds=seconds)
    return dict(document)


def _require_cost(predictor: Any, text: str, limit: int) -> None:
    """Raise ApiError for an input that is too expensive. The inspector reports inputs that cannot be parsed."""
    with suppress(ConfigError, DataError):
        require_cost(predictor, read_input(predictor, text) if hasattr(predictor, "read") else text, limit, "the input")


def _document_of(inspector: Any, text: str, interrupted: Callable[[], bool], **options: Any) -> dict[str, Any]:
    """Return the document of an input."""
    return dict(inspector.inspect(text, **options).document)


def pages() -> APIRouter:
    """Return the routes of the page's files."""
    routes = APIRouter(include_in_schema=False)

    for path, name in (
        ("/", "index.html"),
        ("/app.js", "app.js"),
        ("/app.css", "app.css"),
        ("/microphone.js", "microphone.js"),
    ):
        routes.get(path, name=name)(_page_file(name))

    @routes.get("/offline.html")
    def offline_page() -> Response:
        """Return the page as one file, to which the page adds its data."""
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
        raise ApiError(404, f"{public_message(error)}; /openapi.json describes the interfaces") from error


def _offer(served: ServedModel, limits: ServerSettings) -> dict[str, Any]:
    """Return the inputs and outputs of a model, and the request limits, which the page checks before a request."""
    if _translates(served):
        pieces = min(LONGEST, _inspector(served).run.config.data.max_length)
        allowed = {
            "characters": limits.characters, "pieces": pieces, "beam": limits.beam, "nbest": limits.nbest,
            "file_bytes": limits.body_bytes, "files": list(FILE_SUFFIXES),
        }  # fmt: skip
        return {
            "takes": "a text",
            "gives": "its translation",
            "settings": None,
            "input": InputForm()._asdict(),
            "inspects": True,
            "streams": False,
            "listens": False,
            "limits": allowed,
        }
    predictor, _ = served.start()
    interface = interface_of(predictor)
    settings, request_bytes = None, limits.body_bytes
    if served.reads_files:
        request_bytes = max(limits.body_bytes, limits.file_bytes)
    if interface.settings is not None:
        settings = {"values": interface.settings.model_dump(mode="json")}
        settings["schema"] = type(interface.settings).model_json_schema()
    return {
        "takes": interface.takes, "gives": interface.gives, "settings": settings,
        "input": interface.form._asdict(),
        "inspects": hasattr(predictor, "inspect"), "streams": "generate" in served.serves,
        "listens": getattr(predictor, "listens", False),
        "limits": {"characters": limits.characters, "length": limits.length, "file_bytes": request_bytes},
    }  # fmt: skip


def _translates(served: ServedModel, checkpoint: str | None = None) -> bool:
    """Return whether the model is the network of a translation run, which is inspected with its search."""
    if "translate" not in served.serves:
        return False
    return served.inspector is None or not served.inspector.is_baseline(checkpoint)


def _inspector(model: ServedModel, checkpoint: str | None = None) -> Any:
    """Return the inspector of a model; raise ApiError 404 if it or the checkpoint does not exist."""
    if model.inspector is None:
        raise ApiError(404, f"The model {model.name} cannot be inspected.")
    if checkpoint and checkpoint not in model.inspector.checkpoints():
        raise ApiError(404, f"The model {model.name} has no checkpoint {checkpoint}.")
    return model.inspector
