"""Whole graphs as a task: the record that training, validation and serving go by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.answers.losses import class_loss, number_loss
from regard.core.contents import PreparedParts
from regard.core.state import State
from regard.core.task import (
    Advance,
    Card,
    Data,
    LossTerms,
    Metric,
    MetricSums,
    MetricTable,
    Objective,
    Report,
    RunFiles,
    Task,
)  # fmt: skip
from regard.data.graph_lines import read_graph_inputs, read_graph_lines
from regard.data.shared_files import FilesConfig
from regard.metrics.classes import class_metrics, class_tables
from regard.metrics.numbers import number_metrics
from regard.models.graph.build import build_graph_net
from regard.models.graph.pooling import GraphPooling, PooledGraphNet
from regard.tasks.graphs.classifier import GraphClassifier
from regard.tasks.graphs.codec import GraphCodec, make_codec, no_graphs, open_codec, open_run, read_graph_part
from regard.tasks.graphs.config import GraphsConfig
from regard.tasks.graphs.examples import GraphExamples, GraphsBatch
from regard.tasks.held_out_samples import validated_on
from regard.tasks.split import is_own_split, report_moved

__all__ = ["TASK"]


def _prepare(run: RunFiles, say: Report, progress: Advance | None = None) -> Data:
    config: GraphsConfig = run.config
    codec = make_codec(run, say) if run.makes_codecs else open_codec(run)
    parts = PreparedParts(run.contents, say)

    def examples(name: str, corpora: tuple[FilesConfig, ...]) -> GraphExamples:
        lines = read_graph_part(config.data, name)
        if not lines:
            raise no_graphs(corpora)
        found = GraphExamples(lines, codec, nodes=config.train.batch_tokens, seed=config.seed)
        parts.add(name, found.digest(), f"{name}: {found.told}", what="graphs", where=corpora[0].name)
        return found

    valid, data = None, config.data
    if data.valid:
        left = len(read_graph_part(data, "valid"))
        report_moved(data, lambda corpora: read_graph_lines(corpora, data.label), left, say)
        valid = examples("valid", data.valid) if left or not is_own_split(data) else None
    return Data(examples("train", config.data.train), valid, codec, codec.spec, parts.contents)


def _build(config: GraphsConfig, spec: Mapping[str, int]) -> PooledGraphNet:
    model, width = config.model, config.model.hidden
    net = build_graph_net(model, features=spec["features"], outputs=width)
    pooling = GraphPooling(model.pooling, width * model.layers, hidden=width)
    return PooledGraphNet(net, pooling, width=width, outputs=spec["classes"], dropout=model.dropout)


def _objective(config: GraphsConfig) -> Objective:
    """Cross-entropy of the class of each graph, in nats, or the squared error of its number."""
    smoothing, kind = config.train.label_smoothing, config.data.label_kind

    def loss(net: nn.Module, batch: GraphsBatch, carry: State = ()) -> LossTerms:
        outputs = net(*batch.inputs())
        outputs = outputs.float() if outputs.dtype.itemsize < 4 else outputs
        if kind == "number":
            found = number_loss(outputs[:, 0], batch.label, batch.unit)
        else:
            found = class_loss(outputs, batch.label, smoothing=smoothing, evaluating=False)
        return LossTerms(found.loss.sum(), found.sums)

    return loss


def _tables(sums: MetricSums, codec: GraphCodec) -> Mapping[str, MetricTable]:
    return class_tables(sums, codec.labels.names) if "confusion" in sums else {}


def sample_graphs(folder: Path) -> dict[str, Any]:
    """Rings and stars of three to eight nodes, with a feature that says little."""
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
    """Yield contents, labels and places: see ``core.task.Task.lint_rows``."""
    for each in read_graph_lines(corpora, data.label):
        yield each.digest(), each.label, each.where or ""


TASK = Task(
    name="graphs",
    unit="graphs",
    open=open_run,
    prepare=_prepare,
    build=_build,
    small_spec={"features": 4, "classes": 2},
    objective=_objective,
    predictor=lambda net, codecs, config, *, engine=None: GraphClassifier(net, codecs, config),
    compute_metrics=lambda sums: number_metrics(sums) if "moments" in sums else class_metrics(sums),
    metrics={
        "accuracy": Metric(lower_is_better=False, baseline="majority"),
        "macro_f1": Metric(lower_is_better=False),
        "calibration_error": Metric(lower_is_better=True),
        "majority": Metric(lower_is_better=False),
        "rmse": Metric(lower_is_better=True, baseline="mean_rmse"),
        "mae": Metric(lower_is_better=True),
        "pearson": Metric(lower_is_better=False),
        "mean_rmse": Metric(lower_is_better=True),
    },
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
    tables=_tables,
    card=Card("graph-ml", 'print(model([{"edges": [[0, 1]]}])[0])', "graphs {run} < graphs.jsonl"),
)
