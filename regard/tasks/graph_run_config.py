"""The base config of graph tasks, and the files of a graph. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.core.wording import pluralize
from regard.models.graph.config import GraphNetConfig
from regard.models.wide_config import require_baseline
from regard.runs.run_config import Confidence, DataSection, Proposal, UnsmoothedRunConfig


class GraphFilesConfig(BaseModel):
    """The files of a graph."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Path = Field(description="a .npz of arrays, or a node table (.csv or .tsv)")
    edges: Path | None = Field(None, description="the edge table of a node table, two node names per row")
    features: Path | None = Field(
        None,
        description="a .npy of features (nodes, features) for a .npz without features; it is memory-mapped, so with "
        "data.batch_nodes only the features of a batch are in memory",
    )

    @property
    def name(self) -> str:
        """Name of the first file."""
        return str(self.source)


class NodeSplit(BaseModel):
    """A random split of the labeled nodes, instead of that of the file (Kipf & Welling 2017, §5.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_class: int = Field(20, ge=1, description="training nodes per class")
    valid: int = Field(500, ge=1, description="validation nodes")
    test: int = Field(1000, ge=0, description="test nodes")
    seed: int = Field(1, ge=0, description="seed of the split")

    @property
    def sizes(self) -> dict[str, int]:
        """Number of nodes by key."""
        return self.model_dump(exclude={"seed"})

    @classmethod
    def fitting(cls, labeled: int, classes: int) -> NodeSplit | None:
        """Return a split of few nodes: a third for training, a third of the rest for validation, the others for tests.

        Returns:
            The split; None for too few nodes.
        """
        per_class = labeled // (3 * max(classes, 1))
        rest = labeled - per_class * classes
        if not per_class or rest < 2:
            return None
        valid = max(rest // 3, 1)
        return cls(per_class=per_class, valid=valid, test=rest - valid, seed=1)


class GraphDataConfig(DataSection):
    """The files of one graph, and how they are read."""

    train: tuple[GraphFilesConfig, ...]  # empty for an imported model without data
    valid: tuple[GraphFilesConfig, ...] | None = None
    normalize: Literal["rows", "none"] = Field("rows", description="rows: divide the features of a node by their sum")
    directed: bool = Field(False, description="directed edges: only the first node of an edge attends to the second")
    split: NodeSplit | None = Field(None, description="a random split; unset: the split in the file")
    part: Literal["train", "valid", "test", "all"] = Field(
        "test", description="nodes for `regard evaluate`; without a split, all labeled nodes"
    )


class GraphRunConfig(UnsmoothedRunConfig):
    """The base config of graph tasks. Label smoothing is 0 by default.

    Attributes:
        automatic: the module with ``confidence`` and ``choose``.
        sizes: the names of the sizes of the network.
    """

    automatic: ClassVar[str]
    sizes: ClassVar[Set[str]] = frozenset({"features", "classes"})

    model: GraphNetConfig = GraphNetConfig()

    @property
    def wide(self) -> bool:
        return self.model.wide

    @property
    def width(self) -> int:
        return self.model.hidden

    @property
    def layers(self) -> int:
        return self.model.layers

    @property
    def summary(self) -> str:
        net: Any = self.model
        heads = f", {pluralize(net.heads, 'head')}" if net.attends else ""
        return (
            f"{net.kind} over a graph, {pluralize(net.layers, 'layer')}, "
            f"width {net.hidden}{heads}, dropout {net.dropout}"
        )

    @model_validator(mode="after")
    def _wide_part_is_fitted(self) -> Self:
        require_baseline(self.wide, self.train.baseline)
        return self

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != self.sizes:
            raise ValueError(f"expected the keys {' and '.join(f'`{name}`' for name in sorted(self.sizes))}")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        confidence: Confidence = import_module(cls.automatic).confidence(files, valid, overrides)
        return confidence

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        proposal: Proposal | None = import_module(cls.automatic).choose(files, valid, overrides)
        return proposal
