"""Scheduler of a model: computes the jobs of all clients in one thread, in running batches or one by one.

A turn drops canceled jobs, decodes one token of each running search, and delivers finished searches. It admits new ones
while rows are free, with their first token. Therefore no search waits for the end of another, and a canceled search
stops after its current token.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from regard.config.settings import ChoiceConfig
from regard.core.deadline import DeadlineExceeded
from regard.inference.search_model import SearchModel
from regard.search.batch_search import RunningBatch
from regard.server.batching.client_queue import ClientQueue, Throughput
from regard.server.batching.jobs import (
    Limits,
    Overloaded,
    SchedulerClosed,
    SchedulerJob,
    SchedulerObserver,
    SearchGroup,
    SearchJob,
    TooManyInputs,
    WorkJob,
)

MAX_PADDING = 128  # maximum number of padding tokens that cost less than a second pass


class Scheduler:
    """Scheduler of one model: ``submit`` accepts jobs from any thread; one thread computes them in ``run``."""

    def __init__(
        self,
        model: SearchModel | None,
        limits: Limits | None = None,
        *,
        observer: SchedulerObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build a scheduler.

        Args:
            model: opens searches and computes their steps; None if all jobs are works.
            limits: the limits; None for the defaults.
            observer: receives the events.
            clock: returns the time in seconds, for deadlines and waiting times.
        """
        self.model, self.limits, self.clock = model, limits or Limits(), clock
        self.observer = observer or SchedulerObserver()
        self._changed = threading.Condition()
        self._queue, self._closed = ClientQueue[SchedulerJob](), False
        self._batches: dict[SearchGroup, RunningBatch] = {}
        self._running: dict[int, SchedulerJob] = {}
        self._numbers = count()
        self._delayed_turns = 0  # number of turns that the first job has waited for others
        self._throughput = Throughput()

    def submit(self, jobs: Sequence[SchedulerJob]) -> None:
        """Queue jobs of one client, either all or none of them.

        Raises:
            TooManyInputs: if there are more jobs than the queue can hold.
            Overloaded: if the queue is full.
            SchedulerClosed: after ``close``.
        """
        if len(jobs) > self.limits.waiting:
            raise TooManyInputs(f"{len(jobs)} inputs exceed the queue of {self.limits.waiting}")
        with self._changed:
            if self._closed:
                raise SchedulerClosed("the server is stopping")
            self._queue.drop(lambda job: job.future.cancelled())
            if not self._queue.has_room(jobs, self.limits.waiting):
                raise Overloaded(self.estimated_wait())
            now = self.clock()
            for job in jobs:
                job.queued_at = job.progress.queued = now
            self._queue.add(jobs)
            self._changed.notify()

    def estimated_wait(self) -> float:
        """Return the estimated time until all jobs are done, in seconds, by the rate of the last ones; at least 1."""
        return self._throughput.seconds(sum(self.load))

    def close(self) -> None:
        """Reject new jobs; ``run`` returns when all accepted jobs are done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Compute turns until the scheduler is closed and all jobs are done; sleep while there are no jobs."""
        while True:
            with self._changed:
                while not (any(self.load) or self._closed):
                    self._throughput.reset()
                    self._changed.wait()
                if not any(self.load):
                    return
            self.turn()

    @property
    def load(self) -> tuple[int, int]:
        """Number of waiting jobs and of running jobs."""
        return len(self._queue), len(self._running)

    def turn(self) -> None:
        """Decode one token for every running search, admit waiting jobs, and deliver finished ones."""
        self._drop_stale()
        self._advance()
        self._deliver()
        self._admit()
        self._deliver()

    def _advance(self) -> None:
        """Decode one token for every running search."""
        if self._running:
            self.observer.on_step(self._rows(), self.limits.rows)
        for group, batch in list(self._batches.items()):
            self._fail_on_error(group, batch.advance)

    def _rows(self) -> int:
        """Return the number of rows in use."""
        return sum(job.rows for job in self._running.values())

    def _drop_stale(self) -> None:
        """Drop jobs that were canceled, and fail those past their deadline."""
        now = self.clock()

        def is_stale(job: SchedulerJob) -> bool:
            """Return whether a job was canceled or is past its deadline; fail it in the latter case."""
            late = job.deadline <= now
            if late:
                job.fail(_late())
            return late or job.future.cancelled()

        with self._changed:
            self._queue.drop(is_stale)
        numbers = {number for number, job in self._running.items() if is_stale(job)}
        for number in numbers:
            job = self._running.pop(number)
            if isinstance(job, SearchJob) and job.input.listeners:
                self.observer.on_finished(max(listener.count for listener in job.input.listeners))
        for group, batch in list(self._batches.items()):
            if not numbers.isdisjoint(batch.active_ids):
                self._fail_on_error(group, lambda batch=batch: batch.drop(numbers))  # type: ignore[misc]

    def _admit(self) -> None:
        """Move jobs from the queue into running batches, as far as rows and groups are free."""
        with self._changed:
            jobs = self._admitted() if self._should_admit() else []
            if (
                not jobs and not self._running and len(self._queue)
            ):  # a job that needs more rows than the limit runs alone
                jobs = self._queue.take(max(job.rows for job in self._queue), (), 1)
        self._delayed_turns = 0 if jobs or not len(self._queue) else self._delayed_turns + 1
        if not jobs:
            return
        now = self.clock()
        self.observer.on_admitted([now - job.queued_at for job in jobs])
        for job in jobs:
            job.progress.admitted = now
        opening: dict[tuple[SearchGroup, ChoiceConfig], list[SearchJob]] = defaultdict(list)
        for job in jobs:
            if isinstance(job, SearchJob):
                opening[job.group, job.settings].append(job)
        for (group, settings), members in opening.items():
            for similar in _by_length(members):
                self._open(group, settings, similar)
        for job in jobs:
            if isinstance(job, WorkJob):
                self._compute(job)

    def _admitted(self) -> list[SchedulerJob]:
        """Take the jobs that may run now from the queue."""
        room, groups = self.limits.rows - self._rows(), self._batches.keys()
        share = None
        if self.limits.shares:
            running = Counter(job.client for job in self._running.values() for _ in range(job.rows))
            share = _Shares(self.limits.rows, running)
        return self._queue.take(room, groups, self.limits.groups, share)

    def _should_admit(self) -> bool:
        """Return whether to admit jobs now: several together, or one that has waited ``patience`` turns.

        New jobs need a separate pass of the model, for which all running jobs wait.
        """
        if not len(self._queue):
            return False
        free = self.limits.rows - self._rows()
        enough = min(sum(job.rows for job in self._queue), free) >= self.limits.rows // 8
        return enough or not self._running or self._delayed_turns >= self.limits.patience

    def _open(self, group: SearchGroup, settings: ChoiceConfig, jobs: Sequence[SearchJob]) -> None:
        """Start the searches of new jobs of one group; an error fails only these jobs, not the running ones."""
        assert self.model is not None
        numbers = [next(self._numbers) for _ in jobs]
        batch = self._batches.get(group) or RunningBatch(self.model.step)
        try:
            opened = self.model.open(numbers, [job.input for job in jobs], settings)
            started = batch.first_step(opened)
        except Exception as error:  # noqa: BLE001 - any error reaches the client that waits
            for job in jobs:
                job.fail(error)
            return
        now = self.clock()
        for job in jobs:
            job.first_token_at = now
            job.progress.on_first_token(now)
        self.observer.on_first_tokens([now - job.queued_at for job in jobs])
        self._running |= dict(zip(numbers, jobs, strict=True))
        self._batches[group] = batch
        self._fail_on_error(group, lambda: batch.join(started))

    def _compute(self, job: WorkJob) -> None:
        """Compute a work; running searches wait for it."""
        number = next(self._numbers)
        self._running[number] = job
        job.compute(lambda: self.clock() >= job.deadline, _late())
        del self._running[number]
        self._throughput.record(self.clock())

    def _deliver(self) -> None:
        """Set the results of finished jobs, and drop empty batches."""
        for group, batch in list(self._batches.items()):
            for number, outputs in batch.take_finished():
                job, now, tokens = self._running.pop(number), self.clock(), len(outputs[0].token_log_probabilities)
                job.progress.on_finished(tokens)  # before the result wakes the request
                job.finish(outputs)
                self.observer.on_finished(tokens, now - job.first_token_at)
                self._throughput.record(now)
            if not batch.active_ids:
                del self._batches[group]

    def _fail_on_error(self, group: SearchGroup, work: Callable[[], None]) -> None:
        """Run ``work`` on the batch of a group; an error fails only the jobs of that group."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any error reaches the clients that wait
            del self._batches[group]
            for number in [number for number, job in self._running.items() if job.group == group]:
                self._running.pop(number).fail(error)


class _Shares:
    """Limit of the rows of each client: equal shares for all running clients and for one more that may arrive."""

    def __init__(self, rows: int, running: Counter[str]) -> None:
        self._rows, self._running = rows, running

    def __call__(self, job: SchedulerJob) -> bool:
        """Return whether a job is within its client's share."""
        clients = len({job.client, *self._running})
        return self._running[job.client] < max(self._rows // (clients + 1), 1)

    def take(self, job: SchedulerJob) -> None:
        """Count a running job."""
        self._running[job.client] += job.rows


def _late() -> DeadlineExceeded:
    return DeadlineExceeded("the time limit of the request is exceeded")


def _by_length(jobs: Sequence[SearchJob]) -> Iterator[list[SearchJob]]:
    """Yield lists of jobs with similar lengths, each encoded in one pass: a long input would pad many short ones."""
    similar: list[SearchJob] = []
    for job in sorted(jobs, key=lambda job: len(job.input.tokens)):
        length = len(job.input.tokens)
        padding = sum(length - len(other.input.tokens) for other in similar)
        if similar and padding > MAX_PADDING and length.bit_length() > len(similar[0].input.tokens).bit_length():
            yield similar
            similar = []
        similar.append(job)
    yield similar
