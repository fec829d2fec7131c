"""States of decoders, mixers and mechanisms between two calls, and the four operations on them.

A state is a tree: ``()`` for a stateless module, a tensor whose dimension 0 is the batch, or a tuple (most often a
``NamedTuple``) of states. The functions below work leaf by leaf. A node that requires a different operation, such as a
key/value cache whose rows have different lengths, has a method of the same name. That method is called instead.

State is passed and returned, never stored on a module; a state that was passed on is not used again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.core.wording import pluralize

State = Any  # recursive: Tensor | tuple[State, ...], which type checkers do not support well


def select(state: State, rows: Int[Tensor, "rows"]) -> State:
    """Return the state of some rows: beam reorder, or dropping finished rows.

    Args:
        state: the state.
        rows: (rows,) indices of rows, in any order, repeats allowed.
    """
    return _walk(state, "select", lambda leaf: leaf.index_select(0, rows), rows)


def repeat(state: State, times: int) -> State:
    """Return the state with each row repeated, as when a beam is opened: rows 0, 0, …, 1, 1, …

    Args:
        state: the state.
        times: the number of copies of each row.
    """
    return _walk(state, "repeat", lambda leaf: leaf.repeat_interleave(times, 0), times)


def truncate(state: State, length: Int[Tensor, "batch"]) -> State:
    """Return the state after only some positions of each row, to undo a rejected draft.

    Args:
        state: the state.
        length: (batch,) the number of positions of each row.

    Raises:
        TypeError: for a memory without history (a recurrent cell's); use the earlier state instead.
    """

    def refuse(leaf: Tensor) -> Tensor:
        raise TypeError("the state cannot be truncated: keep the earlier state instead")

    return _walk(state, "truncate", refuse, length)


def join(states: Sequence[State]) -> State:
    """Return the rows of several states as one batch, in order, as when rows join a running batch."""
    first = states[0]
    if isinstance(first, Tensor):
        return torch.cat(list(states), 0)
    own = getattr(first, "join", None)
    if own is not None:
        return own(states)
    return _rebuild(first, [join(children) for children in zip(*states, strict=True)])


def leaves(state: State) -> list[Tensor]:
    """List every tensor of the state, depth first."""
    return [state] if isinstance(state, Tensor) else [leaf for child in state for leaf in leaves(child)]


def rebuilt(like: State, tensors: Sequence[Tensor]) -> State:
    """Return the tree of a state with other tensors.

    Args:
        like: the state that gives the tree.
        tensors: its tensors, in the order of ``leaves``.

    Raises:
        ValueError: if their number, dtypes or sizes, except the number of rows, differ.
    """
    old = leaves(like)
    formats = [f"{tensor.dtype} {list(tensor.shape[1:])}" for tensor in tensors]
    expected = [f"{tensor.dtype} {list(tensor.shape[1:])}" for tensor in old]
    if formats != expected:
        differing = next((pair for pair in zip(formats, expected, strict=False) if pair[0] != pair[1]), None)
        difference = (
            f"{pluralize(len(formats), 'tensor')}, not {len(expected)}"
            if differing is None
            else f"{differing[0]}, not {differing[1]}"
        )
        raise ValueError(f"the state belongs to another model: {difference}")
    remaining = iter(tensors)

    def walk(node: State) -> State:
        return next(remaining) if isinstance(node, Tensor) else _rebuild(node, [walk(child) for child in node])

    return walk(like)


def reset_rows(state: State, start: State, rows: Bool[Tensor, "rows"]) -> State:
    """Return the state with the values of another one in some rows.

    Args:
        state: the state.
        start: the other state, with the same sizes.
        rows: (rows,) True for rows that are replaced.
    """
    pairs = zip(leaves(state), leaves(start), strict=True)
    return rebuilt(state, [torch.where(rows.view(-1, *[1] * (old.dim() - 1)), new, old) for old, new in pairs])


def _walk(state: State, name: str, on_leaf: Callable[[Tensor], Tensor], argument: Any) -> State:
    if isinstance(state, Tensor):
        return on_leaf(state)
    own = getattr(state, name, None)
    if own is not None:
        return own(argument)
    return _rebuild(state, [_walk(child, name, on_leaf, argument) for child in state])


def _rebuild(like: tuple[Any, ...], children: list[State]) -> State:
    make = getattr(type(like), "_make", tuple)  # a NamedTuple keeps its type
    return make(children)
