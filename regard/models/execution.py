"""Orders of computing a stack of layers, which trade memory for time; two of them give equal results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.core.randomness import fork
from regard.models.reversible import BranchRun, run_reversibly


@runtime_checkable
class Layer(Protocol):
    """A module of residual branches."""

    @property
    def branch_count(self) -> int: ...

    def __call__(self, x: Tensor, /, **inputs: Any) -> tuple[Tensor, Any]: ...

    def parameters(self) -> Iterator[Tensor]: ...

    def result(self, states: list[Any]) -> Any:
        """Return the result of the layer from the states of its branches."""


@dataclass(frozen=True)
class Step:
    """A layer and its inputs other than the features: (features) → (features, result).

    The layer has ``branch_count`` and takes ``only``, the index of one branch: (features) → (the branch's difference,
    its state). Branches are always called through the layer's ``forward``, because sharded weights are gathered there.
    """

    layer: Layer
    inputs: Mapping[str, Any]

    def __call__(self, x: Tensor) -> tuple[Tensor, Any]:
        return self.layer(x, **self.inputs)

    def branches(self) -> list[BranchRun]:
        """Return the branches in order, each as a separate function."""
        return [self._branch(number) for number in range(self.layer.branch_count)]

    def _branch(self, number: int) -> BranchRun:
        inputs = tuple({id(leaf): leaf for leaf in _tensors(tuple(self.inputs.values()))}.values())

        def difference(x: Tensor, *replacements: Tensor) -> tuple[Tensor, Any]:
            replaced = {id(old): new for old, new in zip(inputs, replacements, strict=True)}
            named = {name: _with_replaced(tree, replaced) for name, tree in self.inputs.items()}
            return self.layer(x, **named, only=number)

        return BranchRun(difference, tuple(self.layer.parameters()), inputs)


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors of a tree that require gradients."""
    if isinstance(tree, Tensor):
        return [tree] if tree.requires_grad else []
    return [leaf for part in tree for leaf in _tensors(part)] if isinstance(tree, tuple) else []


def _with_replaced(tree: Any, replaced: Mapping[int, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return replaced.get(id(tree), tree)
    if not isinstance(tree, tuple):
        return tree
    make = getattr(type(tree), "_make", tuple)
    return make([_with_replaced(part, replaced) for part in tree])


class Execution(ABC):
    """Base of executions, which work with any layers."""

    @abstractmethod
    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        """Return the features after all layers, and the result of each layer."""


class Plain(Execution):
    """One layer after the other; every intermediate result is stored for the backward pass."""

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        return _run_sequentially(steps, x)


class Checkpointed(Execution):
    """Recompute each layer in the backward pass (Chen et al. 2016), for about a third more time.

    Memory is that of one layer's intermediate results and one x per layer. The same dropout is drawn again, from a fork
    of the model's random stream, so with dropout the draws differ from those of ``Plain``. Without a backward pass
    nothing changes.
    """

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        return _run_sequentially([_recomputed(step) for step in steps] if torch.is_grad_enabled() else steps, x)


class Reversible(Execution):
    """Branches that alternate between two streams, reading one and adding to the other.

    Y_1 = X_1 + Attention(X_2), Y_2 = X_2 + FeedForward(Y_1) (Gomez et al. 2017; Kitaev et al. 2020, Eq. 7–9); with
    three branches the streams keep alternating. Both streams start as x and have its width. The output is their mean
    (the paper concatenates them, at twice the width). The backward pass recomputes the inputs of the stack from its
    outputs: memory does not grow with depth, for about a third more time. With the same weights it computes a different
    function than ``Plain``. Dropout and hashes are replayed. With gradients, caches of keys and values are not
    returned, because each layer would store its own.
    """

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        y, states = run_reversibly([branch for step in steps for branch in step.branches()], x)
        counts = [step.layer.branch_count for step in steps]
        results = []
        for step, indices in zip(steps, torch.arange(len(states)).split(counts), strict=True):
            results.append(step.layer.result([states[number] for number in indices.tolist()]))
        return y, tuple(results)


def _run_sequentially(
    steps: Sequence[Callable[[Tensor], tuple[Tensor, Any]]], x: Tensor
) -> tuple[Tensor, tuple[Any, ...]]:
    states = []
    for step in steps:
        x, state = step(x)
        states.append(state)
    return x, tuple(states)


def _recomputed(step: Step) -> Callable[[Tensor], tuple[Tensor, Any]]:
    def run(x: Tensor) -> tuple[Tensor, Any]:
        draws = fork()  # entered now and once more for the gradient
        result: tuple[Tensor, Any] = checkpoint(
            step, x, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (draws(), draws())
        )
        return result

    return run


EXECUTIONS: dict[str, type[Execution]] = {"plain": Plain, "checkpointed": Checkpointed, "reversible": Reversible}
