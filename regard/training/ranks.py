"""The processes that train one run together: rendezvous, communication over gloo, and detection of failed ranks.

``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK`` identify this process, as set by ``torchrun`` and all schedulers; torch
itself reads ``MASTER_ADDR`` and ``MASTER_PORT``. Ranks exchange bytes (safetensors, JSON), never pickles.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import rendezvous  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from regard.errors import ConfigError, RegardError, TrainingError

Result = TypeVar("Result")

PATIENCE = 600.0  # seconds without an answer of a rank after which the job ends
BEATS = 10  # heartbeats of rank 0 in that time
GRACE = 5.0  # seconds to publish a failure and to shut down
LISTEN = 0.5  # maximum seconds between checks of the state of rank 0
SLOT = 512  # bytes in the first exchange; longer payloads need a second one
GONE = "checkpoints are intact: run the same command again to resume, or use torchrun --max-restarts 3"


class RankInfo(NamedTuple):
    """The rank of this process, the number of processes, and its rank on this machine."""

    rank: int
    world: int
    local: int

    @classmethod
    def of_this_process(cls) -> RankInfo | None:
        """Return the rank of this process; None if it is not part of a job. ConfigError for invalid numbers."""
        variables = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        if variables["RANK"] is None or variables["WORLD_SIZE"] is None:
            return None
        try:
            info = cls(int(variables["RANK"]), int(variables["WORLD_SIZE"]), int(variables["LOCAL_RANK"] or 0))
        except ValueError:
            info = cls(0, 0, 0)
        if not 0 <= info.rank < info.world or info.local < 0:
            values = ", ".join(f"{name}={value}" for name, value in variables.items())
            raise ConfigError(
                "the rank of this process is invalid", where="environment", why=values,
                help="start with torchrun --nproc-per-node 2 -m regard train …; or unset RANK to train in one process",
            )  # fmt: skip
        return info


@contextmanager
def joined(patience: float = PATIENCE, meeting: float = PATIENCE) -> Iterator[ProcessGroup | None]:
    """Join the other ranks for the duration of the block; yields None for a process that trains alone.

    Args:
        patience: seconds to wait for an answer of another rank.
        meeting: seconds to wait for other ranks to join.

    Raises:
        TrainingError: the other ranks cannot be reached. A failure of the block is sent to the others, which then fail
            with its reason.
    """
    info = RankInfo.of_this_process()
    if info is None:
        yield None
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(info.local % torch.cuda.device_count())
    peers = _join(info, patience, meeting)
    try:
        with peers.publish_failure():
            yield peers
            peers.barrier()  # rank 0 may host the store, so no rank leaves before all are done
    finally:
        _within(GRACE, dist.destroy_process_group)


def _join(info: RankInfo, patience: float, meeting: float) -> ProcessGroup:
    timeout = timedelta(seconds=patience)
    try:
        base_store, rank, world = next(iter(rendezvous("env://", timeout=timedelta(seconds=meeting))))
        store = of_this_attempt(base_store)
        store.set(f"here-{rank}", "")
        store.wait([f"here-{other}" for other in range(world)])
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(
            backend, store=PrefixStore("group", store), rank=rank, world_size=world, timeout=timeout
        )
    except (RuntimeError, ValueError) as error:
        raise TrainingError(
            f"rank {info.rank} cannot reach the other {info.world - 1}",
            why=str(error).splitlines()[0],
            help="all ranks need the same MASTER_ADDR and MASTER_PORT, which torchrun sets; if the name of a machine "
            "does not resolve to its network address, set the interface: GLOO_SOCKET_IFNAME=eth0",
        ) from error
    return ProcessGroup(info, PrefixStore("regard", store), patience)


def of_this_attempt(store: Store) -> Store:
    """Return the part of a store for this start of the job.

    torchrun keeps one store over all restarts, which still has the addresses of killed ranks.
    """
    return PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


class ProcessGroup:
    """Communication of one rank with all ``world`` ranks; every rank must call the same methods in the same order.

    TrainingError if another rank failed, with its reason, or does not answer within ``patience`` seconds, for example
    after a network failure. A process that died is detected immediately.
    """

    def __init__(self, info: RankInfo, store: Store, patience: float) -> None:
        self.rank, self.world, self.local = info
        self.patience = patience
        self._store = store
        self._turns = 0

    def gather(self, payload: bytes) -> list[bytes]:
        """Return the payloads of all ranks, by rank, on every rank."""
        own_slot = _slot(payload)
        slots = [torch.empty_like(own_slot) for _ in range(self.world)]
        with self.explained():
            dist.all_gather(slots, own_slot)
        sizes = [int(slot[:8].view(torch.int64)) for slot in slots]
        longest = max(sizes)
        if longest <= SLOT - 8:
            return [_bytes(slot[8 : 8 + size]) for slot, size in zip(slots, sizes, strict=True)]
        own = torch.zeros(longest, dtype=torch.uint8)
        own[: len(payload)] = _tensor(payload)
        whole = [torch.empty_like(own) for _ in range(self.world)]
        with self.explained():
            dist.all_gather(whole, own)
        return [_bytes(tensor[:size]) for tensor, size in zip(whole, sizes, strict=True)]

    def exchange(self, peer: int, payload: bytes) -> bytes:
        """Send a payload to rank ``peer``, and return the payload that it sends."""
        size = torch.empty(1, dtype=torch.int64)
        self._swap(peer, torch.tensor([len(payload)]), size)
        received = torch.empty(int(size), dtype=torch.uint8)
        self._swap(peer, _tensor(payload), received)
        return _bytes(received)

    def _swap(self, peer: int, own: Tensor, received: Tensor) -> None:
        with self.explained():
            sending, receiving = dist.isend(own, peer), dist.irecv(received, peer)
            for work in (sending, receiving):
                if work is not None:
                    work.wait()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.gather(b"")

    def agree(self, what: str, value: str) -> None:
        """Raise TrainingError on every rank if their values differ."""
        values = [payload.decode() for payload in self.gather(value.encode())]
        other = next((rank for rank, other_value in enumerate(values) if other_value != values[0]), None)
        if other is not None:
            raise TrainingError(
                f"rank {other} has another {what} than rank 0",
                why=f"{values[other][:80]} instead of {values[0][:80]}",
                help="all ranks need the same program and the same run folder, on a shared disk",
            )

    @contextmanager
    def first(self) -> Iterator[bool]:
        """Run the block on rank 0 before the other ranks enter it; yields whether this is rank 0.

        The block may take any time during which rank 0 sends heartbeats. If rank 0 fails, the others fail with its
        reason.
        """
        self._turns += 1
        name = f"turn-{self._turns}"
        if self.rank:
            self._await(name)
            yield False
            return
        with self._beating():
            yield True
        with self.explained():
            self._store.set(name, "done")

    def _await(self, name: str) -> None:
        """Wait for a key of rank 0 while it sends heartbeats."""
        last_heartbeat, last_count, pause = time.monotonic(), -1, 0.002
        while time.monotonic() - last_heartbeat < self.patience:
            # Not Store.wait, which prints warnings on a timeout.
            state = _within(self.patience, lambda: (self._store.check([name]), self._store.add("beats", 0)))
            if state is None:
                break
            done, beats = state
            if done:
                return
            self._raise_published()
            if beats != last_count:
                last_heartbeat, last_count = time.monotonic(), beats
            time.sleep(pause)
            pause = min(2 * pause, LISTEN)
        raise self._silence(f"rank 0 has sent no heartbeat for {self.patience:g} seconds")

    @contextmanager
    def _beating(self) -> Iterator[None]:
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.patience / BEATS):
                with suppress(RuntimeError):
                    self._store.add("beats", 1)

        thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def publish_failure(self) -> Iterator[None]:
        """Send the reason to the other ranks if this one fails in the block."""
        try:
            yield
        except PeerFailure:
            raise
        except BaseException as error:
            what = error.what if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
            _within(GRACE, lambda: self._store.set(f"failed-{self.rank}", f"rank {self.rank} failed: {what}"))
            raise

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Convert torch's communication failures to a TrainingError with the reason of the failed rank."""
        try:
            yield
        except RuntimeError as error:
            self._raise_published(error)
            raise self._silence(_short(error)) from error

    def _raise_published(self, cause: BaseException | None = None) -> None:
        """Raise the published failure of another rank; return if there is no failure."""
        if reason := _within(GRACE, self._reason):
            raise PeerFailure(reason, where=f"rank {self.rank}", help=GONE) from cause

    def _reason(self) -> str | None:
        for rank in range(self.world):
            if rank != self.rank and self._store.check([f"failed-{rank}"]):
                return str(self._store.get(f"failed-{rank}").decode(errors="replace"))
        return None

    def _silence(self, why: str) -> PeerFailure:
        return PeerFailure(
            "another rank has left the job without a reason",
            where=f"rank {self.rank}",
            why=f"it was killed, or cannot be reached: {why}",
            help=GONE,
        )


class PeerFailure(TrainingError):
    """A failure that began on another rank."""


def _within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Return the result of ``work``; None if it fails or takes longer: a store may never answer."""
    results: list[Result] = []

    def attempt() -> None:
        with suppress(RuntimeError):
            results.append(work())

    thread = threading.Thread(target=attempt, daemon=True)  # may keep running: the process is about to end
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


def _short(error: BaseException) -> str:
    """Return torch's reason without its source position and advice."""
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return (line.partition("] ")[2] or line).partition(". ")[0]


def _slot(payload: bytes) -> Tensor:
    slot = torch.zeros(SLOT, dtype=torch.uint8)
    slot[:8] = torch.tensor([len(payload)]).view(torch.uint8)
    if len(payload) <= SLOT - 8:
        slot[8 : 8 + len(payload)] = _tensor(payload)
    return slot


def _tensor(payload: bytes) -> Tensor:
    return torch.frombuffer(bytearray(payload), dtype=torch.uint8) if payload else torch.empty(0, dtype=torch.uint8)


def _bytes(tensor: Tensor) -> bytes:
    return tensor.numpy().tobytes()
