"""Translation of a text that is still arriving; the state of a stream is in its requests."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from regard.config.stream_settings import DEFAULT_LAG, DEFAULT_POLICY, PolicyName
from regard.errors import ConfigError, SourceChangedError
from regard.inference.policies import make_policy
from regard.inference.text_stream import CURSOR, StreamInput, StreamOutput, text_from_word
from regard.server.api.api_v1 import ERROR_RESPONSES, ErrorBody
from regard.server.api.json_route import JsonRoute
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob
from regard.server.batching.translating import Translating
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.tasks.translation.streaming import StreamingTranslator

LARGEST_LAG = 1000


class StreamBody(BaseModel):
    """A source so far, and the output so far."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str = Field(description="The source from its beginning. A last word without a space after it is not read.")
    committed: str = Field("", description="`committed` of the last answer; empty at the beginning.")
    unstable: str = Field("", description="`unstable` of the last answer; empty at the beginning.")
    cursor: str = Field("", max_length=40, description="`cursor` of the last answer; empty at the beginning.")
    final: bool = Field(False, description="Whether the source has ended; the answer then completes the output.")
    policy: PolicyName = Field(DEFAULT_POLICY, description="Policy that decides which words are committed.")
    lag: int | None = Field(
        None, ge=0, le=LARGEST_LAG, description="Lag in source words: see the policies; left out: 5, 1 or 2."
    )
    split: bool = Field(True, description="Complete a sentence when the next one begins.")
    model: str | None = Field(None, description="Name of the model; left out: the first that translates.")


class StreamAnswer(BaseModel):
    """The output so far."""

    committed: str = Field(description="Text that is never taken back.")
    new: str = Field(description="The last part of `committed`, which this request has added.")
    unstable: str = Field(description="The rest of the present hypothesis, which may change.")
    final: bool = Field(description="Whether the output is complete; another stream then begins with `rest`.")
    rest: str = Field(description="Source after the completed sentence, if it was completed before the end of `text`.")
    read: int = Field(description="Number of source words that the hypothesis is based on.")
    cursor: str = Field(description="These words in a short form, for the next request.")
    model: str
    policy: PolicyName
    lag: int


def router(service: Service) -> APIRouter:
    """Return the route that continues streams."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)

    @routes.post("/v1/stream", responses=ERROR_RESPONSES | {409: {"model": ErrorBody}})
    async def stream(body: StreamBody, request: Request) -> StreamAnswer:
        """Translate a text that is still arriving. Repeat a request after a failure: the answer is the same."""
        began = time.monotonic()
        client, key = service.admit(credentials(request, "Bearer"), continues=bool(body.cursor))
        service.check_size([body.text, body.committed, body.unstable], max_texts=3)
        model = service.models.translator(body.model)
        lag = DEFAULT_LAG[body.policy] if body.lag is None else body.lag
        left = max(service.settings.seconds - (time.monotonic() - began), 0.0)
        with service.charge(len(_unread(body)), client, key):
            work = _continue(model, body, lag, client=client, seconds=left)
            output = await unless_disconnected(request, work)
        return StreamAnswer(**output._asdict(), model=model.name, policy=body.policy, lag=lag)

    return routes


def _unread(body: StreamBody) -> str:
    """Return the part of the source that earlier requests have not read: only it is charged."""
    known = int(body.cursor.partition("-")[0]) if CURSOR.fullmatch(body.cursor) else 0
    return text_from_word(body.text, known)


async def _continue(model: Translating, body: StreamBody, lag: int, *, client: str, seconds: float) -> StreamOutput:
    """Return the output after a request; its hypothesis is searched in the running batch of the model."""
    deadline = time.monotonic() + seconds
    translator, _ = await model.served.wait_until_loaded(seconds)
    request = StreamInput(body.text, body.committed, body.unstable, final=body.final, cursor=body.cursor)
    try:
        policy = make_policy(body.policy, lag)
        inspector = model.served.inspector
        alignment = None
        if policy.needs_attention and inspector is not None:
            alignment = await model.run_serial(lambda: inspector.aligner)
        streaming = StreamingTranslator(translator, policy, search=model.search, alignment=alignment, splits=body.split)
        plan = await off_loop(streaming.plan, request)
        best = None
        if plan.input is not None:
            job = SearchJob(plan.input, plan.search, client=client, deadline=deadline)
            ((best, *_),) = await model.served.results([job], max(deadline - time.monotonic(), 0.0))
        if policy.needs_attention and best is not None:
            (output,) = await model.run_serial(lambda: streaming.finish([plan], [best]))
        else:
            (output,) = await off_loop(streaming.finish, [plan], [best])
        return output
    except SourceChangedError as error:
        raise ApiError(409, f"{error.what}: start again without committed, unstable and cursor") from error
    except ConfigError as error:
        raise ApiError(400, f"Invalid request: {error.where}: {public_message(error)}") from error
