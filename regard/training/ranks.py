"""The processes that train one run together: how they meet, talk over gloo, and learn that one of them is gone.

``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK`` say which one this is, as ``torchrun`` and every scheduler set them; torch
itself reads ``MASTER_ADDR`` and ``MASTER_PORT``. Ranks send each other bytes (safetensors, JSON), never pickles.
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

PATIENCE = 600.0  # seconds after which a rank that does not answer ends the job
BEATS = 10  # signs of life of rank 0 in that time
GRACE = 5.0  # seconds for last words
LISTEN = 0.5  # seconds, at most, between looks at what rank 0 does
SLOT = 512  # bytes that every rank shows at once; longer payloads follow
GONE = "what was saved is whole: the same command goes on from there, as torchrun --max-restarts 3 does by itself"


class Place(NamedTuple):
    """Which of how many processes this one is, and which of those on its machine."""

    rank: int
    world: int
    local: int

    @classmethod
    def of_this_process(cls) -> Place | None:
        """None for a process that nobody started as one of several. ConfigError for numbers that cannot be."""
        given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        if given["RANK"] is None or given["WORLD_SIZE"] is None:
            return None
        try:
            place = cls(int(given["RANK"]), int(given["WORLD_SIZE"]), int(given["LOCAL_RANK"] or 0))
        except ValueError:
            place = cls(0, 0, 0)
        if not 0 <= place.rank < place.world or place.local < 0:
            told = ", ".join(f"{name}={value}" for name, value in given.items())
            raise ConfigError(
                "this process is no rank of a job", where="environment", why=told,
                help="torchrun --nproc-per-node 2 -m regard train … sets them; unset RANK trains alone",
            )  # fmt: skip
        return place


@contextmanager
def joined(patience: float = PATIENCE, meeting: float = PATIENCE) -> Iterator[Peers | None]:
    """Meet the other ranks, and part at the end of the block; None for a process that trains alone.

    Seconds to wait: ``meeting`` for a rank to come, ``patience`` for one to answer. A failure of the block is told to
    the others, so that they end with its reason. TrainingError where they cannot be met.
    """
    place = Place.of_this_process()
    if place is None:
        yield None
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(place.local % torch.cuda.device_count())
    peers = _met(place, patience, meeting)
    try:
        with peers.told():
            yield peers
            peers.barrier()  # nobody leaves while another still looks: rank 0 may hold the store
    finally:
        _within(GRACE, dist.destroy_process_group)


def _met(place: Place, patience: float, meeting: float) -> Peers:
    limit = timedelta(seconds=patience)
    try:
        found, rank, world = next(iter(rendezvous("env://", timeout=timedelta(seconds=meeting))))
        store = of_this_attempt(found)
        store.set(f"here-{rank}", "")
        store.wait([f"here-{each}" for each in range(world)])
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend, store=PrefixStore("group", store), rank=rank, world_size=world, timeout=limit)
    except (RuntimeError, ValueError) as error:
        raise TrainingError(
            f"rank {place.rank} cannot meet the other {place.world - 1}",
            why=str(error).splitlines()[0],
            help="every rank needs the same MASTER_ADDR and MASTER_PORT, which torchrun sets; where a machine's name "
            "does not lead to its network address, GLOO_SOCKET_IFNAME=eth0 names the interface",
        ) from error
    return Peers(place, PrefixStore("regard", store), patience)


def of_this_attempt(store: Store) -> Store:
    """The part of a store that belongs to this start of the job.

    torchrun keeps one store over all of its restarts, in which the addresses of ranks that were killed still stand.
    """
    return PrefixStore(f"attempt-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


class Peers:
    """This process among all ``world`` ranks, in the order of which every rank calls the same methods.

    TrainingError where another rank failed, with its reason, or does not answer within the patience. With
    ``patience`` seconds of silence, as of a cable that was drawn, this takes that long; a process that died is
    noticed at once.
    """

    def __init__(self, place: Place, store: Store, patience: float) -> None:
        self.rank, self.world, self.local = place
        self.patience = patience
        self._store = store
        self._turns = 0

    def gather(self, payload: bytes) -> list[bytes]:
        """The payloads of all ranks, by rank, on every rank."""
        shown = _slot(payload)
        slots = [torch.empty_like(shown) for _ in range(self.world)]
        with self.explained():
            dist.all_gather(slots, shown)
        sizes = [int(slot[:8].view(torch.int64)) for slot in slots]
        longest = max(sizes)
        if longest <= SLOT - 8:
            return [_bytes(slot[8 : 8 + size]) for slot, size in zip(slots, sizes, strict=True)]
        own = torch.zeros(longest, dtype=torch.uint8)
        own[: len(payload)] = _tensor(payload)
        whole = [torch.empty_like(own) for _ in range(self.world)]
        with self.explained():
            dist.all_gather(whole, own)
        return [_bytes(each[:size]) for each, size in zip(whole, sizes, strict=True)]

    def exchange(self, peer: int, payload: bytes) -> bytes:
        """The payload that rank ``peer`` sends while this one sends it its own."""
        size = torch.empty(1, dtype=torch.int64)
        self._swap(peer, torch.tensor([len(payload)]), size)
        theirs = torch.empty(int(size), dtype=torch.uint8)
        self._swap(peer, _tensor(payload), theirs)
        return _bytes(theirs)

    def _swap(self, peer: int, own: Tensor, theirs: Tensor) -> None:
        with self.explained():
            sending, receiving = dist.isend(own, peer), dist.irecv(theirs, peer)
            for work in (sending, receiving):
                if work is not None:
                    work.wait()

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.gather(b"")

    def agree(self, what: str, value: str) -> None:
        """TrainingError on every rank where one has another value of what must be the same on all."""
        values = [each.decode() for each in self.gather(value.encode())]
        other = next((rank for rank, each in enumerate(values) if each != values[0]), None)
        if other is not None:
            raise TrainingError(
                f"rank {other} has another {what} than rank 0",
                why=f"{values[other][:80]} instead of {values[0][:80]}",
                help="all ranks need the same program and the same run folder, on a disk that they share",
            )

    @contextmanager
    def first(self) -> Iterator[bool]:
        """Let rank 0 do the block before the others enter it, however long it takes, while it gives signs of life.

        Gives whether this is rank 0. Where rank 0 fails, the others fail with its reason.
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
        """Wait for a key of rank 0, as long as it gives signs of life."""
        heard, seen, pause = time.monotonic(), -1, 0.002
        while time.monotonic() - heard < self.patience:
            # Not Store.wait, which prints warnings when its time is over.
            looked = _within(self.patience, lambda: (self._store.check([name]), self._store.add("beats", 0)))
            if looked is None:
                break
            done, beats = looked
            if done:
                return
            self._raise_told()
            if beats != seen:
                heard, seen = time.monotonic(), beats
            time.sleep(pause)
            pause = min(2 * pause, LISTEN)
        raise self._silence(f"rank 0 gives no sign of life for {self.patience:g} seconds")

    @contextmanager
    def _beating(self) -> Iterator[None]:
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.patience / BEATS):
                with suppress(RuntimeError):
                    self._store.add("beats", 1)

        thread = threading.Thread(target=beat, name="signs of life", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell the other ranks why this one fails, if it does in the block."""
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
        """Raise torch's failure to reach another rank as a TrainingError with that rank's own reason."""
        try:
            yield
        except RuntimeError as error:
            self._raise_told(error)
            raise self._silence(_short(error)) from error

    def _raise_told(self, cause: BaseException | None = None) -> None:
        """Raise what another rank said when it failed; return where none did."""
        if told := _within(GRACE, self._reason):
            raise PeerFailure(told, where=f"rank {self.rank}", help=GONE) from cause

    def _reason(self) -> str | None:
        for rank in range(self.world):
            if rank != self.rank and self._store.check([f"failed-{rank}"]):
                return str(self._store.get(f"failed-{rank}").decode(errors="replace"))
        return None

    def _silence(self, why: str) -> PeerFailure:
        return PeerFailure(
            "another rank has left the job without a word",
            where=f"rank {self.rank}",
            why=f"it was killed, or is cut off from this one: {why}",
            help=GONE,
        )


class PeerFailure(TrainingError):
    """A failure that began on another rank."""


def _within(seconds: float, work: Callable[[], Result]) -> Result | None:
    """Return what ``work`` does; None where it fails or takes longer: a store whose line is cut answers never."""
    found: list[Result] = []

    def attempt() -> None:
        with suppress(RuntimeError):
            found.append(work())

    thread = threading.Thread(target=attempt, daemon=True)  # may be left behind: the process is about to end
    thread.start()
    thread.join(seconds)
    return found[0] if found else None


def _short(error: BaseException) -> str:
    """Return torch's reason without the place in its source, and without its advice."""
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
