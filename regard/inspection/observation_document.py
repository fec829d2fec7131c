"""JSON document of an observation of any task, as the page draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.observation import Alternative, Axis, Observation
from regard.inspection.floats import encode_floats

__all__ = ["observation_document"]


def observation_document(found: Observation, model: Mapping[str, str]) -> dict[str, Any]:
    """The document; ``model``: name, task and checkpoint. A log probability of −∞ is null."""
    return {
        "format": "regard-observation",
        "version": 1,
        "model": dict(model),
        "text": found.text,
        "attention": {
            place: {"weights": encode_floats(each.weights), "query": _axis(each.query), "key": _axis(each.key)}
            for place, each in found.attention.items()
        },
        "steps": [
            {"label": step.label, "log_probability": _finite(step.log_probability)}
            | {"alternatives": _alternatives(step.alternatives)}
            for step in found.steps
        ],
        "following": _alternatives(found.following),
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "labels": list(axis.labels)}


def _alternatives(found: Sequence[Alternative]) -> list[dict[str, Any]]:
    return [{"label": each.label, "log_probability": _finite(each.log_probability)} for each in found]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
