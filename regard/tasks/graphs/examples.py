"""Graphs with labels as examples: a batch is one graph of disjoint parts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.task import ExampleIndices
from regard.core.wording import counted
from regard.data.graph_lines import GraphLine
from regard.data.graph_union import disjoint_union
from regard.data.graphs import Graph, edge_count
from regard.models.graph.layers import NodeFeatures
from regard.tasks.graph_batch import GraphTensors, graph_tensors
from regard.tasks.graphs.codec import GraphCodec, label_number

__all__ = ["GraphExamples", "GraphsBatch", "graph_inputs", "noise_key", "runs_of"]


class GraphsBatch(NamedTuple):
    """Graphs as one of disjoint parts, their nodes one after another; ``weight`` counts graphs."""

    entries: Tensor  # (2, entries): node and feature of what is not 0
    values: Tensor  # (entries,)
    pairs: Tensor  # (2, edges)
    degree: Tensor  # (edges,)
    counts: Tensor  # (graphs,): nodes of each
    label: Tensor  # (graphs,): classes, or deviations from the mean
    unit: Tensor  # (graphs,): what a deviation of numbers is
    index: Tensor  # type: ignore[assignment]  # (graphs,); hides tuple.index
    weight: float
    features: int

    def inputs(self) -> tuple[NodeFeatures, Tensor, Tensor, Tensor]:
        """Inputs of the network."""
        features = NodeFeatures(self.entries, self.values, int(self.counts.sum()), self.features)
        return (*GraphTensors(features, self.pairs, self.degree), self.counts)


class GraphExamples:
    """The graphs of files as ``core.task.Examples``, in memory."""

    def __init__(self, lines: Sequence[GraphLine], codec: GraphCodec, *, nodes: int, seed: int) -> None:
        self._codec, self._nodes, self._seed = codec, nodes, seed
        self._digests = [line.digest() for line in lines]
        self.graphs = [codec.graph(line) for line in lines]
        self.labels = _targets(lines, codec)
        self._sizes = np.array([line.nodes for line in lines])

    def __len__(self) -> int:
        return len(self.graphs)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """Graphs in an order drawn from (seed, epoch), cut where a batch has its nodes: no padding, no sorting."""
        if epoch is None:
            order = np.arange(len(self))
        else:
            order = np.random.default_rng((self._seed, epoch)).permutation(len(self))
        visit = 0 if epoch is None else epoch + 1
        return [ExampleIndices(part, np.full_like(part, visit)) for part in runs_of(order, self._sizes, self._nodes)]

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> GraphsBatch:
        places = list(zip(*map(np.ndarray.tolist, examples), strict=True))
        shown = [self._codec.noisy(self.graphs[at], noise_key(self._digests[at]), visit) for at, visit in places]
        (features, pairs, degree), counts = graph_tensors(disjoint_union(shown)), self._sizes[examples.index]
        unit = 1.0 if self._codec.number is None else self._codec.number.deviation
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        return GraphsBatch(
            features.pairs, features.values, pairs, degree, torch.from_numpy(counts),
            torch.from_numpy(self.labels[examples.index]), torch.full((len(counts),), unit, dtype=torch.float64), index,
            float(len(counts)), features.width,
        )  # fmt: skip

    def where(self, index: int) -> str:
        return self.graphs[index].where

    def digest(self) -> str:
        """A sha256 of all that training sees."""
        whole = hashlib.sha256("\n".join(self._digests).encode())
        whole.update(self.labels.tobytes())
        return whole.hexdigest()

    @property
    def told(self) -> str:
        """Sizes in a line."""
        edges = edge_count(self.graphs)
        nodes = f"{self._sizes.min():,} to {counted(self._sizes.max(), 'node')}"
        return f"{counted(len(self), 'graph')} of {nodes}, {counted(edges, 'edge')}"


def noise_key(digest: str) -> int:
    """Seed of the random features of a graph, by the digest of its contents."""
    return int(digest[:15], 16)


def runs_of(order: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], most: int) -> list[npt.NDArray[np.int64]]:
    """Consecutive runs of ``order`` whose sizes sum to at most ``most``; what exceeds it alone is a run of its own."""
    cuts, total = list[int](), 0
    for place, size in enumerate(sizes[order].tolist()):
        if place and total + size > most:
            cuts.append(place)
            total = 0
        total += size
    return np.split(order, cuts)


def _targets(lines: Sequence[GraphLine], codec: GraphCodec) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Classes, or deviations of numbers from their mean in training."""
    if codec.number is not None:
        return (np.array([label_number(line) for line in lines]) - codec.number.mean) / codec.number.deviation
    numbers = codec.labels.numbers
    return np.array([numbers.of(line.label or "", line.where or "") for line in lines], np.int64)


def graph_inputs(graphs: Sequence[Graph], device: torch.device) -> tuple[NodeFeatures, Tensor, Tensor, Tensor]:
    """Inputs of the network of these graphs."""
    counts = torch.tensor([graph.nodes for graph in graphs], device=device)
    return (*graph_tensors(disjoint_union(graphs), device), counts)
