"""Compression of memory by a convolution, and the loss that it learns from, beside compressive_transformer_pytorch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.models.transformer.compressive import Compressive, Compressor

from .peers.asking import Case, Pair, Peer, check, needs_peers, ways

WIDTH, HEADS, SEGMENT, RATE, ROWS = 8, 2, 12, 3, 2
SIZES = {"dim": WIDTH, "heads": HEADS, "seq_len": SEGMENT, "mem_len": SEGMENT, "cmem_len": SEGMENT, "cmem_ratio": RATE}


def mixer() -> Compressive:
    return Compressive(
        WIDTH, heads=HEADS, memory=SEGMENT, segment=SEGMENT, compressed=SEGMENT, rate=RATE, reconstruction="attention"
    )  # fmt: skip


def convolution(ours: Compressive | Compressor, prefix: str) -> dict[str, Pair]:
    made = getattr(ours, "compressor", ours).convolution
    assert made is not None and made.bias is not None
    return {f"{prefix}conv.weight": Pair(made.weight), f"{prefix}conv.bias": Pair(made.bias)}


def columns() -> dict[str, Tensor]:
    return {"x": torch.randn(ROWS, SEGMENT, WIDTH)}


def segment() -> dict[str, Tensor]:
    """The columns of a segment, the full memory before it, and projections."""
    return columns() | {
        "memory": torch.randn(ROWS, SEGMENT, WIDTH),
        "to_q": torch.randn(WIDTH, WIDTH),
        "to_kv": torch.randn(2 * WIDTH, WIDTH),
    }


def reconstruct(ours: Compressive, x: Tensor, memory: Tensor, to_q: Tensor, to_kv: Tensor) -> dict[str, Tensor]:
    """Slots are those of the state afterwards, cut off from the gradient on both sides but for the loss."""
    with torch.no_grad():
        for part, given in zip(("query", "key", "value"), (to_q, *to_kv.split(WIDTH)), strict=True):
            getattr(ours.attention, part).weight.copy_(given)
    slots = ours.compressor(memory.detach())
    loss = ours._reconstruction_loss(x.detach(), memory.detach(), slots).sum() / (ROWS * SEGMENT)
    return {"slots": slots, "loss": loss}


PEER = Peer(
    "compressive",
    (
        Case(
            name="ConvCompress", kind="ConvCompress", options={"dim": WIDTH, "ratio": RATE},
            ours=lambda: Compressor("conv", WIDTH, segment=SEGMENT, rate=RATE),
            pairs=lambda ours: convolution(ours, ""), inputs=columns, run=lambda ours, x: {"slots": ours(x)},
        ),
        Case(
            name="SelfAttention, its reconstruction loss", kind="SelfAttention", options=SIZES, ours=mixer,
            pairs=lambda ours: convolution(ours, "compress_mem_fn."), inputs=segment, run=reconstruct,
        ),
    ),
)  # fmt: skip


@needs_peers
@pytest.mark.parametrize(("case", "dtype", "way"), ways(PEER))
def test_compressive_transformer_pytorch(case: Case, dtype: torch.dtype, way: str) -> None:
    check(PEER, case, dtype, way)
