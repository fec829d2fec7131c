"""Served models: each loaded at first use, with a running batch and a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from regard.config.settings import SearchConfig
from regard.data.protected_spans import RequiredTerm
from regard.data.tokenizers.subword import split_language_mark
from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inspection.inspector import Inspector
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError
from regard.server.batching.constraints import term_constraints, widen_beam
from regard.server.batching.scheduler import (
    DeadlineExceeded,
    Job,
    Limits,
    Overloaded,
    Scheduler,
    SchedulerClosed,
    SchedulerObserver,
    TooManySources,
)
from regard.server.text.documents import Document
from regard.server.text.languages import UNDETERMINED, match_language
from regard.server.text.word_alignment import align_words
from regard.tasks.translation.translator import Translator

__all__ = ["ModelRegistry", "ServedModel"]

log = logging.getLogger("regard.server")
Result = TypeVar("Result")


class ServedModel:
    """Model behind the server.

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
        source: str | None = None,
        target: str | None = None,
        limits: Limits,
        observer: SchedulerObserver | None = None,
        threads: int | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        """Describe a model; nothing is loaded yet.

        ``name``: the name by which clients ask for it. ``load_translator``: reads the weights. ``search``: the run's
        search settings. ``source``, ``target``: language codes of its config; None if it names none. ``limits``: of
        the scheduler. ``observer``: informed of the scheduler's work. ``threads``: torch threads of each thread that
        computes; None: torch's own choice. ``inspector``: for attention and word alignment; None: neither is offered.
        """
        self.name, self.search, self.source, self.target = name, search, source, target
        self._load_translator, self._limits, self._observer, self._threads = load_translator, limits, observer, threads
        self.inspector = inspector
        self._lock = threading.Lock()
        self._loading: asyncio.Future[None] | None = None
        self._started: tuple[Translator, Scheduler, threading.Thread] | None = None
        self._serial = ThreadPoolExecutor(1, f"serial {name}", initializer=self._set_threads)

    @property
    def ready(self) -> bool:
        """Whether the model is loaded."""
        return self._started is not None

    @property
    def load(self) -> tuple[int, int]:
        """Number of sentences that wait, and of those that run."""
        return self._started[1].load if self._started else (0, 0)

    def start(self) -> tuple[Translator, Scheduler]:
        """Return the translator and its scheduler, loaded and started if they are not yet."""
        with self._lock:
            if self._started is None:
                began = time.monotonic()
                log.info("loading the model %s", self.name)
                translator = self._load_translator()
                log.info("loaded the model %s in %.1f s", self.name, time.monotonic() - began)
                scheduler = Scheduler(translator.decoding, self._limits, observer=self._observer)
                thread = threading.Thread(target=self._run, args=(scheduler,), name=f"model {self.name}", daemon=True)
                thread.start()
                self._started = translator, scheduler, thread
            return self._started[:2]

    def _run(self, scheduler: Scheduler) -> None:
        """Run the scheduler; the body of the model's thread."""
        self._set_threads()
        scheduler.run()

    def _set_threads(self) -> None:
        """Set the torch threads of the current thread, whose setting it is."""
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)

    async def run_serial(self, work: Callable[[], Result]) -> Result:
        """Return the result of a pass of the model that joins no batch. Passes run one after another, in one thread."""
        return await asyncio.wrap_future(self._serial.submit(work))

    def can_spell(self, text: str) -> bool:
        """Return whether the model has target pieces for ``text``."""
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
        with self._lock:
            if self._started is not None:
                _, scheduler, thread = self._started
                scheduler.close()
                thread.join()
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
        deadline = time.monotonic() + seconds
        translator, scheduler = await self._wait_until_loaded(seconds)
        parts = await asyncio.to_thread(lambda: [translator.parts(sentence) for sentence in sentences])
        terms = required_terms or [()] * len(sentences)
        jobs = [
            _jobs(translator, of_sentence, required, settings, client, deadline)
            for of_sentence, required in zip(parts, terms, strict=True)
        ]
        found = iter(await self._search(scheduler, [job for of_sentence in jobs for job in of_sentence], seconds))
        hypotheses = [[next(found) for _ in of_sentence] for of_sentence in jobs]

        def assemble() -> list[Translation]:
            """Return the translations, joined from the parts of each sentence."""
            return [
                translator.assemble(*each, search=settings) for each in zip(sentences, parts, hypotheses, strict=True)
            ]

        # The coverage penalty is a pass of the model; without it there is nothing to compute.
        try:
            return await self.run_serial(assemble) if settings.covers else assemble()
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {error.what}, since {error.why}") from error

    async def _search(self, scheduler: Scheduler, jobs: Sequence[Job], seconds: float) -> list[list[Hypothesis]]:
        """Return the hypotheses of each job, best first. ApiError if the scheduler refuses or fails any of them."""
        try:
            scheduler.submit(jobs)
            return await asyncio.gather(*(asyncio.wrap_future(job.future) for job in jobs))
        except Overloaded as error:
            raise ApiError(429, "Too many requests are waiting.", retry_after=error.retry_after) from error
        except TooManySources as error:
            raise ApiError(413, f"Too long: {error}.") from error
        except SchedulerClosed as error:
            raise ApiError(503, "The server is stopping.", retry_after=5) from error
        except DeadlineExceeded as error:
            message = f"This took more than {seconds:g} s."
            raise ApiError(503, message, retry_after=scheduler.estimated_wait()) from error
        except Exception as error:
            log.error("the model %s failed: %s", self.name, type(error).__name__)  # the message may quote a text
            raise ApiError(500, "The model failed.") from error
        finally:  # if the client left, or another of its sentences failed, none of them is needed
            for job in jobs:
                job.future.cancel()

    async def _wait_until_loaded(self, seconds: float) -> tuple[Translator, Scheduler]:
        """Return the translator and its scheduler, loaded once, in a thread, for all requests that wait.

        ApiError for all of them if loading fails, or takes more than ``seconds``.
        """
        if self._started is None:
            if self._loading is None or self._loading.done():
                self._loading = _run_in_thread(self.start, f"loading {self.name}")
            try:
                await asyncio.wait_for(asyncio.shield(self._loading), seconds)
            except TimeoutError as error:
                raise ApiError(503, f"The model {self.name} is still being loaded.", retry_after=10) from error
            except Exception as error:
                log.error("the model %s cannot be loaded: %s", self.name, error)
                raise ApiError(503, f"The model {self.name} cannot be loaded.", retry_after=60) from error
        assert self._started is not None
        return self._started[:2]


