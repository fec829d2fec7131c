"""The config of a graph model. Imports no torch."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.config.explain import InvalidCombination
from regard.data.shared_files import FilesConfig
from regard.models.graph.config import GraphNetConfig
from regard.models.wide_config import CombinedWideConfig
from regard.runs.run_config import DataSection
from regard.tasks.graph_run_config import GraphRunConfig

# The metrics that ``train.best_by`` may name, by type of label.
METRICS = {"class": ("accuracy", "macro_f1", "calibration_error"), "number": ("rmse", "mae", "pearson")}


class GraphsDataConfig(DataSection):
    """Files of graphs, and additional features of nodes."""

    train: tuple[FilesConfig, ...]  # empty for an imported model without data
    valid: tuple[FilesConfig, ...] | None = None
    label: str = Field("label", description="key of the label of a graph")
    label_kind: Literal["class", "number"] = Field("class", description="prediction for a graph: a class or a number")
    directed: bool = Field(False, description="directed edges: only the first node of an edge attends to the second")
    degrees: int = Field(
        16, ge=0, le=1024, description="add the degree of a node, clipped at this number, as a one-hot feature"
    )
    walks: int = Field(
        0,
        ge=0,
        le=64,
        description="add the probabilities that random walks of 2 to this number of steps return to a node, which show "
        "cycles that the layers cannot detect; costs nodes × edges per graph",
    )
    noise: int = Field(
        0,
        ge=0,
        le=256,
        description="number of random features of a node, drawn for each visit in training (Sato et al. 2021)",
    )


class GraphsModelConfig(GraphNetConfig, CombinedWideConfig):
    """A network over the nodes of a graph, and the pooling of their outputs."""

    layers: int = Field(3, ge=1, le=64, description="number of layers: a node attends to nodes up to this distance")
    width: int = Field(16, ge=1, le=1 << 14, description="features per head")
    heads: int = Field(
        4, ge=1, le=1 << 10, description="heads of all layers except the last, concatenated; gcn and gin have one"
    )
    dropout: float = Field(
        0.1, ge=0, lt=1, description="dropout of the inputs of each layer, and before the output layer"
    )
    attention_dropout: float = Field(0.0, ge=0, lt=1, description="dropout of attention weights, per edge")
    pooling: Literal["mean", "sum", "max", "attention"] = Field(
        "attention", description="pooling of the nodes of a graph; attention returns the weight of each node"
    )


class GraphsConfig(GraphRunConfig):
    """Config of a graph model's run. Frozen; the saved file has a value for every key."""

    automatic: ClassVar[str] = "regard.tasks.graphs.automatic_config"
    metric_names: ClassVar[tuple[str, ...]] = tuple(name for names in METRICS.values() for name in names)

    data: GraphsDataConfig
    model: GraphsModelConfig = GraphsModelConfig()

    @property
    def loss_unit(self) -> str:
        return "" if self.data.label_kind == "number" else "nats"

    @property
    def is_combined(self) -> bool:
        return self.model.is_combined

    @property
    def summary(self) -> str:
        return f"{super().summary}, pooling {self.model.pooling}"

    @model_validator(mode="after")
    def _best_by_fits_the_labels(self) -> Self:
        by, kind = self.train.best_by, self.data.label_kind
        if by != "loss" and by not in METRICS[kind]:
            raise InvalidCombination(
                "train.best_by", "data.label_kind", why=f"{by} is not a metric for label_kind = {kind}",
                help=f"--set train.best_by={METRICS[kind][0]}",
            )  # fmt: skip
        return self
