"""Two streams that residual branches alternately read and add to, with a backward pass that recomputes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.key_value import KeyValue
from regard.core.randomness import fork

Difference = Callable[..., tuple[Tensor, Any]]
Replay = Callable[[], AbstractContextManager[None]]


class BranchRun(NamedTuple):
    """A branch: (features, *inputs) → (its difference, its state).

    ``parameters`` are used in addition. ``inputs`` are results of other modules, which have their own gradient; the
    backward pass of this branch must not continue into them.
    """

    difference: Difference
    parameters: tuple[Tensor, ...] = ()
    inputs: tuple[Tensor, ...] = ()

    @property
    def differentiable(self) -> list[Tensor]:
        """Trainable parameters, followed by ``inputs``."""
        return [*_distinct([tensor for tensor in self.parameters if tensor.requires_grad]), *self.inputs]


def run_reversibly(branches: Sequence[BranchRun], x: Tensor) -> tuple[Tensor, list[Any]]:
    """Return the mean of both streams after all branches, and their states.

    Branch k = 0, 1, … reads stream 1 − k mod 2 and adds to the other. With gradients, only the final streams are
    stored; earlier ones are recomputed as x_1 = y_1 − f(x_2). Sums are float32 if the model is narrower, so this is x_1
    up to rounding. Cost: each branch is computed once more in the backward pass; memory of one branch.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    streams = x.to(wide), x.to(wide)
    states: list[Any] = []
    if torch.is_grad_enabled():
        tensors = _distinct([tensor for branch in branches for tensor in branch.differentiable])
        if any(hasattr(tensor, "placements") for tensor in tensors):
            raise ValueError("reversible layers cannot be sharded over ranks: set train.strategy = canonical or ddp")
        replays = [fork() for _ in branches]  # each is entered now and once more for the gradient
        streams = _Streams.apply(_Pass(branches, replays, x.dtype, states), *streams, *tensors)
    else:
        streams = _forward(branches, streams, x.dtype, states)
    return ((streams[0] + streams[1]) / 2).to(x.dtype), states


class _Pass(NamedTuple):
    branches: Sequence[BranchRun]
    replays: Sequence[Replay]
    narrow: torch.dtype
    states: list[Any]


def _forward(
    branches: Sequence[BranchRun], streams: tuple[Tensor, Tensor], narrow: torch.dtype, states: list[Any]
) -> tuple[Tensor, Tensor]:
    both = list(streams)
    for number, branch in enumerate(branches):
        difference, state = branch.difference(both[1 - number % 2].to(narrow), *branch.inputs)
        states.append(state)
        both[number % 2] = both[number % 2] + difference
    return both[0], both[1]


class _Streams(torch.autograd.Function):
    """Streams after the branches. For y_1 = x_1 + f(x_2), y_2 = x_2: ∂x_1 = ∂y_1 and ∂x_2 = ∂y_2 + f'(x_2)ᵀ ∂y_1."""

    @staticmethod
    def forward(context: Any, pass_: _Pass, *streams_and_tensors: Tensor) -> tuple[Tensor, ...]:
        streams, tensors = [x.detach() for x in streams_and_tensors[:2]], streams_and_tensors[2:]
        for number, (branch, replay) in enumerate(zip(pass_.branches, pass_.replays, strict=True)):
            own = number % 2
            # Enable gradients as in the backward pass: the choice of kernels depends on it and must be the same.
            difference, state, *_ = _computed(branch, streams[1 - own], replay, pass_.narrow)
            streams[own] = streams[own] + difference.detach()
            pass_.states.append(_without_cache(state))
        context.save_for_backward(*streams)
        context.pass_, context.tensors = pass_._replace(states=[]), tensors
        return tuple(streams)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        streams, slope = list(context.saved_tensors), list(slopes)
        pass_, tensors = context.pass_, context.tensors
        indices = {id(tensor): index for index, tensor in enumerate(tensors)}
        sums: list[Tensor | None] = [None] * len(tensors)
        for number in reversed(range(len(pass_.branches))):
            branch, own = pass_.branches[number], number % 2
            difference, _, read, inputs = _computed(branch, streams[1 - own], pass_.replays[number], pass_.narrow)
            trainable = branch.differentiable[: len(branch.differentiable) - len(inputs)]
            onto = slope[own].to(difference.dtype)
            gradients = torch.autograd.grad(difference, [read, *trainable, *inputs], onto, allow_unused=True)
            streams[own] = streams[own] - difference.detach()
            if gradients[0] is not None:
                slope[1 - own] = slope[1 - own] + gradients[0]
            for tensor, gradient in zip(branch.differentiable, gradients[1:], strict=True):
                index = indices[id(tensor)]
                before = sums[index]
                if gradient is not None:
                    sums[index] = gradient if before is None else before + gradient
        return (None, *slope, *sums)


def _computed(
    branch: BranchRun, stream: Tensor, replay: Replay, narrow: torch.dtype
) -> tuple[Tensor, Any, Tensor, list[Tensor]]:
    """Return the branch's difference and state, and the leaves of its graph: the stream it read, and its inputs."""
    read = stream.detach().requires_grad_()
    inputs = [tensor.detach().requires_grad_() for tensor in branch.inputs]
    with torch.enable_grad(), replay():
        difference, state = branch.difference(read.to(narrow), *inputs)
    return difference, state, read, inputs


def _distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _without_cache(state: Any) -> Any:
    """Return the state without its graph, or () if it holds keys and values."""
    if isinstance(state, Tensor):
        return state.detach()
    if not isinstance(state, tuple):
        return state
    if _holds_cache(state):
        return ()
    return getattr(type(state), "_make", tuple)([_without_cache(part) for part in state])


def _holds_cache(state: Any) -> bool:
    return isinstance(state, KeyValue) or (isinstance(state, tuple) and any(_holds_cache(part) for part in state))
