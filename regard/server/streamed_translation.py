"""Translation of one text whose sentences are sent as soon as they are complete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple

from regard.config.settings import SearchConfig
from regard.core.deadline import Deadline, DeadlineExceeded
from regard.data.sentence_split import SplitText
from regard.inference.results import Translation
from regard.server.api_error import ApiError
from regard.server.keys import ApiKey
from regard.server.off_loop import off_loop
from regard.server.service import Service, parse_documents
from regard.server.text.enforce_terms import translate_with_terms
from regard.server.translation_request import ModelChoice, TranslationRequest, TranslationResult, join_candidates

MAX_GROUP = 16  # maximum number of sentences that are translated together


class TranslatedPart(NamedTuple):
    """A complete sentence.

    ``sentence``: its index, from 0. ``new``: its translation with the text around it; all of them concatenate to the
    translation of the text.
    """

    sentence: int
    new: str


class StartedTranslation(NamedTuple):
    """Parts of a translation, of which the first one is available. Translation runs until ``rest`` is closed."""

    first: TranslatedPart | TranslationResult
    rest: AsyncGenerator[TranslatedPart | TranslationResult, None]

    async def all(self) -> AsyncGenerator[TranslatedPart | TranslationResult, None]:
        """Yield all parts."""
        yield self.first
        async for part in self.rest:
            yield part


@dataclass(frozen=True)
class StreamedTranslation:
    """Admitted request for the translation of one plain text.

    Attributes:
        service: the service.
        request: the request.
        choice: the model.
        search: the search settings.
        document: the text, split into sentences.
        sentences: its sentences in the form that the model reads.
        client: the name of the client.
        key: the key of the client, if keys are required.
        deadline: the deadline of the request.
    """

    service: Service
    request: TranslationRequest
    choice: ModelChoice
    search: SearchConfig
    document: SplitText
    sentences: list[str]
    client: str
    key: ApiKey | None
    deadline: Deadline

    @classmethod
    async def open(cls, service: Service, request: TranslationRequest) -> StreamedTranslation:
        """Check a request of one plain text; raise ApiError beyond a limit, or if no model has the languages."""
        deadline = Deadline(service.settings.seconds)
        client, key = service.admit(request.credentials)
        service.check_size(request.texts)
        (choice,), settings = await off_loop(service.choose_models, request, deadline)
        await choice.model.wait_until_loaded(deadline.left)
        (document,), sentences = await off_loop(parse_documents, request, request.texts, choice.model, deadline)
        assert isinstance(document.document, SplitText)
        return cls(
            service, request, choice, settings[choice.model], document.document, sentences, client, key, deadline
        )  # fmt: skip

    async def start(self) -> StartedTranslation:
        """Return the parts when the first one is available: until then, an error can still set the HTTP status."""
        parts = self.parts()
        try:
            async with asyncio.timeout(self.deadline.left + 1):  # a search ends earlier, with a better message
                return StartedTranslation(await anext(parts), parts)
        except TimeoutError as error:
            raise self.service.timed_out() from error

    async def parts(self) -> AsyncGenerator[TranslatedPart | TranslationResult, None]:
        """Yield the sentences, and the whole translation; the first part charges the client for the text."""
        characters = sum(map(len, self.request.texts))
        try:
            async with aclosing(self._parts()) as parts:
                with self.service.charge(characters, self.client, self.key):
                    first = await anext(parts)
                yield first
                async for part in parts:
                    yield part
        except (ApiError, DeadlineExceeded) as error:
            if self.deadline.left:
                raise
            raise self.service.timed_out() from error  # the message of ``error`` names the time left for its group
        self.service.metrics.count_translated(characters, len(self.sentences))

    async def _parts(self) -> AsyncGenerator[TranslatedPart | TranslationResult, None]:
        translations: list[Translation] = []
        for start, end in groups(len(self.sentences)):
            group = await translate_with_terms(
                self.choice.model, self.sentences[start:end], self.search, client=self.client,
                seconds=self.deadline.left, glossary=self.request.glossary, protect=self.request.protect,
            )  # fmt: skip
            for part in await off_loop(self._complete, group, start):
                yield part
            translations += group
        candidates = await off_loop(join_candidates, self.document, translations, {}, self.deadline)
        yield TranslationResult(candidates, *self.choice, translations)

    def _complete(self, translations: Sequence[Translation], first: int) -> list[TranslatedPart]:
        """Return the parts of consecutive sentences, of which the first one has the index ``first``."""
        before, *after = self.document.between
        return [
            TranslatedPart(index, ("" if index else before) + translation.text + after[index])
            for index, translation in enumerate(translations, first)
        ]


def groups(count: int) -> Iterator[tuple[int, int]]:
    """Yield the limits of groups that are translated one after the other: of 1, 2, 4, … sentences, up to MAX_GROUP.

    The first sentence is complete early, and the others are translated together.
    """
    start, size = 0, 1
    while start < count:
        yield start, min(start + size, count)
        start, size = start + size, min(2 * size, MAX_GROUP)
