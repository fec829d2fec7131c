"""Requests for generated text, common to all interfaces: checks, limits, charge, and the steps of the texts."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.server.api.requests import Credentials
from regard.server.api_error import ApiError
from regard.server.batching.generating import Generating, NumberedStep, TextsRequest
from regard.server.keys import ApiKey
from regard.server.service import Service
from regard.tasks.language_model.text_listener import TextStep


class BegunSteps(NamedTuple):
    """Steps of texts, the first of which is there. The texts run until ``rest`` is closed."""

    first: NumberedStep
    rest: AsyncGenerator[NumberedStep, None]

    async def all(self) -> AsyncGenerator[NumberedStep, None]:
        """Yield the first step and the others."""
        yield self.first
        async for step in self.rest:
            yield step


@dataclass(frozen=True)
class GenerationRequest:
    """Texts that go on from prompts.

    ``model``: the name; None: the first that generates. ``settings``: those that the client gave, as
    ``GenerateRequest`` names them. ``length_name``: what the interface calls the length. The rest is as in
    ``TextsRequest``.
    """

    prompts: list[str]
    model: str | None
    settings: Mapping[str, Any]
    samples: int
    credentials: Credentials
    alternatives: int = 0
    length_name: str = "length"

    async def open(self, service: Service) -> OpenedRequest:
        """Return the request as it is computed. ApiError for what is refused before any work is done."""
        began = time.monotonic()
        client, key = service.admit(self.credentials)
        service.check_size(self.prompts)
        texts, limit = len(self.prompts) * self.samples, service.settings.texts
        if texts > limit:
            raise ApiError(
                400, f"Invalid request: {texts} texts to generate exceed the limit of {limit} (--batch-limit)"
            )
        model = service.models.generator(self.model)
        settings = await model.settings(
            self.settings, service.settings, seconds=service.settings.seconds, length_name=self.length_name
        )
        request = TextsRequest(
            await model.tokens(self.prompts), settings, self.samples, client, began + service.settings.seconds,
            self.alternatives,
        )  # fmt: skip
        return OpenedRequest(service, self, model, request, key)


@dataclass(frozen=True)
class OpenedRequest:
    """Request that was admitted: its model, and what that is to do."""

    service: Service
    asked: GenerationRequest
    model: Generating
    texts: TextsRequest
    key: ApiKey | None

    @property
    def seconds(self) -> float:
        """The time left."""
        return max(self.texts.deadline - time.monotonic(), 0.0)

    async def steps(self) -> AsyncGenerator[NumberedStep, None]:
        """Yield the steps of all texts as they are made; the client is charged for the prompts with the first."""
        async with aclosing(self.model.stream(self.texts)) as steps:
            with self.charge():
                first = await anext(steps)
            yield first
            async for step in steps:
                yield step

    async def whole(self) -> list[list[TextStep]]:
        """Return the steps of each text."""
        with self.charge():
            return await self.model.generate(self.texts)

    async def begun(self) -> BegunSteps:
        """Return the steps once the first is there: what fails before it has a status of its own."""
        steps = self.steps()
        return BegunSteps(await anext(steps), steps)

    def charge(self) -> AbstractContextManager[None]:
        """Count the characters of the prompts for the client, unless the block fails."""
        return self.service.charge(sum(map(len, self.asked.prompts)), self.texts.client, self.key)
