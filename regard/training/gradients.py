"""The gradient of one update: workers take the passes over its batches side by side, each with a share of the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from regard.core.randomness import drawing
from regard.core.reference_mode import textbook
from regard.data.batches import Batch, shares
from regard.models.cross_entropy import Loss, projected_cross_entropy, smoothed_cross_entropy
from regard.models.encoder_decoder import EncoderDecoder

__all__ = ["Gradient", "Workers", "batch_loss", "gradient"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Gradient(NamedTuple):
    """Of the mean loss a token, by parameter, at least float32; ``smoothed`` and ``nll``: means over ``tokens``."""

    values: list[Tensor]
    smoothed: float
    nll: float
    tokens: int


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
            each = max(threads // number, 1)
            # The count of threads belongs to the thread that sets it; the others keep theirs.
            self._pool = ThreadPoolExecutor(number, "worker", initializer=torch.set_num_threads, initargs=(each,))

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


def batch_loss(model: EncoderDecoder, batch: Batch, *, smoothing: float) -> Loss:
    """The sum over the batch's target tokens."""
    features = model(batch.source, batch.source_valid, batch.target_input, batch.target_valid)
    features, target = features[batch.target_valid], batch.target_output[batch.target_valid]
    if textbook():
        return smoothed_cross_entropy(model.logits(features), target, smoothing=smoothing)
    projection: Tensor = model.projection
    if model.output_bias is not None:  # the weights of one more feature, which is always 1
        features = torch.nn.functional.pad(features, (0, 1), value=1.0)
        projection = torch.cat([projection, model.output_bias[:, None]], 1)
    return projected_cross_entropy(features, projection, target, smoothing=smoothing)


def gradient(
    loss: Callable[[Batch], Loss],
    parameters: Sequence[Tensor],
    batches: Sequence[Batch],
    *,
    seed: tuple[int, ...],
    workers: Workers,
) -> Gradient:
    """Of Σ ``loss`` / Σ tokens over ``batches``, with respect to ``parameters``.

    The sum is taken in float32 and in the order of the shares, and share k draws from (``seed``, k): the result depends
    on how many workers there are, never on which of them is done first. What draws from torch's default generator
    instead of ``regard.core.randomness`` does so only with one worker.
    """
    count = sum(int(batch.target_valid.sum()) for batch in batches)
    parts = [part for batch in batches for part in shares(batch, workers.number)]

    def part(number: int) -> tuple[tuple[Tensor | None, ...], float, float]:
        drawn = _mixed(*seed, number)
        if workers.number == 1:
            torch.manual_seed(drawn)
        with drawing(drawn, parts[number].source.device):
            found = loss(parts[number])
            values = torch.autograd.grad(found.smoothed / count, parameters, allow_unused=True)
        return values, float(found.smoothed.detach()) / count, float(found.nll.detach()) / count

    total: list[Tensor | None] = [None] * len(parameters)
    smoothed, nll = 0.0, 0.0
    for gradients, one, other in workers.map(part, range(len(parts))):
        total = [_added(*each) for each in zip(total, gradients, parameters, strict=True)]
        smoothed, nll = smoothed + one, nll + other
        del gradients  # before the next are computed
    values = [_empty(like).zero_() if sum_ is None else sum_ for sum_, like in zip(total, parameters, strict=True)]
    return Gradient(values, smoothed, nll, count)


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
