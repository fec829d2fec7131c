"""Predictions of any task over HTTP: inputs as lines, outputs in the JSON format of the task."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidatorFunctionWrapHandler, WrapValidator
from starlette.datastructures import Headers

from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.forms import parse_form
from regard.server.api.json_route import FIRST_ERROR, JsonRoute, parse_request_json, validated
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.batching.predictions import JsonLine, UploadedFile
from regard.server.service import Service

MAX_FILES = 50  # of a form


def _as_line(value: Any, read_text: ValidatorFunctionWrapHandler) -> str:
    if isinstance(value, list | dict):
        return JsonLine(json.dumps(value, ensure_ascii=False))
    text: str = read_text(value)
    return text


Line = Annotated[str, WrapValidator(_as_line, json_schema_input_type=str | list[Any] | dict[str, Any])]


class PredictRequest(BaseModel):
    """Inputs, each a line or the JSON value of a line, and prediction settings."""

    model_config = ConfigDict(extra="forbid")

    inputs: Annotated[list[Line], FIRST_ERROR] = Field(
        description="Prompts of a language model, sentences to translate, frames of numbers, …"
    )
    settings: dict[str, Any] = Field({}, description="Prediction settings; GET /v1/models/NAME lists those of a model.")
    model: str | None = Field(None, description="Name of the model; left out: the first one.")
    _files: list[UploadedFile] = PrivateAttr(default_factory=list)

    @property
    def all_inputs(self) -> list[str | UploadedFile]:
        """The inputs, and the uploaded files of a form."""
        return [*self.inputs, *self._files]

    @classmethod
    def of_form(cls, headers: Headers, body: bytes) -> PredictRequest:
        """Return the request of a form: the fields ``file``, one or several, ``model`` and ``settings`` (JSON)."""
        form = parse_form(headers, body, max_files=MAX_FILES)
        values: dict[str, Any] = {"inputs": [], **form.fields}
        if "settings" in form.fields:
            values["settings"] = parse_request_json(form.fields["settings"])
        request = validated(cls, values)
        request._files = [UploadedFile(*file) for name, file in form.files if name == "file"]
        return request


class PredictResponse(BaseModel):
    """Outputs in the order of the inputs, each in the JSON format of the task."""

    outputs: list[Any]
    model: str


def router(service: Service) -> APIRouter:
    """Return the route that predicts."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.post("/v1/predict", responses=ERROR_RESPONSES)
    async def predict(body: PredictRequest, request: Request) -> PredictResponse:
        """Return the output of a model of any task for each input.

        Sounds, images and tables are contents: the JSON object {"audio": BASE64}, {"image": BASE64} or {"table": TEXT},
        or the fields `file` of a multipart form with the fields `model` and `settings`.
        """
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        inputs, model = body.all_inputs, service.models.get(body.model)
        service.check_size(inputs, files=model.reads_files)
        characters = 0 if model.reads_files else sum(map(len, body.inputs))
        with service.charge(characters, client, key):
            left = service.settings.seconds - (time.monotonic() - began)
            work = model.predict(inputs, body.settings, client=client, seconds=max(left, 0.0), limits=service.settings)
            try:
                async with asyncio.timeout(max(left, 0.0) + 1):  # the queue fails earlier, with a better message
                    outputs = await unless_disconnected(request, work)
            except TimeoutError as error:
                raise service.timed_out() from error
        return PredictResponse(outputs=outputs, model=model.name)

    return routes
