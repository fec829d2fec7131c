"""The inspection document, format version 2: the JSON of an observation of any task, which the page draws."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.observation import Alternative, AttentionMap, Axis, Observation, Prediction, Surface
from regard.inspection.measures import Kind, measures


def observation_document(observation: Observation, model: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return the document of an observation. A log probability of −∞ is null.

    Args:
        observation: the observation of an input.
        model: the name, task, checkpoint and, for translation, languages of the model.
        text: the input as a line.
    """
    return {
        "format": "regard-inspection",
        "version": 2,
        "model": dict(model),
        "text": text,
        "surfaces": [_surface(surface) for surface in observation.surfaces],
        "predictions": [_prediction(prediction) for prediction in observation.predictions],
        "attention": {attention.place: _attention(attention) for attention in observation.attention},
        "influences": [
            {**influence._asdict(), "values": [finite(value) for value in influence.values]}
            for influence in observation.influences
        ],
        "facts": dict(observation.facts),
    }


def kind_of(place: str) -> Kind | None:
    """Return the type of an attention for the measures of heads; None if its positions have no order."""
    names = place.split(".")
    if "source" in names:
        return "source"
    if "self" not in names:
        return None
    return "decoder" if names[0] == "decoder" else "encoder"


def _surface(surface: Surface) -> dict[str, Any]:
    lists = {name: list(value) for name, value in surface._asdict().items() if isinstance(value, tuple)}
    numbers = surface.numbers
    described = None
    if numbers is not None:
        values = encode_floats(torch.tensor(np.asarray(numbers.values, np.float32)))
        described = {**numbers._asdict(), "values": values, "channels": list(numbers.channels)}
    return {**surface._asdict(), **lists, "edges": [list(edge) for edge in surface.edges], "numbers": described}


def _prediction(prediction: Prediction) -> dict[str, Any]:
    value, fields = prediction.log_probability, prediction._asdict()
    site = fields.pop("site")
    return {
        "at": {**site._asdict(), "pieces": list(site.pieces)},
        **fields,
        "log_probability": None if value is None else finite(value),
        "alternatives": alternatives(prediction.alternatives),
    }


def _attention(attention: AttentionMap) -> dict[str, Any]:
    kind = kind_of(attention.place)
    allowed = attention.allowed
    return {
        "side": attention.side,
        "layer": attention.layer,
        "part": attention.part,
        "mechanism": None if attention.source is None else attention.source.kind,
        "weights": encode_floats(attention.weights),
        "allowed": None if allowed is None or bool(allowed.all()) else encode_floats(allowed),
        "query": _axis(attention.query),
        "key": _axis(attention.key),
        "measures": {} if kind is None else measures(attention.weights.float(), kind),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "labels": list(axis.labels)}


def alternatives(alternatives: Sequence[Alternative]) -> list[dict[str, Any]]:
    """Return the JSON of alternatives."""
    return [
        {"label": alternative.label, "log_probability": finite(alternative.log_probability)}
        | ({} if alternative.id is None else {"id": alternative.id})
        for alternative in alternatives
    ]


def finite(value: float) -> float | None:
    """Return a number as JSON: null for −∞."""
    return value if math.isfinite(value) else None


def encode_floats(tensor: Tensor) -> dict[str, Any]:
    """A tensor as JSON: its shape, and base64 of its float32 values, little-endian, row by row."""
    array = np.ascontiguousarray(tensor.detach().float().cpu().numpy().astype("<f4"))
    return {"shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}
