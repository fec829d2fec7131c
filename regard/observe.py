"""Attention weights by name, taken from the outside: nothing is stored on modules, no return type changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Decoder, Encoder, Mechanism

__all__ = ["observe", "twin"]


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
    handles, sides = [], []
    for path, module in model.named_modules():
        if isinstance(module, (Encoder, Decoder)):
            sides.append(f"{path}." if path else "")
            handles.append(module.register_forward_pre_hook(_forget(seen, _name(path))))
        if isinstance(module, Mechanism):
            in_turn = any(path.startswith(side) for side in sides)
            handles.append(module.register_forward_pre_hook(_ask, with_kwargs=True))
            handles.append(module.register_forward_hook(_keep(seen, _name(path), in_turn=in_turn)))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def twin(model: nn.Module) -> nn.Module:
    """The same model with modules of its own and every tensor shared: to be observed while others use the first."""
    shared = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})


def _ask(module: nn.Module, positional: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return positional, {**keywords, "need_weights": True}


def _forget(seen: dict[str, Tensor], side: str) -> Any:
    """A pass of that encoder or decoder begins."""

    def hook(module: nn.Module, positional: Any) -> None:
        for name in [name for name in seen if not side or name.startswith(f"{side}.")]:
            del seen[name]

    return hook


def _keep(seen: dict[str, Tensor], name: str, *, in_turn: bool) -> Any:
    """``in_turn``: queries of one pass may come in several calls."""

    def hook(module: nn.Module, positional: Any, attended: Attended) -> None:
        if attended.weights is not None:
            weights = attended.weights.detach()
            seen[name] = torch.cat([seen[name], weights], 2) if in_turn and name in seen else weights

    return hook


def _name(path: str) -> str:
    """``decoder.layers.0.reader.attention.mechanism`` is ``decoder.0.source``."""
    renamed = {"mixer": "self", "reader": "source"}
    skipped = {"layers", "attention", "mechanism"}
    return ".".join(renamed.get(part, part) for part in path.split(".") if part not in skipped)
