"""The models behind one server: each loaded when it is first asked, with a running batch and a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from regard.config.settings import SearchConfig
from regard.data.protected_spans import Demand
from regard.data.tokenizers.subword import MarianTokenizer, marked
from regard.errors import ConfigError
from regard.inference.results import Translation
from regard.inspection.inspector import Inspector
from regard.search.contract import Hypothesis
from regard.server.api_error import ApiError
from regard.server.batching.constraints import constraints_of, widened
from regard.server.batching.scheduler import Closed, Deadline, Job, Limits, Overloaded, Scheduler, TooMany, Watch
from regard.server.text.documents import Document
from regard.server.text.languages import NAMELESS, fit
from regard.server.text.word_alignment import links
from regard.tasks.translation.translator import Translator

__all__ = ["Models", "ServedModel"]

log = logging.getLogger("regard.server")
Result = TypeVar("Result")


class ServedModel:
    """One model. ``translate`` is for the event loop; the model itself computes in the thread of its scheduler.

    What else is asked of it (``score``, ``links``) is computed ``beside`` that, in one thread more: every thread that
    computes keeps buffers of its own.

    ``source`` and ``target`` are the languages that its config names; None: it names none.
    """

    def __init__(
        self,
        name: str,
        *,
        load: Callable[[], Translator],
        search: SearchConfig,
        source: str | None = None,
        target: str | None = None,
        limits: Limits,
        watch: Watch | None = None,
        threads: int | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        self.name, self.search, self.source, self.target = name, search, source, target
        self._load, self._limits, self._watch, self._threads = load, limits, watch, threads
        self.inspector = inspector
        self._lock = threading.Lock()
        self._loading: asyncio.Future[None] | None = None
        self._started: tuple[Translator, Scheduler, threading.Thread] | None = None
        self._beside = ThreadPoolExecutor(1, f"beside {name}", initializer=self._set_threads)

    @property
    def ready(self) -> bool:
        return self._started is not None

    @property
    def load(self) -> tuple[int, int]:
        """How many sentences wait, and how many run."""
        return self._started[1].load if self._started else (0, 0)

    def start(self) -> tuple[Translator, Scheduler]:
        """Load the model unless it is."""
        with self._lock:
            if self._started is None:
                began = time.monotonic()
                log.info("loading the model %s", self.name)
                translator = self._load()
                log.info("loaded the model %s in %.1f s", self.name, time.monotonic() - began)
                scheduler = Scheduler(translator.decoding, self._limits, watch=self._watch)
                thread = threading.Thread(target=self._run, args=(scheduler,), name=f"model {self.name}", daemon=True)
                thread.start()
                self._started = translator, scheduler, thread
            return self._started[:2]

    def _run(self, scheduler: Scheduler) -> None:
        self._set_threads()
        scheduler.run()

    def _set_threads(self) -> None:
        """Of the thread that computes, whose setting it is."""
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)

    async def beside(self, work: Callable[[], Result]) -> Result:
        """Passes of the model that join no batch, one after another."""
        return await asyncio.wrap_future(self._beside.submit(work))

    def spells(self, text: str) -> bool:
        """Whether an output can hold it."""
        return self.start()[0].spelled(text) is not None

    def addressed(self, text: str, document: Document) -> list[str]:
        """Its sentences, each with the mark of the target language that the text begins with, where marks are known."""
        found, _ = marked(text.lstrip())
        if not found or not isinstance(self.start()[0].source, MarianTokenizer):
            return document.sentences
        return [each if each.startswith(">>") else f"{found[0]} {each}" for each in document.sentences]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[list[float]]:
        """See ``Translator.score``."""
        return self.start()[0].score(sources, targets)

    def spelling(self, found: Translation, text: str, search: SearchConfig, *, scored: bool) -> Translation:
        """See ``Translator.spelling``."""
        return self.start()[0].spelling(found, text, search, scored=scored)

    def stop(self) -> None:
        """Finish what was accepted."""
        with self._lock:
            if self._started is not None:
                _, scheduler, thread = self._started
                scheduler.close()
                thread.join()
        self._beside.shutdown()

    def links(self, translation: Translation) -> list[int]:
        """Which word of the source each of the best output stands for (``regard.server.text.word_alignment``)."""
        return links(translation, self.inspector.aligner if self.inspector else None)

    async def translate(
        self,
        sentences: Sequence[str],
        settings: SearchConfig,
        *,
        client: str,
        seconds: float,
        demands: Sequence[Sequence[Demand]] | None = None,
    ) -> list[Translation]:
        """One translation a sentence, in which is what ``demands`` ask for, as far as the model can spell it.

        ApiError where the queue is full, the time is over, or the model fails.
        """
        deadline = time.monotonic() + seconds
        translator, scheduler = await self._ready(seconds)

        def jobs_of(parts: list[list[int]], asked: Sequence[Demand]) -> list[Job]:
            wanted = constraints_of(translator, parts, asked, settings)
            wide = widened(settings) if any(wanted) else settings
            return [
                Job(pieces, wide if its else settings, client, deadline, constraints=its)
                for pieces, its in zip(parts, wanted, strict=True)
            ]

        asked = demands or [()] * len(sentences)
        parts = await asyncio.to_thread(lambda: [translator.parts(sentence) for sentence in sentences])
        jobs = [jobs_of(of, its) for of, its in zip(parts, asked, strict=True)]
        flat = [job for of in jobs for job in of]
        try:
            scheduler.submit(flat)
            found = iter(await asyncio.gather(*(asyncio.wrap_future(job.future) for job in flat)))
        except Overloaded as error:
            raise ApiError(429, "Too many requests are waiting.", retry_after=error.retry_after) from error
        except TooMany as error:
            raise ApiError(413, f"Too long: {error}.") from error
        except Closed as error:
            raise ApiError(503, "The server is stopping.", retry_after=5) from error
        except Deadline as error:
            raise ApiError(503, f"This took more than {seconds:g} s.", retry_after=scheduler.wait()) from error
        except Exception as error:
            log.error("the model %s failed: %s", self.name, type(error).__name__)  # no more: it may quote a text
            raise ApiError(500, "The model failed.") from error
        finally:  # who left, or whose other sentences failed, wants none of it
            for job in flat:
                job.future.cancel()
        hypotheses: list[list[list[Hypothesis]]] = [[next(found) for _ in of] for of in jobs]

        def assembled() -> list[Translation]:
            return [
                translator.assemble(*each, search=settings) for each in zip(sentences, parts, hypotheses, strict=True)
            ]

        # The coverage penalty is a pass of the model; without one there is nothing to compute.
        try:
            return await self.beside(assembled) if settings.covers else assembled()
        except ConfigError as error:
            raise ApiError(400, f"Invalid request: {error.what}, since {error.why}") from error

    async def _ready(self, seconds: float) -> tuple[Translator, Scheduler]:
        """The model, loaded by a thread of its own for all who wait for it; a failure is told to all of them."""
        if self._started is None:
            if self._loading is None or self._loading.done():
                self._loading = _in_thread(self.start, f"loading {self.name}")
            try:
                await asyncio.wait_for(asyncio.shield(self._loading), seconds)
            except TimeoutError as error:
                raise ApiError(503, f"The model {self.name} is still being loaded.", retry_after=10) from error
            except Exception as error:
                log.error("the model %s cannot be loaded: %s", self.name, error)
                raise ApiError(503, f"The model {self.name} cannot be loaded.", retry_after=60) from error
        assert self._started is not None
        return self._started[:2]


def _in_thread(work: Callable[[], object], name: str) -> asyncio.Future[None]:
    """Not in the pool that all requests share: it may take long."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - told to whom it concerns
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)


