"""Config of a network over the nodes of a graph. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class GraphNetConfig(BaseModel):
    """Layers that each mix a node with its neighbors; the last one gives what is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["gat", "gatv2", "gcn", "gin", "transformer"] = Field(
        "gat",
        description="how a node weighs its neighbors: gat, gatv2, gcn (by degrees, not learned), gin (all "
        "alike, summed), transformer (scaled products and a bias by edge)",
    )
    layers: int = Field(2, ge=1, le=64, description="as many edges away a node can see")
    width: int = Field(8, ge=1, le=1 << 14, description="features a head")
    heads: int = Field(
        8, ge=1, le=1 << 10, description="of all layers but the last, side by side; gcn and gin have one"
    )
    output_heads: int = Field(1, ge=1, le=1 << 10, description="of the last layer, whose mean is taken")
    dropout: float = Field(0.6, ge=0, lt=1, description="of the inputs of each layer")
    dropout_by_head: bool = Field(
        False, description="each head drops other inputs than the others, as in the code of GAT's authors"
    )
    attention_dropout: float = Field(0.6, ge=0, lt=1, description="of attention weights, an edge at a time")
    value_dropout: float = Field(
        0.0, ge=0, lt=1, description="of the projected features before they are summed, as in the code of GAT's authors"
    )
    skip: bool = Field(False, description="add a layer's input to its output, projected where widths differ")
    sees: Literal["edges", "all"] = Field(
        "edges",
        description="all: every node looks at every other, and a transformer's bias alone tells edges; memory goes "
        "with the square of the nodes",
    )

    @property
    def attends(self) -> bool:
        """Return whether weights of neighbors are learned, by heads."""
        return self.kind not in ("gcn", "gin")

    @property
    def hidden(self) -> int:
        """Features of a node between layers."""
        return self.width * (self.heads if self.attends else 1)
