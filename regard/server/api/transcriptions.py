"""OpenAI's interface for transcriptions: a sound in a form, its text as JSON, plain text or subtitles."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from regard.core.predictor_interface import interface_of
from regard.errors import ConfigError, DataError
from regard.server.api.file_translation import read_upload
from regard.server.api.forms import FormFile
from regard.server.api.openai import RESPONSES, TRANSCRIPTIONS
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError, public_message
from regard.server.batching.predictions import require_cost
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.tasks.recognition.subtitles import segments, srt, vtt

FORMATS = ("json", "text", "srt", "vtt", "verbose_json")
REFUSED = ("stream", "prompt")  # fields of OpenAI's interface that change the result, and are not supported
SERVES = "transcribe"


def router(service: Service) -> APIRouter:
    """Return the route that transcribes."""
    routes = APIRouter(tags=["OpenAI"])

    @routes.post(TRANSCRIPTIONS, responses=RESPONSES)
    async def transcriptions(request: Request) -> Response:
        """Return the text of a sound, for clients of OpenAI's transcriptions.

        The form has the fields `file` (WAV, FLAC, OGG, MP3), `model`, and `response_format`: `json`, `text`, `srt`,
        `vtt`, or `verbose_json` with segments and the seconds of each word.
        """
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"))
        fields, file = await read_upload(request)
        format = _checked(fields)
        model = find_recognizer(service, fields.get("model"))
        left = max(service.settings.seconds - (time.monotonic() - began), 0.0)
        predictor, _ = await model.wait_until_loaded(left)
        input = await off_loop(_heard, predictor, file, service.settings.numbers)
        work = model.compute([partial(_transcript, predictor, input)], client=client, seconds=left)
        (transcript,) = await unless_disconnected(request, work)
        with service.charge(len(transcript.text), client, key):
            return await off_loop(_response, transcript, format)

    return routes


def _checked(fields: dict[str, Any]) -> str:
    """Return the format of the response; raise ApiError for fields that are not supported."""
    for name in REFUSED:
        if str(fields.get(name, "")).lower() not in ("", "false"):
            raise ApiError(400, f"Invalid request: {name} is not supported")
    format = str(fields.get("response_format", "json"))
    if format not in FORMATS:
        raise ApiError(400, f"Invalid request: response_format must be one of {', '.join(FORMATS)}")
    return format


def find_recognizer(service: Service, name: Any) -> ServedModel:
    """Return the model of that name, or the first recognizer. ApiError if it does not recognize speech."""
    models = [model for model in service.models.all if SERVES in model.serves]
    if name is None and models:
        return models[0]
    model = service.models.get(name)
    if model not in models:
        raise ApiError(400, f"The model {model.name} cannot transcribe: its task is {model.task}.")
    return model


def _heard(predictor: Any, file: FormFile, numbers: int) -> Any:
    """Return the input in an uploaded file; raise ApiError if it cannot be read, or takes too much memory."""
    try:
        input = predictor.read_file(file.contents, file.name or "the file")
    except (ConfigError, DataError) as error:
        raise ApiError(400, f"Invalid request: {public_message(error)}") from error
    require_cost(predictor, input, numbers, "the file")
    return input


def _transcript(predictor: Any, input: Any, interrupted: Callable[[], bool]) -> Any:
    interface = interface_of(predictor)
    return interface.predict(input, interface.settings, interrupted)


def _response(transcript: Any, format: str) -> Response:
    if format == "json":
        return JSONResponse({"text": transcript.text})
    if format in ("srt", "vtt"):
        return PlainTextResponse((srt if format == "srt" else vtt)(transcript))
    if format == "text":
        return PlainTextResponse(transcript.text + "\n")
    facts = transcript.as_dict()
    parts = [
        {"id": number, "start": part.start, "end": part.end, "text": part.text}
        for number, part in enumerate(segments(transcript))
    ]
    return JSONResponse(
        {"task": "transcribe", "language": "", "duration": facts["seconds"], "text": facts["text"], "segments": parts}
        | {"words": facts["words"]}
    )
