"""Three streams of random numbers, and the generator that the current thread draws the model's from.

order       (seed, epoch): which examples come together, and when; ``Examples.batches``
examples    (seed, stream, index, visit): what is masked or cut out of an example; ``Examples.collate``
model       (seed, step, shard): dropout and the like, from ``generator()``, so that threads can draw at once

Each is a function of a few numbers, so nothing of it is saved and a resumed run draws what an undisturbed one does.
There is no fourth: a model in evaluation draws nothing.
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
    """The model's draws in one pass: the generator, the seed it began with, and how often it was forked."""

    generator: torch.Generator
    seed: int
    forks: int = 0


_current: ContextVar[_Stream | None] = ContextVar("stream", default=None)


@contextmanager
def seeded_generator(seed: int, device: torch.device) -> Iterator[None]:
    """Make ``generator()`` return a fresh generator seeded with ``seed`` inside the block, in this thread alone."""
    token = _current.set(_Stream(torch.Generator(device).manual_seed(seed), seed))
    try:
        yield
    finally:
        _current.reset(token)


def generator() -> torch.Generator | None:
    """Return the generator that ``seeded_generator`` set for this thread; None stands for torch's default."""
    stream = _current.get()
    return None if stream is None else stream.generator


def fork() -> Callable[[], AbstractContextManager[None]]:
    """Choose a child seed now; inside each context that the result opens, ``generator()`` begins anew with it.

    For what is computed twice in training, as in activation checkpointing and reversible layers: entered again, the
    same dropout is drawn, also from another thread. ``torch.utils.checkpoint`` alone replays torch's own generators,
    not this one, and its gradients would be silently wrong. A fork draws nothing from the stream it leaves, and its
    seed needs no accelerator; without ``seeded_generator`` torch's default generator is forked.
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
    """One 64-bit seed out of several numbers, the streams independent."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def example_generator(seed: int, stream: int, index: int, visit: int) -> np.random.Generator:
    """The draws of one example: the same whatever lies beside it, new at each ``visit``.

    ``stream`` tells different uses apart, such as masks and noise; for evaluation, ``visit`` is 0.
    """
    return np.random.default_rng((seed, stream, index, visit))
