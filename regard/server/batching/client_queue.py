"""Queue of jobs in which clients take turns, and the rate at which jobs are done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

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

    @property
    def runs_alone(self) -> bool:
        """Return whether the job runs by itself, in one step, beside no other."""


QueuedJob = TypeVar("QueuedJob", bound=Queued)
AnyJob = TypeVar("AnyJob", contravariant=True)


class Shares(Protocol[AnyJob]):
    """Rows that each client may have."""

    def __call__(self, job: AnyJob, /) -> bool:
        """Return whether a job is within its client's share."""

    def take(self, job: AnyJob, /) -> None:
        """Count a job that runs from now on."""


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

    def take(
        self, room: int, groups: Collection[Hashable], max_groups: int, shares: Shares[QueuedJob] | None = None
    ) -> list[QueuedJob]:
        """Remove and return the jobs that fit into ``room`` rows and ``max_groups`` groups, ``groups`` included.

        The first that does not fit holds up all others; a client beyond its share holds up itself alone. A job that
        runs alone is the last of its turn.
        """
        taken: list[QueuedJob] = []
        open = set(groups)
        while (client := self._next_client(shares)) is not None:
            jobs = self._clients[client]
            job = jobs[0]
            if job.rows > room or (not job.runs_alone and len(open | {job.group}) > max_groups):
                break  # overtaken again and again, it would starve
            room -= job.rows
            if not job.runs_alone:
                open.add(job.group)
            taken.append(jobs.popleft())
            if shares is not None:
                shares.take(job)
            del self._clients[client]  # to the end of the line
            if jobs:
                self._clients[client] = jobs
            if job.runs_alone:
                break
        return taken

    def _next_client(self, shares: Shares[QueuedJob] | None) -> str | None:
        """Return the client whose turn it is, of those within their share; None if there is none."""
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
        """Forget the past: idle time must not count as slowness."""
        self._done.clear()

    def seconds(self, sources: int) -> float:
        """Return the estimated seconds for ``sources`` jobs, between 1 and MAX_RETRY_AFTER."""
        if len(self._done) < 2:
            return 1.0
        each = (self._done[-1] - self._done[0]) / (len(self._done) - 1)
        return min(max(1.0, each * sources), MAX_RETRY_AFTER)
