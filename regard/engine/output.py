"""Output projection of fast decoding: features to log-probabilities, a few rows at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.engine.packed import PackedLinear, PackedMatrix
from regard.search.contract import Reduce

# Rows per pass over the output projection, and rows whose probabilities are computed and reduced together.
PROJECTED, REDUCED = 64, 16


class FastHead:
    """A packed output projection that computes in ``dtype``."""

    def __init__(
        self, weight: Float[Tensor, "types width"], bias: Float[Tensor, "types"] | None, dtype: torch.dtype
    ) -> None:
        output = PackedMatrix(weight.detach().to(dtype, copy=True), None if bias is None else bias.detach().to(dtype))
        self.projection = PackedLinear(output, alone=True)

    def log_probabilities(self, features: Float[Tensor, "padded width"], count: int) -> Float[Tensor, "{count} types"]:
        """Return log-probabilities of the first ``count`` rows, in float32 or wider."""
        (log_p_rows,) = self.reduce(features, count, lambda log_p, rows: (log_p,))
        return log_p_rows

    def reduce(self, features: Float[Tensor, "padded width"], count: int, reduce: Reduce) -> tuple[Tensor, ...]:
        """Apply ``reduce`` to the first ``count`` rows, a few at a time, to stay within the processor's cache."""
        parts = []
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(REDUCED)):
                first = start + number * REDUCED
                log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                parts.append(reduce(log_p, slice(first, first + len(piece))))
        return parts[0] if len(parts) == 1 else tuple(map(torch.cat, zip(*parts, strict=True)))
