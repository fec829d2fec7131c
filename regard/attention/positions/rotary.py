"""Rotary positions: queries and keys are rotated by an angle that grows with their position."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from regard.core.reference_mode import in_reference_mode
from regard.native.passes import covers, rotate

Layout = Literal["interleaved", "half"]

# The shape of d features as pairs, with -1 for d/2, and the dimension of the two features of a pair.
PAIRS: dict[str, tuple[tuple[int, int], int]] = {"interleaved": ((-1, 2), -1), "half": ((2, -1), -2)}


class Rotary(nn.Module):
    """Pair i of a query or key at position p: (x₁, x₂) → (x₁ cos pθ_i − x₂ sin pθ_i, x₁ sin pθ_i + x₂ cos pθ_i)

    with θ_i = base^(−2i/d), i = 0 … d/2 − 1 (Su et al. 2021, Eq. 15 and 34). A rotation preserves norms, and (R_m
    q)·(R_n k) = q·(R_{n−m} k): the energy of a dot product depends on the distance alone (Eq. 16). Values are not
    rotated. A cache holds rotated keys, so each key is rotated once.

    Angles are computed in float64, so large positions are exact. No parameters, no state. Cost: length·d per head.

    Args:
        width: d, features of one head, an even number.
        layout: ``interleaved`` pairs features 2i and 2i+1 (the paper), ``half`` i and i + d/2 (GPT-NeoX, Llama). They
            differ in the order of the rows of W_q and W_k only; ``relayout`` converts weights from one layout to the
            other.
        base: the base of the frequencies, above 1.
    """

    def __init__(self, width: int, *, layout: Layout = "interleaved", base: float = 10000.0) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"rotary positions require an even head width, got {width}")
        if layout not in get_args(Layout):
            raise ValueError(f"layout must be one of {', '.join(get_args(Layout))}, got {layout!r}")
        if base <= 1:
            raise ValueError(f"the base of rotary frequencies must be greater than 1, got {base}")
        self.width, self.layout, self.base = width, layout, base

    def angles(self, position: Int[Tensor, "batch length"]) -> Float64[Tensor, "batch length half"]:
        """Return the angles pθ_i, in radians."""
        exponent = torch.arange(0, self.width, 2, dtype=torch.float64, device=position.device) / self.width
        return position[..., None] * self.base**-exponent

    def forward(
        self, x: Float[Tensor, "batch heads length width"], position: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch heads length width"]:
        """Rotate projected queries or keys by their absolute positions."""
        if len(position) > 1 and bool((position == position[:1]).all()):
            position = position[:1]  # one row of angles serves the whole batch, as in training
        precision = torch.promote_types(x.dtype, torch.float32)
        angle = self.angles(position)[:, None]
        cos, sin = angle.cos().to(precision), angle.sin().to(precision)
        if covers(x) and not in_reference_mode():
            rotated = rotate(x, cos[:, 0], sin[:, 0], halves=self.layout == "half")
            if rotated is not None:
                return rotated
        shape, along = PAIRS[self.layout]
        one, two = x.unflatten(-1, shape).unbind(along)
        pairs = torch.stack([one * cos - two * sin, one * sin + two * cos], along)
        return pairs.flatten(-2).to(x.dtype)


def relayout(rows: Float[Tensor, "rows *rest"], *, heads: int, to: Layout) -> Float[Tensor, "rows *rest"]:
    """Reorder rows of W_q or W_k, or of their biases, from the other layout into layout ``to``.

    Per head half[j] = interleaved[2j] and half[j + d/2] = interleaved[2j + 1].

    Args:
        rows: (rows, …) of all heads, head by head.
        heads: the number of heads of this matrix: key heads for W_k.
        to: the layout of the result.
    """
    shape, _ = PAIRS["interleaved" if to == "half" else "half"]
    return rows.unflatten(0, (heads, *shape)).transpose(1, 2).flatten(0, 2)
