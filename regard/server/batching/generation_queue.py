"""Queue of a language model: texts of all clients grow in one running batch, token by token; other work has its turn.

A turn drops what nobody waits for, admits waiting jobs as far as rows are free, and gives each running text one token
more. So no text waits for the end of another, and one whose client left costs nothing after the token it is at.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from regard.core.deadline import DeadlineExceeded
from regard.server.batching.predictions import Prediction, PredictionQueue, fail
from regard.server.batching.scheduler import SchedulerObserver
from regard.tasks.language_model.text_batch import BatchText, TextBatch, TextStep

__all__ = ["GenerationQueue", "TextJob"]


@dataclass(eq=False)
class TextJob:
    """Text to generate. Its steps come to ``on_step`` one by one, and together to ``future``, which may be cancelled.

    ``open``: makes the text, in the model's thread. ``client``: whose turn it takes. ``deadline``: on the queue's
    clock.
    """

    open: Callable[[], BatchText]
    client: str
    deadline: float
    on_step: Callable[[TextStep], None] | None = None
    future: Future[list[TextStep]] = field(default_factory=Future)
    steps: list[TextStep] = field(default_factory=list)
    queued_at: float = 0.0
    rows: int = 1
    group: str = ""


class GenerationQueue(PredictionQueue):
    """Texts that wait or run, and predictions: ``submit`` takes both."""

    def __init__(
        self, batch: TextBatch, rows: int, waiting: int, *, observer: SchedulerObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Build a queue.

        ``rows``: texts that run at once. The rest is as in ``PredictionQueue``.
        """
        super().__init__(waiting, observer=observer, clock=clock)
        self._batch, self._rows = batch, rows
        self._jobs: dict[BatchText, TextJob] = {}  # that run

    def turn(self) -> None:
        """Admit waiting jobs, and give each running text one more token."""
        self._drop_stale()
        if new := self._admitted():
            self._start(new)
        if self._jobs:
            self._fail_on_error(self._step)
        self._running = len(self._jobs)

    def _drop_stale(self) -> None:
        """Drop texts that nobody waits for any more, and fail those past their deadline."""
        now = self.clock()

        def is_stale(job: Prediction | TextJob) -> bool:
            late = job.deadline <= now
            if late:
                fail(job.future, DeadlineExceeded("the time for this request is over"))
            return late or job.future.cancelled()

        with self._changed:
            self._queue.drop(is_stale)
        for text in [text for text, job in self._jobs.items() if is_stale(job)]:
            self._leave(text)
        self._batch.keep(self._jobs.__contains__)

    def _admitted(self) -> list[TextJob]:
        """Take jobs from the queue as far as rows are free; a prediction is computed, and ends the turn's admission."""
        new: list[TextJob] = []
        running = Counter(job.client for job in self._jobs.values())
        while sum(running.values()) < self._rows:
            with self._changed:
                job = self._queue.take_next(lambda client: running[client] < self._share(client, running))
            if job is None:
                break
            self.observer.on_admitted([self.clock() - job.queued_at])
            if isinstance(job, Prediction):
                self._running = len(self._jobs) + 1
                self._compute(job)
                self._throughput.record(self.clock())
                break
            running[job.client] += 1
            new.append(job)
        return new

    def _share(self, client: str, running: Counter[str]) -> int:
        """Return the rows that a client may have: others that run have as many, and so has one that may yet come."""
        clients = len({client, *running})
        return max(self._rows // (clients + 1), 1)

    def _start(self, jobs: Sequence[TextJob]) -> None:
        """Read the prompts of new texts. An error fails them alone, not the running ones."""
        self._running = len(self._jobs) + len(jobs)
        try:
            opened = {job.open(): job for job in jobs}
            self._batch.join(list(opened))
        except Exception as error:  # noqa: BLE001 - any error reaches the client that waits
            for job in jobs:
                fail(job.future, error)
            return
        self._jobs |= opened

    def _step(self) -> None:
        """Choose a token of each running text, deliver it, and read it."""
        self.observer.on_step(len(self._jobs), self._rows)
        for text, step in self._batch.choose():
            job = self._jobs[text]
            job.steps.append(step)
            if job.on_step is not None:
                job.on_step(step)
            if step.piece.finish_reason is not None:
                self._leave(text)
                if job.future.set_running_or_notify_cancel():  # False if it was cancelled meanwhile
                    job.future.set_result(job.steps)
                self._throughput.record(self.clock())
        self._batch.advance()

    def _leave(self, text: BatchText) -> None:
        """Count the tokens of a text that runs no more."""
        self.observer.on_finished(len(self._jobs.pop(text).steps))

    def _fail_on_error(self, work: Callable[[], None]) -> None:
        """Do work on the batch; an error fails all texts in it."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any error reaches the clients that wait
            for job in self._jobs.values():
                fail(job.future, error)
            self._jobs.clear()
            self._batch.keep(lambda text: False)
