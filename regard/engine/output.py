"""Output projection of fast decoding: features to log-probabilities, few rows at a time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.engine.packed import PackedLinear, PackedMatrix
from regard.search.contract import Reduce

# Rows that share one pass over the output projection, and rows whose probabilities are computed and reduced at a time.
PROJECTED, REDUCED = 64, 16


class FastHead:
    """A packed output projection that computes in ``dtype``."""

    def __init__(
        self, weight: Float[Tensor, "types width"], bias: Float[Tensor, "types"] | None, dtype: torch.dtype
    ) -> None:
        output = PackedMatrix(weight.detach().to(dtype, copy=True), None if bias is None else bias.detach().to(dtype))
        self.projection = PackedLinear(output, alone=True)

    def log_probabilities(self, features: Float[Tensor, "padded width"], count: int) -> Float[Tensor, "{count} types"]:
        """Log-probabilities of the first ``count`` rows, in float32 or wider."""
        (found,) = self.reduce(features, count, lambda log_p, rows: (log_p,))
        return found

    def reduce(self, features: Float[Tensor, "padded width"], count: int, reduce: Reduce) -> tuple[Tensor, ...]:
        """Tensors that ``reduce`` makes of the first ``count`` rows, few at a time, so that they stay in the cache."""
        found = []
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(REDUCED)):
                first = start + number * REDUCED
                log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                found.append(reduce(log_p, slice(first, first + len(piece))))
        return found[0] if len(found) == 1 else tuple(map(torch.cat, zip(*found, strict=True)))
