"""Translation of a text that is still arriving; the state of a stream is in its requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from regard.config.stream_settings import DEFAULT_LAG, DEFAULT_POLICY, MOST_AGREE, PolicyName
from regard.core.deadline import Deadline
from regard.errors import ConfigError, SourceChangedError
from regard.inference.policies import POLICIES, Policy, make_policy
from regard.inference.text_stream import CURSOR, StreamInput, StreamOutput, text_from_word
from regard.search.contract import Hypothesis
from regard.server.api.api_v1 import ERROR_RESPONSES, ErrorBody
from regard.server.api.json_route import JsonRoute, json_response
from regard.server.api.requests import credentials, unless_disconnected
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob
from regard.server.batching.translating import Translating
from regard.server.keys import ApiKey
from regard.server.off_loop import off_loop
from regard.server.service import Service
from regard.tasks.translation.streaming import StreamingTranslator, StreamWork

LARGEST_LAG = 1000
ROWS = 32  # outputs of one pass: its weights are in memory at once


class StreamBody(BaseModel):
    """A source so far, and the output so far."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    text: str = Field(description="The source from its beginning. A last word without a space after it is not read.")
    committed: str = Field("", description="`committed` of the last answer; empty at the beginning.")
    unstable: str = Field("", description="`unstable` of the last answer; empty at the beginning.")
    cursor: str = Field("", max_length=64, description="`cursor` of the last answer; empty at the beginning.")
    final: bool = Field(False, description="Whether the source has ended; the answer then completes the output.")
    policy: PolicyName = Field(DEFAULT_POLICY, description="Policy that decides which words are committed.")
    lag: int | None = Field(
        None, ge=0, le=LARGEST_LAG, description="Lag in source words: see the policies; left out: 5, 1 or 2."
    )
    agree: int | None = Field(
        None, ge=2, le=MOST_AGREE, description="Hypotheses that must agree, of local-agreement; left out: 2."
    )
    beam: int | None = Field(None, ge=1, description="Beam of each hypothesis; left out: that of the model. 1 is fast.")
    split: bool = Field(True, description="Complete a sentence when the next one begins.")
    source: str | None = Field(None, description="Language code; left out or `auto`: any language.")
    target: str | None = Field(None, description="Language code; left out: any language.")
    model: str | None = Field(None, description="Name of the model; left out: the first for the languages.")


class StreamAnswer(BaseModel):
    """The output so far."""

    committed: str = Field(description="Text that is never taken back.")
    new: str = Field(description="The last part of `committed`, which this request has added.")
    unstable: str = Field(description="The rest of the present hypothesis, which may change.")
    final: bool = Field(description="Whether the output is complete; another stream then begins with `rest`.")
    rest: str = Field(description="Source after the completed sentence, if it was completed before the end of `text`.")
    read: int = Field(description="Number of source words that the hypothesis is based on.")
    cursor: str = Field(description="These words in a short form, and counts of the policy, for the next request.")
    model: str
    policy: PolicyName
    lag: int


def router(service: Service) -> APIRouter:
    """Return the route that continues streams."""
    routes = APIRouter(tags=["Regard"], route_class=JsonRoute)
    finishers: dict[str, _Finisher] = {}  # of models

    @routes.post("/v1/stream", response_model=StreamAnswer, responses=ERROR_RESPONSES | {409: {"model": ErrorBody}})
    async def stream(body: StreamBody, request: Request) -> Response:
        """Translate a text that is still arriving. Repeat a request after a failure: the answer is the same."""
        deadline = Deadline(service.settings.seconds)
        client, key = service.admit(credentials(request, "Bearer"), continues=bool(body.cursor))
        service.check_size([body.text, body.committed, body.unstable], max_texts=3)
        if body.beam is not None and body.beam > service.settings.beam:
            raise ApiError(400, f"Invalid request: beam: at most {service.settings.beam}")
        model = _choose_model(service, body)
        try:
            async with asyncio.timeout(deadline.left + 1):  # a search ends earlier, with a better message
                finisher = finishers.setdefault(model.name, _Finisher(model))
                work = _continue(service, finisher, body, client=client, key=key, deadline=deadline)
                return await unless_disconnected(request, work)
        except TimeoutError as error:
            raise service.timed_out() from error

    return routes


def _choose_model(service: Service, body: StreamBody) -> Translating:
    """Return the model by its name or by languages. No language is identified: it would change as the text grows."""
    source = None if body.source == "auto" else body.source
    if body.model is not None or (source is None and body.target is None):
        return service.models.translator(body.model)
    return service.models.for_languages(source, body.target)


