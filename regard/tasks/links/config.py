"""The config of a link model. Imports no torch."""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar, Literal

from pydantic import Field

from regard.models.graph.config import GraphNetConfig
from regard.tasks.graph_run_config import GraphDataConfig, GraphRunConfig


class LinksDataConfig(GraphDataConfig):
    """The files of one graph, and the share of held-out edges."""

    valid_share: float = Field(
        0.05, gt=0, lt=0.5, description="share of the edges for validation, drawn by `data.draw`"
    )
    test_share: float = Field(0.1, gt=0, lt=0.5, description="share of the edges for `regard evaluate`")
    draw: int = Field(
        1, ge=0, description="seed of the held-out edges, and of the pairs without an edge they are ranked with"
    )


class LinksModelConfig(GraphNetConfig):
    """A network over the nodes, and the decoder that compares two of its outputs."""

    outputs: int = Field(16, ge=1, le=1 << 14, description="output features of a node, from which links are predicted")
    decoder: Literal["dot", "bilinear"] = Field(
        "dot", description="comparison of two nodes: dot product (Kipf & Welling 2016, Eq. 2), or bilinear form"
    )


class LinksConfig(GraphRunConfig):
    """Config of a link model's run. Frozen; the saved file has a value for every key."""

    automatic: ClassVar[str] = "regard.tasks.links.automatic_config"
    sizes: ClassVar[Set[str]] = frozenset({"features"})
    metric_names: ClassVar[tuple[str, ...]] = ("auc", "average_precision")

    data: LinksDataConfig
    model: LinksModelConfig = LinksModelConfig()
