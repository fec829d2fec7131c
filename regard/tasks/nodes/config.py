"""The config of a node classifier. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.core.wording import pluralize
from regard.tasks.graph_run_config import GraphDataConfig, GraphRunConfig


class NodesDataConfig(GraphDataConfig):
    """The files of one graph, and the sampling of batches."""

    batch_nodes: int | None = Field(
        None,
        ge=1,
        le=1 << 28,
        description="nodes with a loss in a batch, which also contains their neighborhoods; unset: the whole graph",
    )
    neighbors: tuple[Annotated[int, Field(ge=1, le=1 << 20)], ...] | None = Field(
        None,
        description="maximum number of neighbors that a node attends to in training, drawn in each epoch; one number "
        "per layer, starting at the nodes with a loss; unset: all",
    )


class NodesConfig(GraphRunConfig):
    """Config of a node classifier's run. Frozen; the saved file has a value for every key."""

    automatic: ClassVar[str] = "regard.tasks.nodes.automatic_config"
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error")

    data: NodesDataConfig

    @model_validator(mode="after")
    def _neighbors_can_be_drawn(self) -> Self:
        """Check that sampling has batches, one number per layer, and layers that attend along edges."""
        drawn, batch = self.data.neighbors, self.data.batch_nodes
        if drawn is not None and batch is None:
            why = "neighbors are sampled for the nodes of a batch, but a batch is the whole graph"
            raise InvalidCombination("data.neighbors", "data.batch_nodes", why=why, help="--set data.batch_nodes=512")
        if drawn is not None and len(drawn) != self.model.layers:
            both = f"{pluralize(self.model.layers, 'layer')}, {pluralize(len(drawn), 'number')}"
            why = f"each layer needs one number: {both}"
            help = f"--set 'data.neighbors={[10] * self.model.layers}'"
            raise InvalidCombination("data.neighbors", "model.layers", why=why, help=help)
        if drawn is not None and self.model.kind == "gin":
            why = "gin sums over neighbors: a sum over sampled neighbors is smaller than the sum in evaluation"
            raise InvalidCombination("data.neighbors", "model.kind", why=why, help="--set model.kind=gatv2")
        if batch is not None and self.model.sees == "all":
            why = "with sees = all, every node attends to every other node, so a batch needs the whole graph"
            raise InvalidCombination("data.batch_nodes", "model.sees", why=why, help="--set model.sees=edges")
        return self
