"""The models behind one server: each loaded when it is first asked, with a running batch and a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence

from regard.errors import ConfigError, RegardError
from regard.search import Hypothesis
from regard.server.refused import Refused
from regard.server.schedule import Closed, Deadline, Job, Limits, Overloaded, Scheduler, Watch
from regard.settings import SearchConfig
from regard.translate import Translation, Translator

__all__ = ["Models", "ServedModel"]

log = logging.getLogger("regard.server")


class ServedModel:
    """One model. ``translate`` is for the event loop; the model itself computes in the thread of its scheduler.

    ``source`` and ``target`` are the languages that its config names; None stands for any.
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
    ) -> None:
        self.name, self.search, self.source, self.target = name, search, source, target
        self._load, self._limits, self._watch, self._threads = load, limits, watch, threads
        self._lock = threading.Lock()
        self._started: tuple[Translator, Scheduler, threading.Thread] | None = None

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
                translator = self._load()
                scheduler = Scheduler(translator.decoding, self._limits, watch=self._watch)
                thread = threading.Thread(target=self._run, args=(scheduler,), name=f"model {self.name}", daemon=True)
                thread.start()
                self._started = translator, scheduler, thread
            return self._started[:2]

    def _run(self, scheduler: Scheduler) -> None:
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)  # a setting of the thread that computes
        scheduler.run()

    def stop(self) -> None:
        """Finish what was accepted."""
        with self._lock:
            if self._started is not None:
                _, scheduler, thread = self._started
                scheduler.close()
                thread.join()

    async def translate(
        self, sentences: Sequence[str], settings: SearchConfig, *, client: str, seconds: float
    ) -> list[Translation]:
        """One translation a sentence. Refused where the queue is full, the time is over, or the model fails."""
        translator, scheduler = self._started[:2] if self._started else await asyncio.to_thread(self._start_or_refuse)
        parts = [translator.parts(sentence) for sentence in sentences]
        deadline = time.monotonic() + seconds
        jobs = [[Job(pieces, settings, client, deadline) for pieces in of] for of in parts]
        flat = [job for of in jobs for job in of]
        try:
            scheduler.submit(flat)
            found = iter(await asyncio.gather(*(asyncio.wrap_future(job.future) for job in flat)))
        except Overloaded as error:
            raise Refused(429, "Too many requests are waiting.", retry_after=error.retry_after) from error
        except Closed as error:
            raise Refused(503, "The server is stopping.", retry_after=5) from error
        except Deadline as error:
            raise Refused(503, f"This took more than {seconds:g} s.", retry_after=scheduler.wait()) from error
        except Exception as error:
            log.error("the model %s failed: %s", self.name, type(error).__name__)  # no more: it may quote a text
            raise Refused(500, "The model failed.") from error
        finally:  # who left, or whose other sentences failed, wants none of it
            for job in flat:
                job.future.cancel()
        hypotheses: list[list[list[Hypothesis]]] = [[next(found) for _ in of] for of in jobs]
        return [translator.assemble(*each) for each in zip(sentences, parts, hypotheses, strict=True)]

    def _start_or_refuse(self) -> tuple[Translator, Scheduler]:
        try:
            return self.start()
        except RegardError as error:
            raise Refused(503, f"The model {self.name} cannot be loaded.") from error


class Models:
    """By name; and by the languages of their cards."""

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
            raise Refused(404, f"There is no model {name!r}.")
        return self.by_name[name]

    def between(self, source: str | None, target: str | None) -> ServedModel:
        """The first model from ``source`` to ``target``; None stands for any. Regions and case do not matter."""
        for model in self.all:
            if _same(model.source, source) and _same(model.target, target):
                return model
        raise Refused(400, f"{source or 'any language'} to {target or 'any language'} is not supported.")

    def stop(self) -> None:
        for model in self.all:
            model.stop()


def _same(language: str | None, wanted: str | None) -> bool:
    """A model of no language does for any, since its owner has said nothing."""
    if language is None or wanted is None:
        return True
    return language.lower().partition("-")[0] == wanted.lower().partition("-")[0]
