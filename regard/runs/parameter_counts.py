"""Parameter counts by part of a network, computed without allocating its memory."""

from __future__ import annotations

from collections.abc import Callable

from torch.nn import Module, Parameter

from regard.runs.size_check import outline

# Part of a parameter by a component of its name, for all architectures; the first match counts.
PARTS = {
    "reader": "source attention",
    "attention": "self-attention",
    "forget": "self-attention",
    "value_mix": "self-attention",
    "feed_forward": "feed-forward",
    "convolution": "convolutions",
    "core": "cells",
    "mixer": "mixers",
    "bridge": "first state",
    "summary_proj": "first state",
    "combine": "read-out",
    "read_out": "read-out",
    "query": "source attention",
    "mechanism": "attention",
    "project": "projections",
    "context": "source attention",
    "input_proj": "widths",
    "output_proj": "widths",
    "residual": "widths",
}
# Parts outside the stacks: pointers, attention pooling, classes, and comparison or linking of pairs.
TOPS = {
    "copying": "copying",
    "ctc": "CTC",
    "key": "pooling",
    "query": "pooling",
    "pooling": "pooling",
    "output": "classes",
    "inner": "classes",
    "outer": "classes",
    "bias": "classes",
    "weight": "classes",
    "gain": "classes",
    "norm": "norms",
    "compare": "comparison",
    "forecast_head": "forecasts",
    "skip": "linear map",
    "known": "covariates",
}


def parameters_by_part(build: Callable[[], Module]) -> dict[str, int]:
    """Return the number of parameters of each part of the network that ``build`` returns, without allocating memory.

    Matrices shared by several parts are counted once, as ``embeddings``.
    """
    counts: dict[str, int] = {}
    for name, tensor in outline(build).items():
        if isinstance(tensor, Parameter):
            part = _part(name)
            counts[part] = counts.get(part, 0) + tensor.numel()
    return counts


def _part(name: str) -> str:
    """Return a parameter's part: ``decoder.layers.0.reader.attention.query.weight`` → ``decoder source attention``."""
    side, _, rest = name.removeprefix("net.").partition(".")
    if side in TOPS:
        return TOPS[side]
    if side == "head" or "embedding" in name:
        return "embeddings"
    components = rest.split(".")
    part = next((part for component, part in PARTS.items() if component in components), None)
    if part is None:
        part = "norms" if "norm" in rest else "biases" if components[-1] == "bias" else "other"
    return part if side == "layers" else f"{side} {part}"
