"""Three streams of random numbers, and the generator that the current thread uses for the model's stream.

order       (seed, epoch): composition and order of batches; ``Examples.batches``
examples    (seed, stream, index, visit): masking and cropping of an example; ``Examples.collate``
model       (seed, step, shard): dropout and similar draws, from ``generator()``, one per thread

Each is a function of a few numbers. No state of it is saved, and a resumed run draws the same numbers as an
uninterrupted one. There is no fourth stream: a model in evaluation draws no numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class _Stream:
    """The model's draws in one pass: the generator, its initial seed, and the number of forks."""

    generator: torch.Generator
    seed: int
    forks: int = 0


_current: ContextVar[_Stream | None] = ContextVar("stream", default=None)


@contextmanager
def seeded_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Make ``generator()`` return a new generator seeded with ``seed`` inside the block, in this thread only."""
    token = _current.set(_Stream(torch.Generator(device).manual_seed(seed), seed))
    try:
        yield
    finally:
        _current.reset(token)


def generator() -> torch.Generator | None:
    """Return the generator that ``seeded_generator`` set for this thread; None means torch's default."""
    stream = _current.get()
    return None if stream is None else stream.generator


def fork() -> Callable[[], AbstractContextManager[None]]:
    """Choose a child seed; inside each context that the result opens, ``generator()`` restarts with it.

    For values that are computed twice in training, as in activation checkpointing and reversible layers: entered again,
    also in another thread, it draws the same dropout. ``torch.utils.checkpoint`` replays torch's own generators only,
    not this one, and its gradients would be silently wrong. A fork draws no number from the parent stream, and its seed
    requires no accelerator. Without ``seeded_generator``, torch's default generator is forked.
    """
    stream = _current.get()
    if stream is None:
        drawn = int(torch.randint(2**63 - 1, ()))
        return lambda: _default_seeded(drawn)
    stream.forks += 1
    seed, device = mixed_seed(stream.seed, stream.forks), stream.generator.device
    return lambda: seeded_generator(seed, device)


@contextmanager
def _default_seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def mixed_seed(*numbers: int) -> int:
    """Return one 64-bit seed for several numbers, with independent streams."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def example_generator(seed: int, stream: int, index: int, visit: int) -> np.random.Generator:
    """Return the draws of one example: independent of the rest of its batch, new at each ``visit``.

    ``stream`` separates different uses, such as masks and noise; for evaluation, ``visit`` is 0.
    """
    return np.random.default_rng((seed, stream, index, visit))