class Models:
    """By name; and by the languages that their configs name."""

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
        return list(self.by_name.values())

    def named(self, name: str) -> ServedModel:
        if name not in self.by_name:
            raise ApiError(404, f"There is no model {name!r}.")
        return self.by_name[name]

    def to(self, target: str | None) -> list[ServedModel]:
        """Those that write this language, whatever they read."""
        return [model for model in self.all if self._rank(model, None, target) is not None]

    def between(self, source: str | None, target: str | None) -> ServedModel:
        """The model that fits these languages best, of several the first; None stands for any.

        The same code wins, then the language without a region, then another region of it, then a model that names one
        side alone. A model that names neither is asked by its name, as ``und``, or where there is no other. ApiError
        where none fits, or several that name no language do.
        """
        ranked = [(rank, model) for model in self.all if (rank := self._rank(model, source, target)) is not None]
        if not ranked:
            raise ApiError(400, self._unsupported(source, target))
        best = max(rank for rank, _ in ranked)
        first, *others = (model for rank, model in ranked if rank == best)
        if others and not any(map(_names_any, (first, *others))):
            names = ", ".join(model.name for model in (first, *others))
            raise ApiError(400, f"Several models here name no languages; ask for one by its name, as model: {names}.")
        return first

    def _rank(self, model: ServedModel, source: str | None, target: str | None) -> tuple[int, int] | None:
        """Of the target and the source; None where the model does not do this."""
        target_fit, source_fit = fit(model.target, target), fit(model.source, source)
        if target_fit is None or source_fit is None:
            return None
        nameless = model.source is None and model.target is None
        if nameless and len(self.by_name) > 1 and NAMELESS not in (source, target):
            return None
        return target_fit, source_fit

    def _unsupported(self, source: str | None, target: str | None) -> str:
        """The pair that no model does, and those that some do."""
        pairs = {f"{model.source or 'any'} to {model.target or 'any'}" for model in self.all if _names_any(model)}
        others = [model.name for model in self.all if not _names_any(model)]
        known = [f"this server does {', '.join(sorted(pairs))}"] if pairs else []
        by_name = [f"a model that names no languages is asked for as model: {', '.join(others)}"] if others else []
        what = f"{source or 'any language'} to {target or 'any language'}"
        return f"{what} is not supported: {'; '.join([*known, *by_name])}."

    def stop(self) -> None:
        for model in self.all:
            model.stop()


def _names_any(model: ServedModel) -> bool:
    return model.source is not None or model.target is not None
