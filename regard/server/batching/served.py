"""Model behind the server: loaded at first use, with a thread of its own that computes."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.core.deadline import DeadlineExceeded
from regard.errors import ConfigError, DataError
from regard.inspection.run_inspector import RunInspector
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import Overloaded, SchedulerClosed, SchedulerJob, TooManyInputs
from regard.server.batching.scheduler import Scheduler
from regard.server.off_loop import cancel_all, off_loop, results_of

if TYPE_CHECKING:
    from regard.server.settings import ServerSettings

__all__ = ["Served"]

log = logging.getLogger("regard.server")


Predictor = TypeVar("Predictor")


class Served(ABC, Generic[Predictor]):
    """Model of any task: its name, its predictor once it is loaded, and the queue of its thread.

    ``source``, ``target``: language codes of a translation model; None for other tasks, and where none are named.
    """

    source: str | None = None
    target: str | None = None

    def __init__(self, name: str, *, task: str, threads: int | None, inspector: RunInspector[Any] | None) -> None:
        """Describe a model; nothing is loaded yet.

        ``name``: the name by which clients ask for it. ``task``: its kind. ``threads``: torch threads of each thread
        that computes; None: torch's own choice. ``inspector``: for looks inside; None: not offered.
        """
        self.name, self.task, self._threads, self.inspector = name, task, threads, inspector
        self.created = int(time.time())
        self.on_loaded: Callable[[], None] = lambda: None  # called after the model was loaded
        self._lock = threading.Lock()
        self._loading: asyncio.Future[None] | None = None
        self._started: tuple[Predictor, Scheduler, threading.Thread] | None = None

    @abstractmethod
    def _open(self) -> tuple[Predictor, Scheduler]:
        """Load the predictor, and make the queue of its thread."""

    @abstractmethod
    async def predict(
        self, inputs: Sequence[str], settings: Mapping[str, Any], *, client: str, seconds: float, limits: ServerSettings
    ) -> list[Any]:
        """Return the output for each input, as the predictor writes it in JSON. ApiError beyond a limit."""

    @property
    def ready(self) -> bool:
        """Return whether the model is loaded."""
        return self._started is not None

    @property
    def load(self) -> tuple[int, int]:
        """Number of inputs that wait, and of those that run."""
        return self._started[1].load if self._started else (0, 0)

    def start(self) -> tuple[Predictor, Scheduler]:
        """Return the predictor and its queue, loaded and started if they are not yet."""
        with self._lock:
            if self._started is None:
                began = time.monotonic()
                log.info("loading the model %s", self.name)
                predictor, scheduler = self._open()
                log.info("loaded the model %s in %.1f s", self.name, time.monotonic() - began)
                self.on_loaded()
                thread = threading.Thread(target=self._run, args=(scheduler,), name=f"model {self.name}", daemon=True)
                thread.start()
                self._started = predictor, scheduler, thread
            return self._started[:2]

    def stop(self) -> None:
        """Finish accepted inputs and stop; a model that is still being loaded has none, and may take minutes."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._started is not None:
                _, scheduler, thread = self._started
                scheduler.close()
                thread.join()
        finally:
            self._lock.release()

    def _run(self, scheduler: Scheduler) -> None:
        """Run the queue; the body of the model's thread."""
        self._set_threads()
        scheduler.run()

    def _set_threads(self) -> None:
        """Set the torch threads of the current thread, whose setting it is."""
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)

    async def wait_until_loaded(self, seconds: float) -> tuple[Predictor, Scheduler]:
        """Return the predictor and its queue, loaded once, in a thread, for all requests that wait.

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

    async def _results(self, scheduler: Scheduler, jobs: Sequence[SchedulerJob], seconds: float) -> list[Any]:
        """Return the result of each job. ApiError if the queue refuses or fails any of them."""
        complete = False
        try:
            await off_loop(scheduler.submit, jobs)
            results = await results_of([job.future for job in jobs])
            complete = True
            return results
        except Overloaded as error:
            raise ApiError(429, "Too many requests are waiting.", retry_after=error.retry_after) from error
        except TooManyInputs as error:
            raise ApiError(413, f"Too long: {error}.") from error
        except SchedulerClosed as error:
            raise ApiError(503, "The server is stopping.", retry_after=5) from error
        except DeadlineExceeded as error:
            message = f"This took more than {math.ceil(seconds):,} s."
            raise ApiError(503, message, retry_after=scheduler.estimated_wait()) from error
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        except ApiError:
            raise
        except Exception as error:
            log.error("the model %s failed: %s", self.name, type(error).__name__)  # the message may quote a text
            raise ApiError(500, "The model failed.") from error
        finally:  # if the client left, or another of its inputs failed, none of them is needed
            if not complete:
                cancel_all([job.future for job in jobs])


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
