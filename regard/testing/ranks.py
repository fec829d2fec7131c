"""Ranks of a training simulated by threads of one process: what a strategy of many processes computes, without any.

It shows that the seam suffices: each rank has a trainer of its own, takes its shards alone, and knows of the others
only what ``over_ranks`` and ``full`` hand it.
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
    """A rank waits for another that has left, because it was done or failed."""


class Meeting:
    """A place where ``world`` ranks show each other something, in rounds.

    AssertionError where a rank comes with something else than the others; ``Alone`` where one does not come.
    """

    def __init__(self, world: int) -> None:
        self.world, self.shown = world, list[dict[int, tuple[str, Any]]]()
        self.left, self.changed = set[int](), Condition()
        self.rounds = [0] * world

    def all(self, rank: int, kind: str, value: Any) -> list[Any]:
        """Everything that is shown in this rank's next round, in the order of ranks."""
        number = self.rounds[rank]
        self.rounds[rank] += 1
        with self.changed:
            self.shown += [{}] if number == len(self.shown) else []
            here = self.shown[number]
            here[rank] = (kind, value)
            self.changed.notify_all()
            self.changed.wait_for(lambda: len(here) == self.world or self.left - here.keys())
        if len(here) < self.world:
            raise Alone(f"rank {rank} waits for one that has left ({kind})")
        kinds = {each for each, _ in here.values()}
        assert len(kinds) == 1, f"ranks do different things at once: {', '.join(sorted(kinds))}"
        return [here[each][1] for each in range(self.world)]

    def leave(self, rank: int) -> None:
        """From here on nobody waits for this rank."""
        with self.changed:
            self.left.add(rank)
            self.changed.notify_all()


class SimulatedRanks(Shards):
    """Shards of one of several ranks that meet in one process."""

    def __init__(self, number: int, rank: int, meeting: Meeting) -> None:
        super().__init__(number, Workers(1, 1))
        self.rank, self.world, self.meeting = rank, meeting.world, meeting

    def over_ranks(self, part: Part) -> Part:
        whole = TreeSum(joined_parts)
        for each in self.meeting.all(self.rank, "sum", part):
            whole.add(each._replace(values=[None if value is None else value.clone() for value in each.values]))
        return whole.value()

    @contextmanager
    def first(self) -> Iterator[bool]:
        if self.rank:
            self.meeting.all(self.rank, "first", None)
            yield False
            return
        yield True
        self.meeting.all(self.rank, "first", None)

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        every = self.meeting.all(self.rank, "checkpoint", dict(tensors))
        return {name: tensor for held in reversed(every) for name, tensor in held.items()}


def run_ranks(world: int, work: Callable[[int, Meeting], Result]) -> list[Result]:
    """``work(rank, meeting)`` of every rank at once, by rank. Raises what made the others wait, where one failed."""
    meeting = Meeting(world)

    def one(rank: int) -> Result:
        torch.set_num_threads(1)
        try:
            return work(rank, meeting)
        finally:
            meeting.leave(rank)

    with ThreadPoolExecutor(world, "rank") as pool:
        ranks = [pool.submit(one, rank) for rank in range(world)]
    failed = [each for each in ranks if each.exception() is not None]
    first = sorted(failed, key=lambda each: isinstance(each.exception(), Alone))[:1]
    return [each.result() for each in first + ranks]
