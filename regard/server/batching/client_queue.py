"""Queue of jobs in which clients take turns, and the rate of finished jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

QUEUE_FACTOR = 4  # limit of the queue of all clients, as a multiple of the limit of one client
MAX_RETRY_AFTER = 60.0  # seconds


class Queued(Protocol):
    """Job of a client: the rows that it needs, and the group of jobs that it can run with."""

    client: str

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def group(self) -> Hashable:
        """Group of jobs that run together."""

    @property
    def runs_alone(self) -> bool:
        """True if the job runs alone, in one step."""


QueuedJob = TypeVar("QueuedJob", bound=Queued)
AnyJob = TypeVar("AnyJob", contravariant=True)


class Shares(Protocol[AnyJob]):
    """Limit of the rows of each client."""

    def __call__(self, job: AnyJob, /) -> bool:
        """Return whether a job is within its client's share."""

    def take(self, job: AnyJob, /) -> None:
        """Count a job that starts to run."""


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
        """Return whether the queue has room for jobs of one client; several clients share the ``limit`` of one."""
        queued, clients = self.load(jobs[0].client) if jobs else (0, 1)
        full = len(self) + len(jobs) > QUEUE_FACTOR * limit
        return not full and queued + len(jobs) <= max(limit // clients, 1)

    def add(self, jobs: Iterable[QueuedJob]) -> None:
        """Append jobs, each after those of its client."""
        for job in jobs:
            self._clients.setdefault(job.client, deque()).append(job)

    def take(
        self, room: int, groups: Collection[Hashable], max_groups: int, shares: Shares[QueuedJob] | None = None
    ) -> list[QueuedJob]:
        """Remove and return the next jobs.

        The first job that does not fit blocks all later ones; a client above its share blocks only itself. A job that
        runs alone is the last one returned.

        Args:
            room: the number of free rows.
            groups: the running groups.
            max_groups: the maximum number of groups, including ``groups``.
            shares: the limit of each client; None for no limit.
        """
        admitted: list[QueuedJob] = []
        open_groups = set(groups)
        while (client := self._next_client(shares)) is not None:
            jobs = self._clients[client]
            job = jobs[0]
            if job.rows > room or (not job.runs_alone and len(open_groups | {job.group}) > max_groups):
                break  # if later jobs could overtake it, it might never run
            room -= job.rows
            if not job.runs_alone:
                open_groups.add(job.group)
            admitted.append(jobs.popleft())
            if shares is not None:
                shares.take(job)
            del self._clients[client]  # moves the client to the end of the queue
            if jobs:
                self._clients[client] = jobs
            if job.runs_alone:
                break
        return admitted

    def _next_client(self, shares: Shares[QueuedJob] | None) -> str | None:
        """Return the next client within its share; None if there is no such client."""
        return next((client for client, jobs in self._clients.items() if shares is None or shares(jobs[0])), None)

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
        """Drop the recorded jobs, because idle time must not count as slowness."""
        self._done.clear()

    def seconds(self, sources: int) -> float:
        """Return the estimated time for ``sources`` jobs in seconds, between 1 and MAX_RETRY_AFTER."""
        if len(self._done) < 2:
            return 1.0
        interval = (self._done[-1] - self._done[0]) / (len(self._done) - 1)
        return min(max(1.0, interval * sources), MAX_RETRY_AFTER)
