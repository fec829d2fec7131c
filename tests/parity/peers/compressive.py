"""compressive_transformer_pytorch: the convolution that compresses old memory, and its reconstruction loss."""

from __future__ import annotations

import torch
from compressive_transformer_pytorch.compressive_transformer_pytorch import ConvCompress, SelfAttention
from torch import Tensor, nn

from .exchange import Kind, serve

PROJECTIONS = ("to_q", "to_kv")


def run(module: nn.Module, x: Tensor, memory: Tensor, to_q: Tensor, to_kv: Tensor) -> dict[str, Tensor]:
    """``x`` after a full memory: as many columns leave it. Projections are given, since their gradient is cut off."""
    with torch.no_grad():
        module.to_q.weight.copy_(to_q)
        module.to_kv.weight.copy_(to_kv)
    _, memories, loss = module.train()(x, memories=(memory, memory[:, :0]))
    return {"slots": memories.compressed_mem, "loss": loss}


def of_convolution(module: nn.Module) -> dict[str, Tensor]:
    return {name: each for name, each in module.named_parameters() if "compress_mem_fn" in name}


if __name__ == "__main__":
    serve(
        {
            "ConvCompress": Kind(ConvCompress, lambda module, x: {"slots": module(x)}),
            "SelfAttention": Kind(SelfAttention, run, of_convolution),
        }
    )
