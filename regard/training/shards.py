"""The gradient of one update in canonical shards: the same bits, however many workers take them."""

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
from regard.training.carry import continued, handed_on
from regard.training.strategy import Carries, Gradient, Trainable

Item = TypeVar("Item")
Result = TypeVar("Result")
Tensors = list[Tensor | None]
CPU = torch.device("cpu")


class Workers:
    """``number`` threads that compute at once, each with an equal part of torch's ``threads``.

    For many cores: a small model's operations gain little from being split among them. On two it makes no difference
    (docs/results.md). Results come in the order of the items, and at most one more than there are workers is at work
    or waits to be taken.
    """

    def __init__(self, number: int, threads: int) -> None:
        self.number = number
        self._pool: ThreadPoolExecutor | None = None
        if number > 1:
            # The count of threads belongs to the thread that sets it; the others keep theirs.
            self._pool = ThreadPoolExecutor(
                number, "worker", initializer=torch.set_num_threads, initargs=(max(threads, 1),)
            )

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """``work`` of each item; with one worker in this very thread, one after the other."""
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
    """One batch of a shard, and the number that its draws are seeded with."""

    number: int
    batch: Batch


class Part(NamedTuple):
    """The share of some shards in an update."""

    values: Tensors  # the gradient by parameter; None: nothing reached it
    minimized: float
    sums: MetricSums


