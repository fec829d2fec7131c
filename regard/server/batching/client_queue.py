"""Queue of jobs in which clients take turns, and the rate at which jobs are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["ClientQueue", "Queued", "Throughput"]

QUEUE_FACTOR = 4  # all clients together may have this many times the queue of one
MAX_RETRY_AFTER = 60.0  # seconds


class Queued(Protocol):
    """Job of a client: the rows that it takes, and the group with which it may run."""

    client: str

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def group(self) -> Hashable:
        """Group of jobs that run together."""


QueuedJob = TypeVar("QueuedJob", bound=Queued)


class ClientQueue(Generic[QueuedJob]):
    """Jobs in order of admission: clients take turns, and the jobs of each client keep their order."""

    def __init__(self) -> None:
        self._clients: dict[str, deque[QueuedJob]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def __iter__(self) -> Iterator[QueuedJob]:
        for jobs in self._clients.values():
            yield from jobs

    def load(self, client: str) -> tuple[int, int]:
        """Return the number of queued jobs of a client, and of clients in the queue, this one included."""
        return len(self._clients.get(client, ())), len(self._clients.keys() | {client})

    def has_room(self, jobs: Sequence[QueuedJob], limit: int) -> bool:
        """Return whether jobs of one client fit: ``limit`` for one alone, of which several have a share each."""
        queued, clients = self.load(jobs[0].client) if jobs else (0, 1)
        full = len(self) + len(jobs) > QUEUE_FACTOR * limit
        return not full and queued + len(jobs) <= max(limit // clients, 1)

    def add(self, jobs: Iterable[QueuedJob]) -> None:
        """Append jobs, each behind those of its client."""
        for job in jobs:
            self._clients.setdefault(job.client, deque()).append(job)

    def take(self, room: int, groups: Collection[Hashable], max_groups: int) -> list[QueuedJob]:
        """Remove and return the jobs that fit into ``room`` rows and ``max_groups`` groups, ``groups`` included.

        The first that does not fit holds up all others.
        """
        taken: list[QueuedJob] = []
        open = set(groups)
        while self._clients:
            client, jobs = next(iter(self._clients.items()))
            if jobs[0].rows > room or len(open | {jobs[0].group}) > max_groups:
                break  # overtaken again and again, it would starve
            room -= jobs[0].rows
            open.add(jobs[0].group)
            taken.append(jobs.popleft())
            del self._clients[client]  # to the end of the line
            if jobs:
                self._clients[client] = jobs
        return taken

    def take_next(self, may_run: Callable[[str], bool]) -> QueuedJob | None:
        """Remove and return the first job of the client whose turn it is, of those that ``may_run``; None if none."""
        client = next((client for client in self._clients if may_run(client)), None)
        if client is None:
            return None
        jobs = self._clients.pop(client)
        job = jobs.popleft()
        if jobs:
            self._clients[client] = jobs  # to the end of the line
        return job

    def drop(self, is_stale: Callable[[QueuedJob], bool]) -> None:
        """Remove the stale jobs."""
        left = {client: deque(job for job in jobs if not is_stale(job)) for client, jobs in self._clients.items()}
        self._clients = {client: jobs for client, jobs in left.items() if jobs}


class Throughput:
    """Rate of finished jobs, for estimating waits."""

    def __init__(self) -> None:
        self._done: deque[float] = deque(maxlen=64)

    def record(self, now: float) -> None:
        """Record a finished job; ``now`` in seconds."""
        self._done.append(now)

    def reset(self) -> None:
        """Forget the past: idle time must not count as slowness."""
        self._done.clear()

    def seconds(self, sources: int) -> float:
        """Return the estimated seconds for ``sources`` jobs, between 1 and MAX_RETRY_AFTER."""
        if len(self._done) < 2:
            return 1.0
        each = (self._done[-1] - self._done[0]) / (len(self._done) - 1)
        return min(max(1.0, each * sources), MAX_RETRY_AFTER)
