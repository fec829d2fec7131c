"""Orders of computing a stack of layers, which differ in memory and time; two of them not in results."""

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

    def __call__(self, x: Tensor, /, **given: Any) -> tuple[Tensor, Any]: ...

    def parameters(self) -> Iterator[Tensor]: ...

    def result(self, states: list[Any]) -> Any:
        """Result of the layer from the states of its branches."""


@dataclass(frozen=True)
class Step:
    """A layer and all that it is given besides the columns: (columns) → (columns, result).

    The layer has ``branch_count`` and takes ``only``, the number of one of its branches: (columns) → (what that branch
    adds, the state of its part). Always by its ``forward``, since weights that ranks share are gathered there.
    """

    layer: Layer
    given: Mapping[str, Any]

    def __call__(self, x: Tensor) -> tuple[Tensor, Any]:
        return self.layer(x, **self.given)

    def branches(self) -> list[BranchRun]:
        """Branches in their order, each alone."""
        return [self._branch(number) for number in range(self.layer.branch_count)]

    def _branch(self, number: int) -> BranchRun:
        others = tuple({id(part): part for part in _tensors(tuple(self.given.values()))}.values())

        def difference(x: Tensor, *given: Tensor) -> tuple[Tensor, Any]:
            instead = {id(old): new for old, new in zip(others, given, strict=True)}
            named = {name: _exchanged(part, instead) for name, part in self.given.items()}
            return self.layer(x, **named, only=number)

        return BranchRun(difference, tuple(self.layer.parameters()), others)


def _tensors(tree: Any) -> list[Tensor]:
    """Tensors of a tree that gradients go to."""
    if isinstance(tree, Tensor):
        return [tree] if tree.requires_grad else []
    return [leaf for part in tree for leaf in _tensors(part)] if isinstance(tree, tuple) else []


def _exchanged(tree: Any, instead: Mapping[int, Tensor]) -> Any:
    if isinstance(tree, Tensor):
        return instead.get(id(tree), tree)
    if not isinstance(tree, tuple):
        return tree
    make = getattr(type(tree), "_make", tuple)
    return make([_exchanged(part, instead) for part in tree])


class Execution(ABC):
    """Base of executions: one class each, whatever the layers are."""

    @abstractmethod
    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        """The columns after all layers, and the result of each."""


class Plain(Execution):
    """One layer after the other; every intermediate result is kept for the backward pass."""

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        return _in_turn(steps, x)


class Checkpointed(Execution):
    """Recompute each layer in the backward pass (Chen et al. 2016): memory of one layer's intermediate results

    beside one x a layer, for about a third more time. The same dropout is drawn again, from a fork of the model's
    stream, so that with dropout the draws are not those of ``Plain``. Nothing changes where there is no backward pass.
    """

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        return _in_turn([_recomputed(step) for step in steps] if torch.is_grad_enabled() else steps, x)


class Reversible(Execution):
    """Branches that each read one of two streams and add to the other (Gomez et al. 2017; Kitaev et al. 2020, Eq. 7–9):

    Y_1 = X_1 + Attention(X_2), Y_2 = X_2 + FeedForward(Y_1), and with three branches the streams go on in turn. Both
    begin as x and are as wide; the columns after all layers are their mean (the paper lays them side by side, twice as
    wide). From the end of the stack its beginning is computed again, so that memory does not grow with depth, for about
    a third more time. It is another function than ``Plain``'s of the same weights. Dropout and hashes are replayed.
    Where gradients are wanted, caches of keys and values are not returned: each layer would keep its own.
    """

    def run(self, steps: Sequence[Step], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
        y, states = run_reversibly([branch for step in steps for branch in step.branches()], x)
        counts = [step.layer.branch_count for step in steps]
        found = []
        for step, own in zip(steps, torch.arange(len(states)).split(counts), strict=True):
            found.append(step.layer.result([states[number] for number in own.tolist()]))
        return y, tuple(found)


def _in_turn(steps: Sequence[Callable[[Tensor], tuple[Tensor, Any]]], x: Tensor) -> tuple[Tensor, tuple[Any, ...]]:
    states = []
    for step in steps:
        x, state = step(x)
        states.append(state)
    return x, tuple(states)


def _recomputed(step: Step) -> Callable[[Tensor], tuple[Tensor, Any]]:
    def again(x: Tensor) -> tuple[Tensor, Any]:
        draws = fork()  # entered now and once more for the gradient
        found: tuple[Tensor, Any] = checkpoint(
            step, x, use_reentrant=False, preserve_rng_state=False, context_fn=lambda: (draws(), draws())
        )
        return found

    return again


EXECUTIONS: dict[str, type[Execution]] = {"plain": Plain, "checkpointed": Checkpointed, "reversible": Reversible}
