"""Simulated ranks of a training, as threads of one process.

This shows that the interface of strategies suffices: each rank has its own trainer and shards, and receives only the
results of ``over_ranks`` and ``gather_full`` from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Condition
from typing import Any, TypeVar

import torch
from torch import Tensor

from regard.training.shards import Part, Shards, TreeSum, Workers, joined_parts

Result = TypeVar("Result")


class Alone(AssertionError):
    """A rank waits for another one that has finished or failed."""


class Meeting:
    """A rendezvous at which ``world`` ranks exchange values, in rounds.

    AssertionError if a rank exchanges another kind of value than the others; ``Alone`` if a rank is missing.
    """

    def __init__(self, world: int) -> None:
        self.world, self.shown = world, list[dict[int, tuple[str, Any]]]()
        self.left, self.changed = set[int](), Condition()
        self.rounds = [0] * world

    def all(self, rank: int, kind: str, value: Any) -> list[Any]:
        """Return the values of all ranks in this rank's next round, in the order of ranks."""
        number = self.rounds[rank]
        self.rounds[rank] += 1
        with self.changed:
            self.shown += [{}] if number == len(self.shown) else []
            values = self.shown[number]
            values[rank] = (kind, value)
            self.changed.notify_all()
            self.changed.wait_for(lambda: len(values) == self.world or self.left - values.keys())
        if len(values) < self.world:
            raise Alone(f"rank {rank} waits for a rank that has left ({kind})")
        kinds = {kind for kind, _ in values.values()}
        assert len(kinds) == 1, f"ranks exchange different kinds of values: {', '.join(sorted(kinds))}"
        return [values[other][1] for other in range(self.world)]

    def leave(self, rank: int) -> None:
        """Mark this rank as finished, so no other rank waits for it."""
        with self.changed:
            self.left.add(rank)
            self.changed.notify_all()


class SimulatedRanks(Shards):
    """Shards of one of several ranks that communicate within one process."""

    def __init__(self, shard_count: int, rank: int, meeting: Meeting) -> None:
        super().__init__(shard_count, Workers(1, 1))
        self.rank, self.world, self.meeting = rank, meeting.world, meeting

    def over_ranks(self, part: Part) -> Part:
        whole = TreeSum(joined_parts)
        for other in self.meeting.all(self.rank, "sum", part):
            whole.add(other._replace(values=[None if value is None else value.clone() for value in other.values]))
        return whole.value()

    @contextmanager
    def first(self) -> Iterator[bool]:
        if self.rank:
            self.meeting.all(self.rank, "first", None)
            yield False
            return
        yield True
        self.meeting.all(self.rank, "first", None)

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        every = self.meeting.all(self.rank, "checkpoint", dict(tensors))
        return {name: tensor for held in reversed(every) for name, tensor in held.items()}


def run_ranks(world: int, work: Callable[[int, Meeting], Result]) -> list[Result]:
    """Run ``work(rank, meeting)`` for every rank in parallel; return the results by rank.

    If a rank fails, its exception is raised instead of the ``Alone`` of the ranks that wait for it.
    """
    meeting = Meeting(world)

    def one(rank: int) -> Result:
        torch.set_num_threads(1)
        try:
            return work(rank, meeting)
        finally:
            meeting.leave(rank)

    with ThreadPoolExecutor(world, "rank") as pool:
        ranks = [pool.submit(one, rank) for rank in range(world)]
    failed = [future for future in ranks if future.exception() is not None]
    first = sorted(failed, key=lambda future: isinstance(future.exception(), Alone))[:1]
    return [future.result() for future in first + ranks]
