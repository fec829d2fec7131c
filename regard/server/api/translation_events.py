"""Translations as server-sent events: each sentence when it is complete, then the whole translation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import Request

from regard.server.api.event_stream import EventStream, event
from regard.server.api.requests import unless_disconnected
from regard.server.api_error import ApiError
from regard.server.json_pieces import write_json
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.server.streamed_translation import StartedTranslation, StreamedTranslation, TranslatedPart
from regard.server.translation_request import TranslationRequest, TranslationResult

Respond = Callable[[TranslationResult], Any]


async def translation_events(
    service: Service, translation: TranslationRequest, request: Request, respond: Respond
) -> EventStream:
    """Return the events of the translation of one plain text.

    Args:
        service: the service.
        translation: the text and its settings.
        request: the HTTP request.
        respond: returns the response with the whole translation, the data of the last event.

    Raises:
        ApiError: before the first sentence is complete.
    """
    opened = await StreamedTranslation.open(service, translation)
    started = await unless_disconnected(request, opened.start())
    return EventStream(_events(started, respond), source=started.rest, seconds=opened.deadline.left + 1)


async def _events(started: StartedTranslation, respond: Respond) -> AsyncGenerator[str, None]:
    """Yield an event for each sentence, for the whole translation, and for an error."""
    try:
        async for part in started.all():
            yield await off_loop(_event, part, respond)
    except ApiError as error:
        yield event({"error": error.message}, "error")


def _event(part: TranslatedPart | TranslationResult, respond: Respond) -> str:
    """Return the event of a part. Call it outside the thread of the event loop."""
    data = {"index": part.sentence, "new": part.new} if isinstance(part, TranslatedPart) else respond(part)
    return event(write_json(data).decode())