def _jobs(
    translator: Translator,
    parts: Sequence[list[int]],
    terms: Sequence[RequiredTerm],
    settings: SearchConfig,
    client: str,
    deadline: float,
) -> list[Job]:
    """Return a job for each part of a sentence; with a wider beam where a term is required.

    ``parts``: numbers of source pieces. ``terms``: required terms of the sentence. ``settings``: of the search.
    ``client``: the name under which the jobs wait. ``deadline``: on ``time.monotonic``.
    """
    constraints = term_constraints(translator, parts, terms, settings)
    wide = widen_beam(settings) if any(constraints) else settings
    return [
        Job(pieces, wide if required else settings, client, deadline, constraints=required)
        for pieces, required in zip(parts, constraints, strict=True)
    ]


def _run_in_thread(work: Callable[[], object], name: str) -> asyncio.Future[None]:
    """Run ``work`` in a thread of its own: it may take long, and the event loop's pool serves all requests."""
    done: Future[None] = Future()

    def run() -> None:
        """Do the work and set the result of the future."""
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the future is awaited
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)


class ModelRegistry:
    """Served models, found by name or by languages."""

    def __init__(self, models: Sequence[ServedModel]) -> None:
        names = [model.name for model in models]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(
                    f"two runs are named {name}", where="RUN", help=f"name them: en-de={name} de-en=other/{name}"
                )
        self.by_name = {model.name: model for model in models}

    @property
    def all(self) -> list[ServedModel]:
        """All models, in order of the command line."""
        return list(self.by_name.values())

    def get(self, name: str) -> ServedModel:
        """Return the model of this name. ApiError 404 if there is none."""
        if name not in self.by_name:
            raise ApiError(404, f"There is no model {name!r}.")
        return self.by_name[name]

    def into(self, target: str | None) -> list[ServedModel]:
        """Return the models that translate into a language, from any language."""
        return [model for model in self.all if self._rank(model, None, target) is not None]

    def for_languages(self, source: str | None, target: str | None) -> ServedModel:
        """Return the model that matches the languages best, the first of several; None stands for any language.

        The same code wins, then a code without region, then another region, then a model that names one side only. A
        model that names neither is chosen as ``und``, or if it is the only one. ApiError if none matches, or several
        models that name no languages.
        """
        ranked = [(rank, model) for model in self.all if (rank := self._rank(model, source, target)) is not None]
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
        if nameless and len(self.by_name) > 1 and UNDETERMINED not in (source, target):
            return None
        return target_fit, source_fit

    def _unsupported_message(self, source: str | None, target: str | None) -> str:
        """Return a message with the unsupported pair and the supported ones."""
        pairs = {f"{model.source or 'any'} to {model.target or 'any'}" for model in self.all if _names_languages(model)}
        others = [model.name for model in self.all if not _names_languages(model)]
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
