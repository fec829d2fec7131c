"""Graphs: predict a class or a number of a graph."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.answers.number import Number
from regard.answers.plain_class import PlainClass
from regard.core.task import Card
from regard.data.graph_lines import GRAPH, LABEL, read_graph_inputs, read_graph_lines, read_graph_rows
from regard.data.shared_files import FilesConfig
from regard.fields.graphs import Graphs
from regard.models.graph.build import build_graph_net
from regard.models.graph.heads import GraphPooling, PooledGraphNet
from regard.tasks.graphs.config import GraphsConfig
from regard.tasks.graphs.predictor import GraphPredictor
from regard.tasks.held_out_samples import validated_on
from regard.tasks.supervised import Supervised


def _build(config: GraphsConfig, spec: Mapping[str, int]) -> PooledGraphNet:
    model, width = config.model, config.model.hidden
    net = build_graph_net(model, features=spec["features"], outputs=width)
    pooling = GraphPooling(model.pooling, width * model.layers, hidden=width)
    return PooledGraphNet(net, pooling, width=width, outputs=spec["classes"], dropout=model.dropout)


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
        "model": {"layers": 2, "width": 8, "heads": 2, "kind": "gatv2", "attention_dropout": 0.1},
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
)
TASK = GRAPHS.task(
    name="graphs",
    unit="graphs",
    build=_build,
    small_spec={"features": 4, "classes": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_graph_inputs,
    lint_rows=_lint_rows,
    lint_unit=None,
    sample_lines=(
        '{"edges": [[0, 1], [1, 2], [2, 0]], "features": [[1], [0], [2]]}',
        '{"edges": [], "features": [[0.5]]}',
        '{"edge_index": [[0, 0, 0], [1, 2, 3]], "node_feat": [[1], [0], [0], [2]], "label": "star"}',
    ),
    card=Card("graph-ml", 'print(model([{"edges": [[0, 1]]}])[0])', "graphs {run} < graphs.jsonl"),
)
