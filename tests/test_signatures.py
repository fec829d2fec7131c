"""Types and shapes in signatures are checked while tests run: a wrong argument does not pass in silence."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from regard.losses import projected_cross_entropy


def test_a_wrong_argument_is_refused_by_name() -> None:
    with pytest.raises(TypeCheckError, match="'target'"):
        projected_cross_entropy(torch.zeros(2, 3), torch.zeros(5, 3), [0, 1], smoothing=0.0)  # type: ignore[arg-type]


def test_a_wrong_shape_is_refused_by_name() -> None:
    with pytest.raises(TypeCheckError, match="'target'"):
        projected_cross_entropy(torch.zeros(2, 3), torch.zeros(5, 3), torch.zeros(4, dtype=torch.int64), smoothing=0.0)
