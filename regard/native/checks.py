"""Checks of what C reads without asking. ValueError: a defect of the caller, told before memory is touched."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def expect(found: object, wanted: object, what: str) -> None:
    """Refuse what differs from what is wanted."""
    if found != wanted:
        raise ValueError(f"{what} is {found}, and has to be {wanted}")


def require(right: bool, what: str) -> None:
    """Refuse what is not right."""
    if not right:
        raise ValueError(what)


def shaped(x: Tensor | None, shape: Sequence[int], type: torch.dtype, what: str) -> Tensor:
    """``x`` where it is such a tensor, one number after the other, in this machine's memory."""
    if x is None:
        raise ValueError(f"{what} is missing")
    if x.dtype is not type or x.shape != shape or not x.is_cpu or not x.is_contiguous():
        how = "" if x.is_contiguous() else ", not contiguous"
        raise ValueError(f"{what} is {x.dtype} {list(x.shape)} on {x.device}{how}, and has to be {type} {list(shape)}")
    return x