def _charged(body: StreamBody, key: ApiKey | None) -> int:
    """Return the number of characters to charge: of the words that earlier requests have not read.

    A client can forge a cursor, so a key with a quota is charged for the whole text of each request.
    """
    has_quota = key is not None and key.characters is not None
    known = int(body.cursor.partition("-")[0]) if CURSOR.fullmatch(body.cursor) and not has_quota else 0
    return len(text_from_word(body.text, known))


class _Finished(NamedTuple):
    """A search that is done, and the future of its output."""

    streaming: StreamingTranslator
    work: StreamWork
    best: Hypothesis
    output: Future[StreamOutput]


class _Finisher:
    """Completes outputs that need a pass of the model (AlignAtt): those that wait share one pass.

    Args:
        model: the model.
    """

    def __init__(self, model: Translating) -> None:
        self.model = model
        self._waiting, self._lock = list[_Finished](), Lock()

    async def finish(self, streaming: StreamingTranslator, work: StreamWork, best: Hypothesis) -> StreamOutput:
        """Return the output of a request."""
        finished = _Finished(streaming, work, best, Future())
        with self._lock:
            self._waiting.append(finished)
        await self.model.run_serial(self._run)
        return await asyncio.wrap_future(finished.output)

    def _run(self) -> None:
        """Complete all outputs that wait; called in the thread of such passes."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        waiting = [one for one in waiting if one.output.set_running_or_notify_cancel()]
        groups: dict[Policy, list[_Finished]] = {}
        for one in waiting:
            groups.setdefault(one.streaming.policy, []).append(one)
        for group in (own[first : first + ROWS] for own in groups.values() for first in range(0, len(own), ROWS)):
            try:
                outputs = group[0].streaming.finish([one.work for one in group], [one.best for one in group])
                for one, output in zip(group, outputs, strict=True):
                    one.output.set_result(output)
            except BaseException as error:  # noqa: BLE001 - raised again where the output is awaited
                for one in group:
                    one.output.set_exception(error)


async def _continue(
    service: Service, finisher: _Finisher, body: StreamBody, *, client: str, key: ApiKey | None, deadline: Deadline
) -> Response:
    """Return the answer to a request; its hypothesis is searched in the running batch of the model.

    Each hand-over to a thread costs more than a step of a small model, so there are few.
    """
    model = finisher.model
    translator, _ = await model.served.wait_until_loaded(deadline.left)
    lag = DEFAULT_LAG[body.policy] if body.lag is None else body.lag
    needs_attention = POLICIES[body.policy].needs_attention
    search = model.search if body.beam is None else model.search.model_copy(update={"beam": body.beam})
    alignment = await model.aligner() if needs_attention else None

    def plan() -> tuple[StreamingTranslator, StreamWork, list[SearchJob], int]:
        """Return the streaming translator, its work, the job that the work needs, if any, and characters to charge."""
        streaming = StreamingTranslator(
            translator, make_policy(body.policy, lag, agree=body.agree), search=search, alignment=alignment,
            splits=body.split and not model.reads_whole,
        )  # fmt: skip
        request = StreamInput(body.text, body.committed, body.unstable, final=body.final, cursor=body.cursor)
        work = streaming.plan(request)
        inputs = [] if work.input is None else [work.input]
        jobs = [SearchJob(input, work.search, client=client, deadline=deadline.end) for input in inputs]
        return streaming, work, jobs, _charged(body, key)

    try:
        streaming, work, jobs, characters = await off_loop(plan)
        with service.charge(characters, client, key):
            hypotheses = await model.served.results(jobs, deadline.left)
            best = hypotheses[0][0] if jobs else None

            finished = None
            if needs_attention and best is not None:
                finished = await finisher.finish(streaming, work, best)

            def complete() -> tuple[StreamOutput, Response]:
                output = finished or streaming.finish([work], [best])[0]
                answer = StreamAnswer(**output._asdict(), model=model.name, policy=body.policy, lag=lag)
                return output, json_response(answer)

            output, response = complete() if finished else await off_loop(complete)
    except SourceChangedError as error:
        raise ApiError(409, f"{error.what}: start again without committed, unstable and cursor") from error
    except ConfigError as error:
        raise ApiError(400, f"Invalid request: {error.where}: {public_message(error)}") from error
    service.metrics.count_translated(characters, int(output.final))
    return response
