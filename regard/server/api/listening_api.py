"""Recognition of a sound that is still arriving, over a WebSocket: 16-bit PCM in, committed words out.

The state of a stream ends with its connection. Each step of sound is a job in the queue of the model, so a
client that stalls or disconnects holds no place in it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from regard.config.stream_settings import DEFAULT_LAG, DEFAULT_POLICY, MOST_AGREE, PolicyName
from regard.core.wording import describe_failure
from regard.data.raw_sound import RawSound
from regard.data.wav_files import Samples
from regard.errors import ConfigError
from regard.inference.continued_text import ContinuedSegments, GrowingOutput
from regard.inference.policies import POLICIES, make_policy
from regard.server.api.requests import ClientDisconnected, credentials
from regard.server.api.transcriptions import find_recognizer
from regard.server.api_error import ApiError, public_message
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.request_record import current_request
from regard.server.service import Service
from regard.tasks.recognition.open_streaming import open_streaming
from regard.tasks.recognition.streaming import SegmentOptions, SoundStream, SpeechOutput, StreamingRecognizer
from regard.tasks.translation.streaming import StreamingTranslator

log = logging.getLogger("regard.server")
PATH = "/v1/listen"
AHEAD = 4  # messages of a client that wait while one is computed; the connection is not read beyond them
LOOK = 0.25  # seconds after which a waiting stream looks whether the server is stopping
LONGEST_TEXT = 4_000  # characters of a text message
LARGEST_LAG, LONGEST_REASON = 1000, 100  # the protocol allows 123 bytes in the reason of a closed connection
CODES = {429: 1013, 503: 1013, 500: 1011}  # with which a connection is closed: try again, failed; others: 1008


class ListenSettings(BaseModel):
    """The first message of a client."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    rate: int = Field(16_000, description="Samples per second of the sound.")
    policy: PolicyName = DEFAULT_POLICY
    lag: int | None = Field(None, ge=0, le=LARGEST_LAG)
    agree: int | None = Field(None, ge=2, le=MOST_AGREE, description="Hypotheses that local-agreement compares.")
    step: float = SegmentOptions.step
    silence: float = SegmentOptions.silence
    longest: float = SegmentOptions.longest
    model: str | None = Field(None, description="Name of the recognizer; left out: the first.")
    translate: str | None = Field(None, description="Name of a translation model for the committed words.")
    translate_policy: PolicyName | None = Field(None, description="Its policy; left out: local-agreement.")
    translate_lag: int | None = Field(None, ge=0, le=LARGEST_LAG, description="In recognized words.")
    translate_agree: int | None = Field(None, ge=2, le=MOST_AGREE, description="As `agree`, of the translation.")
    key: str | None = Field(None, description="API key, for browsers, which cannot send the header Authorization.")

    @model_validator(mode="after")
    def _check_translation(self) -> ListenSettings:
        settings = self.translate_policy, self.translate_lag, self.translate_agree
        if self.translate is None and settings != (None, None, None):
            raise ValueError("translate_policy, translate_lag and translate_agree require translate")
        return self


def router(service: Service) -> APIRouter:
    """Return the route that recognizes streams of sound."""
    routes = APIRouter()

    @routes.websocket(PATH)
    async def listen(socket: WebSocket) -> None:
        """Recognize the sound of a client until its end."""
        began, status = time.perf_counter(), 101
        try:
            await socket.accept()
            await _complete(service, socket)
        except ApiError as error:
            status = error.status
            await _refuse(socket, error)
        except (ClientDisconnected, WebSocketDisconnect):
            status = 499
        except Exception as error:  # noqa: BLE001 - the framework would log its message, which may quote a text
            status = 500
            log.error("internal error: %s", type(error).__name__)
            await _refuse(socket, ApiError(500, "Internal server error"))
        finally:
            seconds = time.perf_counter() - began
            service.metrics.count_request(PATH, status, seconds)
            if record := current_request():
                record.log(socket.scope, "LISTEN", status)

    return routes


