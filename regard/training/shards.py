"""The gradient of one update in canonical shards: the same bits, however many workers take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from regard.core.randomness import seeded_generator
from regard.core.state import State
from regard.core.task import Batch, ExampleIndices, Examples, LossTerms, MetricSums, Objective
from regard.core.tensors import added_sums

__all__ = ["Gradient", "Shards", "Trainable", "Workers", "to_device"]

Item = TypeVar("Item")
Result = TypeVar("Result")
Tensors = list[Tensor | None]


class Trainable(nn.Module):
    """A network with its objective: what a strategy calls, wraps and differentiates.

    Checkpoints hold the network's names; the objective has no parameters.
    """

    def __init__(self, net: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, batch: Batch, carry: State = ()) -> LossTerms:
        return self.objective(self.net, batch, carry)


class Gradient(NamedTuple):
    """The gradient of the mean loss by parameter, at least float32, and what it was measured on.

    ``minimised``: the mean loss per unit of weight. ``sums``: of the objective, float64. ``carry``: by shard.
    """

    values: list[Tensor]
    minimised: float
    sums: MetricSums
    weight: float
    carry: list[State]


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


class Shards:
    """Gradients in ``number`` canonical shards, a power of two, on one process.

    The examples of each batch are dealt to the shards before they are collated; shard v of batch b draws by
    (seed, b · number + v); a shard's batches are added in order, and the shards as a fixed binary tree. So neither
    padding nor draws nor the order of sums depends on how many workers compute. ``number`` None is the rule of runs
    made before shards: each whole batch is padded, its rows are dealt to the workers, all parts are added in order.
    """

    def __init__(self, number: int | None, workers: Workers) -> None:
        if number is not None and (number < 1 or number & (number - 1)):
            raise ValueError(f"the number of shards is a power of two, not {number}")
        self.number, self.workers = number, workers

    def gradient(
        self,
        model: Trainable,
        examples: Examples,
        update: Sequence[ExampleIndices],
        *,
        seed: tuple[int, ...],
        carry: Sequence[State] = (),
    ) -> Gradient:
        """The gradient of one update over several batches; ``seed`` is mixed with the number of each pass.

        ``carry``: by shard, of the update before; none at the beginning of an epoch.
        """
        parameters = list(model.net.parameters())
        passes, weight = self._passes(examples, update, parameters[0].device)
        states: list[State] = [*carry, *([()] * (len(passes) - len(carry)))]

        def shard(number: int) -> tuple[Tensors, float, MetricSums]:
            total: Tensors = [None] * len(parameters)
            minimised, sums = 0.0, MetricSums()
            for drawn, batch in passes[number]:
                with self._drawing(_mixed(*seed, drawn), parameters[0].device):
                    terms = model(batch, states[number])
                    values = torch.autograd.grad(terms.minimised / weight, parameters, allow_unused=True)
                total = [_added(*each) for each in zip(total, values, parameters, strict=True)]
                del values  # before the next are computed
                minimised += float(terms.minimised.detach()) / weight
                states[number], sums = terms.carry, added_sums(sums, terms.sums)
            return total, minimised, sums

        total, minimised, sums = _Sum(tree=self.number is not None), 0.0, MetricSums()
        for values, one, measured in self.workers.map(shard, range(len(passes))):
            total.add(values)
            minimised, sums = minimised + one, added_sums(sums, measured)
        found = zip(total.value(), parameters, strict=True)
        return Gradient(
            [_empty(like).zero_() if value is None else value for value, like in found],
            minimised, sums, weight, states,
        )  # fmt: skip

    @contextmanager
    def _drawing(self, seed: int, device: torch.device) -> Iterator[None]:
        if self.workers.number == 1:
            torch.manual_seed(seed)  # for what draws from torch's own generator
        with seeded_generator(seed, device):
            yield

    def _passes(
        self, examples: Examples, update: Sequence[ExampleIndices], device: torch.device
    ) -> tuple[list[list[_Pass]], float]:
        """The passes of each shard, and the weight of all examples of the update."""
        if self.number is None:
            whole = [to_device(examples.collate(each), device) for each in update]
            rows = [part for batch in whole for part in _dealt_rows(batch, self.workers.number)]
            return [[_Pass(number, part)] for number, part in enumerate(rows)], sum(batch.weight for batch in whole)
        passes: list[list[_Pass]] = [[] for _ in range(self.number)]
        for first, batch in enumerate(update):
            for shard, share in enumerate(batch.shards(self.number)):
                collated = to_device(examples.collate(share), device)
                passes[shard].append(_Pass(first * self.number + shard, collated))
        weight = sum(each.batch.weight for shard in passes for each in shard)
        return passes, weight


def _dealt_rows(batch: Batch, workers: int) -> list[Batch]:
    number = min(workers, len(batch.index))
    return [_with(batch, partial(_every, number, first)) for first in range(number)]


def _every(number: int, first: int, tensor: Tensor) -> Tensor:
    return tensor[first::number]


class _Sum:
    """A sum of what comes one after another: as a binary tree over their numbers, or in order."""

    def __init__(self, *, tree: bool) -> None:
        self._tree, self._partial = tree, list[tuple[int, Tensors]]()

    def add(self, values: Tensors) -> None:
        level = 0
        while self._partial and (self._partial[-1][0] == level or not self._tree):
            values, level = _joined(self._partial.pop()[1], values), level + 1
        self._partial.append((level, values))

    def value(self) -> Tensors:
        """The total; where there were no more than some of a tree's leaves, the others count as nothing."""
        _, total = self._partial.pop()
        while self._partial:
            total = _joined(self._partial.pop()[1], total)
        return total


@torch.no_grad()
def _joined(left: Tensors, right: Tensors) -> Tensors:
    return [
        one if other is None else other if one is None else one.add_(other)
        for one, other in zip(left, right, strict=True)
    ]


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch with its tensors on another device."""
    return _with(batch, lambda tensor: tensor.to(device, non_blocking=True))


def _with(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    named: Any = batch  # a NamedTuple
    fields = {name: change(each) for name, each in named._asdict().items() if isinstance(each, Tensor)}
    changed: Batch = named._replace(**fields)
    return changed


def _empty(parameter: Tensor) -> Tensor:
    """Laid out as the parameter, which the optimiser's fused kernel counts on, and at least float32."""
    return torch.empty_like(parameter, dtype=torch.promote_types(parameter.dtype, torch.float32), requires_grad=False)


@torch.no_grad()
def _added(total: Tensor | None, value: Tensor | None, like: Tensor) -> Tensor | None:
    if value is None:
        return total
    if total is None:
        return _empty(like).copy_(value)
    return total.add_(value)


def _mixed(*numbers: int) -> int:
    """One 64-bit seed out of several numbers, the streams independent."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
