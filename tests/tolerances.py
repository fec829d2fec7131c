"""One table for all tests: how far two results may be apart, by number format, path and law.

torch.testing.assert_close(fast, slow, **within(torch.float32, path="fused", law="gradient"))
assert abs(one - other) <= within(torch.float32, law="batch")["atol"]
"""

from __future__ import annotations

from typing import Literal, TypedDict

import torch

__all__ = ["Law", "Within", "within"]

# reference: the readable form, einsum and softmax. fused: SDPA and any other kernel that is chosen for speed.
# foreign: another library, or the reference computed in float64.
Path = Literal["reference", "fused", "foreign"]
# value, gradient: the same thing computed by two paths. chunk, reorder, batch: the same path, differently cut,
# ordered or batched. exact: bit for bit, as resume must be.
Law = Literal["value", "gradient", "chunk", "reorder", "batch", "exact"]


class Within(TypedDict):
    rtol: float
    atol: float


# (format, path) -> absolute, and relative to the larger side; laws of one path only know "reference" and "fused".
_FORMATS: dict[tuple[torch.dtype, Path], float] = {
    (torch.float64, "reference"): 1e-12,
    (torch.float64, "fused"): 1e-10,
    (torch.float64, "foreign"): 1e-10,
    (torch.float32, "reference"): 1e-5,
    (torch.float32, "fused"): 1e-5,
    (torch.float32, "foreign"): 1e-5,
    (torch.bfloat16, "reference"): 2e-2,
    (torch.bfloat16, "fused"): 2e-2,
    (torch.bfloat16, "foreign"): 4e-2,
}
# A gradient sums over everything the value passed through once more. Picking rows changes no arithmetic by itself,
# but a matrix product of another shape adds in another order, so `reorder` is a law of rounding too.
_LAWS: dict[Law, float] = {"value": 1, "gradient": 10, "chunk": 1, "reorder": 1, "batch": 1, "exact": 0}


def within(dtype: torch.dtype, *, path: Path = "reference", law: Law = "value") -> Within:
    """``rtol`` and ``atol`` for ``torch.testing.assert_close``."""
    allowed = _FORMATS[dtype, path] * _LAWS[law]
    return Within(rtol=allowed, atol=allowed)
