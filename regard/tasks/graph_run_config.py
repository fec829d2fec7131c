"""The base of configs of tasks over graphs, and the files of one graph. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.core.wording import pluralize
from regard.models.graph.config import GraphNetConfig
from regard.runs.run_config import Confidence, DataSection, Proposal, UnsmoothedRunConfig


class GraphFilesConfig(BaseModel):
    """The files of one graph."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Path = Field(description="a .npz of arrays, or a .csv or .tsv of nodes")
    edges: Path | None = Field(None, description="of a table of nodes: the table of edges, two names a line")
    features: Path | None = Field(
        None,
        description="of a .npz without features: a .npy of them (nodes, features), read where it lies: with "
        "data.batch_nodes memory holds those of a batch alone",
    )

    @property
    def name(self) -> str:
        """The name of the first file."""
        return str(self.source)


class NodeSplit(BaseModel):
    """A split of the labeled nodes drawn by a seed, instead of that of the file (Kipf & Welling 2017, §5.1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_class: int = Field(20, ge=1, description="nodes of each class to train on")
    valid: int = Field(500, ge=1, description="nodes to validate on")
    test: int = Field(1000, ge=0, description="nodes to test on")
    seed: int = Field(1, ge=0, description="of the draw")

    @property
    def sizes(self) -> dict[str, int]:
        """The numbers of nodes by key."""
        return self.model_dump(exclude={"seed"})

    @classmethod
    def fitting(cls, labeled: int, classes: int) -> NodeSplit | None:
        """A split of so few nodes: a third to train on, a third of the others to validate on; None for too few."""
        each = labeled // (3 * max(classes, 1))
        rest = labeled - each * classes
        if not each or rest < 2:
            return None
        valid = max(rest // 3, 1)
        return cls(per_class=each, valid=valid, test=rest - valid, seed=1)


class GraphDataConfig(DataSection):
    """One graph, and how it is read."""

    train: tuple[GraphFilesConfig, ...]  # none where a model came without its data
    valid: tuple[GraphFilesConfig, ...] | None = None
    normalize: Literal["rows", "none"] = Field(
        "rows", description="rows: the features of a node are divided by their sum"
    )
    directed: bool = Field(False, description="an edge lets its first node see its second alone")
    split: NodeSplit | None = Field(None, description="a split drawn by a seed; unset: that of the file")
    part: Literal["train", "valid", "test", "all"] = Field(
        "test", description="nodes that `regard evaluate` measures; a file without a split: all that have a label"
    )


class GraphRunConfig(UnsmoothedRunConfig):
    """The base of these configs; no label smoothing unless a config sets it.

    Attributes:
        automatic: the module with ``confidence`` and ``choose``.
        sizes: the names of the sizes of the network.
    """

    automatic: ClassVar[str]
    sizes: ClassVar[Set[str]] = frozenset({"features", "classes"})

    model: GraphNetConfig = GraphNetConfig()

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

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != self.sizes:
            raise ValueError(f"its sizes should be those of {' and '.join(sorted(self.sizes))}")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        confidence: Confidence = import_module(cls.automatic).confidence(files, valid, given)
        return confidence

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        proposal: Proposal | None = import_module(cls.automatic).choose(files, valid, given)
        return proposal
