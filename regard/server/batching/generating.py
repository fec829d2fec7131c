"""Generation by a served model: texts of all clients grow together, step by step, and may be read as they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from regard.config.search_requests import GenerateRequest
from regard.errors import ConfigError
from regard.inference.search_model import SearchInput
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import SearchJob
from regard.server.batching.predictions import request_settings
from regard.server.batching.served import ServedModel
from regard.server.off_loop import off_loop
from regard.server.settings import ServerSettings
from regard.tasks.language_model.config import GenerateConfig
from regard.tasks.language_model.generator import Generator
from regard.tasks.language_model.text_listener import TextStep

__all__ = ["Generating", "NumberedStep", "TextsRequest", "text_of"]

NumberedStep = tuple[int, TextStep]


class TextsRequest(NamedTuple):
    """Texts to generate: of each prompt (its tokens) ``samples``, numbered in this order.

    ``alternatives``: likeliest tokens that are told of each step. ``client``: the name under which the texts wait.
    ``deadline``: on ``time.monotonic``.
    """

    prompts: Sequence[list[int]]
    settings: GenerateRequest
    samples: int
    client: str
    deadline: float
    alternatives: int = 0


class Generating:
    """A served model that generates text: texts of all clients grow together, step by step, and may be read so."""

    needs_sources = False  # for the score of a text

    def __init__(self, served: ServedModel) -> None:
        self.served, self.name = served, served.name

    async def settings(
        self, given: Mapping[str, Any], limits: ServerSettings, *, seconds: float, length_name: str = "settings.length"
    ) -> GenerateRequest:
        """Return the run's settings with those of a request. ApiError for wrong ones, or too long a text."""
        generator, _ = await self.served.wait_until_loaded(seconds)
        return cast(
            GenerateRequest,
            await off_loop(request_settings, generator.interface, given, limits, length_name=length_name),
        )

    async def tokens(self, prompts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of prompts. ApiError for one that the vocabulary cannot spell."""
        generator, _ = self.served.start()
        try:
            return await off_loop(lambda: [generator.tokens(prompt) for prompt in prompts])
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error

    async def generate(
        self, request: TextsRequest, on_step: Callable[[int, TextStep], None] | None = None
    ) -> list[list[TextStep]]:
        """Return the steps of each text; ``on_step`` is called with each, in the model's thread."""
        generator, _ = self.served.start()
        settings = _requested(generator, request.settings)
        if settings.beam > 1:
            return await self._beams(request, settings, on_step)
        search = generator.text_search(settings)
        texts: list[list[TextStep]] = []
        inputs = []
        for prompt in request.prompts:
            for sample in range(request.samples):
                number = len(texts)
                texts.append([])
                add = partial(_add, texts[-1], on_step and partial(on_step, number))
                inputs.append(search.input(prompt, sample, number, add, request.alternatives))
        await self._search(request, inputs, settings)
        return texts

    async def _beams(
        self, request: TextsRequest, settings: GenerateConfig, on_step: Callable[[int, TextStep], None] | None
    ) -> list[list[TextStep]]:
        """Return the steps of the best texts of each prompt, which are known at the end."""
        generator, _ = self.served.start()
        if request.samples > settings.beam:
            raise ApiError(
                400, f"Invalid request: a beam of {settings.beam} has no {request.samples} texts of a prompt"
            )
        best = settings.model_copy(update={"nbest": request.samples})
        found = await self._search(request, list(map(SearchInput, request.prompts)), best)
        hypotheses = [each for of_prompt in found for each in of_prompt]
        search = generator.text_search(settings)
        texts = [search.steps_of(number, hypothesis) for number, hypothesis in enumerate(hypotheses)]
        for number, steps in enumerate(texts if on_step is not None else []):
            for step in steps:
                on_step and on_step(number, step)
        return texts

    async def _search(
        self, request: TextsRequest, inputs: Sequence[SearchInput], settings: GenerateConfig
    ) -> list[list[Hypothesis]]:
        """Return the outputs of each input."""
        jobs = [SearchJob(input, settings, client=request.client, deadline=request.deadline) for input in inputs]
        return await self.served.results(jobs, max(request.deadline - time.monotonic(), 0.0))

    async def stream(self, request: TextsRequest) -> AsyncGenerator[NumberedStep, None]:
        """Yield the steps of all texts as they are made. The texts end when the iterator is closed."""
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
        """Return the log probabilities (nats) of the pieces of each text, whole or as the continuation of a prompt."""
        generator, _ = await self.served.wait_until_loaded(seconds)
        given: Sequence[str | None] = [None] * len(texts) if prompts is None else prompts
        works = [partial(_scores, generator, text, prompt) for text, prompt in zip(texts, given, strict=True)]
        return await self.served.compute(works, client=client, seconds=seconds)


def _requested(generator: Generator, request: GenerateRequest) -> GenerateConfig:
    """Return the settings of generation that a request has. ApiError for what they cannot be."""
    try:
        return generator.requested(request)
    except ConfigError as error:
        raise ApiError(400, f"Invalid request: {public_message(error)}") from error


def _add(steps: list[TextStep], on_step: Callable[[TextStep], None] | None, step: TextStep) -> None:
    """Append a step to those of its text, and report it."""
    steps.append(step)
    if on_step is not None:
        on_step(step)


def _scores(generator: Generator, text: str, prompt: str | None, interrupted: Callable[[], bool]) -> list[float]:
    """Return the log probability of each piece of a text."""
    return list(generator.score(text, prompt=prompt, interrupted=interrupted).piece_log_probabilities)


def text_of(steps: Sequence[TextStep]) -> str:
    """Return the text that steps give together."""
    return "".join(step.piece.text for step in steps)
