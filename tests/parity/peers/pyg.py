"""PyTorch Geometric: graph attention, its second version, and graph convolution."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv

from .exchange import Kind, serve


def layer(module: nn.Module, x: Tensor, edges: Tensor) -> dict[str, Tensor]:
    """``edges``: from, to, without those of nodes to themselves, which the layers add."""
    return {"output": module(x, edges.long())}


if __name__ == "__main__":
    serve({"GATConv": Kind(GATConv, layer), "GATv2Conv": Kind(GATv2Conv, layer), "GCNConv": Kind(GCNConv, layer)})
