"""Attention weights by name, taken from the outside: nothing is stored on modules, no return type changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.attention.contract import Attended, Mechanism

__all__ = ["observe", "twin"]


@contextmanager
def observe(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """What every attention of ``model`` looks at while the block runs: name -> (batch, heads, query, key).

    Names are ``encoder.0.self``, ``decoder.0.self``, ``decoder.0.source`` and so on; a later call overwrites an
    earlier one, so run one teacher-forced pass. Every mechanism is asked for its weights, hence takes its reference
    path: decode fast first, then observe the outcome. Hooks are on ``model`` meanwhile: not for a model that other
    threads are using (see ``twin``). Attention shows where a model looked, not why it decided.
    """
    seen: dict[str, Tensor] = {}
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, Mechanism):
            handles.append(module.register_forward_pre_hook(_ask, with_kwargs=True))
            handles.append(module.register_forward_hook(_keep(seen, _name(path))))
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


def _keep(seen: dict[str, Tensor], name: str) -> Any:
    def hook(module: nn.Module, positional: Any, attended: Attended) -> None:
        if attended.weights is not None:
            seen[name] = attended.weights.detach()

    return hook


def _name(path: str) -> str:
    """``decoder.layers.0.reader.attention.mechanism`` is ``decoder.0.source``."""
    renamed = {"mixer": "self", "reader": "source"}
    skipped = {"layers", "attention", "mechanism"}
    return ".".join(renamed.get(part, part) for part in path.split(".") if part not in skipped)
