"""The gradient of one update in canonical shards: the same bits for any number of workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import partial
from operator import add
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from regard.core.randomness import mixed_seed, seeded_generator
from regard.core.task import Batch, Carry, ExampleIndices, Examples, MetricSums
from regard.core.tensors import added_sums, map_tensors, to_device
from regard.native.passes import add_to
from regard.training.carry import continued, detach_carry
from regard.training.strategy import Carries, Gradient, Trainable

Item = TypeVar("Item")
Result = TypeVar("Result")
Tensors = list[Tensor | None]
CPU = torch.device("cpu")


class Workers:
    """``number`` threads that compute in parallel, each with an equal part of torch's ``threads``.

    Useful on many cores: operations of small models gain little from being split among cores. On two cores it makes no
    difference (docs/results.md). Results are in the order of the items. The number of items in progress or waiting is
    at most one more than the number of workers.
    """

    def __init__(self, number: int, threads: int) -> None:
        self.number = number
        self._pool: ThreadPoolExecutor | None = None
        if number > 1:
            # torch's number of threads is per thread; other threads keep theirs.
            self._pool = ThreadPoolExecutor(
                number, "worker", initializer=torch.set_num_threads, initargs=(max(threads, 1),)
            )

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield ``work(item)`` for each item, in order; with one worker, in the calling thread."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                if len(waiting) > self.number:
                    yield waiting.popleft().result()
                waiting.append(self._pool.submit(copy_context().run, work, item))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


class _Pass(NamedTuple):
    """One batch of a shard, and the number for its random seed."""

    number: int
    batch: Batch


class Part(NamedTuple):
    """The contribution of some shards to an update."""

    values: Tensors  # gradient by parameter; None if the loss does not depend on it
    minimized: float
    sums: MetricSums


class Shards:
    """Gradients in ``shard_count`` canonical shards, a power of two, computed by one process.

    The examples of each batch are divided among the shards before collation. The random seed of shard v in batch b is
    (seed, b · shard_count + v). The batches of a shard are added in order, and the shards as a fixed binary tree.
    Therefore neither padding nor random numbers nor the order of sums depends on the number of workers. A strategy for
    several processes, each with a contiguous run of shards that is a branch of the tree, only adds ``over_ranks`` and
    ``gather_full``. ``shard_count`` None is the rule of runs older than shards: batches are padded as a whole, their
    rows are divided among the workers, all parts are added in order, and no state is carried.

    Args:
        shard_count: the number of shards, a power of two; None: see above.
        workers: the threads that compute parts.
        device: of the network.
    """

    rank, world = 0, 1

    def __init__(self, shard_count: int | None, workers: Workers, device: torch.device = CPU) -> None:
        if shard_count is not None and (shard_count < 1 or shard_count & (shard_count - 1)):
            raise ValueError(f"the number of shards must be a power of two, not {shard_count}")
        self.shard_count, self.workers, self.device = shard_count, workers, device

    def wrap(self, model: Trainable) -> nn.Module:
        return model

    def over_ranks(self, part: Part) -> Part:
        """Return the sum of the parts of all ranks, given this rank's: for several ranks, the upper tree levels."""
        return part

    @contextmanager
    def first(self) -> Iterator[bool]:
        yield True

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        return None

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, sums: MetricSums) -> MetricSums:
        return self.over_ranks(Part([], 0.0, sums)).sums

    def own(self) -> range:
        """Return this rank's shards; all ranks have equally many."""
        count = self.shard_count or 1
        return range(self.rank * count // self.world, (self.rank + 1) * count // self.world)

    def deal(self, examples: ExampleIndices) -> list[tuple[int, ExampleIndices]]:
        parts = [examples] if self.shard_count is None else examples.shards(self.shard_count)
        return [(shard, parts[shard]) for shard in self.own() if shard < len(parts)]

    def gradient(
        self,
        model: nn.Module,
        examples: Examples,
        update: Sequence[ExampleIndices],
        carry: Carries,
        *,
        seed: tuple[int, ...],
    ) -> Gradient:
        """Return the gradient of one update; see ``Strategy``."""
        parameters = list(model.parameters())
        passes, weight = self._passes(examples, update)

        def shard(number: int) -> tuple[int, Part, Carry]:
            total = Part([None] * len(parameters), 0.0, {})
            carried = carry.get(number, ())
            for drawn, batch in passes[number]:
                rows = len(batch.index)
                with self._drawing(mixed_seed(*seed, drawn)):
                    terms = model(batch, continued(carried, rows))
                    values = _gradients(terms.minimized / weight, parameters)
                carried = detach_carry(terms.carry, rows)
                total = Part(
                    _added(total.values, values, parameters),
                    total.minimized + float(terms.minimized.detach()) / weight,
                    added_sums(total.sums, terms.sums),
                )
                del values, terms  # free their memory before the next pass
            return number, total, carried if len(passes[number]) == len(update) else ()  # (): the lanes have ended

        total, left = TreeSum(joined_parts, tree=self.shard_count is not None), dict[int, Carry]()
        for number, part, carried in self.workers.map(shard, list(passes)):
            total.add(part)
            left |= {number: carried} if carried and self.shard_count is not None else {}
        values, minimized, sums = self.over_ranks(total.value())
        pairs = zip(values, parameters, strict=True)
        return Gradient(
            [as_parameter(value, like) for value, like in pairs],
            minimized, sums, weight, left,
        )  # fmt: skip

    @contextmanager
    def _drawing(self, seed: int) -> Iterator[None]:
        if self.workers.number == 1:
            self._seed(seed)  # for functions that use torch's global generator
        with seeded_generator(seed, self.device):
            yield

    def _seed(self, seed: int) -> None:
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would format a stack trace for other devices
        else:
            torch.manual_seed(seed)

    def _passes(self, examples: Examples, update: Sequence[ExampleIndices]) -> tuple[dict[int, list[_Pass]], float]:
        """Return the passes of each of this rank's shards, and the weight of all examples over all ranks."""
        if self.shard_count is None:
            whole = [to_device(examples.collate(batch), self.device) for batch in update]
            rows = [part for batch in whole for part in _divided_rows(batch, self.workers.number)]
            passes = {number: [_Pass(number, part)] for number, part in enumerate(rows)}
            return passes, sum(batch.weight for batch in whole)
        passes = {shard: [] for shard in self.own()}
        for first, batch in enumerate(update):
            for shard, share in self.deal(batch):
                collated = to_device(examples.collate(share), self.device)
                passes[shard].append(_Pass(first * self.shard_count + shard, collated))
        weight = TreeSum[float](add)
        for passes_of_shard in passes.values():
            weight.add(sum(one.batch.weight for one in passes_of_shard))
        own = torch.tensor(weight.value(), dtype=torch.float64)
        return passes, float(self.add({"weight": own})["weight"])


def _divided_rows(batch: Batch, workers: int) -> list[Batch]:
    number = min(workers, len(batch.index))
    return [map_tensors(batch, partial(_every, number, first)) for first in range(number)]


def _every(number: int, first: int, tensor: Tensor) -> Tensor:
    return tensor[first::number]


class TreeSum(Generic[Item]):
    """A sum of items that arrive one by one: as a binary tree over their numbers, or in order."""

    def __init__(self, joined: Callable[[Item, Item], Item], *, tree: bool = True) -> None:
        self._joined, self._tree, self._partial = joined, tree, list[tuple[int, Item]]()

    def add(self, value: Item) -> None:
        level = 0
        while self._partial and (self._partial[-1][0] == level or not self._tree):
            value, level = self._joined(self._partial.pop()[1], value), level + 1
        self._partial.append((level, value))

    def value(self) -> Item:
        """Return the total; missing leaves of the tree count as zero."""
        _, total = self._partial.pop()
        while self._partial:
            total = self._joined(self._partial.pop()[1], total)
        return total


@torch.no_grad()
def joined_parts(left: Part, right: Part) -> Part:
    values = [
        one if other is None else other if one is None else one.add_(other)
        for one, other in zip(left.values, right.values, strict=True)
    ]
    return Part(values, left.minimized + right.minimized, added_sums(left.sums, right.sums))


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """Return the gradient by parameter; None for frozen parameters and those that the loss does not depend on."""
    learned = [p for p in parameters if p.requires_grad]
    gradients = torch.autograd.grad(loss, learned, allow_unused=True)
    if len(learned) == len(parameters):
        return gradients
    values = iter(gradients)
    return [next(values) if p.requires_grad else None for p in parameters]


def _empty(parameter: Tensor) -> Tensor:
    """Return an empty tensor, at least float32, laid out like the parameter, as fused kernels require."""
    return torch.empty_like(parameter, dtype=torch.promote_types(parameter.dtype, torch.float32), requires_grad=False)


def as_parameter(value: Tensor | None, parameter: Tensor) -> Tensor:
    """Return a gradient laid out like its parameter: zeros for None, empty for a frozen parameter."""
    if not parameter.requires_grad:
        return torch.empty(0, device=parameter.device)
    if value is None:
        return _empty(parameter).zero_()
    return value if _laid_out(value, parameter) else _empty(parameter).copy_(value)


@torch.no_grad()
def _added(totals: Tensors, values: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensors:
    """Return the totals plus these values; the first values are copied, since others may hold references to them."""
    if any(isinstance(total, Tensor) for total in totals):
        return [_added_one(*triple) for triple in zip(totals, values, parameters, strict=True)]
    alike = [value is not None and _laid_out(value, like) for value, like in zip(values, parameters, strict=True)]
    values_to_copy = [value for value, same in zip(values, alike, strict=True) if same and value is not None]
    copies = iter(torch._foreach_mul(values_to_copy, 1.0) if values_to_copy else ())  # one call for all copies
    return [
        next(copies) if same else _added_one(None, value, like)
        for same, value, like in zip(alike, values, parameters, strict=True)
    ]


def _laid_out(value: Tensor, like: Tensor) -> bool:
    """Return whether the value has the format and memory layout of ``_empty``."""
    return value.dtype in (torch.float32, torch.float64) and value.stride() == like.stride()


def _added_one(total: Tensor | None, value: Tensor | None, like: Tensor) -> Tensor | None:
    if value is None:
        return total
    if total is None:
        return _empty(like).copy_(value)
    add_to(total, value)
    return total
