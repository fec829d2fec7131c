"""reformer_pytorch: hashed attention of shared queries and keys, within buckets, each pair counted once."""

from __future__ import annotations

import torch
from reformer_pytorch import LSHAttention
from torch import Tensor, nn

from .exchange import Kind, serve


def run(module: nn.Module, query: Tensor, value: Tensor) -> dict[str, Tensor]:
    torch.manual_seed(3)  # it draws its rotations from torch's generator
    return {"output": module(query, value)[0][:, 24:]}


if __name__ == "__main__":
    serve({"LSHAttention": Kind(LSHAttention, run, lambda module: {})})
