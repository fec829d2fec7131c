"""What a server does, whatever dialect asks: look at the limits, find the model, translate sentence by sentence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import limits
from pydantic import ValidationError

from regard.config.settings import SearchConfig
from regard.core.wording import describe_validation_error
from regard.server.api.requests import Sender
from regard.server.api_error import ApiError
from regard.server.batching.metrics import ServerMetrics
from regard.server.batching.models import Models, ServedModel
from regard.server.glossaries import Glossaries
from regard.server.keys import Key, Keys
from regard.server.settings import ServerSettings
from regard.server.text.enforce_terms import translated
from regard.server.text.glossary import Glossary, is_term
from regard.server.text.languages import Identifier, Language
from regard.server.text.markup_tokenizer import Markup, without_tags
from regard.server.translation_request import (
    ModelChoice,
    TranslationRequest,
    TranslationResult,
    candidates_of,
    document_of,
    links_of,
)

__all__ = ["Service"]

Result = TypeVar("Result")
ASIDE = 16  # requests that may wait for ``aside``
CLIENTS = 100_000  # whose characters are counted


class Service:
    """The models, the limits, and what has been counted."""

    def __init__(
        self,
        models: Models,
        settings: ServerSettings,
        metrics: ServerMetrics,
        *,
        keys: Keys | None = None,
        glossaries: Path | None = None,
    ) -> None:
        """``glossaries``: a folder to keep those of clients in; in memory unless given."""
        self.models, self.settings, self.metrics, self.keys = models, settings, metrics, keys
        self.glossaries = Glossaries(glossaries, most=settings.glossaries, entries=settings.entries)
        self._characters: Counter[str] = Counter()  # by client, since the server began
        self.identifier = Identifier([model.source for model in models.all])
        self._thread, self._waiting = ThreadPoolExecutor(1, "aside"), 0
        self._window = limits.strategies.SlidingWindowCounterRateLimiter(limits.storage.MemoryStorage())

    def admit(self, sender: Sender) -> tuple[str, Key | None]:
        """The name of the client, under which all is counted, and its key where keys are asked for.

        ApiError where the key is wrong, or where it asks too often.
        """
        client, key = self.client(sender)
        most = (key.requests_per_minute if key else None) or self.settings.requests_per_minute
        rate = limits.RateLimitItemPerMinute(most)
        if not self._window.hit(rate, client):
            reset = self._window.get_window_stats(rate, client).reset_time
            raise ApiError(429, f"Slowdown: {most} per 1 minute", retry_after=reset - time.time())
        return client, key

    def client(self, sender: Sender) -> tuple[str, Key | None]:
        """Who that is; no request is counted. ApiError where the key is wrong."""
        key = self._key(sender)
        return f"key {key.name}" if key else f"address {sender.address}", key

    def usage(self, sender: Sender) -> tuple[int, int | None]:
        """Characters that this client has had translated, and those that it may."""
        client, key = self.admit(sender)
        return self._characters[client], key.characters if key else None

    def _key(self, sender: Sender) -> Key | None:
        if self.keys is None:
            return None
        if sender.key is None:
            raise ApiError(401, "A key is needed: ask whoever runs this server.", reason="no key")
        key = self.keys.find(sender.key)
        if key is None:
            raise ApiError(403, "This key is not known.", reason="wrong key")
        return key

    async def translate(self, asked: TranslationRequest) -> list[TranslationResult]:
        """ApiError where a limit stands in the way or no model does this."""
        began = time.monotonic()
        client, key = self.admit(asked.sender)
        self.check(asked.texts)
        chosen = await asyncio.to_thread(lambda: [self._choose(asked, text) for text in asked.texts])
        for each in chosen:
            self.search(each.model, asked.search)  # refused before anything is done
        characters = sum(map(len, asked.texts))
        with self.spending(characters, client, key):
            left = self.settings.seconds - (time.monotonic() - began)
            try:
                async with asyncio.timeout(max(left, 0.0) + 1):  # searches are over before, and say it better
                    answers = await self._translated(asked, chosen, client, began + self.settings.seconds)
            except TimeoutError as error:
                raise ApiError(503, f"This took more than {self.settings.seconds:g} s.", retry_after=5) from error
        self.metrics.translated(characters, sum(len(answer.sentences) for answer in answers))
        return answers

    async def _translated(
        self, asked: TranslationRequest, chosen: Sequence[ModelChoice], client: str, until: float
    ) -> list[TranslationResult]:
        """Model by model, all its texts together."""
        found: dict[int, TranslationResult] = {}
        for model in dict.fromkeys(each.model for each in chosen):
            mine = [number for number, each in enumerate(chosen) if each.model is model]
            texts = [asked.texts[number] for number in mine]
            documents = await asyncio.to_thread(asked.documents, texts, model.source)
            addressed = await asyncio.to_thread(list, map(model.addressed, texts, documents))
            flat = [sentence for sentences in addressed for sentence in sentences]
            search, seconds = self.search(model, asked.search), max(until - time.monotonic(), 0.0)
            options: dict[str, Any] = {"glossary": asked.glossary, "keep": asked.keep}
            rest = iter(
                await translated(model, flat, search, client=client, seconds=seconds, **options) if flat else []
            )
            for number, document in zip(mine, documents, strict=True):
                its = list(islice(rest, len(document.sentences)))
                links = await model.beside(partial(links_of, model, document, its, until)) if document.linked else {}
                outputs = await asyncio.to_thread(candidates_of, document, its, links)
                found[number] = TranslationResult(outputs, *chosen[number], its)
        return [found[number] for number in range(len(chosen))]

    def _choose(self, asked: TranslationRequest, text: str) -> ModelChoice:
        if asked.model is not None:
            model = self.models.named(asked.model)
            return ModelChoice(model, asked.source or model.source, None)
        if asked.source is not None:
            return ModelChoice(self.models.between(asked.source, asked.target), asked.source, None)
        found = self.identifier(_words_of(text, asked.markup))
        if not found:  # no model names what it reads: any does
            model = self.models.between(None, asked.target)
            return ModelChoice(model, model.source, None)
        read = {model.source for model in self.models.to(asked.target)}
        best = next((each for each in found if each.code in read), found[0])  # "Hotel" is German, but not to German
        return ModelChoice(self.models.between(best.code, asked.target), best.code, best)

    def detect(self, text: str) -> list[Language]:
        """The likely languages of a text among those that models here read, most likely first."""
        most = self.settings.characters
        if len(text) > most:
            raise ApiError(400, f"Invalid request: request ({len(text)}) exceeds text limit ({most})")
        found = self.identifier(text)
        if not found:
            raise ApiError(400, "The language of the source cannot be told: no model here names the one it reads.")
        return found

    @contextmanager
    def spending(self, characters: int, client: str, key: Key | None) -> Iterator[None]:
        """Counted for the client unless the block fails, since then nothing was had for them.

        ApiError where they are more than the key may still have.
        """
        most = key.characters if key else None
        if most is not None and self._characters[client] + characters > most:
            raise ApiError(429, f"The quota of {most} characters is used up.", reason="quota")
        if client not in self._characters and len(self._characters) >= CLIENTS:
            del self._characters[next(iter(self._characters))]  # the first that came
        self._characters[client] += characters
        try:
            yield
        except BaseException:
            self._characters[client] -= characters
            raise

    def check(self, given: Sequence[str], *, texts: int | None = None) -> None:
        """ApiError where there are more texts or characters than a request may have (``texts``: other than usual)."""
        most = self.settings
        characters, texts = sum(map(len, given)), texts or most.texts
        if len(given) > texts:
            raise ApiError(400, f"Invalid request: {len(given)} texts exceed the limit of {texts}")
        if characters > most.characters:
            raise ApiError(400, f"Invalid request: request ({characters}) exceeds text limit ({most.characters})")
        if not given:
            raise ApiError(400, "Invalid request: there is no text")

    async def aside(self, work: Callable[[], Result]) -> Result:
        """Work that joins no batch: one after another, in a thread. ApiError where many wait, or it takes long."""
        if self._waiting >= ASIDE:
            raise ApiError(429, "Too many requests are waiting.", retry_after=5)
        loop = asyncio.get_running_loop()
        try:
            future = self._thread.submit(work)
        except RuntimeError as error:  # it was shut down
            raise ApiError(503, "The server is stopping.", retry_after=5) from error
        self._waiting += 1
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.settings.seconds)
        except TimeoutError as error:
            raise ApiError(503, f"This took more than {self.settings.seconds:g} s.", retry_after=5) from error

    def _leave(self) -> None:
        self._waiting -= 1

    def glossary(self, entries: Mapping[str, str] | None) -> Glossary | None:
        """Of entries that come with a request. ApiError where they are too many, or no terms."""
        if not entries:
            return None
        if len(entries) > self.settings.entries:
            raise ApiError(400, f"Invalid request: {len(entries)} entries exceed the limit of {self.settings.entries}")
        if not all(is_term(term) for entry in entries.items() for term in entry):
            raise ApiError(400, "Invalid request: a term of the glossary is empty, too long or no text")
        return Glossary(entries)

    def stop(self) -> None:
        """Finish what was accepted."""
        self._thread.shutdown()
        self.models.stop()

    def search(self, model: ServedModel, given: Mapping[str, float | int | None]) -> SearchConfig:
        """The model's own settings with what was given. ApiError where they are more than may be asked for."""
        wanted = {key: value for key, value in given.items() if value is not None}
        if wanted.get("nbest", 1) > self.settings.nbest:
            raise ApiError(400, f"Invalid request: more than {self.settings.nbest} outputs of a text")
        if "beam" not in wanted and "nbest" in wanted:
            wanted["beam"] = max(model.search.beam, wanted["nbest"])
        if "beam" in wanted and "nbest" not in wanted:
            wanted["nbest"] = min(model.search.nbest, wanted["beam"])
        try:
            search = SearchConfig.model_validate(model.search.model_dump() | wanted)
        except ValidationError as error:
            raise ApiError(400, f"Invalid request: {describe_validation_error(error)}") from error
        if search.beam > self.settings.beam and "beam" in wanted:
            raise ApiError(400, f"Invalid request: a beam of {search.beam} is wider than {self.settings.beam}")
        return search


def _words_of(text: str, markup: Markup | None) -> str:
    """About what a reader sees, by which its language is found out."""
    if markup is None:
        return text
    return " ".join(document_of(text, markup, None).sentences) if markup.kind == "markdown" else without_tags(text)
