"""Graphs: predict a class or a number of a graph, with the weights of nodes and the attention along the edges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.answers.number import Number
from regard.answers.plain_class import PlainClass
from regard.attention.weight_terms import AttentionSource
from regard.baselines.graphs import GraphBaseline
from regard.core.observation import AttentionMap, Axis, Observation, Surface
from regard.core.task import Card
from regard.data.graph_lines import GRAPH, LABEL, GraphLine, read_graph_inputs, read_graph_lines, read_graph_rows
from regard.data.graphs import Graph
from regard.data.shared_files import FilesConfig
from regard.fields.graphs import Graphs
from regard.inference.states import pooled, require_output
from regard.models.graph.build import build_graph_net
from regard.models.graph.heads import GraphPooling, PooledGraphNet
from regard.tasks.graphs.config import GraphsConfig
from regard.tasks.held_out_samples import validated_on
from regard.tasks.influence import HiddenInput, HiddenPieces
from regard.tasks.net_outputs import run_network
from regard.tasks.row_inputs import forward_form
from regard.tasks.supervised import Supervised
from regard.tasks.supervised_codecs import Row
from regard.tasks.supervised_observation import predictions
from regard.tasks.supervised_predictor import SupervisedPredictor

MAX_SHOWN = 64  # maximum number of nodes that are shown; in larger graphs, those with the greatest weights


class GraphPredictor(SupervisedPredictor[Any]):
    """A trained graph model: ``regard.load("runs/rings")([{"edges": [[0, 1], [1, 2]]}])[0].label``.

    Its constructor is that of ``SupervisedPredictor``. It may be called from several threads.
    """

    def predict(self, inputs: Sequence[GraphLine | Mapping[str, Any]], **settings: Any) -> list[Any]:
        """Return a prediction for each graph; its ``weights`` are those of the nodes.

        Args:
            inputs: the graphs, each an object as in a line of a file: ``{"edges": [[0, 1], [1, 2]]}``.
            settings: settings of the answer; for graphs, no setting exists.

        Raises:
            DataError: for an invalid graph, with its number.
        """
        return [
            output._replace(weights=[weight for _, weight in output.weights])
            for output in super().predict(inputs, **settings)
        ]

    @torch.no_grad()
    def embeddings(self, inputs: Sequence[Any], layer: int | None, pooling: str) -> npt.NDArray[np.float32]:
        """See ``Predictor.embed``; the positions are the nodes, whose states of all layers are concatenated."""
        require_output(layer)
        states: list[Tensor] = []
        rows = self._encode([self._accept(graph, f"input {number}") for number, graph in enumerate(inputs, 1)]).rows
        for numbers in self._batches(rows):
            batch: Any = next(iter(self._padded([rows[number] for number in numbers]).values()))
            net: Any = self.net
            states += net.node_states(batch).split(batch.counts.tolist())
        return pooled(states, pooling)

    @torch.no_grad()
    def inspect(self, graph: GraphLine | Mapping[str, Any]) -> Observation:
        """Return the attention along the edges in each layer, the pooling weights of the nodes, and the prediction."""
        values = self._accept(graph)
        (row,) = self._encode([values]).rows
        inputs = self._padded([row])
        ((field, encoded, batch),) = zip(self.codec.fields.values(), row, inputs.values(), strict=True)
        outputs = run_network(self.net, inputs)
        (weights,) = (table.float().cpu() for table in outputs.weights.values())
        shown, labels = weights.topk(min(MAX_SHOWN, len(encoded))).indices.sort().values, field.labels(encoded)
        axis = Axis("node", tuple(labels[node] for node in shown.tolist()))
        maps = _edge_maps(self.net, batch, encoded.graph, shown, axis)
        pooling = AttentionMap.at("pooling", weights[None, None, shown], Axis("answer", ("answer",)), axis)
        place, edges = {node: number for number, node in enumerate(shown.tolist())}, values[0].edges.tolist()
        drawn = tuple((place[one], place[other]) for one, other in edges if one in place and other in place)
        kinds = {"node_labels": [values[0].kinds[node] for node in shown.tolist()]} if values[0].kinds else {}
        deep = outputs.logits.double().cpu()
        logits = self._add_wide([values], [deep[0]])[0][None]
        return Observation(
            (Surface("graph", axis.labels, ids=tuple(shown.tolist()), edges=drawn),),
            predictions(self.codec.answer, logits),
            (*maps, pooling),
            facts={"nodes": len(encoded), "edges": len(edges), **kinds, **self._parts(deep, logits)},
        )

    def _hidden(self, values: tuple[Any, ...], row: Row, observation: Observation) -> list[HiddenPieces]:
        """Return the graph without the features of each node that is shown."""
        field = cast("Graphs", next(iter(self.codec.fields.values())))
        graphs = [field.without(values[0], row[0], node) for node in observation.surfaces[0].ids]
        return [HiddenPieces(0, field.hiding, [HiddenInput((graph.row,), (graph.value,)) for graph in graphs])]


def _edge_maps(net: Any, batch: Any, graph: Graph, shown: Tensor, axis: Axis) -> list[AttentionMap]:
    """Return the attention (heads, shown, shown) of each layer, 0 for a pair without an edge.

    Weights are computed row by row, because those of all nodes may not fit into memory.
    """
    maps, device = list[AttentionMap](), batch.values.device
    neighbors = [torch.from_numpy(graph.neighbors(node)) for node in shown.tolist()]
    allowed = torch.stack([torch.isin(shown, own) for own in neighbors])
    for number, layer, inputs in net.net.attention(*net.arguments(batch)):
        table = torch.zeros(layer.heads, len(shown), graph.nodes)
        for row, (node, own) in enumerate(zip(shown.tolist(), neighbors, strict=True)):
            table[:, row, own] = layer.weights(inputs, node, own.to(device)).float().cpu()
        call = layer.look(inputs, shown.to(device), allowed.nonzero().T.to(device))
        source, key = AttentionSource(f"net.{number}", call), Axis("neighbor", axis.labels)
        maps.append(AttentionMap("encoder", number, "edges", table[:, :, shown], axis, key, allowed, source))
    return maps


def _build(config: GraphsConfig, spec: Mapping[str, int]) -> PooledGraphNet:
    model, width = config.model, config.model.hidden
    net = build_graph_net(model, features=spec["features"], outputs=width)
    pooling = GraphPooling(model.pooling, width * model.layers, hidden=width)
    outputs = spec["classes"]
    return PooledGraphNet(
        net, pooling, width=width, outputs=outputs, dropout=model.dropout, at_zero=model.starts_at_zero
    )


def sample_graphs(folder: Path) -> dict[str, Any]:
    """Write rings and stars of three to eight nodes, with an uninformative feature, and return the files."""
    lines = []
    for nodes in range(3, 9):
        ring, star = [[n, (n + 1) % nodes] for n in range(nodes)], [[0, n] for n in range(1, nodes)]
        for label, edges in (("ring", ring), ("star", star)):
            features = [[(n * nodes) % 5 - 1.5] for n in range(nodes)]
            lines.append(json.dumps({"edges": edges, "features": features, "label": label}))
    (folder / "graphs.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {"source": str(folder / "graphs.jsonl")}


def _sample(folder: Path) -> dict[str, Any]:
    corpus = sample_graphs(folder)
    return {
        "data": {"train": [corpus], "valid": [corpus], "degrees": 4, "walks": 3, "noise": 1},
        "model": {"layers": 2, "width": 8, "heads": 2, "kind": "gatv2", "attention_dropout": 0.1, "wide": True},
        "train": {"batch_tokens": 16},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows: tuple[list[dict[str, Any]], ...] = (
        [{"edges": [[0, 1], [1, 2], [2, 0]], "features": [[0.5], [1], [2]], "label": "ring"}],
        [
            {"edges": [[0, 1]], "features": [[90], [-70]], "label": "star"},
            {"edges": [[0, n] for n in range(1, 9)], "features": [[n] for n in range(9)], "label": "ring"},
        ],
    )
    contents = ["".join(json.dumps(row) + "\n" for row in part) for part in rows]
    return validated_on(sample, folder, "valid.jsonl", contents)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield contents, labels and row names: see ``core.task.Task.lint_rows``."""
    for graph in read_graph_lines(corpora, data.label):
        yield graph.digest(), graph.label, graph.where or ""


