"""Networks over time series and over graphs of nodes as ONNX graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.kernel import Kernel
from regard.data.time_series import SeriesScale
from regard.metrics.forecast import Gaussian, Quantiles
from regard.models.graph.layers import NodeFeatures, degree_weights
from regard.share.encoder_parity import ROWS
from regard.share.onnx_inputs import FieldPart, ForwardPart, ReferenceBatch, sizes
from regard.share.onnx_trace import GraphNames
from regard.tasks.graph_batch import GraphTensors, graph_tensors

MISSING = 0.1  # share of missing values of a random table


class SeriesPart(FieldPart):
    """Tables in their own unit; missing values are marked, and filled with the last value before them.

    The columns are the targets, the covariates of the past, and those that are known in advance. A run with the scale
    of several series has it as an input.
    """

    def __init__(self, net: nn.Module, codecs: Any) -> None:
        super().__init__(net, codecs)
        scales = self.field.scales
        self.by_series = len(scales.scales) > 1
        self.targets, self.past = len(scales.targets), scales.any.past.shape[1]
        self.width = self.targets + self.past + self.field.known
        self.scale: Tensor
        self.register_buffer("scale", self.scale_of(scales.any))
        future, scale = ["future"] * bool(self.field.known), ["scale"] * self.by_series
        self.names = GraphNames(["table", "missing", *future, *scale], ["forecast"])

    @staticmethod
    def scale_of(scale: Any) -> Tensor:
        """Return mean and deviation of the columns of a series: (2, columns)."""
        own = np.stack([scale.mean, scale.deviation])
        return torch.tensor(np.concatenate([own, scale.past, scale.known], 1), dtype=torch.float32)

    def compute(self, table: Tensor, missing: Tensor, *further: Tensor) -> Tensor:  # type: ignore[override]
        future = further[0] if self.field.known else None
        scale = further[-1] if self.by_series else self.scale[None]
        mean, deviation = scale[:, :1], scale[:, 1:]
        targets = self.targets
        standard = (table - mean) / deviation
        own, marks, shared = standard[..., :targets], missing.to(standard.dtype), standard[..., targets:]
        if self.field.together:
            history = torch.cat([own, marks, shared], -1)[:, None]
        else:
            pairs = torch.stack([own, marks], -1).transpose(1, 2)
            history = torch.cat([pairs, shared[:, None].expand(-1, targets, -1, -1)], -1)
        first = self.width - self.field.known
        known = table[:, : self.field.ahead, :0] if future is None else future
        if future is not None:
            known = (future - mean[..., first:]) / deviation[..., first:]
        valid = torch.ones_like(history[..., 0], dtype=torch.bool)
        return self.restored(self.net(history, valid, known), mean[..., :targets], deviation[..., :targets])

    def restored(self, outputs: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return the numbers of each forecast (rows, ahead, targets, numbers) in the unit of the table."""
        answer = self.codecs.answer
        kind = answer.distribution
        numbers = outputs.unflatten(1, (answer.ahead, answer.series, kind.numbers))
        numbers = kind.widened(numbers, answer.width)
        mean, deviation = mean[..., None], deviation[..., None]
        if isinstance(kind, Gaussian):
            return torch.cat([numbers[..., :1] * deviation + mean, numbers[..., 1:].exp() * deviation], -1)
        restored: Tensor = numbers * deviation + mean
        return restored

    def example(self, number: int) -> tuple[Tensor, ...]:
        back, ahead = self.field.back, self.field.ahead
        table = torch.zeros(sizes(number, "batch", back, self.width))
        future = [torch.zeros(sizes(number, "batch", ahead, self.field.known))] if self.field.known else []
        scale = [torch.ones(sizes(number, "batch", 2, self.width))] if self.by_series else []
        return table, torch.zeros(sizes(number, "batch", back, self.targets), dtype=torch.bool), *future, *scale

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        back, known = self.field.back, self.field.known
        scales = self._scales(values)
        numbers = torch.from_numpy(np.stack(rows))
        columns = [*range(self.targets), *range(2 * self.targets, numbers.shape[2])]
        table = numbers[:, :, columns] * scales[:, 1:] + scales[:, :1]
        future = [table[:, back:, self.width - known :].contiguous()] if known else []
        marks = numbers[:, :back, self.targets : 2 * self.targets] == 1
        return table[:, :back].contiguous(), marks, *future, *([scales] if self.by_series else [])

    def expected(self, values: Sequence[Any], rows: Sequence[Any]) -> Tensor:
        batch = self.field.pad(rows)
        mean, deviation = self._scales(values)[..., : self.targets].split(1, 1)
        return self.restored(self.net(batch.values, batch.valid, batch.future), mean, deviation)

    def _scales(self, values: Sequence[Any]) -> Tensor:
        """Return (rows, 2, columns) the scales of windows; a value may also be a scale."""
        known = self.field.scales
        scales = [value if isinstance(value, SeriesScale) else known.of(value.series) for value in values]
        return torch.stack([*map(self.scale_of, scales)])

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        """Yield random tables of each series, and the lines, which have no covariates."""
        field, random = self.field, np.random.default_rng(0)
        scales = [*islice(cycle(field.scales.scales.values()), ROWS)]
        rows = random.standard_normal((ROWS, field.back + field.ahead, self.width + self.targets), np.float32)
        rows[..., self.targets : 2 * self.targets] = random.random(rows[..., : self.targets].shape) < MISSING
        yield ReferenceBatch(self.inputs(scales, [*rows]), self.expected(scales, [*rows]))
        if self.width == self.targets:
            yield from super().comparisons(lines)

    def facts(self) -> dict[str, Any]:
        field, answer, scales = self.field, self.codecs.answer, self.field.scales
        kind = answer.distribution
        numbers = ["mean", "deviation"] if isinstance(kind, Gaussian) else ["value"]
        numbers = [*map(str, kind.levels)] if isinstance(kind, Quantiles) else numbers
        known_columns = [*field.table.known, *field.table.calendar]
        columns = {"targets": list(scales.targets), "past": self.past, "known": known_columns}
        saved = {name: self.scale_of(scale).tolist() for name, scale in scales.scales.items()} if self.by_series else {}
        return {
            "back": field.back, "ahead": field.ahead, "columns": columns, "numbers": numbers,
            **({"scales": saved} if saved else {}),
        }  # fmt: skip


