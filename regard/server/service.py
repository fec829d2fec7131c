"""Service behind all HTTP interfaces: limits, choice of a model, translation of texts sentence by sentence."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from regard.config.settings import SearchConfig
from regard.core.deadline import Deadline
from regard.inference.results import Translation
from regard.server.api.requests import Credentials
from regard.server.api_error import ApiError
from regard.server.batching.jobs import Limits, Overloaded, SchedulerClosed, WorkJob
from regard.server.batching.metrics import ServerMetrics
from regard.server.batching.models import ModelRegistry
from regard.server.batching.scheduler import Scheduler
from regard.server.batching.translating import Translating, search_settings
from regard.server.client_state import ClientState
from regard.server.keys import ApiKey, KeyStore
from regard.server.off_loop import off_loop
from regard.server.request_record import current_request
from regard.server.settings import ServerSettings
from regard.server.text.documents import Document
from regard.server.text.enforce_terms import translate_with_terms
from regard.server.text.glossary import Glossary, is_valid_term
from regard.server.text.languages import Language, LanguageIdentifier
from regard.server.text.markup_tokenizer import Markup, strip_tags
from regard.server.tracing import Tracing
from regard.server.translation_request import (
    ModelChoice,
    TranslationRequest,
    TranslationResult,
    align_sentences,
    join_candidates,
    parse_document,
)

Result = TypeVar("Result")
STREAM_STEPS = 30  # steps of streams that a client may request for each request that it may begin
MAX_AUXILIARY = 16  # maximum number of requests of one client in the queue of ``run_auxiliary``; clients share it


class Service:
    """Models, limits and counts of one server."""

    def __init__(
        self,
        models: ModelRegistry,
        settings: ServerSettings,
        metrics: ServerMetrics,
        *,
        keys: KeyStore | None = None,
        clients: ClientState | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """Build the service.

        Args:
            models: the served models.
            settings: the limits.
            metrics: the metrics to update.
            keys: the accepted API keys; None requires no key.
            clients: the state of the clients; None for a new state.
            tracing: records the spans of requests; None records none.
        """
        self.settings, self.metrics, self.keys = settings, metrics, keys
        self.tracing = tracing
        self.draining = False  # whether the server is stopping: it completes requests, but is not ready for new ones
        self.replaced = False  # whether it stops because another process already serves in its place
        self.reload: Callable[[], None] | None = None  # loads all models again; see ``regard.server.reloading``
        self.clients = clients or ClientState.create(settings)
        self.use_models(models)
        self._auxiliary = Scheduler(None, Limits(waiting=MAX_AUXILIARY))
        self._auxiliary_thread = threading.Thread(target=self._auxiliary.run, name="auxiliary", daemon=True)
        self._auxiliary_thread.start()

    def use_models(self, models: ModelRegistry) -> None:
        """Serve these models from now on. Requests that have begun continue with the earlier ones."""
        self.models = models
        self._language_identifier = LanguageIdentifier([model.source for model in models.translators])

    def admit(self, credentials: Credentials, *, continues: bool = False) -> tuple[str, ApiKey | None]:
        """Count a request; return the name of the client, and its key if keys are required.

        Args:
            credentials: of the client.
            continues: whether it continues a stream; its steps are counted separately, with a higher limit.

        Raises:
            ApiError: if the key is invalid or the client sends too many requests.
        """
        client, key = self.identify(credentials)
        allowed = (key.requests_per_minute if key else None) or self.settings.requests_per_minute
        if continues:
            allowed *= STREAM_STEPS
        wait = self.clients.counts.hit(f"streams of {client}" if continues else client, allowed)
        if wait is not None:
            raise ApiError(429, f"Slowdown: {allowed} per 1 minute", retry_after=wait)
        return client, key

    def identify(self, credentials: Credentials) -> tuple[str, ApiKey | None]:
        """Return the name and the key of the client without counting a request; raise ApiError for an invalid key."""
        key = self._key(credentials)
        if key and (record := current_request()):
            record.key = key.name
        return f"key {key.name}" if key else f"address {credentials.address}", key

    def usage(self, credentials: Credentials) -> tuple[int, int | None]:
        """Return the number of translated characters of the client, and its quota (None: no quota)."""
        client, key = self.admit(credentials)
        return self.clients.counts.characters(client), key.characters if key else None

    def _key(self, credentials: Credentials) -> ApiKey | None:
        """Return the key of a client; None if no key is required. Raise ApiError if it is missing or unknown."""
        if self.keys is None:
            return None
        if credentials.key is None:
            raise ApiError(401, "An API key is required; the operator of this server provides it.", reason="no key")
        key = self.keys.find(credentials.key)
        if key is None:
            raise ApiError(403, "The API key is invalid.", reason="wrong key")
        return key

    async def translate(self, request: TranslationRequest) -> list[TranslationResult]:
        """Return the translation of each text; raise ApiError beyond a limit, or if no model has the languages."""
        deadline = Deadline(self.settings.seconds)
        client, key = self.admit(request.credentials)
        self.check_size(request.texts)
        choices, settings = await off_loop(self.choose_models, request, deadline)
        characters = sum(map(len, request.texts))
        with self.charge(characters, client, key):
            try:
                async with asyncio.timeout(deadline.left + 1):  # a search ends earlier, with a better message
                    results = await self._translate(request, choices, settings, client, deadline)
            except TimeoutError as error:
                raise self.timed_out() from error
        self.metrics.count_translated(characters, sum(len(result.sentences) for result in results))
        return results

    async def _translate(
        self,
        request: TranslationRequest,
        choices: Sequence[ModelChoice],
        settings: Mapping[Translating, SearchConfig],
        client: str,
        deadline: Deadline,
    ) -> list[TranslationResult]:
        """Translate all texts of each model together; return the results in the order of the texts."""
        results: dict[int, TranslationResult] = {}
        for model, search in settings.items():
            numbers = [number for number, choice in enumerate(choices) if choice.model is model]
            texts = [request.texts[number] for number in numbers]
            await model.wait_until_loaded(deadline.left)
            documents, sentences = await off_loop(parse_documents, request, texts, model, deadline)
            translations: list[Translation] = []
            if sentences:
                translations = await translate_with_terms(
                    model, sentences, search, client=client, seconds=deadline.left,
                    glossary=request.glossary, protect=request.protect,
                )  # fmt: skip
            rest = iter(translations)
            for number, document in zip(numbers, documents, strict=True):
                own = list(islice(rest, document.length))
                align = partial(align_sentences, model, document.document, own, deadline)
                alignments = await model.run_serial(align) if document.is_aligned else {}
                candidates = await off_loop(join_candidates, document.document, own, alignments, deadline)
                results[number] = TranslationResult(candidates, *choices[number], own)
        return [results[number] for number in range(len(choices))]

    def choose_models(
        self, request: TranslationRequest, deadline: Deadline
    ) -> tuple[list[ModelChoice], dict[Translating, SearchConfig]]:
        """Return the model for each text, and the settings of each model; raise ApiError for invalid settings."""
        choices = []
        for text in request.texts:
            deadline.check()
            choices.append(self._choose_model(request, text))
        models = dict.fromkeys(choice.model for choice in choices)
        return choices, {model: self.search_settings(model, request.search) for model in models}

    def _choose_model(self, request: TranslationRequest, text: str) -> ModelChoice:
        """Return the model for a text: by name, by the requested languages, or by the identified language."""
        if request.model is not None:
            model = self.models.translator(request.model)
            return ModelChoice(model, request.source or model.source, None)
        if request.source is not None:
            return ModelChoice(self.models.for_languages(request.source, request.target), request.source, None)
        languages = self._language_identifier(_visible_text(text, request.markup))
        if not languages:  # no source languages are known: any model fits
            model = self.models.for_languages(None, request.target)
            return ModelChoice(model, model.source, None)
        # Consider only languages that a model translates: "Hotel" is also German, but cannot be translated to German.
        translated = {model.source for model in self.models.into(request.target)}
        best = next((language for language in languages if language.code in translated), languages[0])
        return ModelChoice(self.models.for_languages(best.code, request.target), best.code, best)

    def detect(self, text: str) -> list[Language]:
        """Return the languages of a text among the source languages of the models, most probable first."""
        limit = self.settings.characters
        if len(text) > limit:
            raise ApiError(400, f"Invalid request: request ({len(text)}) exceeds text limit ({limit})")
        languages = self._language_identifier(text)
        if not languages:
            raise ApiError(
                400, "The source language cannot be identified: no model on this server has a known source language."
            )
        return languages

    @contextmanager
    def charge(self, characters: int, client: str, key: ApiKey | None) -> Iterator[None]:
        """Count characters for a client, unless the block fails; raise ApiError if they exceed the quota of its key."""
        quota = key.characters if key else None
        if not self.clients.counts.charge(client, characters, quota):
            raise ApiError(429, f"The quota of {quota} characters is used up.", reason="quota")
        try:
            yield
        except BaseException:
            self.clients.counts.refund(client, characters)
            raise

    @property
    def body_bytes(self) -> int:
        """Maximum number of bytes of a request: larger if a model reads the contents of files."""
        reads_files = any(model.reads_files for model in self.models.all)
        return max(self.settings.body_bytes, self.settings.file_bytes if reads_files else 0)

    def check_size(self, texts: Sequence[Any], *, max_texts: int | None = None, files: bool = False) -> None:
        """Raise ApiError for no text, too many texts or too many characters.

        Args:
            texts: the inputs of a request.
            max_texts: replaces the limit of texts in the settings.
            files: whether the inputs are contents of files, which only the limit of the body applies to.
        """
        characters, max_texts = 0 if files else sum(map(len, texts)), max_texts or self.settings.texts
        if len(texts) > max_texts:
            what = f"Invalid request: {len(texts)} texts exceed the limit of {max_texts}"
            raise ApiError(400, what, reason="too large")
        if characters > self.settings.characters:
            what = f"Invalid request: request ({characters}) exceeds text limit ({self.settings.characters})"
            raise ApiError(400, what, reason="too large")
        if not texts:
            raise ApiError(400, "Invalid request: the request contains no text")

    async def run_auxiliary(self, work: Callable[[], Result], *, client: str) -> Result:
        """Return the result of work outside of batches. Works run one at a time in one thread; clients take turns.

        Raises:
            ApiError: if too many works wait, or the work exceeds the time limit of a request.
        """
        job = WorkJob(lambda interrupted: work(), client, time.monotonic() + self.settings.seconds)
        try:
            self._auxiliary.submit([job])
            return cast(Result, await asyncio.wait_for(asyncio.wrap_future(job.future), self.settings.seconds))
        except Overloaded as error:
            what = "Too many requests are waiting."
            raise ApiError(429, what, retry_after=error.retry_after, reason="queue full") from error
        except SchedulerClosed as error:
            raise ApiError(503, "The server is stopping.", retry_after=5, reason="stopping") from error
        except TimeoutError as error:
            raise self.timed_out() from error
        finally:  # the result is no longer needed
            job.future.cancel()

    def timed_out(self) -> ApiError:
        """Return the error for a request that took too long."""
        what = f"The request took more than {self.settings.seconds:g} s."
        return ApiError(503, what, retry_after=5, reason="deadline")

    def request_glossary(self, entries: Mapping[str, str] | None) -> Glossary | None:
        """Return the glossary in a request; raise ApiError for too many entries or invalid terms."""
        if not entries:
            return None
        if len(entries) > self.settings.entries:
            raise ApiError(400, f"Invalid request: {len(entries)} entries exceed the limit of {self.settings.entries}")
        if not all(is_valid_term(term) for entry in entries.items() for term in entry):
            raise ApiError(
                400, "Invalid request: the glossary has a term that is empty, too long or not a single line of text"
            )
        return Glossary(entries)

    def report_loads(self) -> None:
        """Update the metrics of the queues."""
        self.metrics.set_loads({model.name: model.load for model in self.models.all})

    def require_ready(self) -> None:
        """Raise ApiError 503 if the server is stopping, or a model to load at start is not loaded yet."""
        if self.draining and not self.replaced:
            raise ApiError(503, "The server is stopping.", retry_after=5, reason="stopping")
        if waiting := [model.name for model in self.models.at_start if not model.ready]:
            raise ApiError(503, f"The model {waiting[0]} is not loaded yet.", retry_after=1, reason="not loaded")

    def stop(self) -> None:
        """Complete accepted requests and stop."""
        self._auxiliary.close()
        self._auxiliary_thread.join()
        self.models.stop()
        if self.tracing is not None:
            self.tracing.close()

    def search_settings(self, model: Translating, requested: Mapping[str, float | int | None]) -> SearchConfig:
        """Return the settings of the model, overridden by those of a request: see ``translating.search_settings``."""
        return search_settings(model.search, requested, self.settings)


class ParsedDocument(NamedTuple):
    """Document, the number of its sentences, and whether it needs their word alignment."""

    document: Document
    length: int
    is_aligned: bool


def parse_documents(
    request: TranslationRequest, texts: Sequence[str], model: Translating, deadline: Deadline
) -> tuple[list[ParsedDocument], list[str]]:
    """Return the document of each text, and the sentences of all documents in the form that the model reads."""
    documents, sentences = [], []
    for text in texts:
        document = request.parse(text, model.source, deadline, whole=model.reads_whole)
        own = model.mark_sentences(text, document)
        documents.append(ParsedDocument(document, len(own), bool(document.needs_alignment)))
        sentences += own
    return documents, sentences


def _visible_text(text: str, markup: Markup | None) -> str:
    """Return approximately the text that a reader sees, to identify its language."""
    if markup is None:
        return text
    if markup.kind == "markdown":
        return " ".join(parse_document(text, markup, None).sentences)
    return strip_tags(text)