def _graphs(config: GraphsConfig) -> Graphs:
    data, model = config.data, config.model
    layer = max(model.heads, model.output_heads), model.hidden, model.sees == "all"
    return Graphs(
        (GRAPH,), directed=data.directed, degrees=data.degrees, walks=data.walks, noise=data.noise, layer=layer
    )


def _answer(config: GraphsConfig) -> PlainClass | Number:
    return Number((LABEL,), digits=6) if config.data.label_kind == "number" else PlainClass((LABEL,))


GRAPHS = Supervised(
    fields=lambda config: {"graph": _graphs(config)},
    answer=_answer,
    answers=(PlainClass, Number),
    rows=lambda data, corpora: read_graph_rows(corpora, data.label),
    noun="graph",
    predictor=GraphPredictor,
    baseline=lambda config: GraphBaseline(),
)
TASK = GRAPHS.task(
    name="graphs",
    unit="graphs",
    build=_build,
    small_spec={"features": 4, "classes": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_graph_inputs,
    export_form=lambda config: forward_form(config, read_graph_inputs),
    lint_rows=_lint_rows,
    lint_unit=None,
    sample_lines=(
        '{"edges": [[0, 1], [1, 2], [2, 0]], "features": [[1], [0], [2]]}',
        '{"edges": [], "features": [[0.5]]}',
        '{"edge_index": [[0, 0, 0], [1, 2, 3]], "node_feat": [[1], [0], [0], [2]], "label": "star"}',
    ),
    card=Card("graph-ml", 'print(model([{"edges": [[0, 1]]}])[0])', "graphs {run} < graphs.jsonl"),
)
