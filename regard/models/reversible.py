"""Two streams that residual branches read and add to in turn, and their gradient without what lies between."""

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
    """A branch: (columns, *others) to what it adds and its state.

    ``parameters`` are read besides, and ``others`` are what it is given: results of other parts, which have a gradient
    of their own that must not be entered from here.
    """

    difference: Difference
    parameters: tuple[Tensor, ...] = ()
    others: tuple[Tensor, ...] = ()

    @property
    def wanted(self) -> list[Tensor]:
        """Parameters that are learned, and then others."""
        return [*_distinct([each for each in self.parameters if each.requires_grad]), *self.others]


def run_reversibly(branches: Sequence[BranchRun], x: Tensor) -> tuple[Tensor, list[Any]]:
    """The mean of both streams after branches k = 0, 1, …, of which k reads stream 1 − k mod 2 and adds to the other.

    With gradients wanted, both streams are kept at the end alone and the ones before are computed again: x_1 =
    y_1 − f(x_2). Their sums are float32 where the model is narrower, so that this is x_1 but for rounding.
    Cost: each branch is computed once more in the backward pass; memory of one branch.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    streams = x.to(wide), x.to(wide)
    states: list[Any] = []
    if torch.is_grad_enabled():
        wanted = _distinct([tensor for branch in branches for tensor in branch.wanted])
        if any(hasattr(tensor, "placements") for tensor in wanted):
            raise ValueError("reversible layers cannot be cut over ranks: train.strategy = canonical or ddp can")
        replays = [fork() for _ in branches]  # each is entered now and once more for the gradient
        streams = _Streams.apply(_Pass(branches, replays, x.dtype, states), *streams, *wanted)
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
    found = list(streams)
    for number, branch in enumerate(branches):
        difference, state = branch.difference(found[1 - number % 2].to(narrow), *branch.others)
        states.append(state)
        found[number % 2] = found[number % 2] + difference
    return found[0], found[1]


class _Streams(torch.autograd.Function):
    """Streams after the branches. Of y_1 = x_1 + f(x_2), y_2 = x_2: ∂x_1 = ∂y_1 and ∂x_2 = ∂y_2 + f'(x_2)ᵀ ∂y_1."""

    @staticmethod
    def forward(context: Any, pass_: _Pass, *given: Tensor) -> tuple[Tensor, ...]:
        streams, wanted = [x.detach() for x in given[:2]], given[2:]
        for number, (branch, replay) in enumerate(zip(pass_.branches, pass_.replays, strict=True)):
            own = number % 2
            # With gradients on, as in the backward pass: what chooses kernels by that must choose the same ones.
            difference, state, *_ = _computed(branch, streams[1 - own], replay, pass_.narrow)
            streams[own] = streams[own] + difference.detach()
            pass_.states.append(_without_cache(state))
        context.save_for_backward(*streams)
        context.pass_, context.wanted = pass_._replace(states=[]), wanted
        return tuple(streams)

    @staticmethod
    @once_differentiable
    def backward(context: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        streams, slope = list(context.saved_tensors), list(slopes)
        pass_, wanted = context.pass_, context.wanted
        places = {id(tensor): place for place, tensor in enumerate(wanted)}
        sums: list[Tensor | None] = [None] * len(wanted)
        for number in reversed(range(len(pass_.branches))):
            branch, own = pass_.branches[number], number % 2
            difference, _, read, others = _computed(branch, streams[1 - own], pass_.replays[number], pass_.narrow)
            asked = branch.wanted[: len(branch.wanted) - len(others)] + others
            onto = slope[own].to(difference.dtype)
            found = torch.autograd.grad(difference, [read, *asked], onto, allow_unused=True)
            streams[own] = streams[own] - difference.detach()
            if found[0] is not None:
                slope[1 - own] = slope[1 - own] + found[0]
            for tensor, part in zip(branch.wanted, found[1:], strict=True):
                place = places[id(tensor)]
                before = sums[place]
                if part is not None:
                    sums[place] = part if before is None else before + part
        return (None, *slope, *sums)


def _computed(
    branch: BranchRun, stream: Tensor, replay: Replay, narrow: torch.dtype
) -> tuple[Tensor, Any, Tensor, list[Tensor]]:
    """Columns that the branch adds, its state, and the leaves of its graph: the stream that it read, and the others."""
    read = stream.detach().requires_grad_()
    others = [each.detach().requires_grad_() for each in branch.others]
    with torch.enable_grad(), replay():
        difference, state = branch.difference(read.to(narrow), *others)
    return difference, state, read, others


def _distinct(tensors: Sequence[Tensor]) -> list[Tensor]:
    return list({id(tensor): tensor for tensor in tensors}.values())


def _without_cache(state: Any) -> Any:
    """The state without its graph, or () where it holds keys and values."""
    if isinstance(state, Tensor):
        return state.detach()
    if not isinstance(state, tuple):
        return state
    if _holds_cache(state):
        return ()
    return getattr(type(state), "_make", tuple)([_without_cache(part) for part in state])


def _holds_cache(state: Any) -> bool:
    return isinstance(state, KeyValue) or (isinstance(state, tuple) and any(_holds_cache(part) for part in state))
