"""x-transformers: rotary positions in interleaved pairs, ALiBi, T5's buckets."""

from __future__ import annotations

from torch import Tensor, nn
from x_transformers.x_transformers import (
    AlibiPositionalBias,
    RelativePositionBias,
    RotaryEmbedding,
    apply_rotary_pos_emb,
)

from .exchange import Kind, serve


def rotary(module: nn.Module, x: Tensor, position: Tensor) -> dict[str, Tensor]:
    angles, scale = module(position)
    return {"turned": apply_rotary_pos_emb(x, angles, scale)}


def bias(module: nn.Module, query: Tensor, key: Tensor) -> dict[str, Tensor]:
    """``query`` and ``key``: how many there are; the queries are the last ones."""
    return {"bias": module(int(query), int(key))}


if __name__ == "__main__":
    serve(
        {
            "RotaryEmbedding": Kind(RotaryEmbedding, rotary),
            "AlibiPositionalBias": Kind(AlibiPositionalBias, bias),
            "RelativePositionBias": Kind(RelativePositionBias, bias),
        }
    )
