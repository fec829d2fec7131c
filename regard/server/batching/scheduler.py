"""Continuous batching: sources of many clients share running batches, which they join and leave at any step.

A turn admits waiting jobs, decodes one token for every running job, and delivers finished ones. Nothing here depends on
HTTP or threads but ``Future``: a test may take the turns itself, with a clock of its own.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from regard.config.settings import SearchConfig
from regard.core.deadline import DeadlineExceeded
from regard.search.batch_search import RunningBatch
from regard.search.constraint_state import Constraints
from regard.search.contract import ChunkedStep, Hypothesis, StatePair
from regard.server.batching.client_queue import ClientQueue, Throughput

__all__ = [
    "Job",
    "Limits",
    "Overloaded",
    "Scheduler",
    "SchedulerClosed",
    "SchedulerObserver",
    "TooManySources",
]


MAX_PADDING = 128  # pieces of padding, which cost less than a second pass


class Overloaded(Exception):
    """Queue is full; ask again after ``retry_after`` seconds."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"the queue is full; try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class TooManySources(Exception):
    """Request has more sources than the queue ever holds: retrying does not help."""


class SchedulerClosed(Exception):
    """Server is stopping: accepted jobs are finished, new ones refused."""


class Limits(NamedTuple):
    """Limits of a scheduler.

    ``rows``: hypotheses that run at once. ``waiting``: sources of one client in the queue; several clients share it.
    ``patience``: turns that a source waits for others to join a batch with it. ``groups``: sets of search settings that
    run at once, each of which costs a pass of its own.
    """

    rows: int = 64
    waiting: int = 256
    patience: int = 4
    groups: int = 4


class SearchModel(Protocol):
    """Model as the scheduler uses it: ``regard.inference.decoding.Decoding``."""

    def open(
        self,
        numbers: Sequence[int],
        sources: Sequence[Sequence[int]],
        settings: SearchConfig,
        *,
        constraints: Sequence[Constraints] | None = None,
    ) -> StatePair:
        """Return the opened search of ``sources`` (numbers of pieces), named by ``numbers``."""

    @property
    def step(self) -> ChunkedStep:
        """Step of decoding for a running batch."""


class SchedulerObserver:
    """Receiver of the scheduler's events, ignored here; ``regard.server.batching.metrics`` counts them."""

    def on_admitted(self, waited: Sequence[float]) -> None:
        """Jobs left the queue; ``waited``: seconds that each was in it."""

    def on_step(self, rows: int, max_rows: int) -> None:
        """One token was decoded for each of ``rows`` hypotheses, of ``max_rows`` that may run."""

    def on_finished(self, tokens: int) -> None:
        """A job finished; ``tokens``: length of its best output."""


class SearchGroup(NamedTuple):
    """Jobs that share one running batch: those with the same settings, constrained or not."""

    settings: SearchConfig
    constrained: bool


