"""Record of the weights of every attention of a model, by name, through hooks; modules are not modified."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from regard.attention.contract import Attended, Decoder, Encoder, Mechanism
from regard.attention.weight_terms import AttentionCall, AttentionSource
from regard.core.observation import AttentionMap, Axis

Network = TypeVar("Network", bound=nn.Module)


@contextmanager
def observe(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Record the weights of every attention of ``model`` inside the block: name → (batch, heads, query, key).

    Names are ``encoder.0.self``, ``decoder.0.self``, ``decoder.0.source`` and so on (``decoder.source`` where cells are
    stacked and read once, ``copying.source`` of a pointer). A later pass overwrites an earlier one, so run one
    teacher-forced pass. The queries of a recurrent decoder, token by token within a pass, are joined.

    Every mechanism has to return weights and therefore uses its reference path: decode first, then observe the output.
    The hooks are on ``model`` during the block. Do not use it on a model that other threads are using (see
    ``shared_copy``). Weights show which keys a model attended to, not why it decided.
    """
    seen: dict[str, Tensor] = {}

    def record(name: str, call: AttentionCall, continues: bool) -> None:
        seen[name] = torch.cat([seen[name], call.weights], 2) if continues else call.weights

    with _watched(model, seen, record):
        yield seen


@contextmanager
def observe_calls(model: nn.Module) -> Iterator[dict[str, AttentionCall]]:
    """Record the calls of every attention of ``model`` inside the block, by the names of ``observe``."""
    seen: dict[str, AttentionCall] = {}

    def record(name: str, call: AttentionCall, continues: bool) -> None:
        seen[name] = seen[name].extended(call) if continues else call

    with _watched(model, seen, record):
        yield seen


def attention_maps(
    calls: Mapping[str, AttentionCall], query: Axis, key: Axis, *, row: int = 0, side: str = "encoder"
) -> tuple[AttentionMap, ...]:
    """Return the attention weights of a network over one sequence, for an observation.

    Args:
        calls: the calls, by the names of ``observe``.
        query: the positions of the sequence, without its padding.
        key: the positions that are attended to, without padding.
        row: the row of the batch.
        side: prefix for names without a side of the network.
    """
    queries, keys = slice(len(query.labels)), slice(len(key.labels))
    return tuple(
        AttentionMap.at(
            f"{side}.{name}" if name[0].isdecimal() else name, call.weights[row, :, queries, keys].cpu(), query, key,
            call.allowed(row)[queries, keys].cpu(), AttentionSource(name, call, row, queries, keys),
        )
        for name, call in calls.items()
    )  # fmt: skip


def mechanisms(model: nn.Module) -> dict[str, Mechanism]:
    """Return the mechanism of each attention, by the names of ``observe``."""
    return {attention_name(path): module for path, module in model.named_modules() if isinstance(module, Mechanism)}


def shared_copy(model: Network) -> Network:
    """Return a copy of a model that shares all tensors, to observe it while other threads use the original."""
    shared = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})


@contextmanager
def _watched(
    model: nn.Module, seen: dict[str, Any], record: Callable[[str, AttentionCall, bool], None]
) -> Iterator[None]:
    """Call ``record`` with each attention call, and whether it continues one in ``seen``."""
    handles, sides = [], []
    for path, module in model.named_modules():
        if isinstance(module, (Encoder, Decoder)):
            sides.append(f"{path}." if path else "")
            handles.append(module.register_forward_pre_hook(_forget_hook(seen, attention_name(path))))
        if isinstance(module, Mechanism):
            continues = any(path.startswith(side) for side in sides)
            handles.append(module.register_forward_pre_hook(_require_weights, with_kwargs=True))
            handles.append(
                module.register_forward_hook(_record_hook(seen, record, attention_name(path), continues=continues))
            )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _require_weights(module: nn.Module, positional: Any, keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    return positional, {**keywords, "need_weights": True}


def _forget_hook(seen: dict[str, Any], side: str) -> Any:
    """Return a hook that drops records of an earlier pass of that encoder or decoder."""

    def hook(module: nn.Module, positional: Any) -> None:
        for name in [name for name in seen if not side or name.startswith(f"{side}.")]:
            del seen[name]

    return hook


def _record_hook(
    seen: dict[str, Any], record: Callable[[str, AttentionCall, bool], None], name: str, *, continues: bool
) -> Any:
    """Return a hook that records a call; ``continues``: the queries of one pass may arrive in several calls."""

    def hook(module: Mechanism, positional: Any, attended: Attended) -> None:
        if attended.weights is not None:
            query, key, value, bound = positional[:4]
            call = AttentionCall(query, key, value, bound, attended.weights.detach(), module)
            record(name, call, continues and name in seen)

    return hook


def attention_name(path: str) -> str:
    """Return the name of an attention by module path.

    ``decoder.layers.0.reader.attention.mechanism`` becomes ``decoder.0.source``.
    """
    renamed = {"mixer": "self", "reader": "source", "copying": "copying.source"}
    skipped = {"layers", "attention", "mechanism"}
    return ".".join(renamed.get(part, part) for part in path.split(".") if part not in skipped)
