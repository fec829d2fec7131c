"""The config of a model of links. Imports no torch."""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar, Literal

from pydantic import Field

from regard.models.graph.config import GraphNetConfig
from regard.tasks.graph_run_config import GraphDataConfig, GraphRunConfig


class LinksDataConfig(GraphDataConfig):
    """One graph, and which of its edges are held out."""

    valid_share: float = Field(0.05, gt=0, lt=0.5, description="of the edges: to validate on, drawn by `data.draw`")
    test_share: float = Field(0.1, gt=0, lt=0.5, description="of the edges: for `regard evaluate`")
    draw: int = Field(1, ge=0, description="seed of what is held out, and of the pairs without an edge beside it")


class LinksModelConfig(GraphNetConfig):
    """A network over the nodes, and how two of its outputs are compared."""

    outputs: int = Field(16, ge=1, le=1 << 14, description="features of a node that links are predicted from")
    decoder: Literal["dot", "bilinear"] = Field(
        "dot", description="of two nodes: their product (Kipf & Welling 2016, Eq. 2), or one by a learned matrix"
    )


class LinksConfig(GraphRunConfig):
    """Everything that decides the run of a model of links. Frozen; saved with every value."""

    automatic: ClassVar[str] = "regard.tasks.links.automatic_config"
    sizes: ClassVar[Set[str]] = frozenset({"features"})
    metric_names: ClassVar[tuple[str, ...]] = ("auc", "average_precision")

    data: LinksDataConfig
    model: LinksModelConfig = LinksModelConfig()