@dataclass(eq=False)
class Job:
    """Source to search. Its outputs, best first, come to ``future``, which may be cancelled.

    ``pieces``: numbers of source pieces. ``settings``: of the search. ``client``: whose turn in the queue it takes.
    ``deadline``: on the scheduler's clock. ``queued_at``: set by the scheduler. ``constraints``: pieces that the
    outputs must contain.
    """

    pieces: Sequence[int]
    settings: SearchConfig
    client: str = ""
    deadline: float = float("inf")  # on the scheduler's clock
    future: Future[list[Hypothesis]] = field(default_factory=Future)
    queued_at: float = 0.0
    constraints: Constraints = ()

    @property
    def rows(self) -> int:
        """Number of rows that the search takes in the batch."""
        drawn = self.settings.temperature is not None and not self.constraints
        return self.settings.nbest if drawn else self.settings.beam

    @property
    def group(self) -> SearchGroup:
        """Group in whose batch the job runs."""
        return SearchGroup(self.settings, bool(self.constraints))

    def fail(self, error: Exception) -> None:
        """Set an error as the result, unless the job was cancelled."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class Scheduler:
    """Scheduler of one model: ``submit`` takes jobs from any thread; one thread takes the turns, by ``run``."""

    def __init__(
        self,
        model: SearchModel,
        limits: Limits | None = None,
        *,
        observer: SchedulerObserver | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build a scheduler.

        ``model``: opens and steps searches. ``limits``: defaults if None. ``observer``: informed of events. ``clock``:
        seconds, for deadlines and waits.
        """
        self.model, self.limits, self.clock = model, limits or Limits(), clock
        self.observer = observer or SchedulerObserver()
        self._changed = threading.Condition()
        self._queue, self._closed = ClientQueue[Job](), False
        self._batches: dict[SearchGroup, RunningBatch] = {}
        self._running: dict[int, Job] = {}
        self._numbers = count()
        self._delayed_turns = 0  # turns for which the first job has waited for others
        self._throughput = Throughput()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs of one client, all or none.

        Raises TooManySources, Overloaded, or SchedulerClosed after ``close``.
        """
        if len(jobs) > self.limits.waiting:
            raise TooManySources(f"{len(jobs)} sentences exceed the queue of {self.limits.waiting}")
        with self._changed:
            if self._closed:
                raise SchedulerClosed("the server is stopping")
            if not self._queue.has_room(jobs, self.limits.waiting):
                raise Overloaded(self.estimated_wait())
            now = self.clock()
            for job in jobs:
                job.queued_at = now
            self._queue.add(jobs)
            self._changed.notify()

    def estimated_wait(self) -> float:
        """Return the estimated seconds until all jobs are done, by the rate of the last ones; at least 1."""
        return self._throughput.seconds(len(self._queue) + len(self._running))

    def close(self) -> None:
        """Refuse new jobs; ``run`` returns when accepted ones are done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Take turns until closed and done; sleep while there is no job."""
        while True:
            with self._changed:
                while not (self._running or len(self._queue) or self._closed):
                    self._throughput.reset()
                    self._changed.wait()
                if self._closed and not self._running and not len(self._queue):
                    return
            self.turn()

    @property
    def load(self) -> tuple[int, int]:
        """Number of sources that wait, and of those that run."""
        return len(self._queue), len(self._running)

    def turn(self) -> None:
        """Admit waiting jobs, decode one token for every running job, and deliver finished ones."""
        self._drop_stale()
        self._admit()
        for group, batch in list(self._batches.items()):
            self._fail_on_error(group, batch.advance)
        self._deliver()
        if self._running:
            self.observer.on_step(self._rows(), self.limits.rows)

    def _rows(self) -> int:
        """Return the number of rows in use."""
        return sum(job.rows for job in self._running.values())

    def _drop_stale(self) -> None:
        """Drop jobs that were cancelled, and fail those past their deadline."""
        now = self.clock()

        def is_stale(job: Job) -> bool:
            """Return whether a job was cancelled or is past its deadline; fail it in the latter case."""
            late = job.deadline <= now
            if late:
                job.fail(DeadlineExceeded("the time for this request is over"))
            return late or job.future.cancelled()

        with self._changed:
            self._queue.drop(is_stale)
        numbers = {number for number, job in self._running.items() if is_stale(job)}
        for number in numbers:
            del self._running[number]
        for group, batch in list(self._batches.items()):
            if not numbers.isdisjoint(batch.active_ids):
                self._fail_on_error(group, lambda batch=batch: batch.drop(numbers))  # type: ignore[misc]

    def _admit(self) -> None:
        """Move jobs from the queue into running batches, as far as rows and groups are free."""
        with self._changed:
            room, groups = self.limits.rows - self._rows(), self._batches.keys()
            jobs = self._queue.take(room, groups, self.limits.groups) if self._should_admit() else []
            if not jobs and not self._running and len(self._queue):  # needs more than all rows: runs alone
                jobs = self._queue.take(max(job.rows for job in self._queue), (), 1)
        self._delayed_turns = 0 if jobs or not len(self._queue) else self._delayed_turns + 1
        if not jobs:
            return
        now = self.clock()
        self.observer.on_admitted([now - job.queued_at for job in jobs])
        by_group: dict[SearchGroup, list[Job]] = defaultdict(list)
        for job in jobs:
            by_group[job.group].append(job)
        for group, members in by_group.items():
            for similar in _by_length(members):
                self._open(group, similar)

    def _open(self, group: SearchGroup, jobs: Sequence[Job]) -> None:
        """Start the search of new jobs of one group. An error fails them alone, not the running jobs."""
        numbers = [next(self._numbers) for _ in jobs]
        batch = self._batches.get(group) or RunningBatch(self.model.step)
        options = {"constraints": [job.constraints for job in jobs]} if group.constrained else {}
        try:
            opened = self.model.open(numbers, [job.pieces for job in jobs], group.settings, **options)
            begun = batch.first_step(opened)
        except Exception as error:  # noqa: BLE001 - any error reaches the client that waits
            for job in jobs:
                job.fail(error)
            return
        self._running |= dict(zip(numbers, jobs, strict=True))
        self._batches[group] = batch
        self._fail_on_error(group, lambda: batch.join(begun))

    def _should_admit(self) -> bool:
        """Return whether to admit jobs now: several together, or one that has waited ``patience`` turns.

        New jobs cost a pass of their own, for which all running jobs wait.
        """
        if not len(self._queue):
            return False
        free = self.limits.rows - self._rows()
        enough = min(sum(job.rows for job in self._queue), free) >= self.limits.rows // 8
        return enough or not self._running or self._delayed_turns >= self.limits.patience

    def _deliver(self) -> None:
        """Hand finished outputs to their futures, and drop batches that are empty."""
        for group, batch in list(self._batches.items()):
            for number, outputs in batch.take_finished():
                job = self._running.pop(number)
                if job.future.set_running_or_notify_cancel():  # False if it was cancelled meanwhile
                    job.future.set_result(outputs)
                self.observer.on_finished(len(outputs[0].token_log_probabilities))
                self._throughput.record(self.clock())
            if not batch.active_ids:
                del self._batches[group]

    def _fail_on_error(self, group: SearchGroup, work: Callable[[], None]) -> None:
        """Run ``work`` on the batch of a group; an error fails the jobs of that group, the others go on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - any error reaches the clients that wait
            del self._batches[group]
            for number in [number for number, job in self._running.items() if job.group == group]:
                self._running.pop(number).fail(error)


def _by_length(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Yield the jobs in lists of similar length, each read in one pass, so that a long one does not pad many short."""
    similar: list[Job] = []
    for job in sorted(jobs, key=lambda job: len(job.pieces)):
        length = len(job.pieces)
        padding = sum(length - len(other.pieces) for other in similar)
        if similar and padding > MAX_PADDING and length.bit_length() > len(similar[0].pieces).bit_length():
            yield similar
            similar = []
        similar.append(job)
    yield similar
