"""Checks of everything that C reads unchecked. ValueError: an error of the caller, raised before memory is accessed."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def require_equal(value: object, expected: object, name: str) -> None:
    """Raise ValueError if ``value`` differs from ``expected``."""
    if value != expected:
        raise ValueError(f"{name} must be {expected}, got {value}")


def require(condition: bool, message: str) -> None:
    """Raise ValueError with this message if the condition is false."""
    if not condition:
        raise ValueError(message)


def require_tensor(x: Tensor | None, shape: Sequence[int], type: torch.dtype, name: str) -> Tensor:
    """Return ``x`` if it is a contiguous CPU tensor of this shape and type, else raise ValueError."""
    if x is None:
        raise ValueError(f"{name} is missing")
    if x.dtype is not type or x.shape != shape or not x.is_cpu or not x.is_contiguous():
        layout = "" if x.is_contiguous() else ", not contiguous"
        raise ValueError(f"{name} must be {type} {list(shape)}, got {x.dtype} {list(x.shape)} on {x.device}{layout}")
    return x
