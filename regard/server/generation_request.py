"""Requests for generated text, common to all interfaces: checks, limits, charge, and the steps of the texts."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from regard.config.chat import Message
from regard.inference.chat import NO_MORE
from regard.server.api.requests import Credentials
from regard.server.api_error import ApiError
from regard.server.batching.generating import Generating, NumberedStep, TextsRequest
from regard.server.keys import ApiKey
from regard.server.service import Service
from regard.tasks.language_model.text_listener import TextStep


class StartedSteps(NamedTuple):
    """Steps of texts, of which the first one is available. Generation runs until ``rest`` is closed."""

    first: NumberedStep
    rest: AsyncGenerator[NumberedStep, None]

    async def all(self) -> AsyncGenerator[NumberedStep, None]:
        """Yield all steps."""
        yield self.first
        async for step in self.rest:
            yield step


@dataclass(frozen=True)
class GenerationRequest:
    """Request to continue prompts.

    Attributes:
        prompts: the prompts.
        model: the name of the model; None for the first language model.
        settings: the settings of the request, by the names of ``GenerateRequest``.
        samples: see ``TextsRequest``.
        credentials: the credentials of the client.
        alternatives: see ``TextsRequest``.
        length_name: the name of the length in the interface, for errors.
        messages: the conversation that the texts continue; None: they continue the prompts. The only prompt is then the
            text of all messages, which is counted for the client.
    """

    prompts: list[str]
    model: str | None
    settings: Mapping[str, Any]
    samples: int
    credentials: Credentials
    alternatives: int = 0
    length_name: str = "length"
    messages: Sequence[Message] | None = None

    async def open(self, service: Service) -> OpenedRequest:
        """Check the request and return it with its model; raise ApiError for an invalid request."""
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
        if self.messages is None:
            tokens, end = await model.tokens(self.prompts), NO_MORE
        else:
            conversation = await model.conversation(self.messages, settings)
            tokens, end = [conversation.tokens], conversation.end
        request = TextsRequest(
            tokens, settings, self.samples, client, began + service.settings.seconds, self.alternatives, end
        )  # fmt: skip
        return OpenedRequest(service, self, model, request, key)


@dataclass(frozen=True)
class OpenedRequest:
    """Admitted request, with its model and its texts."""

    service: Service
    request: GenerationRequest
    model: Generating
    texts: TextsRequest
    key: ApiKey | None

    @property
    def seconds(self) -> float:
        """Remaining time."""
        return max(self.texts.deadline - time.monotonic(), 0.0)

    async def steps(self) -> AsyncGenerator[NumberedStep, None]:
        """Yield the steps of all texts as they are generated; the first step charges the client for the prompts."""
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

    async def start(self) -> StartedSteps:
        """Return the steps when the first one is available: until then, an error can still set the HTTP status."""
        steps = self.steps()
        return StartedSteps(await anext(steps), steps)

    def charge(self) -> AbstractContextManager[None]:
        """Count the characters of the prompts for the client, unless the block fails."""
        return self.service.charge(sum(map(len, self.request.prompts)), self.texts.client, self.key)