class Shards:
    """Gradients in ``number`` canonical shards, a power of two, by one process.

    The examples of each batch are dealt to the shards before they are collated; shard v of batch b draws by
    (seed, b · number + v); a shard's batches are added in order, and the shards as a fixed binary tree. So neither
    padding nor draws nor the order of sums depends on how many workers compute, and a strategy of many processes, each
    with a run of shards that is a branch of the tree, has only ``over_ranks`` and ``full`` to add. ``number`` None is
    the rule of runs made before shards: each whole batch is padded, its rows are dealt to the workers, all parts are
    added in order, and nothing is carried.
    """

    rank, world = 0, 1

    def __init__(self, number: int | None, workers: Workers, device: torch.device = CPU) -> None:
        if number is not None and (number < 1 or number & (number - 1)):
            raise ValueError(f"the number of shards is a power of two, not {number}")
        self.number, self.workers, self.device = number, workers, device

    def wrap(self, model: Trainable) -> nn.Module:
        return model

    def over_ranks(self, part: Part) -> Part:
        """The part of all ranks, given this rank's: with more than one, added by the upper levels of the tree."""
        return part

    @contextmanager
    def first(self) -> Iterator[bool]:
        yield True

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return tensors

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        return None

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        return nullcontext()

    def add(self, sums: MetricSums) -> MetricSums:
        return self.over_ranks(Part([], 0.0, sums)).sums

    def own(self) -> range:
        """This rank's shards, as many as any other's."""
        number = self.number or 1
        return range(self.rank * number // self.world, (self.rank + 1) * number // self.world)

    def deal(self, examples: ExampleIndices) -> list[tuple[int, ExampleIndices]]:
        parts = [examples] if self.number is None else examples.shards(self.number)
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
        """The gradient of one update, as ``Strategy`` has it."""
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
                carried = handed_on(terms.carry, rows)
                total = Part(
                    _added(total.values, values, parameters),
                    total.minimized + float(terms.minimized.detach()) / weight,
                    added_sums(total.sums, terms.sums),
                )
                del values, terms  # before the next are computed
            return number, total, carried if len(passes[number]) == len(update) else ()  # (): its lanes have ended

        total, left = TreeSum(joined_parts, tree=self.number is not None), dict[int, Carry]()
        for number, part, carried in self.workers.map(shard, list(passes)):
            total.add(part)
            left |= {number: carried} if carried and self.number is not None else {}
        values, minimized, sums = self.over_ranks(total.value())
        found = zip(values, parameters, strict=True)
        return Gradient(
            [as_parameter(value, like) for value, like in found],
            minimized, sums, weight, left,
        )  # fmt: skip

    @contextmanager
    def _drawing(self, seed: int) -> Iterator[None]:
        if self.workers.number == 1:
            self._seed(seed)  # for what draws from torch's own generator
        with seeded_generator(seed, self.device):
            yield

    def _seed(self, seed: int) -> None:
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed formats stacks for devices that never begin
        else:
            torch.manual_seed(seed)

    def _passes(self, examples: Examples, update: Sequence[ExampleIndices]) -> tuple[dict[int, list[_Pass]], float]:
        """The passes of each of this rank's shards, and the weight of all examples of the update, on any rank."""
        if self.number is None:
            whole = [to_device(examples.collate(each), self.device) for each in update]
            rows = [part for batch in whole for part in _dealt_rows(batch, self.workers.number)]
            return {number: [_Pass(number, part)] for number, part in enumerate(rows)}, sum(
                each.weight for each in whole
            )
        passes: dict[int, list[_Pass]] = {shard: [] for shard in self.own()}
        for first, batch in enumerate(update):
            for shard, share in self.deal(batch):
                collated = to_device(examples.collate(share), self.device)
                passes[shard].append(_Pass(first * self.number + shard, collated))
        weight = TreeSum[float](add)
        for each in passes.values():
            weight.add(sum(one.batch.weight for one in each))
        counted = torch.tensor(weight.value(), dtype=torch.float64)
        return passes, float(self.add({"weight": counted})["weight"])


def _dealt_rows(batch: Batch, workers: int) -> list[Batch]:
    number = min(workers, len(batch.index))
    return [map_tensors(batch, partial(_every, number, first)) for first in range(number)]


def _every(number: int, first: int, tensor: Tensor) -> Tensor:
    return tensor[first::number]


class TreeSum(Generic[Item]):
    """A sum of what comes one after another: as a binary tree over their numbers, or in order."""

    def __init__(self, joined: Callable[[Item, Item], Item], *, tree: bool = True) -> None:
        self._joined, self._tree, self._partial = joined, tree, list[tuple[int, Item]]()

    def add(self, value: Item) -> None:
        level = 0
        while self._partial and (self._partial[-1][0] == level or not self._tree):
            value, level = self._joined(self._partial.pop()[1], value), level + 1
        self._partial.append((level, value))

    def value(self) -> Item:
        """The total; where there were no more than some of a tree's leaves, the others count as nothing."""
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
    """The gradient by parameter; None of one that does not learn, or that the loss does not depend on."""
    learned = [each for each in parameters if each.requires_grad]
    found = torch.autograd.grad(loss, learned, allow_unused=True)
    if len(learned) == len(parameters):
        return found
    values = iter(found)
    return [next(values) if each.requires_grad else None for each in parameters]


def _empty(parameter: Tensor) -> Tensor:
    """Laid out as the parameter, which the optimizer's fused kernel counts on, and at least float32."""
    return torch.empty_like(parameter, dtype=torch.promote_types(parameter.dtype, torch.float32), requires_grad=False)


def as_parameter(value: Tensor | None, parameter: Tensor) -> Tensor:
    if value is None:
        return _empty(parameter).zero_()
    return value if _laid_out(value, parameter) else _empty(parameter).copy_(value)


@torch.no_grad()
def _added(totals: Tensors, values: Sequence[Tensor | None], parameters: Sequence[Tensor]) -> Tensors:
    """The totals with these values; the first ones are copied, since nobody knows who else holds them."""
    if any(isinstance(total, Tensor) for total in totals):
        return [_added_one(*each) for each in zip(totals, values, parameters, strict=True)]
    alike = [value is not None and _laid_out(value, like) for value, like in zip(values, parameters, strict=True)]
    found = [value for value, same in zip(values, alike, strict=True) if same and value is not None]
    copies = iter(torch._foreach_mul(found, 1.0) if found else ())  # of a single call
    return [
        next(copies) if same else _added_one(None, value, like)
        for same, value, like in zip(alike, values, parameters, strict=True)
    ]


def _laid_out(value: Tensor, like: Tensor) -> bool:
    """Return whether it is as ``_empty`` would have it."""
    return value.dtype in (torch.float32, torch.float64) and value.stride() == like.stride()


def _added_one(total: Tensor | None, value: Tensor | None, like: Tensor) -> Tensor | None:
    if value is None:
        return total
    if total is None:
        return _empty(like).copy_(value)
    add_to(total, value)
    return total