class GraphPart(FieldPart):
    """Whole graphs, one after another: dense features of nodes, edges, and the number of nodes of each graph."""

    names = GraphNames(["features", "edges", "counts"], ["logits"])
    path: Kernel = "edges"

    def compute(self, features: Tensor, edges: Tensor, counts: Tensor) -> Tensor:  # type: ignore[override]
        net = cast(Any, self.net)
        degree = degree_weights(edges, features.shape[0])
        return self.scaled(net.of_nodes(features, edges, degree, counts).logits)

    def example(self, number: int) -> tuple[Tensor, ...]:
        (batch,), (nodes,) = sizes(number, "batch"), sizes(number, "nodes")
        counts = torch.full((batch,), nodes // batch)
        counts[0] += nodes - int(counts.sum())
        features = torch.zeros(nodes, self.field.sizes["features"])
        return features, torch.zeros(sizes(number, 2, "edges"), dtype=torch.int64), counts

    def inputs(self, values: Sequence[Any], rows: Sequence[Any]) -> tuple[Tensor, ...]:
        packed = self.field.pad(rows)
        features = torch.zeros(int(packed.counts.sum()), packed.features)
        features[packed.entries[0], packed.entries[1]] = packed.values
        return features, packed.pairs, packed.counts

    def facts(self) -> dict[str, Any]:
        field = self.field
        codec = field.codec
        nodes = {"scale": list(codec.scale), "kinds": list(codec.kinds), "degrees": field.degrees}
        nodes |= {"walks": field.walks, "noise": field.noise, "directed": field.directed}
        return {**super().facts(), "width": field.sizes["features"], "nodes": nodes}


class NodePart(ForwardPart):
    """The nodes of one graph: dense features and edges in, logits of the classes of each node out."""

    names = GraphNames(["features", "edges"], ["logits"])
    path: Kernel = "edges"

    def compute(self, features: Tensor, edges: Tensor) -> Tensor:  # type: ignore[override]
        outputs: Tensor = self.net(features, edges, degree_weights(edges, features.shape[0]))
        return outputs / self.codecs.temperature

    def example(self, number: int) -> tuple[Tensor, ...]:
        features = torch.zeros(sizes(number, "nodes", self.codecs.graph.features))
        return features, torch.zeros(sizes(number, 2, "edges"), dtype=torch.int64)

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        tensors = graph_tensors(self.codecs.graph)
        yield ReferenceBatch((_dense(tensors), tensors.pairs), self.net(*tensors[:3]) / self.codecs.temperature)

    def facts(self) -> dict[str, Any]:
        names = self.codecs.graph.classes
        return {"width": self.codecs.graph.features, "id2label": {str(index): name for index, name in enumerate(names)}}


class LinkPart(NodePart):
    """Pairs of nodes of one graph: the logit of an edge between the two ``ends`` of each pair."""

    names = GraphNames(["features", "edges", "ends"], ["logits"])

    def compute(self, features: Tensor, edges: Tensor, ends: Tensor) -> Tensor:  # type: ignore[override]
        outputs: Tensor = self.net(features, edges, degree_weights(edges, features.shape[0]), ends)
        return outputs / self.codecs.temperature

    def example(self, number: int) -> tuple[Tensor, ...]:
        return *super().example(number), torch.zeros(sizes(number, 2, "batch"), dtype=torch.int64)

    def comparisons(self, lines: Sequence[str]) -> Iterator[ReferenceBatch]:
        tensors = graph_tensors(self.codecs.graph)
        nodes = torch.arange(self.codecs.graph.nodes)
        ends = torch.stack([nodes, nodes.roll(1)])
        expected = self.net(*tensors[:3], ends) / self.codecs.temperature
        yield ReferenceBatch((_dense(tensors), tensors.pairs, ends), expected)

    def facts(self) -> dict[str, Any]:
        return {"width": self.codecs.graph.features}


def _dense(tensors: GraphTensors) -> Tensor:
    """Return the features (nodes, features) of a graph."""
    sparse = cast("NodeFeatures", tensors.features)
    features = torch.zeros(sparse.nodes, sparse.width)
    features[sparse.pairs[0], sparse.pairs[1]] = sparse.values.float()
    return features
