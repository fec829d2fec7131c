"""Continuous batching: the sources of many clients in one running batch, which they join and leave between steps.

A turn of the scheduler lets in what waits, feeds every running sentence one token, and hands out what is done. Nothing
here knows of HTTP or threads but ``Future``: a test can take the turns itself, by a clock of its own.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, Protocol

from regard.config.settings import SearchConfig
from regard.search.batch_search import RunningBatch
from regard.search.constraint_state import Constraints
from regard.search.contract import ChunkedStep, Hypothesis, StatePair

__all__ = ["Closed", "Deadline", "Job", "Limits", "Overloaded", "Scheduler", "TooMany", "Watch"]


WHOLE = 4  # times what one client may have waiting, all may
LATEST = 60.0  # seconds that anybody is told to stay away
PADDING = 128  # pieces, which cost less than a second pass


class Overloaded(Exception):
    """The queue is full; ``retry_after`` seconds is when to ask again."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"too much is waiting; try again in {retry_after:.0f} s")
        self.retry_after = retry_after


class TooMany(Exception):
    """More sources in one request than may ever wait; to come back later does not help."""


class Closed(Exception):
    """The server is stopping: what was accepted is finished, nothing more is accepted."""


class Deadline(Exception):
    """The time that a request may take was over before its outputs were found."""


class Limits(NamedTuple):
    """``rows``: hypotheses that run at once. ``waiting``: sources of one client that may wait while no other's do; of
    several clients each has its share. ``patience``: turns that a source waits at most for others to join the batch
    with it. ``lanes``: ways of searching that run at once, each of which costs a pass of its own.
    """

    rows: int = 64
    waiting: int = 256
    patience: int = 4
    lanes: int = 4


class Opener(Protocol):
    """What a model is here (``regard.inference.decoding.Decoding``)."""

    def open(
        self,
        numbers: Sequence[int],
        sources: Sequence[Sequence[int]],
        settings: SearchConfig,
        *,
        constraints: Sequence[Constraints] | None = None,
    ) -> StatePair: ...

    @property
    def step(self) -> ChunkedStep: ...


class Watch:
    """Told what happens; of no consequence. ``regard.server.batching.metrics`` counts it."""

    def entered(self, waited: Sequence[float]) -> None: ...
    def stepped(self, rows: int, room: int) -> None: ...
    def found(self, tokens: int) -> None: ...


class Lane(NamedTuple):
    """Who is searched in the same way, in one batch."""

    settings: SearchConfig
    constrained: bool


