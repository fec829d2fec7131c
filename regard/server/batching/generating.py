"""Generation with a served model: the texts of all clients form one batch and can be streamed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, cast

from regard.config.chat import Message
from regard.config.search_requests import GenerateRequest
from regard.errors import ConfigError
from regard.inference.chat import NO_MORE, Conversation, ReplyEnd
from regard.inference.search_model import SearchInput
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob
from regard.server.batching.predictions import request_settings
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.settings import ServerSettings
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.text_listener import TextStep

NumberedStep = tuple[int, TextStep]


class TextsRequest(NamedTuple):
    """Texts to generate, numbered by prompt and sample.

    Attributes:
        prompts: the tokens of each prompt.
        settings: the settings of generation.
        samples: the number of texts per prompt.
        client: the name of the client in the queue.
        deadline: the deadline on ``time.monotonic``.
        alternatives: the number of most probable tokens to report with each step.
        end: further tokens and texts that end a text.
    """

    prompts: Sequence[list[int]]
    settings: GenerateRequest
    samples: int
    client: str
    deadline: float
    alternatives: int = 0
    end: ReplyEnd = NO_MORE


class Generating:
    """A served language model: the texts of all clients form one batch and can be streamed."""

    needs_sources = False  # a text can be scored without a source

    def __init__(self, served: ServedModel) -> None:
        self.served, self.name = served, served.name

    async def settings(
        self,
        requested: Mapping[str, Any],
        limits: ServerSettings,
        *,
        seconds: float,
        length_name: str = "settings.length",
    ) -> GenerateRequest:
        """Return the settings of the run, overridden by those of a request.

        Args:
            requested: the settings of the request.
            limits: the limits of the server.
            seconds: the time to wait until the model is loaded.
            length_name: the name of the length in the request, for errors.

        Raises:
            ApiError: for invalid settings, or a length above the limit.
        """
        generator, _ = await self.served.wait_until_loaded(seconds)

        def read() -> GenerateRequest:
            """Return the settings; raise ConfigError if they contradict each other."""
            request = request_settings(generator.interface, requested, limits, length_name=length_name)
            generator.requested(request)
            return cast(GenerateRequest, request)

        try:
            return await off_loop(read)
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error

    async def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of prompts; raise ApiError for a prompt that the vocabulary cannot represent."""
        generator, _ = self.served.start()
        try:
            return await off_loop(lambda: [generator.tokens(prompt) for prompt in prompts])
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error

    async def conversation(self, messages: Sequence[Message], settings: GenerateRequest) -> Conversation:
        """Return the tokens of a conversation; raise ApiError if the model cannot reply to it."""
        generator, _ = self.served.start()
        try:
            return await off_loop(lambda: generator.conversation(messages, generator.requested(settings)))
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error

    async def generate(
        self, request: TextsRequest, on_step: Callable[[int, TextStep], None] | None = None
    ) -> list[list[TextStep]]:
        """Return the steps of each text; ``on_step`` is called with each step in the thread of the model."""
        generator, _ = self.served.start()
        texts = await off_loop(_Texts, generator, request, on_step)
        hypotheses = await self.served.results(texts.jobs, max(request.deadline - time.monotonic(), 0.0))
        return await off_loop(texts.steps_of, hypotheses)

    async def stream(self, request: TextsRequest) -> AsyncGenerator[NumberedStep, None]:
        """Yield the steps of all texts as they are generated; closing the iterator stops generation."""
        loop, steps = asyncio.get_running_loop(), asyncio.Queue[NumberedStep | None]()

        def on_step(number: int, step: TextStep) -> None:
            loop.call_soon_threadsafe(steps.put_nowait, (number, step))

        work = asyncio.ensure_future(self.generate(request, on_step))
        work.add_done_callback(lambda _: steps.put_nowait(None))
        try:
            while (step := await steps.get()) is not None:
                yield step
            await work
        finally:
            work.cancel()

    async def score(
        self, prompts: Sequence[str] | None, texts: Sequence[str], *, client: str, seconds: float, auxiliary: object
    ) -> list[list[float]]:
        """Return the log probabilities (nats) of the pieces of each text, alone or as the continuation of a prompt."""
        generator, _ = await self.served.wait_until_loaded(seconds)
        contexts: Sequence[str | None] = [None] * len(texts) if prompts is None else prompts
        works = [partial(_scores, generator, text, prompt) for text, prompt in zip(texts, contexts, strict=True)]
        return await self.served.compute(works, client=client, seconds=seconds)


class _Texts:
    """The texts of a request: the jobs that search them, and their steps.

    Sampling reports each step when its token is chosen; beam search reports all steps at the end.

    Raises:
        ApiError: if more texts are requested than the beam has.
    """

    def __init__(
        self, generator: Generator, request: TextsRequest, on_step: Callable[[int, TextStep], None] | None
    ) -> None:
        settings = generator.requested(request.settings)
        if 1 < settings.beam < request.samples:
            what = f"a beam of width {settings.beam} finds at most {settings.beam} texts per prompt"
            raise ApiError(400, f"Invalid request: {what}")
        self._search = generator.text_search(settings, end=request.end)
        self._on_step, self._by_beam = on_step, settings.beam > 1
        self._steps: list[list[TextStep]] = [[] for _ in range(len(request.prompts) * request.samples)]
        inputs = map(SearchInput, request.prompts)
        if self._by_beam:
            settings = settings.model_copy(update={"nbest": request.samples})
        else:
            inputs = map(partial(self._input, request), range(len(self._steps)))
        self.jobs = [SearchJob(input, settings, client=request.client, deadline=request.deadline) for input in inputs]

    def _input(self, request: TextsRequest, number: int) -> SearchInput:
        prompt, sample = divmod(number, request.samples)
        add = partial(self._add, number)
        return self._search.input(request.prompts[prompt], sample, number, add, request.alternatives)

    def _add(self, number: int, step: TextStep) -> None:
        """Append a step to its text, and report it."""
        self._steps[number].append(step)
        if self._on_step is not None:
            self._on_step(number, step)

    def steps_of(self, hypotheses: Sequence[list[Hypothesis]]) -> list[list[TextStep]]:
        """Return the steps of each text, from the hypotheses of each job."""
        if self._by_beam:
            for number, hypothesis in enumerate(chain.from_iterable(hypotheses)):
                for step in self._search.steps_of(number, hypothesis):
                    self._add(number, step)
        return self._steps


def _scores(generator: Generator, text: str, prompt: str | None, interrupted: Callable[[], bool]) -> list[float]:
    """Return the log probability of each piece of a text."""
    return list(generator.score(text, prompt=prompt, interrupted=interrupted).piece_log_probabilities)


def text_of(steps: Sequence[TextStep]) -> str:
    """Return the text that steps generated together."""
    return "".join(step.piece.text for step in steps)
