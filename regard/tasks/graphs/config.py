"""The config of a model of whole graphs. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.data.shared_files import FilesConfig
from regard.models.graph.config import GraphNetConfig
from regard.runs.run_config import DataSection
from regard.tasks.graph_run_config import GraphRunConfig

# The figures that may choose a checkpoint, of each kind of label.
METRICS = {"class": ("accuracy", "macro_f1", "calibration_error"), "number": ("rmse", "mae", "pearson")}


class GraphsDataConfig(DataSection):
    """Files of graphs, and what describes a node beside its features and its label."""

    train: tuple[FilesConfig, ...]  # none where a model came without its data
    valid: tuple[FilesConfig, ...] | None = None
    label: str = Field("label", description="the key of a graph's label")
    label_kind: Literal["class", "number"] = Field("class", description="one of some classes, or a number")
    directed: bool = Field(False, description="an edge lets its first node see its second alone")
    degrees: int = Field(
        16, ge=0, le=1024, description="describe a node by the number of its neighbors, which count up to this one"
    )
    walks: int = Field(
        0,
        ge=0,
        le=64,
        description="describe a node by the chance that a random walk of 2 … this many steps returns to it, which sees "
        "cycles that layers cannot; time goes with a graph's nodes times its edges",
    )
    noise: int = Field(
        0, ge=0, le=256, description="random features of a node, drawn anew each time in training (Sato et al. 2021)"
    )


class GraphsModelConfig(GraphNetConfig):
    """A network over the nodes, and how they become one answer."""

    layers: int = Field(3, ge=1, le=64, description="as many edges away a node can see")
    width: int = Field(16, ge=1, le=1 << 14, description="features a head")
    heads: int = Field(
        4, ge=1, le=1 << 10, description="of all layers but the last, side by side; gcn and gin have one"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="of the inputs of each layer, and before the last of the answer"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="of attention weights, an edge at a time")
    pooling: Literal["mean", "sum", "max", "attention"] = Field(
        "attention", description="of the nodes of a graph; attention shows the weight of each node"
    )


class GraphsConfig(GraphRunConfig):
    """Everything that decides the run of a model of graphs. Frozen; saved with every value."""

    automatic: ClassVar[str] = "regard.tasks.graphs.automatic_config"
    metric_names: ClassVar[tuple[str, ...]] = tuple(name for names in METRICS.values() for name in names)

    data: GraphsDataConfig
    model: GraphsModelConfig = GraphsModelConfig()

    @property
    def summary(self) -> str:
        return f"{super().summary}, pooling {self.model.pooling}"

    @model_validator(mode="after")
    def _best_by_fits_the_labels(self) -> Self:
        by, kind = self.train.best_by, self.data.label_kind
        if by != "loss" and by not in METRICS[kind]:
            raise InvalidCombination(
                "train.best_by", "data.label_kind", why=f"{by} is not measured of a {kind}",
                help=f"--set train.best_by={METRICS[kind][0]}",
            )  # fmt: skip
        return self
