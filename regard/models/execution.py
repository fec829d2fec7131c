"""Orders of computing a stack of layers, which differ in memory and time, not in results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.core.randomness import fork

__all__ = ["EXECUTIONS", "Checkpointed", "Execution", "Plain"]

Step = Callable[[Tensor], tuple[Tensor, Any]]  # columns to columns, and the state of a layer


class Execution(ABC):
    """Base of executions: one class each, whatever the layers are."""

    @abstractmethod
    def run(self, layers: Iterable[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        """The columns after all layers, and the state of each."""


class Plain(Execution):
    """One layer after the other; every intermediate result is kept for the backward pass."""

    def run(self, layers: Iterable[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        states = []
        for layer in layers:
            x, state = layer(x)
            states.append(state)
        return x, tuple(states)


class Checkpointed(Plain):
    """Recompute each layer in the backward pass (Chen et al. 2016): memory of one layer's intermediate results

    beside one x a layer, for about a third more time. The same dropout is drawn again, from a fork of the model's
    stream, so that with dropout the draws are not those of ``Plain``. Nothing changes where there is no backward pass.
    """

    def run(self, layers: Iterable[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        return super().run(map(_recomputed, layers) if torch.is_grad_enabled() else layers, x)


def _recomputed(layer: Step) -> Step:
    def step(x: Tensor) -> tuple[Tensor, Any]:
        draws = fork()  # entered now and once more for the gradient
        found: tuple[Tensor, Any] = checkpoint(
            layer, x, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (draws(), draws())
        )
        return found

    return step


EXECUTIONS: dict[str, type[Execution]] = {"plain": Plain, "checkpointed": Checkpointed}
