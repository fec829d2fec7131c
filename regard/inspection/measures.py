"""Measures of an attention head: one number each, from its weights alone."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

Kind = Literal["encoder", "decoder", "source"]

Weights = Float[Tensor, "heads query key"]


def measures(weights: Weights, kind: Kind) -> dict[str, list[float]]:
    """Return the measures of each head, by name. Queries with a single key count like others.

    ``entropy``: −Σ α ln α of a query's weights in nats, mean over queries: 0 for one key, ln S for equal weights.
    ``distance``: Σ α |i − j|, mean over queries; target positions are scaled to the length of the source.
    ``diagonality``: 1 − distance / the largest possible distance; 1 is a straight line. ``largest``: the largest weight
    of a query, mean over queries. ``end``: the weight on the end symbol; in decoder self-attention on the begin symbol.
    """
    queries, keys = weights.shape[1:]
    key_position = torch.arange(keys, dtype=weights.dtype)
    query_position = torch.arange(queries, dtype=weights.dtype)
    if kind == "source":
        query_position = query_position * max(keys - 1, 0) / max(queries - 1, 1)
    distances = (query_position[:, None] - key_position).abs()
    reachable = distances.tril() if kind == "decoder" else distances
    furthest = reachable.amax(1).mean().clamp_min(torch.finfo(weights.dtype).eps)
    distance = (weights * distances).sum(-1).mean(-1)
    values_by_name = {
        "entropy": torch.special.entr(weights).sum(-1).mean(-1),
        "distance": distance,
        "diagonality": 1 - distance / furthest,
        "largest": weights.amax(-1).mean(-1),
        "end": weights[:, :, 0 if kind == "decoder" else -1].mean(-1),
    }
    return {name: [round(value, 6) for value in values.tolist()] for name, values in values_by_name.items()}


def rollout(layers: list[Weights]) -> Float[Tensor, "query key"]:
    """Attention rollout (Abnar & Zuidema 2020, §3): ∏ (½ mean over heads + ½ I), rows normalized, last layer first.

    The share of each input position in each output position, if layers only mixed positions and every residual path
    carried half.
    """
    size = layers[0].shape[-1]
    mixed = torch.eye(size, dtype=layers[0].dtype)
    for weights in layers:
        step = (weights.mean(0) + torch.eye(size, dtype=weights.dtype)) / 2
        mixed = step / step.sum(-1, keepdim=True) @ mixed
    return mixed