async def _complete(service: Service, socket: WebSocket) -> None:
    """Answer a client until its sound ends; stop if it disconnects."""
    messages = _Messages(service)

    async def receive() -> None:
        while (message := await socket.receive())["type"] != "websocket.disconnect":
            await messages.queue.put(message)

    receiving, working = asyncio.ensure_future(receive()), asyncio.ensure_future(_answer(service, socket, messages))
    try:
        await asyncio.wait({receiving, working}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnected
        working.result()
    finally:
        receiving.cancel()
        working.cancel()


async def _answer(service: Service, socket: WebSocket, messages: _Messages) -> None:
    """Send the output of each step of the sound, and close the connection at its end."""
    fields = await messages.next("settings")
    if service.draining:
        raise ApiError(503, "The server is stopping.")
    listener = await _open(service, socket, _settings(fields))
    final = False
    while not final:
        message = await messages.next("sound")
        final = not isinstance(message, bytes)
        if final and message != {"final": True}:
            raise ApiError(400, 'Invalid request: after the settings, send sound, or {"final": true}')
        async for output in listener.outputs(message if isinstance(message, bytes) else b"", final=final):
            try:
                await asyncio.wait_for(socket.send_json(output), service.settings.seconds)
            except TimeoutError as error:
                raise ApiError(408, "The answers were not read.") from error
    if service.draining:
        raise ApiError(503, "The server is stopping.")
    await socket.close()


class _Messages:
    """Messages of a client, which are received while earlier ones are computed."""

    def __init__(self, service: Service) -> None:
        self.queue: asyncio.Queue[Message] = asyncio.Queue(AHEAD)
        self._service = service

    async def next(self, what: str) -> bytes | dict[str, Any]:
        """Return the next message: sound, or the fields of a JSON object. On a stopping server, the sound ends.

        Raises:
            ApiError: no message arrived in time, or it is no JSON object.
        """
        end = time.monotonic() + self._service.settings.seconds
        while not (self._service.draining and self.queue.empty()):  # received messages are read before a stop
            try:
                return _contents(await asyncio.wait_for(self.queue.get(), LOOK))
            except TimeoutError as error:
                if time.monotonic() > end:
                    seconds = self._service.settings.seconds
                    raise ApiError(408, f"No {what} arrived for {seconds:g} s.") from error
        return {"final": True}


def _contents(message: Message) -> bytes | dict[str, Any]:
    if (contents := message.get("bytes")) is not None:
        return bytes(contents)
    text = message["text"]
    if len(text) > LONGEST_TEXT:
        raise ApiError(400, f"Invalid request: a text message of more than {LONGEST_TEXT:,} characters")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "Invalid request: a text message must be JSON") from error
    if not isinstance(fields, dict):
        raise ApiError(400, "Invalid request: a text message must be a JSON object")
    return fields


def _settings(fields: bytes | dict[str, Any]) -> ListenSettings:
    if isinstance(fields, bytes):
        raise ApiError(400, 'Invalid request: the first message must be settings, such as {"rate": 16000}')
    try:
        return ListenSettings.model_validate(fields)
    except ValidationError as error:
        failure = error.errors()[0]
        name = ".".join(map(str, failure["loc"]))
        raise ApiError(400, f"Invalid request: {name}: {describe_failure(failure)}") from error


async def _open(service: Service, socket: WebSocket, settings: ListenSettings) -> _Listener:
    """Return the listener of a new stream. ApiError for invalid settings."""
    admit = credentials(socket, "Bearer", settings.key)
    client, _ = service.admit(admit)
    model, seconds = find_recognizer(service, settings.model), service.settings.seconds
    predictor, _ = await model.wait_until_loaded(seconds)
    if not getattr(predictor, "listens", False):
        raise ApiError(400, f"The model {model.name} cannot recognize streams.")
    run = model.inspector.run if model.inspector is not None else None

    def open_recognizer(interrupted: Callable[[], bool]) -> StreamingRecognizer:
        options = SegmentOptions(settings.step, settings.silence, settings.longest)
        return open_streaming(run, predictor, settings.policy, settings.lag, agree=settings.agree, options=options)

    try:
        (streaming,) = await model.compute([open_recognizer], client=client, seconds=seconds)
        sound = RawSound(settings.rate, streaming.rate)
        translation = None if settings.translate is None else await _translation(service, settings, settings.translate)
    except ConfigError as error:
        raise ApiError(400, f"Invalid request: {error.where}: {public_message(error)}") from error
    return _Listener(service, lambda: service.admit(admit, continues=True), model, streaming, sound, translation)


