"""Graphs as numbers: the features of nodes, and the classes or the scale of labels; kept in the run folder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.answers.scale import Scale, read_number
from regard.core import atomic_files
from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.core.wording import counted
from regard.data.graph_lines import MOST_FEATURES, GraphLine, read_graph_lines
from regard.data.graph_union import return_probabilities
from regard.data.graphs import UNLABELLED, Graph, edge_pairs
from regard.data.labels import Labels
from regard.data.shared_files import FilesConfig
from regard.errors import DataError
from regard.tasks.graphs.config import GraphsDataConfig
from regard.tasks.split import read_part

__all__ = ["GraphCodec", "label_number", "make_codec", "no_graphs", "open_codec", "open_run"]

NODES, LABELS = "nodes.json", "labels.json"  # in the folder of tokenizers
MOST_WALKED = 4096  # nodes of a graph on which walks are followed
MOST_KINDS = 10_000  # labels of nodes


class GraphCodec(NamedTuple):
    """Columns of a node's features: 1, its own ones, its label, its degree, its walks; then those that are noise.

    ``scale``: what each own feature is divided by, its root mean square over the nodes of training. ``kinds``: the
    labels of nodes; one that training had not is none. ``labels``: of graphs, or ``number``: mean and deviation.
    """

    data: GraphsDataConfig
    scale: tuple[float, ...]
    kinds: tuple[str, ...]
    labels: Labels
    number: Scale | None = None

    @property
    def features(self) -> int:
        """Features of a node, noise among them."""
        degrees, walks = self.data.degrees + 1 if self.data.degrees else 0, max(self.data.walks - 1, 0)
        return 1 + len(self.scale) + len(self.kinds) + degrees + walks + self.data.noise

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"features": self.features, "classes": len(self.labels.names) if self.number is None else 1}

    def require(self, line: GraphLine) -> None:
        """DataError where a graph is none that the network can read."""
        width = line.features.shape[1]
        if width != len(self.scale):
            why = f"those of training have {len(self.scale)}"
            raise DataError(f"the nodes of the graph have {counted(width, 'feature')}", where=line.where, why=why)
        if bool(line.kinds) != bool(self.kinds):
            what = "the nodes of the graph have labels" if line.kinds else "the nodes of the graph have no labels"
            raise DataError(what, where=line.where, why=f"those of training have {'' if self.kinds else 'no '}labels")
        if self.data.walks and line.nodes > MOST_WALKED:
            why = f"walks go over {MOST_WALKED:,} at most"
            raise DataError(
                f"the graph has {counted(line.nodes, 'node')}", where=line.where, why=why, help="data.walks = 0"
            )

    def graph(self, line: GraphLine) -> Graph:
        """The graph as the network reads it, without noise. DataError where it cannot."""
        self.require(line)
        pairs = edge_pairs(line.edges, line.nodes, directed=self.data.directed)
        every = np.arange(line.nodes)
        columns = _Columns(line.nodes)
        columns.dense(np.ones((line.nodes, 1)))
        columns.dense(line.features / np.array(self.scale) if self.scale else line.features)
        if self.kinds:
            places = {kind: place for place, kind in enumerate(self.kinds)}
            known = np.array([places.get(kind, -1) for kind in line.kinds])
            columns.chosen(every[known >= 0], known[known >= 0], len(self.kinds))
        if self.data.degrees:
            count = np.bincount(pairs[0], minlength=line.nodes) - 1
            columns.chosen(every, count.clip(max=self.data.degrees), self.data.degrees + 1)
        if self.data.walks > 1:
            columns.dense(return_probabilities(pairs, line.nodes, self.data.walks))
        entries, values = columns.sorted()
        unlabelled = np.full(line.nodes, UNLABELLED, np.int64)
        return Graph(line.where or "", line.nodes, self.features, pairs, entries, values, unlabelled, ())

    def noisy(self, graph: Graph, key: int, visit: int) -> Graph:
        """The graph with random features: of a visit in training; in evaluation (0) of its contents ``key`` alone."""
        wide = self.data.noise
        if not wide:
            return graph
        columns = _Columns(graph.nodes)
        columns.dense(np.random.default_rng([key, visit]).standard_normal((graph.nodes, wide)))
        entries, values = columns.sorted()
        entries = np.concatenate([graph.entries, entries + np.array([[0], [self.features - wide]])], 1)
        order = np.argsort(entries[0], kind="stable")
        return replace(graph, entries=entries[:, order], values=np.concatenate([graph.values, values])[order])


class _Columns:
    """Features of nodes side by side, as entries that are not 0."""

    def __init__(self, nodes: int) -> None:
        self._width, self._entries, self._values = 0, [np.zeros((2, 0), np.int64)], [np.zeros(0, np.float32)]
        self._nodes = nodes

    def dense(self, table: npt.NDArray[Any]) -> None:
        place = np.stack(np.nonzero(table)).astype(np.int64)
        self._add(place, table[place[0], place[1]], table.shape[1])

    def chosen(self, node: npt.NDArray[np.int64], column: npt.NDArray[np.int64], width: int) -> None:
        """A 1 in one column of each of these nodes."""
        self._add(np.stack([node, column]), np.ones(len(node)), width)

    def _add(self, place: npt.NDArray[np.int64], values: npt.NDArray[Any], width: int) -> None:
        self._entries.append(place + np.array([[0], [self._width]]))
        with np.errstate(over="ignore"):  # what becomes of it is told by the answer
            self._values.append(values.astype(np.float32))
        self._width += width

    def sorted(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        entries, values = np.concatenate(self._entries, 1), np.concatenate(self._values)
        order = np.argsort(entries[0] * self._width + entries[1], kind="stable")
        return entries[:, order], values[order]


def make_codec(run: RunFiles, say: Report) -> GraphCodec:
    """Learn labels, and what nodes are told by, from the training files; save both in the run."""
    data: GraphsDataConfig = run.config.data
    lines = read_graph_part(data, "train")
    if not lines:
        raise no_graphs(data.train)
    kinds = tuple(sorted({kind for line in lines for kind in line.kinds}))
    if len(kinds) > MOST_KINDS:
        why = f"{MOST_KINDS:,} are learned"
        raise DataError(f"nodes have {counted(len(kinds), 'different label')}", where=lines[0].where, why=why)
    codec = GraphCodec(data, (1.0,) * lines[0].features.shape[1], kinds, Labels((), ()))
    for line in lines:
        codec.require(line)
    codec = codec._replace(scale=_root_mean_squares(lines))
    if data.label_kind == "number":
        scale = Scale.of([label_number(line) for line in lines])
        codec, told = codec._replace(number=scale), f"numbers, mean {scale.mean:.4g}, deviation {scale.deviation:.4g}"
    else:
        help = "--set data.label=KEY reads labels from another key, --set data.label_kind=number learns numbers"
        counts = Counter(line.label or "" for line in lines)
        codec = codec._replace(labels=Labels.of(counts, where=data.train[0].name, help=help))
        told = codec.labels.told()
    say(f"labels: {told}")
    _save(codec, run)
    atomic_files.fault_point("vocabulary")
    return codec


def read_graph_part(data: GraphsDataConfig, name: str) -> list[GraphLine]:
    """Read a part of the data, ``train`` or ``valid``: see ``tasks.split.read_part``."""

    def read(corpora: Sequence[FilesConfig]) -> Iterator[GraphLine]:
        return read_graph_lines(corpora, data.label)

    def labels(line: GraphLine) -> tuple[str, ...]:
        return () if data.label_kind == "number" else (line.label or "",)

    return read_part(data, name, read, key=lambda line: line.digest(), labels=labels)


def no_graphs(corpora: Sequence[FilesConfig]) -> DataError:
    """The error of files that have none, or none in their share."""
    name, share = corpora[0].name, corpora[0].share
    if share == (0.0, 1.0):
        return DataError("there is no graph", where=name, why="the file is empty")
    why = "graphs are held out by a hash of what they hold, equal ones together, and there are few different ones"
    what = f"no graph falls into the share {share[0]:g} to {share[1]:g}"
    return DataError(what, where=name, why=why, help="--valid-file valid.jsonl names graphs to validate on")


def label_number(line: GraphLine) -> float:
    """The label of a graph as a number. DataError, with its line, where it is none."""
    return read_number((line.label or "",), line.where or "")


def _root_mean_squares(lines: Sequence[GraphLine]) -> tuple[float, ...]:
    total = np.sum([np.square(line.features, dtype=np.float64).sum(0) for line in lines], 0)
    found = np.sqrt(total / sum(line.nodes for line in lines))
    return tuple(np.where(found > 0, found, 1.0).tolist())


def _save(codec: GraphCodec, run: RunFiles) -> None:
    save_codec_file(run.tokenizers / NODES, {"scale": list(codec.scale), "kinds": list(codec.kinds)})
    (codec.labels if codec.number is None else codec.number).save(run.tokenizers / LABELS)


def open_codec(run: RunFiles) -> GraphCodec:
    """Return the codec that ``make_codec`` saved; raises ModelError if it is missing or damaged."""
    data, path = run.config.data, run.tokenizers / LABELS
    scale, kinds = open_codec_file(run.tokenizers / NODES, _node_features)
    if data.label_kind == "class":
        return GraphCodec(data, scale, kinds, Labels.open(path))
    return GraphCodec(data, scale, kinds, Labels((), ()), Scale.open(path))


def _node_features(value: Any) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return the scales and the kinds of nodes that are saved; raises ValueError if they cannot be those."""
    scale, kinds = tuple(map(float, value["scale"])), tuple(value["kinds"])
    if not all(0 < each < math.inf for each in scale) or len(scale) > MOST_FEATURES:
        raise ValueError("scales are numbers above 0")
    if len({*kinds}) != len(kinds) or len(kinds) > MOST_KINDS or not all(isinstance(each, str) for each in kinds):
        raise ValueError("labels of nodes are different texts")
    return scale, kinds


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)
