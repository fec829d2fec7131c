"""Nodes: predict the class of each node of a graph.

This task is not a ``Supervised`` one: a graph is one example with many targets, and a prediction is about a node of the
graph that is saved in the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.answers.losses import class_loss
from regard.answers.plain_class import PlainClass
from regard.core.contents import PreparedParts
from regard.core.export_forms import ForwardForm
from regard.core.state import State
from regard.core.task import (
    Card,
    CodecsAndSpec,
    Data,
    LossTerms,
    Objective,
    ProgressCallback,
    Report,
    RunFiles,
    Task,
)  # fmt: skip
from regard.core.wording import pluralize
from regard.data.column_names import NODES
from regard.data.graphs import Graph
from regard.errors import DataError
from regard.metrics.classes import class_tables
from regard.models.graph.build import GraphNet, build_graph_net
from regard.runs.validated_figure import validated_figure
from regard.tasks.example_lines import spread
from regard.tasks.graph_batch import GraphCodecs, NodeBatch, WholeGraph
from regard.tasks.graph_parts import graph_of, is_evaluation, nodes_of_part, only_graph, open_saved, save_in_run
from regard.tasks.nodes.baseline import NodesBaseline, fit_nodes_baseline, open_nodes_baseline, wide_outputs, wide_part
from regard.tasks.nodes.classifier import NodeClassifier
from regard.tasks.nodes.config import NodesConfig
from regard.tasks.nodes.outcomes import node_logits
from regard.tasks.nodes.sampling import SampledNodes
from regard.tasks.row_inputs import named_column, rows_of_one_column


def _prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    config: NodesConfig = run.config
    data = config.data
    graph = graph_of(only_graph(data.train, "data.train"), data)
    if run.makes_codecs:
        if len(graph.classes) < 2:
            what = f"found {pluralize(len(graph.classes), 'class', 'classes')}; classification needs at least 2"
            raise DataError(what, where=graph.where)
        save_in_run(graph, run)
    codec = graph if run.makes_codecs else open_saved(run)
    wide = wide_part(run, graph, codec) if config.wide else None
    parts = PreparedParts(run.contents, log)

    def examples(name: str, graph: Graph) -> WholeGraph | SampledNodes:
        if (graph.features, graph.classes) != (codec.features, codec.classes):
            why = f"expected {_kind(codec)}, found {_kind(graph)}"
            raise DataError("the graph does not match the graph of the model", where=graph.where, why=why)
        chosen = nodes_of_part(graph, data.part if is_evaluation(run) else name)
        report = f"{name}: {int(chosen.sum()):,} of {graph.describe()}"
        parts.add(name, graph.digest(), report, what="graph", where=graph.where)
        held_out = name == "train" and not is_evaluation(run)
        added = None if wide is None else wide_outputs(wide, graph, np.flatnonzero(chosen), held_out=held_out)
        if data.batch_nodes is None:
            return WholeGraph(graph, chosen, added)
        limits = data.neighbors or [None] * config.model.layers
        return SampledNodes(graph, chosen, batch=data.batch_nodes, limits=limits, seed=config.seed, wide=added)

    valid = examples("valid", graph_of(only_graph(data.valid, "data.valid"), data)) if data.valid else None
    return Data(examples("train", graph), valid, GraphCodecs(codec, wide), _spec(codec), parts.contents)


def _kind(graph: Graph) -> str:
    return f"{pluralize(graph.features, 'feature')} and the classes {', '.join(graph.classes[:10])}"


def _spec(graph: Graph) -> dict[str, int]:
    return {"features": graph.features, "classes": len(graph.classes)}


def _open(run: RunFiles) -> CodecsAndSpec:
    graph = open_saved(run)
    wide = wide_part(run, None, graph) if run.config.wide else None
    return CodecsAndSpec(GraphCodecs(graph, wide, validated_figure(run, "temperature")), _spec(graph))


def _build(config: NodesConfig, spec: Mapping[str, int]) -> GraphNet:
    return build_graph_net(config.model, features=spec["features"], outputs=spec["classes"], gated=config.wide)


def _objective(config: NodesConfig) -> Objective:
    """Return the cross-entropy of the class of each chosen node, in nats, with the label smoothing of the config."""
    smoothing = config.train.label_smoothing

    def loss(net: nn.Module, batch: NodeBatch, carry: State = ()) -> LossTerms:
        evaluating = not net.training
        terms = class_loss(node_logits(net, batch), batch.label, smoothing=smoothing, evaluating=evaluating)
        return LossTerms(terms.loss.sum(), terms.sums)

    return loss


def _node_names(examples: Any) -> Iterator[str]:
    """Yield the names of a few nodes."""
    nodes = examples.target_nodes(None)
    return (examples.graph.name(int(nodes[index])) for index in spread(len(nodes)))


def sample_graph(folder: Path) -> dict[str, Any]:
    """Write two rings of six nodes with one edge between them, and return their files.

    A third of the nodes have the features of the nodes in the other ring.
    """
    lines = ["node,label,split,a,b,c"]
    for node in range(12):
        part = ("train", "train", "valid")[node % 3]
        shown = (node < 6) == (node % 3 > 0)
        lines.append(f"n{node},{'left' if node < 6 else 'right'},{part},{int(shown)},{int(not shown)},1")
    edges = [f"n{node},n{node // 6 * 6 + (node + 1) % 6}" for node in range(12)]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "edges.csv").write_text("\n".join([*edges, "n0,n6"]) + "\n", encoding="utf-8")
    return {"source": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}


def _sample(folder: Path) -> dict[str, Any]:
    corpus = sample_graph(folder)
    return {
        "data": {"train": [corpus], "valid": [corpus]},
        "model": {"heads": 4, "dropout": 0.1, "attention_dropout": 0.1, "wide": True},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the config of ``sample`` with a test node, and a copy whose held-out nodes have the other label."""
    files = sample["data"]["train"][0]
    table = Path(files["source"]).read_text(encoding="utf-8")
    table, other = table.replace("n11,right,valid", "n11,right,test"), {"left": "right", "right": "left"}
    swapped = re.sub(r",(left|right),(valid|test)", lambda match: f",{other[match[1]]},{match[2]}", table)
    configs = []
    for name, content in (("first", table), ("second", swapped)):
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
        corpus = files | {"source": str(folder / f"{name}.csv")}
        configs.append({**sample, "data": {**sample["data"], "train": [corpus], "valid": [corpus]}})
    return configs


def _read_names(config: Any, path: Path, columns: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its node: see ``core.task.Task.row_inputs``."""
    return rows_of_one_column(path, named_column(path, columns, (), NODES))


TASK = Task(
    name="nodes",
    unit="nodes",
    open=_open,
    prepare=_prepare,
    build=_build,
    small_spec={"features": 4, "classes": 2},
    objective=_objective,
    predictor=NodeClassifier,
    compute_metrics=PlainClass.compute_metrics,
    metrics=PlainClass.metrics,
    sample=_sample,
    examples=lambda config, data: _node_names(data.valid),
    held_out_samples=_held_out_samples,
    row_inputs=_read_names,
    export_form=lambda config: ForwardForm(texts=lambda: iter(()), input="graph"),
    sample_lines=("n0", "n7", "n3"),
    tables=lambda sums, codecs: class_tables(sums, codecs.graph.classes),
    fit_baseline=fit_nodes_baseline,
    open_baseline=open_nodes_baseline,
    baseline_outcomes=NodesBaseline.outcomes,
    outcomes=NodeClassifier.outcomes,
    card=Card("graph-ml", 'print(model(["…"])[0].label)', "nodes {run} < names.txt"),
)
