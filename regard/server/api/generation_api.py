"""Text generation over HTTP: continuations of prompts, complete or token by token."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from regard.config.search_requests import GenerateRequest
from regard.server.api.api_v1 import ERROR_RESPONSES
from regard.server.api.event_stream import EVENT_STREAM, EventStream, event
from regard.server.api.json_route import JsonRoute, Strings
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError
from regard.server.batching.generating import text_of
from regard.server.generation_request import GenerationRequest, OpenedRequest, StartedSteps
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.tasks.language_model.text_listener import TextStep


class GenerateBody(GenerateRequest):
    """Prompts and settings of generation. The config of the run sets the defaults of settings."""

    prompt: str | Strings = Field(description="One prompt or a list of prompts; an empty prompt begins a text.")
    samples: Annotated[int, Field(ge=1, lt=2**31)] = Field(1, description="Number of texts per prompt.")
    model: str | None = Field(None, description="Name of the model; left out: the first language model.")
    stream: bool = Field(False, description="Send the texts while they are generated, as server-sent events.")


class GeneratedText(BaseModel):
    """Continuation of a prompt, without the prompt."""

    prompt: int = Field(description="Index of the prompt, from 0.")
    sample: int = Field(description="Index of the text among those of its prompt, from 0.")
    text: str
    finish_reason: Literal["end", "stop", "length"] | None = Field(
        description="`end`: the model ended the text; `stop`: a stop string occurred; `length`: the length limit was "
        "reached. null for a part of an unfinished text."
    )
    tokens: int = Field(description="Number of generated tokens, including a stop string and the end token.")
    log_probability: float = Field(description="Log probability of these tokens, in nats.")


class GenerateResponse(BaseModel):
    """Texts in the order of the prompts, the samples of each prompt together."""

    texts: list[GeneratedText]
    model: str


def router(service: Service) -> APIRouter:
    """Return the route that generates."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.post("/v1/generate", response_model=GenerateResponse, responses=ERROR_RESPONSES | {200: EVENT_STREAM})
    async def generate(body: GenerateBody, request: Request) -> Any:
        """Continue prompts. With `stream`, each event is an entry of `texts` with the next part of the text.

        An error after the first event is sent as an event `error`.
        """
        own = {"prompt", "samples", "model", "stream"}
        settings = body.model_dump(exclude=own, exclude_unset=True)
        generation = GenerationRequest(
            [body.prompt] if isinstance(body.prompt, str) else body.prompt,
            body.model,
            settings,
            body.samples,
            credentials(request, "Bearer"),
        )
        opened = await generation.open(service)
        if body.stream:
            started = await unless_disconnected(request, opened.start())
            return EventStream(_events(started, opened), source=started.rest, seconds=opened.seconds + 1)
        texts = await unless_disconnected(request, opened.whole())
        return await off_loop(_response, texts, opened)

    return routes


def _response(texts: Sequence[Sequence[TextStep]], opened: OpenedRequest) -> GenerateResponse:
    """Return the response for complete texts."""
    parts = [_part(number, steps, opened) for number, steps in enumerate(texts)]
    return GenerateResponse(texts=parts, model=opened.model.name)


async def _events(started: StartedSteps, opened: OpenedRequest) -> AsyncGenerator[str, None]:
    """Yield an event for each part of a text, and for an error."""
    try:
        async for number, step in started.all():
            if step.piece.text or step.piece.finish_reason:
                yield event(_part(number, [step], opened).model_dump())
    except ApiError as error:
        yield event({"error": error.message}, "error")


def _part(number: int, steps: Sequence[TextStep], opened: OpenedRequest) -> GeneratedText:
    """Return the part of a text that steps generated."""
    prompt, sample = divmod(number, opened.texts.samples)
    last = steps[-1].piece
    return GeneratedText(
        prompt=prompt, sample=sample, text=text_of(steps), finish_reason=last.finish_reason, tokens=last.tokens,
        log_probability=last.log_probability,
    )  # fmt: skip
