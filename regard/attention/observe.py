"""What each attention looks at, by name, taken from the outside: nothing is stored on modules, no type changes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Decoder, Encoder, Mechanism
from regard.attention.mask import Bound

__all__ = ["AttentionCall", "mechanisms", "observe", "observe_calls", "twin"]


class AttentionCall(NamedTuple):
    """What an attention was asked and what it answered: queries, prepared keys, values, who may see whom; weights."""

    query: Tensor  # (batch, heads, query, width)
    key: Tensor  # (batch, prepared_heads, key, prepared)
    value: Tensor  # (batch, key_heads, key, value)
    bound: Bound
    weights: Tensor  # (batch, heads, query, key)

    def then(self, later: AttentionCall) -> AttentionCall:
        """Queries of one pass may come in several calls, to the same keys."""
        query = torch.cat([self.query, later.query], 2)
        return later._replace(query=query, weights=torch.cat([self.weights, later.weights], 2))


@contextmanager
def observe(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """What every attention of ``model`` looks at while the block runs: name -> (batch, heads, query, key).

    Names are ``encoder.0.self``, ``decoder.0.self``, ``decoder.0.source`` and so on (``decoder.source`` where cells
    are stacked and read once). A later pass overwrites an earlier one, so run one, teacher-forced; what a recurrent
    decoder asks token by token within a pass is laid side by side. Every mechanism is asked for its weights, hence
    takes its reference path: decode fast first, then observe the outcome. Hooks are on ``model`` meanwhile: not for a
    model that other threads are using (see ``twin``). Attention shows where a model looked, not why it decided.
    """
    seen: dict[str, Tensor] = {}

    def keep(name: str, look: AttentionCall, goes_on: bool) -> None:
        seen[name] = torch.cat([seen[name], look.weights], 2) if goes_on else look.weights

    with _watched(model, seen, keep):
        yield seen


@contextmanager
def observe_calls(model: nn.Module) -> Iterator[dict[str, AttentionCall]]:
    """As ``observe``, with all that the weights were made of, and that they were applied to."""
    seen: dict[str, AttentionCall] = {}

    def keep(name: str, look: AttentionCall, goes_on: bool) -> None:
        seen[name] = seen[name].then(look) if goes_on else look

    with _watched(model, seen, keep):
        yield seen


def mechanisms(model: nn.Module) -> dict[str, Mechanism]:
    """The mechanism of each attention, by the name that ``observe`` gives it."""
    return {_name(path): module for path, module in model.named_modules() if isinstance(module, Mechanism)}


def twin(model: nn.Module) -> nn.Module:
    """The same model with modules of its own and every tensor shared: to be observed while others use the first."""
    shared = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})


@contextmanager
def _watched(
    model: nn.Module, seen: dict[str, Any], keep: Callable[[str, AttentionCall, bool], None]
) -> Iterator[None]:
    """``keep`` is told of each look, and whether it goes on with one in ``seen``."""
    handles, sides = [], []
    for path, module in model.named_modules():
        if isinstance(module, (Encoder, Decoder)):
            sides.append(f"{path}." if path else "")
            handles.append(module.register_forward_pre_hook(_forget(seen, _name(path))))
        if isinstance(module, Mechanism):
            in_turn = any(path.startswith(side) for side in sides)
            handles.append(module.register_forward_pre_hook(_ask, with_kwargs=True))
            handles.append(module.register_forward_hook(_told(seen, keep, _name(path), in_turn=in_turn)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _ask(module: nn.Module, positional: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return positional, {**keywords, "need_weights": True}


def _forget(seen: dict[str, Any], side: str) -> Any:
    """A pass of that encoder or decoder begins."""

    def hook(module: nn.Module, positional: Any) -> None:
        for name in [name for name in seen if not side or name.startswith(f"{side}.")]:
            del seen[name]

    return hook


def _told(seen: dict[str, Any], keep: Callable[[str, AttentionCall, bool], None], name: str, *, in_turn: bool) -> Any:
    """``in_turn``: queries of one pass may come in several calls."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> None:
        if attended.weights is not None:
            query, key, value, bound = positional[:4]
            keep(name, AttentionCall(query, key, value, bound, attended.weights.detach()), in_turn and name in seen)

    return hook


def _name(path: str) -> str:
    """``decoder.layers.0.reader.attention.mechanism`` is ``decoder.0.source``."""
    renamed = {"mixer": "self", "reader": "source"}
    skipped = {"layers", "attention", "mechanism"}
    return ".".join(renamed.get(part, part) for part in path.split(".") if part not in skipped)
