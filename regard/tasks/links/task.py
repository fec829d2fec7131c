"""Links: predict the probability of an edge between two nodes of a graph.

The task is not a ``Supervised`` one, for the reason in ``tasks.nodes.task``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from torch import nn

from regard.core.baseline import FOLDER
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
from regard.data.column_names import edge_columns
from regard.data.graphs import Graph, edge_pairs
from regard.data.rows import column_names, read_rows, text_of
from regard.errors import DataError
from regard.models.graph.build import build_graph_net
from regard.models.graph.heads import LinkNet
from regard.runs.validated_figure import validated_figure
from regard.tasks.graph_batch import GraphCodecs
from regard.tasks.graph_parts import graph_of, is_evaluation, only_graph, open_saved, save_in_run
from regard.tasks.links.baseline import LinksBaseline, fit_links_baseline, open_links_baseline, wide_part
from regard.tasks.links.config import LinksConfig
from regard.tasks.links.edge_answer import EdgeAnswer, edge_loss
from regard.tasks.links.examples import LinkBatch, LinkExamples, link_logits, split_edges
from regard.tasks.links.linker import Linker


def _prepare(run: RunFiles, log: Report, progress: ProgressCallback | None = None) -> Data:
    config: LinksConfig = run.config
    data = config.data
    whole = graph_of(only_graph(data.train, "data.train"), data)
    edges = split_edges(whole, data)
    visible = replace(whole, pairs=edge_pairs(edges.train, whole.nodes, directed=data.directed))
    if run.makes_codecs:
        save_in_run(visible, run)
    codec = visible if run.makes_codecs else open_saved(run)
    if (whole.nodes, whole.features) != (codec.nodes, codec.features):
        actual = f"{pluralize(whole.nodes, 'node')} with {pluralize(whole.features, 'feature')}"
        expected = f"{pluralize(codec.nodes, 'node')} with {pluralize(codec.features, 'feature')}"
        why = f"expected {expected}, found {actual}"
        raise DataError("the graph differs from the graph of the model", where=whole.where, why=why)
    sizes = ", ".join(f"{len(part):,} {name}" for name, part in edges._asdict().items())
    parts = PreparedParts(run.contents, log)
    parts.add("graph", whole.digest(), f"links: {whole.describe()}; edges: {sizes}", what="graph", where=whole.where)

    wide = None

    def examples(name: str, stream: int) -> LinkExamples:
        seed, held_out = config.seed if name == "train" else data.draw, name == "train" and not is_evaluation(run)
        return LinkExamples(codec, whole, getattr(edges, name), seed=seed, stream=stream, wide=wide, held_out=held_out)

    if config.wide:
        fits = not is_evaluation(run) and (run.makes_codecs or not (run.path / FOLDER).exists())
        wide = wide_part(run, examples("train", 6) if fits else None)
    codecs = GraphCodecs(codec, wide)

    if is_evaluation(run):
        return Data(
            examples("test" if data.part == "all" else data.part, 8), None, codecs, _spec(codec), parts.contents
        )
    valid = examples("valid", 7) if data.valid else None
    return Data(examples("train", 6), valid, codecs, _spec(codec), parts.contents)


def _spec(graph: Graph) -> dict[str, int]:
    return {"features": graph.features}


def _open(run: RunFiles) -> CodecsAndSpec:
    graph = open_saved(run)
    wide = wide_part(run, None) if run.config.wide else None
    return CodecsAndSpec(GraphCodecs(graph, wide, validated_figure(run, "temperature")), _spec(graph))


def _build(config: LinksConfig, spec: Mapping[str, int]) -> LinkNet:
    model = config.model
    net = build_graph_net(model, features=spec["features"], outputs=model.outputs)
    bilinear, directed = model.decoder == "bilinear", config.data.directed
    return LinkNet(net, model.outputs, bilinear=bilinear, directed=directed, gated=config.wide)


def _objective(config: LinksConfig) -> Objective:
    """Return the binary cross-entropy, in nats, over edges and the same number of pairs without an edge."""

    def loss(net: nn.Module, batch: LinkBatch, carry: State = ()) -> LossTerms:
        terms = edge_loss(link_logits(net, batch), batch.exists, evaluating=not net.training)
        return LossTerms(terms.loss.sum(), terms.sums)

    return loss


def _sample(folder: Path) -> dict[str, Any]:
    """Write a ring of twelve nodes with one-hot features."""
    lines = ["node," + ",".join(f"f{feature}" for feature in range(12))]
    lines += [f"n{node}," + ",".join(str(int(feature == node)) for feature in range(12)) for node in range(12)]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    edges = [f"n{node},n{(node + 1) % 12}" for node in range(12)]
    (folder / "edges.csv").write_text("\n".join(edges) + "\n", encoding="utf-8")
    corpus = {"source": str(folder / "nodes.csv"), "edges": str(folder / "edges.csv")}
    return {
        "data": {"train": [corpus], "valid": [corpus], "valid_share": 0.2},
        "model": {"heads": 4, "outputs": 8, "dropout": 0.1, "attention_dropout": 0.1, "wide": True},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write two graphs with equal training edges and different held-out edges.

    In the second graph, a held-out edge ends one node later. Its position in the order of the edges, which determines
    its part, does not change. There are many more nodes than edges, so the negative pairs that training draws are not
    edges of either graph.
    """
    nodes = folder / "many.csv"
    nodes.write_text("node,a,b\n" + "".join(f"n{node},{node % 3},1\n" for node in range(900)), encoding="utf-8")
    edges, configs = [(3 * edge, 3 * edge + 1) for edge in range(30)], []
    for name in ("first", "second"):
        lines = [f"n{one},n{other}" for one, other in edges]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        corpus = {"source": str(nodes), "edges": str(folder / f"{name}.csv")}
        tables = {**sample, "data": sample["data"] | {"train": [corpus], "valid": [corpus]}}
        data = LinksConfig.model_validate({**tables, "task": "links"}).data
        trained = split_edges(graph_of(only_graph(data.train, "data.train"), data), data).train.tolist()
        edges = [(one, one + 1 if [one, one + 1] in trained else one + 2) for one, _ in edges]
        configs.append(tables)
    return configs


def _read_ends(config: Any, path: Path, columns: Sequence[str | int]) -> Iterator[tuple[str, str]]:
    """Yield the name of each row and its two nodes as a JSON list: see ``core.task.Task.row_inputs``."""
    columns = columns or edge_columns(column_names(path)) or (1, 2)
    for row in read_rows(path, columns):
        yield row.where, json.dumps([text_of(row, column).strip() for column in columns], ensure_ascii=False)


TASK = Task(
    name="links",
    unit="pairs",
    open=_open,
    prepare=_prepare,
    build=_build,
    small_spec={"features": 4},
    objective=_objective,
    predictor=Linker,
    compute_metrics=EdgeAnswer.compute_metrics,
    metrics=EdgeAnswer.metrics,
    sample=_sample,
    examples=lambda config, data: cast(LinkExamples, data.valid).lines(),
    held_out_samples=_held_out_samples,
    row_inputs=_read_ends,
    export_form=lambda config: ForwardForm(texts=lambda: iter(()), input="ends"),
    fit_baseline=fit_links_baseline,
    open_baseline=open_links_baseline,
    baseline_outcomes=LinksBaseline.outcomes,
    outcomes=Linker.outcomes,
    sample_lines=("n0 n1", '["n0", "n5"]', "n3 n4", "n2"),
    card=Card("graph-ml", 'print(model([("…", "…")])[0].probability)', "links {run} < pairs.txt"),
)
