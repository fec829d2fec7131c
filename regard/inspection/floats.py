"""Tensors in JSON documents."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from torch import Tensor


def encode_floats(tensor: Tensor) -> dict[str, Any]:
    """A tensor as JSON: its shape, and base64 of its float32 values, little-endian, row by row."""
    array = np.ascontiguousarray(tensor.detach().float().cpu().numpy().astype("<f4"))
    return {"shape": list(array.shape), "data": base64.b64encode(array.tobytes()).decode()}
