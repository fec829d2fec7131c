"""Parts of a document that are computed from its attention maps: rollout, and the terms of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from regard.attention.weight_terms import WeightTerms
from regard.core.observation import AttentionMap
from regard.inspection.measures import rollout
from regard.inspection.observation_document import encode_floats


def rollouts(maps: Sequence[AttentionMap]) -> dict[str, Any]:
    """Return the attention rollout of ``encoder``, or of ``decoder`` for a model without an encoder.

    Also return ``source``, the decoder's mean cross-attention times that rollout, or ``pooling``, the pooling weights
    times it. {} if the layers attend to several sequences, as for two texts or the neighbors of a node.
    """
    own = [attention for attention in maps if attention.layer is not None and not attention.part.endswith("source")]
    sides = {attention.side for attention in own}
    side = "encoder" if "encoder" in sides else "decoder"
    layers = [attention for attention in own if attention.side == side]
    if not layers or not _share_one_sequence(layers):
        return {}
    rolled = rollout([attention.weights.float() for attention in layers])
    parts = {side: encode_floats(rolled)}
    for part in ("source", "pooling"):
        tables = [attention for attention in maps if (attention.part or attention.side).endswith(part)]
        if tables and all(attention.key.labels == layers[0].key.labels for attention in tables):
            parts[part] = encode_floats(_mean(tables) @ rolled)
    return parts


def _share_one_sequence(layers: Sequence[AttentionMap]) -> bool:
    labels, part = layers[0].query.labels, layers[0].part
    return all(
        attention.part == part and attention.query.labels == attention.key.labels == labels for attention in layers
    )


def _mean(tables: Sequence[AttentionMap]) -> Tensor:
    return torch.stack([attention.weights.float().mean(0) for attention in tables]).mean(0)


def vectors(maps: Sequence[AttentionMap]) -> dict[str, Any]:
    """Return the terms of the energies of each attention, by its name, with encoded tensors."""
    return {attention.place: _encoded(attention.source.terms()) for attention in maps if attention.source is not None}


def _encoded(terms: WeightTerms) -> dict[str, Any]:
    plain = {"kind": terms.kind, "formula": terms.formula, "scale": terms.scale}
    tensors = {name: getattr(terms, name) for name in ("query", "key", "value", "allowed", "vector", "bias")}
    return plain | {name: None if tensor is None else encode_floats(tensor) for name, tensor in tensors.items()}
