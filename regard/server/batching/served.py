"""Served model: loaded at first use, with its own thread for computation."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from regard.config.settings import ChoiceConfig
from regard.core.deadline import Deadline, DeadlineExceeded
from regard.errors import ConfigError, DataError
from regard.inference.search_model import Searches
from regard.inspection.inspector import Inspector
from regard.server.api_error import ApiError, public_message
from regard.server.batching.jobs import (
    Limits,
    Overloaded,
    Progress,
    SchedulerClosed,
    SchedulerJob,
    SchedulerObserver,
    TooManyInputs,
    WorkJob,
)
from regard.server.batching.predictions import SearchRequestJobs, UploadedFile, works_of
from regard.server.batching.scheduler import Scheduler
from regard.server.off_loop import cancel_all, off_loop, results_of
from regard.server.request_record import current_request

if TYPE_CHECKING:
    from regard.server.settings import ServerSettings

log = logging.getLogger("regard.server")
Result = TypeVar("Result")


class ServedModel:
    """Model of any task: its name, its predictor once it is loaded, and the scheduler of its thread.

    Work outside the scheduler (``run_serial``) runs in only one more thread, because every thread that computes has its
    own buffers.
    """

    def __init__(
        self,
        name: str,
        *,
        task: str,
        load_predictor: Callable[[], Any],
        serves: Collection[str] = (),
        settings: ChoiceConfig | None = None,
        source: str | None = None,
        target: str | None = None,
        reads_whole: bool = False,
        reads_files: bool = False,
        limits: Limits | None = None,
        observer: SchedulerObserver | None = None,
        threads: int | None = None,
        inspector: Inspector | None = None,
    ) -> None:
        """Describe a model, without loading it.

        Args:
            name: the name by which clients request it.
            task: the name of its task.
            load_predictor: loads the predictor with its weights.
            serves: the endpoints in addition to prediction (``core.task.Task.serves``).
            settings: the search settings of the run, if it has any.
            source: the language code of the inputs; None if unknown.
            target: the language code of the outputs; None if unknown.
            reads_whole: whether texts are not split into sentences.
            reads_files: whether an input may be the contents of a file.
            limits: the limits of the scheduler.
            observer: receives the events of the scheduler.
            threads: the number of torch threads of each thread that computes; None for torch's default.
            inspector: the inspector; None disables inspection.
        """
        self.name, self.task, self.serves, self.settings = name, task, frozenset(serves), settings
        self.source, self.target, self.reads_whole, self.inspector = source, target, reads_whole, inspector
        self.reads_files = reads_files
        self.limits, self.observer, self._threads = limits or Limits(), observer, threads
        self.created = int(time.time())
        self.on_loaded: Callable[[], None] = lambda: None  # called after the model was loaded
        self._load_predictor = load_predictor
        self._lock = threading.Lock()
        self._loading: asyncio.Future[None] | None = None
        self._started: tuple[Any, Scheduler, threading.Thread] | None = None
        self._serial = ThreadPoolExecutor(1, f"serial {name}", initializer=self._set_threads)

    def _open(self) -> tuple[Any, Scheduler]:
        """Load the predictor and create its scheduler."""
        predictor = self._load_predictor()
        decoding = predictor.decoding if isinstance(predictor, Searches) else None
        return predictor, Scheduler(decoding, self.limits, observer=self.observer)

    @property
    def ready(self) -> bool:
        """True if the model is loaded."""
        return self._started is not None

    @property
    def load(self) -> tuple[int, int]:
        """Number of waiting inputs and of running inputs."""
        return self._started[1].load if self._started else (0, 0)

    def start(self) -> tuple[Any, Scheduler]:
        """Return the predictor and its scheduler; load and start them at the first call."""
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
        """Complete accepted inputs and stop. A model that is still being loaded has no inputs and is not waited for."""
        if self._lock.acquire(blocking=False):
            try:
                if self._started is not None:
                    _, scheduler, thread = self._started
                    scheduler.close()
                    thread.join()
            finally:
                self._lock.release()
        self._serial.shutdown()

    def _run(self, scheduler: Scheduler) -> None:
        """Run the scheduler: the main function of the thread of the model."""
        self._set_threads()
        scheduler.run()

    def _set_threads(self) -> None:
        """Set the number of torch threads, which is a setting of the current thread."""
        if self._threads is not None:
            import torch

            torch.set_num_threads(self._threads)

    async def wait_until_loaded(self, seconds: float) -> tuple[Any, Scheduler]:
        """Return the predictor and its scheduler, loaded once in a thread for all waiting requests.

        Raises:
            ApiError: if loading fails or takes more than ``seconds``.
        """
        if self._started is None:
            if self._loading is None or self._loading.done():
                self._loading = _run_in_thread(self.start, f"loading {self.name}")
            try:
                await asyncio.wait_for(asyncio.shield(self._loading), seconds)
            except TimeoutError as error:
                what = f"The model {self.name} is still being loaded."
                raise ApiError(503, what, retry_after=10, reason="not loaded") from error
            except Exception as error:
                log.error("cannot load the model %s: %s", self.name, error)
                what = f"The model {self.name} cannot be loaded."
                raise ApiError(503, what, retry_after=60, reason="not loaded") from error
        assert self._started is not None
        return self._started[:2]

    async def predict(
        self,
        inputs: Sequence[str | UploadedFile],
        settings: Mapping[str, Any],
        *,
        client: str,
        seconds: float,
        limits: ServerSettings,
    ) -> list[Any]:
        """Return the output for each input, in the JSON format of the predictor; raise ApiError beyond a limit."""
        deadline = Deadline(seconds)
        predictor, scheduler = await self.wait_until_loaded(seconds)
        if scheduler.model is None:
            works = await off_loop(works_of, predictor, inputs, settings, limits, deadline)
            return await self.compute(works, client=client, seconds=deadline.left)
        request = await off_loop(SearchRequestJobs, predictor, inputs, settings, limits, client, deadline)
        hypotheses = await self.results(request.jobs, deadline.left)
        return await self.run_serial(partial(request.outputs, hypotheses))  # some outputs need a pass of the model

    async def compute(
        self, works: Sequence[Callable[[Callable[[], bool]], Result]], *, client: str, seconds: float
    ) -> list[Result]:
        """Return the results of works, each computed in the thread of the model when it is the client's turn."""
        deadline = time.monotonic() + seconds
        await self.wait_until_loaded(seconds)
        return await self.results([WorkJob(work, client, deadline) for work in works], seconds)

    async def run_serial(self, work: Callable[[], Result]) -> Result:
        """Return the result of a pass of the model outside of batches. All such passes run in one thread."""
        return await asyncio.wrap_future(self._serial.submit(work))

    async def results(self, jobs: Sequence[SchedulerJob], seconds: float) -> list[Any]:
        """Return the result of each job; raise ApiError if the scheduler rejects or fails one of them."""
        _, scheduler = self.start()
        complete, progress, record = False, Progress(), current_request()
        if record:
            record.model = self.name

        def begin() -> None:
            """Queue the jobs."""
            for job in jobs:
                job.progress = progress
            scheduler.submit(jobs)

        try:
            results = await results_of([job.future for job in jobs], begin)
            complete = True
            if record:
                record.add_tokens(progress.tokens)
                if record.trace:
                    record.trace.add_work(self.name, len(jobs), progress)
            return results
        except Overloaded as error:
            what = "Too many requests are waiting."
            raise ApiError(429, what, retry_after=error.retry_after, reason="queue full") from error
        except TooManyInputs as error:
            raise ApiError(413, f"Too long: {error}.") from error
        except SchedulerClosed as error:
            raise ApiError(503, "The server is stopping.", retry_after=5, reason="stopping") from error
        except DeadlineExceeded as error:
            message = f"The request took more than {math.ceil(seconds):,} s."
            raise ApiError(503, message, retry_after=scheduler.estimated_wait(), reason="deadline") from error
        except (ConfigError, DataError) as error:
            raise ApiError(400, f"Invalid request: {public_message(error)}") from error
        except ApiError:
            raise
        except Exception as error:
            log.error("the model %s failed: %s", self.name, type(error).__name__)  # the message may quote a text
            raise ApiError(500, "The model failed.") from error
        finally:  # after a disconnect or the failure of one input, no result is needed
            if not complete:
                cancel_all([job.future for job in jobs])


def _run_in_thread(work: Callable[[], object], name: str) -> asyncio.Future[None]:
    """Run ``work`` in a new thread: it may take long, and all requests share the thread pool of the event loop."""
    done: Future[None] = Future()

    def run() -> None:
        """Run the work and set the result of the future."""
        try:
            work()
            done.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the future is awaited
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)
