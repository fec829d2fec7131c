"""Served models: each loaded at first use, with a running batch and a thread of its own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from pydantic import ValidationError

from regard.config.search_requests import SearchRequest
from regard.config.settings import SearchConfig, override_search
from regard.core.deadline import Deadline
from regard.core.wording import describe_validation_error
from regard.data.protected_spans import RequiredTerm
from regard.data.tokenizers.subword import split_language_mark
from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inference.run_search import inputs_of
from regard.inference.search_model import SearchInput
from regard.inspection.inspector import Inspector
from regard.server.api_error import ApiError
from regard.server.batching.constraints import term_constraints, widen_beam
from regard.server.batching.jobs import Limits, SchedulerObserver, SearchJob
from regard.server.batching.scheduler import Scheduler
from regard.server.batching.served import Served
from regard.server.batching.served_generator import ServedGenerator
from regard.server.batching.served_predictor import validate_settings
from regard.server.off_loop import off_loop
from regard.server.settings import ServerSettings
from regard.server.text.documents import Document
from regard.server.text.languages import UNDETERMINED, match_language
from regard.server.text.word_alignment import align_words
from regard.tasks.translation.translator import Translator

__all__ = ["ModelRegistry", "ServedModel", "search_settings"]

LONGEST_NAME = 200  # characters of an unknown model's name that are repeated in a message
Result = TypeVar("Result")


class ServedModel(Served[Translator]):
    """Translation model behind the server.

    ``translate`` is called from the event loop; the model computes in the thread of its scheduler. Other passes
    (``score``, ``align_words``) run in one more thread, by ``run_serial``: every thread that computes keeps buffers of
    its own.
    """

    def __init__(
        self,
        name: str,
        *,
        load_translator: Callable[[], Translator],
        search: SearchConfig,
        reads_whole: bool = False,
        source: str | None = None,
        target: str | None = None,
        limits: Limits,
        observer: SchedulerObserver | None = None,
        threads: int | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        """Describe a model; nothing is loaded yet.

        ``name``: the name by which clients ask for it. ``load_translator``: reads the weights. ``search``: the run's
        search settings. ``reads_whole``: texts are not split into sentences. ``source``, ``target``: language codes of
        its config; None if it names none. ``limits``: of the scheduler. ``observer``: informed of the scheduler's work.
        ``threads``: torch threads of each thread that computes; None: torch's own choice. ``inspector``: for attention
        and word alignment; None: neither is offered.
        """
        super().__init__(name, task="translation", threads=threads, inspector=inspector)
        self.search, self.reads_whole, self.source, self.target = search, reads_whole, source, target
        self._load_translator, self._limits, self._observer = load_translator, limits, observer
        self._serial = ThreadPoolExecutor(1, f"serial {name}", initializer=self._set_threads)

    def _open(self) -> tuple[Translator, Scheduler]:
        translator = self._load_translator()
        return translator, Scheduler(translator.decoding, self._limits, observer=self._observer)

    async def run_serial(self, work: Callable[[], Result]) -> Result:
        """Return the result of a pass of the model that joins no batch. Passes run one after another, in one thread."""
        return await asyncio.wrap_future(self._serial.submit(work))

    def can_spell(self, text: str) -> bool:
        """Return whether the model, which must be loaded, has target pieces for ``text``."""
        return self.start()[0].spelled(text) is not None

    def mark_sentences(self, text: str, document: Document) -> list[str]:
        """Return the sentences of a document, each with the target-language mark that ``text`` begins with.

        A mark is ``>>de<<``; models without marks get the sentences unchanged.
        """
        marks, _ = split_language_mark(text.lstrip())
        if not marks or not self.start()[0].source.reads_language_marks:
            return document.sentences
        return [each if each.startswith(">>") else f"{marks[0]} {each}" for each in document.sentences]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """Return the log probabilities (nats) of the pieces of each target: ``Translator.score``."""
        return self.start()[0].score(sources, targets)

    def spelling(self, translation: Translation, text: str, search: SearchConfig, *, scored: bool) -> Translation:
        """Return the translation with ``text`` as its best output: ``Translator.spelling``."""
        return self.start()[0].spelling(translation, text, search, scored=scored)

    def stop(self) -> None:
        """Finish accepted sentences and stop."""
        super().stop()
        self._serial.shutdown()

    def align_words(self, translation: Translation) -> list[int]:
        """Return the source word of each word of the best output (``regard.server.text.word_alignment``)."""
        return align_words(translation, self.inspector.aligner if self.inspector else None)

    async def translate(
        self,
        sentences: Sequence[str],
        settings: SearchConfig,
        *,
        client: str,
        seconds: float,
        required_terms: Sequence[Sequence[RequiredTerm]] | None = None,
    ) -> list[Translation]:
        """Return one translation a sentence, within ``seconds``, that contains ``required_terms`` where it can.

        ``client``: the name under which the sentences wait. ``required_terms``: of each sentence; terms that the model
        cannot spell are ignored. ApiError if the queue is full, the time is over, or the model fails.
        """
        deadline = Deadline(seconds)
        translator, scheduler = await self.wait_until_loaded(seconds)
        terms = required_terms or [()] * len(sentences)

        def prepare() -> tuple[list[list[list[int]]], list[SearchJob]]:
            """Return the parts of each sentence, and a job for each part."""
            parts: list[list[list[int]]] = []
            jobs: list[SearchJob] = []
            for sentence, required in zip(sentences, terms, strict=True):
                deadline.check()
                parts.append(translator.parts(sentence))
                jobs += _jobs(translator, parts[-1], required, settings, client, deadline)
            return parts, jobs

        parts, jobs = await off_loop(prepare)
        found = await self._results(scheduler, jobs, seconds)

        def assemble() -> list[Translation]:
            """Return the translations, joined from the parts of each sentence."""
            outputs = iter(found)
            translations = []
            for sentence, of_sentence in zip(sentences, parts, strict=True):
                hypotheses = list(islice(outputs, len(of_sentence)))
                translations.append(translator.assemble(sentence, of_sentence, hypotheses, search=settings))
            return translations

        try:  # the coverage penalty is a pass of the model
            return await (self.run_serial if settings.covers else off_loop)(assemble)
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {error.what}, since {error.why}") from error

    async def predict(
        self, inputs: Sequence[str], settings: Mapping[str, Any], *, client: str, seconds: float, limits: ServerSettings
    ) -> list[Any]:
        began = time.monotonic()
        given = await off_loop(validate_settings, SearchRequest, settings)
        search = search_settings(self.search, given.model_dump(), limits)
        predictor: Any = (await self.wait_until_loaded(seconds))[0]
        lines = await off_loop(lambda: [predictor.read(line) for line in inputs])
        seconds -= time.monotonic() - began
        translations = await self.translate(lines, search, client=client, seconds=seconds)
        return await off_loop(lambda: [json.loads(predictor.write(each, json=True)) for each in translations])


def _jobs(
    translator: Translator,
    parts: Sequence[list[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    client: str,
    deadline: Deadline,
) -> list[SearchJob]:
    """Return a job for each part of a sentence; with a wider beam where a term is required.

    ``parts``: numbers of source pieces. ``terms``: required terms of the sentence. ``settings``: of the search.
    ``client``: the name under which the jobs wait. ``deadline``: of the request.
    """
    constraints = term_constraints(translator, parts, terms, settings, deadline)
    wide = widen_beam(settings) if any(constraints) else settings
    plain = inputs_of(parts, settings)
    return [
        SearchJob(
            SearchInput(input.tokens, constraints=required) if required else input,
            wide if required else settings, client=client, deadline=deadline.end,
        )
        for input, required in zip(plain, constraints, strict=True)
    ]  # fmt: skip


def search_settings(own: SearchConfig, given: Mapping[str, Any], limits: ServerSettings) -> SearchConfig:
    """Return a model's ``own`` settings overridden by those ``given`` (None: not given). ApiError beyond a limit."""
    overrides = {key: value for key, value in given.items() if value is not None}
    if overrides.get("nbest", 1) > limits.nbest:
        raise ApiError(400, f"Invalid request: more than {limits.nbest} outputs of a text")
    try:
        search = override_search(own, **overrides)
    except ValidationError as error:
        raise ApiError(400, f"Invalid request: {describe_validation_error(error)}") from error
    if search.beam > limits.beam and "beam" in overrides:
        raise ApiError(400, f"Invalid request: a beam of {search.beam} is wider than {limits.beam}")
    return search


