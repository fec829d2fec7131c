"""The config of a classifier of nodes. Imports no torch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.core.wording import pluralize
from regard.tasks.graph_run_config import GraphDataConfig, GraphRunConfig


class NodesDataConfig(GraphDataConfig):
    """One graph, and how much of it a batch is."""

    batch_nodes: int | None = Field(
        None,
        ge=1,
        le=1 << 28,
        description="nodes of the loss in a batch, each with what it looks at; unset: all, in the whole graph",
    )
    neighbors: tuple[Annotated[int, Field(ge=1, le=1 << 20)], ...] | None = Field(
        None,
        description="neighbors of a node that training looks at, at most, drawn anew in each epoch; one number a "
        "layer, at first that of the nodes of the loss; unset: all",
    )


class NodesConfig(GraphRunConfig):
    """Everything that decides the run of a classifier of nodes. Frozen; saved with every value."""

    automatic: ClassVar[str] = "regard.tasks.nodes.automatic_config"
    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error")

    data: NodesDataConfig

    @model_validator(mode="after")
    def _neighbors_can_be_drawn(self) -> Self:
        """Drawing wants batches, as many numbers as layers, and layers that look along edges."""
        drawn, batch = self.data.neighbors, self.data.batch_nodes
        if drawn is not None and batch is None:
            why = "neighbors are drawn for the nodes of a batch, and the whole graph is one"
            raise InvalidCombination("data.neighbors", "data.batch_nodes", why=why, help="--set data.batch_nodes=512")
        if drawn is not None and len(drawn) != self.model.layers:
            both = f"{pluralize(self.model.layers, 'layer')} and {pluralize(len(drawn), 'number')}"
            why = f"each layer has a number, and there are {both}"
            help = f"--set 'data.neighbors={[10] * self.model.layers}'"
            raise InvalidCombination("data.neighbors", "model.layers", why=why, help=help)
        if drawn is not None and self.model.kind == "gin":
            why = "a sum over some neighbors is smaller than that over all, which is looked at after training"
            raise InvalidCombination("data.neighbors", "model.kind", why=why, help="--set model.kind=gatv2")
        if batch is not None and self.model.sees == "all":
            why = "where every node looks at every other, no part of the graph is enough for some of its nodes"
            raise InvalidCombination("data.batch_nodes", "model.sees", why=why, help="--set model.sees=edges")
        return self
