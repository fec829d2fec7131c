"""OpenAI's interface for completions; errors are {"error": {"message": …}}."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BeforeValidator, Field, field_validator

from regard.server.api.event_stream import EVENT_STREAM, EventStream, event
from regard.server.api.json_route import JsonRoute, Strings, json_response
from regard.server.api.openai_answers import Answer, Completion, ErrorAnswer
from regard.server.api.openai_chat import ChatAnswer, ChatCompletion, ChatRequest
from regard.server.api.openai_sampling import SamplingRequest, as_list
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError
from regard.server.generation_request import GenerationRequest, OpenedRequest, StartedSteps
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.tasks.language_model.text_listener import TokenScore

PATH, CHAT = "/v1/completions", "/v1/chat/completions"
TRANSCRIPTIONS, EMBEDDINGS = "/v1/audio/transcriptions", "/v1/embeddings"
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 404, 413, 429, 500, 503)
}


class CompletionRequest(SamplingRequest):
    """Request for completions. Other settings of `/v1/generate` (`top_k`, `min_p`, …) are also accepted."""

    prompt: Annotated[Strings, BeforeValidator(as_list)] = Field([""], description="One prompt or a list of prompts.")
    max_tokens: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        None, description="Maximum number of tokens, 16 by default; 0 with `echo` returns only the prompt."
    )
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = Field(
        None, description="Number of most probable tokens to return for each step, with log probabilities."
    )
    echo: bool | None = Field(None, description="Include the prompt in each text.")
    best_of: Annotated[int, Field(ge=1, lt=2**31)] | None = Field(None, description="Must equal `n`.")
    suffix: str | None = Field(None, description="Not supported.")
    logit_bias: dict[str, Any] | None = Field(None, description="Not supported.")

    @field_validator("prompt", mode="before")
    @classmethod
    def _refuse_tokens(cls, value: Any) -> Any:
        if isinstance(value, list) and any(isinstance(entry, int | list) for entry in value):
            raise ValueError("token ids are not supported: send texts")
        return value

    def checked(self) -> None:
        """Raise ApiError for unsupported fields."""
        if self.suffix:
            raise ApiError(400, "Invalid request: suffix is not supported")
        if self.logit_bias:
            raise ApiError(400, "Invalid request: logit_bias is not supported")
        if self.best_of not in (None, self.n or 1):
            raise ApiError(400, "Invalid request: best_of must equal n: selecting the best texts is not supported")
        if self.max_tokens == 0 and not self.echo:
            raise ApiError(400, "Invalid request: max_tokens = 0 requires echo")
        self.refuse_unknown()

    def settings(self) -> dict[str, Any]:
        """Return the settings of generation, by the names of ``GenerateRequest``."""
        return self.sampling() | {"length": (16 if self.max_tokens is None else self.max_tokens) or 1}


def handles(path: str) -> bool:
    """Return whether a path belongs to this interface."""
    return path in (PATH, CHAT, TRANSCRIPTIONS, EMBEDDINGS)


def error_response(error: ApiError) -> JSONResponse:
    """Return an error in OpenAI's format."""
    status = {422: 400, 403: 401}.get(error.status, error.status)
    return JSONResponse(error_body(error, status), status, headers=error.headers)


def error_body(error: ApiError, status: int) -> dict[str, Any]:
    """Return the body of an error."""
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    code = "insufficient_quota" if error.reason == "quota" else CODES.get(status)
    return {"error": {"message": error.message, "type": kind, "param": None, "code": code}}


def router(service: Service) -> APIRouter:
    """Return the routes that complete prompts and conversations."""
    routes = APIRouter(tags=["OpenAI"], route_class=JsonRoute)

    @routes.post(PATH, response_model=Completion, responses=RESPONSES | {200: EVENT_STREAM})
    async def completions(body: CompletionRequest, request: Request) -> Any:
        """Continue prompts, for clients of OpenAI's completions."""
        await off_loop(body.checked)
        generation = GenerationRequest(
            body.prompt, body.model, body.settings(), body.n or 1,
            credentials(request, "Bearer"), alternatives=body.logprobs or 0, length_name="max_tokens",
        )  # fmt: skip
        opened = await generation.open(service)
        scores = await unless_disconnected(request, _prompt_scores(body, opened))
        answer = Answer(
            opened, echo=bool(body.echo), logprobs=body.logprobs, prompt_scores=scores,
            include_usage=body.usage_at_end,
        )  # fmt: skip
        if not body.stream:
            texts = await unless_disconnected(request, opened.whole()) if body.max_tokens != 0 else None
            return await off_loop(lambda: json_response(answer.whole(texts)))
        started = await unless_disconnected(request, opened.start()) if body.max_tokens != 0 else None
        return EventStream(_events(started, answer), source=started and started.rest, seconds=opened.seconds + 1)

    @routes.post(CHAT, response_model=ChatCompletion, responses=RESPONSES | {200: EVENT_STREAM})
    async def chat_completions(body: ChatRequest, request: Request) -> Any:
        """Reply to a conversation, for clients of OpenAI's chat completions."""
        messages, text = await off_loop(body.conversation)
        generation = GenerationRequest(
            [text], body.model, body.settings(), body.n or 1,
            credentials(request, "Bearer"), length_name=body.length_name, messages=messages,
        )  # fmt: skip
        opened = await generation.open(service)
        answer = ChatAnswer(opened, stream=bool(body.stream), include_usage=body.usage_at_end)
        if not body.stream:
            texts = await unless_disconnected(request, opened.whole())
            return await off_loop(lambda: json_response(answer.whole(texts)))
        started = await unless_disconnected(request, opened.start())
        return EventStream(_events(started, answer), source=started.rest, seconds=opened.seconds + 1)

    return routes


async def _prompt_scores(body: CompletionRequest, opened: OpenedRequest) -> list[list[TokenScore]] | None:
    """Return the scores of the prompt tokens if the texts include the prompts; charge the client if that is all."""
    if not body.echo or (body.logprobs is None and body.max_tokens != 0):
        return None
    if body.logprobs is None:
        with opened.charge():
            return None
    generator, _ = opened.model.served.start()
    works = [partial(_scored, generator, tokens, body.logprobs) for tokens in opened.texts.prompts]
    scored = opened.model.served.compute(works, client=opened.texts.client, seconds=opened.seconds)
    if body.max_tokens != 0:
        return await scored
    with opened.charge():
        return await scored


def _scored(generator: Any, tokens: list[int], alternatives: int, interrupted: Any) -> list[TokenScore]:
    """Return the scores of the tokens of a prompt."""
    scores: list[TokenScore] = generator.token_scores(tokens, alternatives, interrupted)
    return scores


async def _events(started: StartedSteps | None, answer: Answer | ChatAnswer) -> AsyncGenerator[str, None]:
    """Yield an event for each part of a text, for the usage if requested, for an error, and for the end."""
    for first in await off_loop(lambda: list(map(event, answer.prompt_chunks(ended=started is None)))):
        yield first
    if started is not None:
        try:
            async for number, step in started.all():
                if chunk := await answer.chunk(number, step):
                    yield event(chunk)
        except ApiError as error:
            yield event(error_body(error, error.status))
            return
    if answer.include_usage:
        yield event(answer.usage_chunk())
    yield event("[DONE]")