class ModelRegistry:
    """Served models, found by name or by languages."""

    def __init__(self, models: Sequence[Served[Any]], *, preload: bool = False) -> None:
        """Register models; ``preload``: all of them are loaded when the server starts, not the first alone."""
        names = [model.name for model in models]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two runs are named {name}", where="RUN", help=f"name them: en-de={name} de-en=other/{name}"
                )
        self.by_name = {model.name: model for model in models}
        self.at_start = list(models) if preload else list(models)[:1]

    @property
    def all(self) -> list[Served[Any]]:
        """All models, in order of the command line."""
        return list(self.by_name.values())

    @property
    def generators(self) -> list[ServedGenerator]:
        """The language models, in order of the command line."""
        return [model for model in self.all if isinstance(model, ServedGenerator)]

    @property
    def translators(self) -> list[ServedModel]:
        """The models that translate, in order of the command line."""
        return [model for model in self.all if isinstance(model, ServedModel)]

    def get(self, name: str | None) -> Served[Any]:
        """Return the model of this name, the first for None. ApiError 404 if there is none."""
        if name is None:
            return self.all[0]
        if name not in self.by_name:
            raise ApiError(404, f"There is no model {name[:LONGEST_NAME]!r}.")
        return self.by_name[name]

    def translator(self, name: str | None) -> ServedModel:
        """Return the translation model of this name, the first for None. ApiError 400 for one of another task."""
        if name is None and self.translators:
            return self.translators[0]
        model = self.get(name)
        if isinstance(model, ServedModel):
            return model
        raise ApiError(400, f"The model {model.name} does not translate: it is a {model.task}; POST /v1/predict.")

    def generator(self, name: str | None) -> ServedGenerator:
        """Return the language model of this name, the first for None. ApiError 400 for one of another task."""
        if name is None and self.generators:
            return self.generators[0]
        model = self.get(name)
        if isinstance(model, ServedGenerator):
            return model
        raise ApiError(400, f"The model {model.name} generates no text: it is a {model.task}; POST /v1/predict.")

    def scorer(self, name: str | None) -> ServedModel | ServedGenerator:
        """Return the model of this name; for None, the first that translates, or else the first language model."""
        scorers = [model for model in self.all if isinstance(model, ServedModel | ServedGenerator)]
        if name is None and scorers:
            return next(iter(self.translators), scorers[0])
        model = self.get(name)
        if isinstance(model, ServedModel | ServedGenerator):
            return model
        raise ApiError(400, f"The model {model.name} scores no text: it is a {model.task}; POST /v1/predict.")

    def into(self, target: str | None) -> list[ServedModel]:
        """Return the models that translate into a language, from any language."""
        return [model for model in self.translators if self._rank(model, None, target) is not None]

    def for_languages(self, source: str | None, target: str | None) -> ServedModel:
        """Return the model that matches the languages best, the first of several; None stands for any language.

        The same code wins, then a code without region, then another region, then a model that names one side only. A
        model that names neither is chosen as ``und``, or if it is the only one. ApiError if none matches, or several
        models that name no languages.
        """
        ranked = [
            (rank, model) for model in self.translators if (rank := self._rank(model, source, target)) is not None
        ]
        if not ranked:
            raise ApiError(400, self._unsupported_message(source, target))
        best = max(rank for rank, _ in ranked)
        first, *others = (model for rank, model in ranked if rank == best)
        if others and not any(map(_names_languages, (first, *others))):
            names = ", ".join(model.name for model in (first, *others))
            raise ApiError(400, f"Several models here name no languages; ask for one by its name, as model: {names}.")
        return first

    def _rank(self, model: ServedModel, source: str | None, target: str | None) -> tuple[int, int] | None:
        """Return how well the target and the source match (``match_language``); None if the model does not match."""
        target_fit, source_fit = match_language(model.target, target), match_language(model.source, source)
        if target_fit is None or source_fit is None:
            return None
        nameless = model.source is None and model.target is None
        if nameless and len(self.translators) > 1 and UNDETERMINED not in (source, target):
            return None
        return target_fit, source_fit

    def _unsupported_message(self, source: str | None, target: str | None) -> str:
        """Return a message with the unsupported pair and the supported ones."""
        models = self.translators
        if not models:
            served = ", ".join(f"{model.name} is a {model.task}" for model in self.all)
            return f"No model here translates: {served}; POST /v1/predict."
        pairs = {f"{model.source or 'any'} to {model.target or 'any'}" for model in models if _names_languages(model)}
        others = [model.name for model in models if not _names_languages(model)]
        known = [f"this server does {', '.join(sorted(pairs))}"] if pairs else []
        by_name = [f"a model that names no languages is asked for as model: {', '.join(others)}"] if others else []
        what = f"{source or 'any language'} to {target or 'any language'}"
        return f"{what} is not supported: {'; '.join([*known, *by_name])}."

    def stop(self) -> None:
        """Stop all models."""
        for model in self.all:
            model.stop()


def _names_languages(model: ServedModel) -> bool:
    """Return whether the model's config names a language."""
    return model.source is not None or model.target is not None
