"""Config of a network over the nodes of a graph. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from regard.models.wide_config import WideConfig


class GraphNetConfig(WideConfig):
    """Layers that each combine a node with its neighbors; the last one computes the outputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["gat", "gatv2", "gcn", "gin", "transformer"] = Field(
        "gat",
        description="weights of neighbors: gat, gatv2, gcn (by degree, not learned), gin (equal weights, "
        "summed), transformer (scaled dot product with a bias per edge)",
    )
    layers: int = Field(2, ge=1, le=64, description="number of layers: the distance in edges that a node can see")
    width: int = Field(8, ge=1, le=1 << 14, description="features of a head")
    heads: int = Field(
        8,
        ge=1,
        le=1 << 10,
        description="number of concatenated heads, in all layers except the last; gcn and gin have one",
    )
    output_heads: int = Field(1, ge=1, le=1 << 10, description="number of heads of the last layer, which are averaged")
    dropout: float = Field(0.6, ge=0, lt=1, description="dropout probability of the inputs of each layer")
    dropout_by_head: bool = Field(
        False, description="each head has its own dropout of the inputs, as in the code of GAT's authors"
    )
    attention_dropout: float = Field(0.6, ge=0, lt=1, description="dropout probability of attention weights, per edge")
    value_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="dropout probability of projected features before their sum, as in the code of GAT's authors",
    )
    skip: bool = Field(False, description="add a layer's input to its output, projected if widths differ")
    sees: Literal["edges", "all"] = Field(
        "edges",
        description="visible nodes; all: every node attends to every node, and only a transformer's bias marks edges; "
        "memory grows with the square of the nodes",
    )

    @property
    def attends(self) -> bool:
        """Return whether the weights of neighbors are learned, per head."""
        return self.kind not in ("gcn", "gin")

    @property
    def hidden(self) -> int:
        """Features of a node between layers."""
        return self.width * (self.heads if self.attends else 1)
