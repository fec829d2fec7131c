"""Server-sent events: a response in parts, which ends when the client disconnects or the time is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

EVENT_STREAM: dict[str, Any] = {"content": {"text/event-stream": {"schema": {"type": "string"}}}}


def event(data: Any, name: str | None = None) -> str:
    """Return an event with JSON, or with an unchanged text."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, allow_nan=False)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


class EventStream(StreamingResponse):
    """Response of events.

    Args:
        events: yields the events.
        source: the generator behind the events; it is closed at the end, even if no event was read.
        seconds: the time limit, which also disconnects a client that reads too slowly.
    """

    def __init__(
        self, events: AsyncGenerator[str, None], *, source: AsyncGenerator[Any, None] | None, seconds: float
    ) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(self._one_by_one(events), media_type="text/event-stream", headers=headers)
        self._events, self._source, self._seconds = events, source, seconds

    async def _one_by_one(self, events: AsyncGenerator[str, None]) -> AsyncGenerator[str, None]:
        """Yield events; let other requests run after each event, even if many events are ready."""
        async for data in events:
            yield data
            await asyncio.sleep(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            async with asyncio.timeout(self._seconds):
                await super().__call__(scope, receive, send)
        except TimeoutError:
            pass  # the server closes a connection with an incomplete response
        finally:
            await self._events.aclose()
            if self._source is not None:
                await self._source.aclose()