@dataclass(eq=False)
class Job:
    """A source that is to be searched: its outputs, best first, come to ``future``, which may be cancelled.

    ``constraints``: pieces that its outputs must contain.
    """

    pieces: Sequence[int]
    settings: SearchConfig
    client: str = ""
    deadline: float = float("inf")  # on the scheduler's clock
    future: Future[list[Hypothesis]] = field(default_factory=Future)
    since: float = 0.0
    constraints: Constraints = ()

    @property
    def rows(self) -> int:
        """How many of the running rows it takes."""
        drawn = self.settings.temperature is not None and not self.constraints
        return self.settings.nbest if drawn else self.settings.beam

    @property
    def lane(self) -> Lane:
        return Lane(self.settings, bool(self.constraints))

    def fail(self, error: Exception) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class _Waiting:
    """Jobs in the order in which they are let in: clients take turns, and each one's own jobs keep their order."""

    def __init__(self) -> None:
        self._clients: dict[str, deque[Job]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def __iter__(self) -> Iterator[Job]:
        for jobs in self._clients.values():
            yield from jobs

    def of(self, client: str) -> tuple[int, int]:
        """How many this client has waiting, and how many clients wait with it."""
        return len(self._clients.get(client, ())), len(self._clients.keys() | {client})

    def add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._clients.setdefault(job.client, deque()).append(job)

    def take(self, room: int, lanes: Collection[Lane], most: int) -> list[Job]:
        """As many as fit into ``room`` rows and ``most`` lanes. Who is next and does not fit holds up the others."""
        taken: list[Job] = []
        open = set(lanes)
        while self._clients:
            client, jobs = next(iter(self._clients.items()))
            if jobs[0].rows > room or len(open | {jobs[0].lane}) > most:
                break  # it would starve if others went by
            room -= jobs[0].rows
            open.add(jobs[0].lane)
            taken.append(jobs.popleft())
            del self._clients[client]  # the others come before it
            if jobs:
                self._clients[client] = jobs
        return taken

    def drop(self, gone: Callable[[Job], bool]) -> None:
        left = {client: deque(job for job in jobs if not gone(job)) for client, jobs in self._clients.items()}
        self._clients = {client: jobs for client, jobs in left.items() if jobs}


class Scheduler:
    """Jobs come in through ``submit``, from any thread; one thread takes the turns, by ``run`` or by itself."""

    def __init__(
        self,
        model: Opener,
        limits: Limits | None = None,
        *,
        watch: Watch | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self.limits, self.watch, self.clock = model, limits or Limits(), watch or Watch(), clock
        self._changed = threading.Condition()
        self._waiting, self._closed = _Waiting(), False
        self._lanes: dict[Lane, RunningBatch] = {}
        self._running: dict[int, Job] = {}
        self._numbers = count()
        self._held = 0  # turns for which somebody has waited for company
        self._rate = _Rate()

    def submit(self, jobs: Sequence[Job]) -> None:
        """All of them or none, of one client. Overloaded where they are more than may wait, Closed after ``close``."""
        if len(jobs) > self.limits.waiting:
            raise TooMany(f"{len(jobs)} sentences are more than may wait, {self.limits.waiting}")
        with self._changed:
            if self._closed:
                raise Closed("the server is stopping")
            own, clients = self._waiting.of(jobs[0].client) if jobs else (0, 1)
            whole = len(self._waiting) + len(jobs) > WHOLE * self.limits.waiting
            if whole or own + len(jobs) > max(self.limits.waiting // clients, 1):
                raise Overloaded(self.wait())
            now = self.clock()
            for job in jobs:
                job.since = now
            self._waiting.add(jobs)
            self._changed.notify()

    def wait(self) -> float:
        """Seconds until what waits and runs now is done, reckoned from the last sources; at least 1."""
        return self._rate.seconds(len(self._waiting) + len(self._running))

    def close(self) -> None:
        """Accept nothing more; ``run`` returns when what was accepted is done."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def run(self) -> None:
        """Turn after turn until closed and done; asleep while there is nothing to do."""
        while True:
            with self._changed:
                while not (self._running or len(self._waiting) or self._closed):
                    self._rate.rest()
                    self._changed.wait()
                if self._closed and not self._running and not len(self._waiting):
                    return
            self.turn()

    @property
    def load(self) -> tuple[int, int]:
        """How many sources wait, and how many run."""
        return len(self._waiting), len(self._running)

    def turn(self) -> None:
        """Let in what waits, one token more for all that runs, hand out what is done."""
        self._forget()
        self._admit()
        for kind, lane in list(self._lanes.items()):
            self._guard(kind, lane.advance)
        self._deliver()
        if self._running:
            self.watch.stepped(self._rows(), self.limits.rows)

    def _rows(self) -> int:
        return sum(job.rows for job in self._running.values())

    def _forget(self) -> None:
        """Who was cancelled, or is late, is searched no more."""
        now = self.clock()

        def gone(job: Job) -> bool:
            late = job.deadline <= now
            if late:
                job.fail(Deadline("the time for this request is over"))
            return late or job.future.cancelled()

        with self._changed:
            self._waiting.drop(gone)
        numbers = {number for number, job in self._running.items() if gone(job)}
        for number in numbers:
            del self._running[number]
        for kind, lane in list(self._lanes.items()):
            if not numbers.isdisjoint(lane.active_ids):
                self._guard(kind, lambda lane=lane: lane.drop(numbers))  # type: ignore[misc]

    def _admit(self) -> None:
        with self._changed:
            room, lanes = self.limits.rows - self._rows(), self._lanes.keys()
            jobs = self._waiting.take(room, lanes, self.limits.lanes) if self._worth_admitting() else []
            if not jobs and not self._running and len(self._waiting):  # wider than all the room: alone
                jobs = self._waiting.take(max(job.rows for job in self._waiting), (), 1)
        self._held = 0 if jobs or not len(self._waiting) else self._held + 1
        if not jobs:
            return
        now = self.clock()
        self.watch.entered([now - job.since for job in jobs])
        by_lane: dict[Lane, list[Job]] = defaultdict(list)
        for job in jobs:
            by_lane[job.lane].append(job)
        for kind, its in by_lane.items():
            for group in _of_like_length(its):
                self._open(kind, group)

    def _open(self, kind: Lane, group: Sequence[Job]) -> None:
        """Newcomers of one lane. What fails of theirs concerns none of those who run."""
        numbers = [next(self._numbers) for _ in group]
        lane = self._lanes.get(kind) or RunningBatch(self.model.step)
        wanted = {"constraints": [job.constraints for job in group]} if kind.constrained else {}
        try:
            begun = lane.first_step(self.model.open(numbers, [job.pieces for job in group], kind.settings, **wanted))
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for it
            for job in group:
                job.fail(error)
            return
        self._running |= dict(zip(numbers, group, strict=True))
        self._lanes[kind] = lane
        self._guard(kind, lambda: lane.join(begun))

    def _worth_admitting(self) -> bool:
        """Newcomers cost a pass of their own, which all wait for: a few come together, or one that has waited."""
        if not len(self._waiting):
            return False
        free = self.limits.rows - self._rows()
        company = min(sum(job.rows for job in self._waiting), free) >= self.limits.rows // 8
        return company or not self._running or self._held >= self.limits.patience

    def _deliver(self) -> None:
        for kind, lane in list(self._lanes.items()):
            for number, outputs in lane.take_finished():
                job = self._running.pop(number)
                if job.future.set_running_or_notify_cancel():  # False where it was cancelled meanwhile
                    job.future.set_result(outputs)
                self.watch.found(len(outputs[0].token_log_probabilities))
                self._rate.one(self.clock())
            if not lane.active_ids:
                del self._lanes[kind]

    def _guard(self, kind: Lane, work: Callable[[], None]) -> None:
        """What fails is told to those whom it concerns; the rest goes on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for it
            del self._lanes[kind]
            for number in [number for number, job in self._running.items() if job.lane == kind]:
                self._running.pop(number).fail(error)


def _of_like_length(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """Those that are read in one pass, lest a long one pad many short ones."""
    group: list[Job] = []
    for job in sorted(jobs, key=lambda job: len(job.pieces)):
        length = len(job.pieces)
        padding = sum(length - len(other.pieces) for other in group)
        if group and padding > PADDING and length.bit_length() > len(group[0].pieces).bit_length():
            yield group
            group = []
        group.append(job)
    yield group


class _Rate:
    """How long the queue will take, by how long the last sources took."""

    def __init__(self) -> None:
        self._done: deque[float] = deque(maxlen=64)

    def one(self, now: float) -> None:
        self._done.append(now)

    def rest(self) -> None:
        """There is nothing to do: what follows is not measured against it."""
        self._done.clear()

    def seconds(self, sources: int) -> float:
        """Between 1 and LATEST."""
        if len(self._done) < 2:
            return 1.0
        each = (self._done[-1] - self._done[0]) / (len(self._done) - 1)
        return min(max(1.0, each * sources), LATEST)
