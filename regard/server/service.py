"""What a server does, whatever dialect asks: look at the limits, find the model, translate sentence by sentence."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, TypeVar

import limits
from pydantic import ValidationError

from regard.server.keys import Key, Keys
from regard.server.languages import Identifier, Language
from regard.server.metrics import Metrics
from regard.server.models import Models, ServedModel
from regard.server.refused import Refused
from regard.server.requests import Sender
from regard.server.segments import Segments, segments
from regard.server.settings import ServerSettings
from regard.settings import SearchConfig
from regard.translate import Translation

__all__ = ["Answer", "Asked", "Service"]

Result = TypeVar("Result")
ASIDE = 16  # requests that may wait for ``aside``
CLIENTS = 100_000  # whose characters are counted


@dataclass(frozen=True)
class Asked:
    """Texts to translate. ``source`` None: find out. ``search``: fields of SearchConfig other than the run's own."""

    texts: Sequence[str]
    source: str | None
    target: str | None
    sender: Sender
    model: str | None = None
    search: Mapping[str, float | int | None] = field(default_factory=dict)


class Answer(NamedTuple):
    """Of one text: its ``candidates``, best first, by text and score; several only where it is one sentence."""

    candidates: list[tuple[str, float]]
    model: ServedModel
    source: str | None
    detected: Language | None
    sentences: list[Translation]

    @property
    def text(self) -> str:
        return self.candidates[0][0]