async def _translation(service: Service, settings: ListenSettings, name: str) -> _Translation:
    model, policy = service.models.translator(name), settings.translate_policy or DEFAULT_POLICY
    translator, _ = await model.served.wait_until_loaded(service.settings.seconds)
    lag = settings.translate_lag
    alignment = await model.aligner() if POLICIES[policy].needs_attention else None
    steps = make_policy(policy, DEFAULT_LAG[policy] if lag is None else lag, agree=settings.translate_agree)
    streaming = await off_loop(
        lambda: StreamingTranslator(translator, steps, search=model.search, alignment=alignment)
    )  # fmt: skip
    return _Translation(model.served, streaming)


class _Translation(NamedTuple):
    """A model that translates committed words, and the policy by which it does."""

    model: ServedModel
    streaming: StreamingTranslator


class _Listener:
    """One stream: its state, and the models that continue it in their queues.

    Args:
        service: the limits.
        admit: counts a step; returns the client and its key.
        model: recognizes.
        streaming: its recognizer of streams.
        sound: decodes the bytes of the client.
        translation: of the committed words; None for none.
    """

    def __init__(
        self, service: Service, admit: Callable[[], tuple[str, Any]], model: ServedModel,
        streaming: StreamingRecognizer, sound: RawSound, translation: _Translation | None,
    ) -> None:  # fmt: skip
        self._service, self._admit, self._model, self._streaming = service, admit, model, streaming
        self._sound, self._translation = sound, translation
        self._stream, self._text = streaming.open(), ContinuedSegments()

    async def outputs(self, contents: bytes, *, final: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the output of each step that the bytes complete."""
        samples = await off_loop(lambda: self._sound.add(contents, final=final))  # a message may hold half a minute
        step = self._streaming.step
        pieces = [samples[first : first + step] for first in range(0, len(samples), step)] or [samples]
        for number, piece in enumerate(pieces, 1):
            client, key = self._admit()
            for output in await self._advance(piece, client, final=final and number == len(pieces)):
                translated = await self._translated(output, client)
                with self._service.charge(len(translated.new), client, key):
                    yield translated.as_dict()

    async def _advance(self, samples: Samples, client: str, *, final: bool) -> list[SpeechOutput]:
        stream = self._stream

        def work(interrupted: Callable[[], bool]) -> tuple[list[SpeechOutput], SoundStream]:
            return self._streaming.advance(stream, samples, final=final, interrupted=interrupted)

        seconds = self._service.settings.seconds
        ((outputs, self._stream),) = await self._model.compute([work], client=client, seconds=seconds)
        return outputs

    async def _translated(self, output: SpeechOutput, client: str) -> SpeechOutput:
        """Return an output with the translation in place of the recognized words, if one is requested."""
        if self._translation is None:
            return output
        text, streaming = self._text, self._translation.streaming

        def work(interrupted: Callable[[], bool]) -> tuple[GrowingOutput, ContinuedSegments]:
            return text.advance(streaming, output.new.strip(), final=output.final, interrupted=interrupted)

        seconds = self._service.settings.seconds
        ((grown, self._text),) = await self._translation.model.compute([work], client=client, seconds=seconds)
        return output._replace(**grown._asdict())


async def _refuse(socket: WebSocket, error: ApiError) -> None:
    """Send an error and close the connection, unless it is closed."""
    body: dict[str, Any] = {"error": error.message, "status": error.status}
    if error.headers and "Retry-After" in error.headers:
        body["retry_after"] = int(error.headers["Retry-After"])
    with suppress(RuntimeError, WebSocketDisconnect):
        await socket.send_json(body)
        await socket.close(CODES.get(error.status, 1008), error.message[:LONGEST_REASON])
