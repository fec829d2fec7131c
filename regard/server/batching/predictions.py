"""Queue of predictions of one model: computed one after another in its thread, of many clients in turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.core.deadline import DeadlineExceeded
from regard.core.predictor_interface import PredictionInterrupted
from regard.server.batching.client_queue import ClientQueue, Throughput
from regard.server.batching.scheduler import (
    Overloaded,
    SchedulerClosed,
    SchedulerObserver,
    TooManySources,
)

__all__ = ["Prediction", "PredictionQueue", "fail"]


@dataclass(eq=False)
class Prediction:
    """Work for one input; its result comes to ``future``, which may be cancelled.

    ``work``: called with a function that says whether to stop. ``client``: whose turn it takes. ``deadline``: on the
    queue's clock.
    """

    work: Callable[[Callable[[], bool]], Any]
    client: str
    deadline: float
    future: Future[Any] = field(default_factory=Future)
    queued_at: float = 0.0
    rows: int = 1
    group: str = ""


class PredictionQueue:
    """Predictions that wait: ``submit`` takes them from any thread; one thread computes them, by ``run``."""

    def __init__(
        self, waiting: int, *, observer: SchedulerObserver | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Build a queue; ``waiting``: predictions of one client that may wait."""
        self.waiting, self.clock, self.observer = waiting, clock, observer or SchedulerObserver()
        self._changed, self._closed = threading.Condition(), False
        self._queue, self._running = ClientQueue[Prediction](), 0
        self._throughput = Throughput()

    def submit(self, jobs: Sequence[Prediction]) -> None:
        """Queue predictions of one client, all or none. Raises as ``Scheduler.submit`` does."""
        if len(jobs) > self.waiting:
            raise TooManySources(f"{len(jobs)} inputs exceed the queue of {self.waiting}")
        with self._changed:
            if self._closed:
                raise SchedulerClosed("the server is stopping")
            self._queue.drop(lambda job: job.future.cancelled())
            if not self._queue.has_room(jobs, self.waiting):
                raise Overloaded(self.estimated_wait())
            for job in jobs:
                job.queued_at = self.clock()
            self._queue.add(jobs)
            self._changed.notify()

    @property
    def load(self) -> tuple[int, int]:
        """Number of predictions that wait, and of those that run."""
        return len(self._queue), self._running

    def estimated_wait(self) -> float:
        """Return the estimated seconds until all predictions are done."""
        return self._throughput.seconds(sum(self.load))

    def close(self) -> None:
        """Refuse new predictions; ``run`` returns when accepted ones are done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Compute until closed and done; sleep while nothing waits."""
        while True:
            with self._changed:
                while not (len(self._queue) or self._running or self._closed):
                    self._throughput.reset()
                    self._changed.wait()
                if not (len(self._queue) or self._running):
                    return
            self.turn()

    def turn(self) -> None:
        """Compute the prediction whose turn it is; one that nobody waits for any more is dropped."""
        with self._changed:
            (job,) = self._queue.take(1, (), 1)
            self._running = 1
        self.observer.on_admitted([self.clock() - job.queued_at])
        try:
            self._compute(job)
        finally:
            self._running = 0
        self._throughput.record(self.clock())

    def _compute(self, job: Prediction) -> None:
        """Set the result of a prediction, or its error."""

        def interrupted() -> bool:
            return job.future.cancelled() or self.clock() >= job.deadline

        try:
            if interrupted():
                raise PredictionInterrupted
            found = job.work(interrupted)
        except PredictionInterrupted:
            fail(job.future, DeadlineExceeded("the time for this request is over"))
        except Exception as error:  # noqa: BLE001 - any error reaches the client that waits
            fail(job.future, error)
        else:
            if job.future.set_running_or_notify_cancel():  # False if it was cancelled meanwhile
                job.future.set_result(found)


def fail(future: Future[Any], error: Exception) -> None:
    """Set an error as the result, unless the job was cancelled."""
    if future.set_running_or_notify_cancel():
        future.set_exception(error)