class Service:
    """The models, the limits, and what has been counted."""

    def __init__(self, models: Models, settings: ServerSettings, metrics: Metrics, *, keys: Keys | None = None) -> None:
        self.models, self.settings, self.metrics, self.keys = models, settings, metrics, keys
        self._characters: Counter[str] = Counter()  # by client, since the server began
        self.identifier = Identifier([model.source for model in models.all])
        self._thread, self._waiting = ThreadPoolExecutor(1, "aside"), 0
        self._window = limits.strategies.SlidingWindowCounterRateLimiter(limits.storage.MemoryStorage())

    def admit(self, sender: Sender) -> tuple[str, Key | None]:
        """The name of the client, under which all is counted, and its key where keys are asked for.

        Refused where the key is wrong, or where it asks too often.
        """
        key = self._key(sender)
        client = f"key {key.name}" if key else f"address {sender.address}"
        most = (key.requests_per_minute if key else None) or self.settings.requests_per_minute
        rate = limits.RateLimitItemPerMinute(most)
        if not self._window.hit(rate, client):
            reset = self._window.get_window_stats(rate, client).reset_time
            raise Refused(429, f"Slowdown: {most} per 1 minute", retry_after=reset - time.time())
        return client, key

    def usage(self, sender: Sender) -> tuple[int, int | None]:
        """Characters that this client has had translated, and those that it may."""
        client, key = self.admit(sender)
        return self._characters[client], key.characters if key else None

    def _key(self, sender: Sender) -> Key | None:
        if self.keys is None:
            return None
        if sender.key is None:
            raise Refused(401, "A key is needed: ask whoever runs this server.", reason="no key")
        key = self.keys.find(sender.key)
        if key is None:
            raise Refused(403, "This key is not known.", reason="wrong key")
        return key

    async def translate(self, asked: Asked) -> list[Answer]:
        """Refused where a limit stands in the way or no model does this."""
        began = time.monotonic()
        client, key = self.admit(asked.sender)
        self.check(asked.texts)
        model, source, detected = await asyncio.to_thread(self._choose, asked)
        search = self.search(model, asked.search)
        characters = sum(map(len, asked.texts))
        self._spend(characters, client, key)
        try:
            parted = await asyncio.to_thread(lambda: [segments(text, model.source) for text in asked.texts])
            flat = [sentence for each in parted for sentence in each.sentences]
            left = max(self.settings.seconds - (time.monotonic() - began), 0.0)
            found = await model.translate(flat, search, client=client, seconds=left) if flat else []
        except BaseException:  # nothing was had for it
            self._characters[client] -= characters
            raise
        self.metrics.translated(characters, len(flat))
        rest = iter(found)
        own = [list(islice(rest, len(each.sentences))) for each in parted]
        return [
            Answer(_candidates(each, its), model, source, detected, its) for each, its in zip(parted, own, strict=True)
        ]

    def _choose(self, asked: Asked) -> tuple[ServedModel, str | None, Language | None]:
        """The model, the language that it reads, and what was found out of it."""
        if asked.model is not None:
            model = self.models.named(asked.model)
            return model, asked.source or model.source, None
        if asked.source is not None:
            return self.models.between(asked.source, asked.target), asked.source, None
        found = self.identifier(" ".join(asked.texts))
        if not found:  # no model names what it reads: any does
            model = self.models.between(None, asked.target)
            return model, model.source, None
        read = {model.source for model in self.models.to(asked.target)}
        best = next((each for each in found if each.code in read), found[0])  # "Hotel" is German, but not to German
        return self.models.between(best.code, asked.target), best.code, best

    def detect(self, text: str) -> list[Language]:
        """The likely languages of a text among those that models here read, most likely first."""
        most = self.settings.characters
        if len(text) > most:
            raise Refused(400, f"Invalid request: request ({len(text)}) exceeds text limit ({most})")
        found = self.identifier(text)
        if not found:
            raise Refused(400, "The language of the source cannot be told: no model here names the one it reads.")
        return found

    def _spend(self, characters: int, client: str, key: Key | None) -> None:
        """Refused where they are more than the key may still have."""
        most = key.characters if key else None
        if most is not None and self._characters[client] + characters > most:
            raise Refused(429, f"The quota of {most} characters is used up.", reason="quota")
        if client not in self._characters and len(self._characters) >= CLIENTS:
            del self._characters[next(iter(self._characters))]  # the first that came
        self._characters[client] += characters

    def check(self, given: Sequence[str], *, texts: int | None = None) -> None:
        """Refused where there are more texts or characters than a request may have (``texts``: other than usual)."""
        most = self.settings
        characters, texts = sum(map(len, given)), texts or most.texts
        if len(given) > texts:
            raise Refused(400, f"Invalid request: {len(given)} texts exceed the limit of {texts}")
        if characters > most.characters:
            raise Refused(400, f"Invalid request: request ({characters}) exceeds text limit ({most.characters})")
        if not given:
            raise Refused(400, "Invalid request: there is no text")

    async def aside(self, work: Callable[[], Result]) -> Result:
        """Work that joins no batch: one after another, in a thread. Refused where many wait, or it takes long."""
        if self._waiting >= ASIDE:
            raise Refused(429, "Too many requests are waiting.", retry_after=5)
        self._waiting += 1
        loop = asyncio.get_running_loop()
        future = self._thread.submit(work)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._leave))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.settings.seconds)
        except TimeoutError as error:
            raise Refused(503, f"This took more than {self.settings.seconds:g} s.", retry_after=5) from error

    def _leave(self) -> None:
        self._waiting -= 1

    def stop(self) -> None:
        """Finish what was accepted."""
        self._thread.shutdown()
        self.models.stop()

    def search(self, model: ServedModel, given: Mapping[str, float | int | None]) -> SearchConfig:
        """The model's own settings with what was given. Refused where they are more than may be asked for."""
        wanted = {key: value for key, value in given.items() if value is not None}
        if wanted.get("nbest", 1) > self.settings.nbest:
            raise Refused(400, f"Invalid request: more than {self.settings.nbest} outputs of a text")
        if "beam" not in wanted and "nbest" in wanted:
            wanted["beam"] = max(model.search.beam, wanted["nbest"])
        try:
            search = SearchConfig.model_validate(model.search.model_dump() | wanted)
        except ValidationError as error:
            raise Refused(400, f"Invalid request: {error.errors()[0]['msg']}") from error
        if search.beam > self.settings.beam and "beam" in wanted:
            raise Refused(400, f"Invalid request: a beam of {search.beam} is wider than {self.settings.beam}")
        return search


def _candidates(parted: Segments, sentences: Sequence[Translation]) -> list[tuple[str, float]]:
    """The outputs of a text that is one sentence, or the best of one that is several."""
    count = len(sentences[0].candidates) if len(sentences) == 1 else 1
    ranks = [[one.candidates[rank] for one in sentences] for rank in range(count)]
    return [(parted.joined([one.text for one in each]), sum(one.score for one in each)) for each in ranks]
