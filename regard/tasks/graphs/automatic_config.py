"""Automatic choice of a graph model's config for files, with the reason of each setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from regard.config.settings import TRAINING_ENDS
from regard.core.untrusted_files import parse_json
from regard.core.wording import pluralize
from regard.data.file_names import JSON_LINES, has_ending
from regard.data.graph_lines import GraphLine, read_graph_lines
from regard.data.shared_files import FilesConfig
from regard.data.text_files import read_lines
from regard.errors import RegardError
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.detect_files import common_head, detect_corpus, held_out_parts, wide_reasons

SAMPLED = 2_000  # graphs
WALKS, WALKED = 8, 256  # steps of random walks, and the size limit of graphs: walks cost nodes × edges
CLASSES = 20  # maximum number of values of numeric class labels


def confidence(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
    """See ``RunConfig``. Reads JSON lines with edges."""
    common = common_head(files)
    return Confidence.FORM if common is not None and _holds_graphs(common.files[0]) else Confidence.NONE


def choose(files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
    """Return the config of a graph model for JSON lines with edges and a label; else None."""
    data = overrides.get("data", {})
    corpus = detect_corpus(files)
    if corpus is None or not _holds_graphs(corpus.first):
        return None
    label = str(data.get("label", "label"))

    def keys(part: FilesConfig) -> Iterator[str]:
        return (line.digest() for line in read_graph_lines([part], label))

    graphs = _first_graphs(corpus.first, label)
    parts, held_out = held_out_parts(corpus, valid, examples="graphs", hashed="their content", keys=keys)
    kind = data.get("label_kind", "number" if _are_numbers(graphs) else "class")
    what = "a number" if kind == "number" else "a class"
    settings: dict[str, Any] = {"batch_tokens": _batch(graphs), "clip_norm": 1.0, "precision": "float32"}
    if "optimizer" not in overrides:
        settings |= {"optimizer": "adamw", "learning_rate": 2e-3, "schedule": "constant", "warmup": 50}
    if not set(TRAINING_ENDS) & overrides.keys():
        settings |= {"epochs": 200, "early_stopping": 20}
    walks = WALKS if max((graph.nodes for graph in graphs), default=0) <= WALKED else 0
    combined = "valid" in parts  # where the weights of network and baseline are chosen
    if not combined:
        settings.pop("early_stopping", None)
    wide = {"wide": overrides.get("baseline", True), "wide_training": "apart" if combined else "together"}
    config = {
        "task": {"kind": "graphs"},
        "data": {**parts, "label_kind": kind, "walks": walks},
        "model": {"kind": "gatv2", **wide},
        "train": settings,
    }
    reasons = [
        f"lines with edges → graphs ({what} per graph)",
        held_out,
        _network(graphs, walks),
        *wide_reasons(overrides, combined=combined),
    ]
    return Proposal(config, reasons)


def _holds_graphs(path: Path) -> bool:
    """Return whether the first non-blank line is an object with a list of edges, valid or not."""
    if not path.is_file() or not has_ending(path, JSON_LINES):  # a pipe can be read only once
        return False
    try:
        row = parse_json(next((line for line in read_lines(path) if line.strip()), ""))
        return isinstance(row, dict) and any(isinstance(row.get(key), list) for key in ("edges", "edge_index"))
    except (RegardError, ValueError):  # reported by the next reader
        return False


def _first_graphs(path: Path, key: str) -> list[GraphLine]:
    try:
        return list(islice(read_graph_lines([FilesConfig(source=path)], key), SAMPLED))
    except RegardError:  # reported by the next reader
        return []


def _are_numbers(graphs: Sequence[GraphLine]) -> bool:
    """Return whether the labels are numbers with many different values."""
    labels = {graph.label or "" for graph in graphs}
    try:
        return len(labels) > CLASSES and all(abs(float(label)) < float("inf") for label in labels)
    except ValueError:
        return False


def _batch(graphs: Sequence[GraphLine]) -> int:
    """Return the batch size in nodes, for about 32 graphs."""
    return max(256, round(32 * sum(graph.nodes for graph in graphs) / max(len(graphs), 1)))


def _network(graphs: Sequence[GraphLine], walks: int) -> str:
    inputs = ["degree"]
    if any(graph.features.shape[1] for graph in graphs):
        inputs.insert(0, "features")
    if any(graph.kinds for graph in graphs):
        inputs.insert(0, "label")
    if walks:
        inputs.append(f"return probabilities of random walks of up to {pluralize(walks, 'step')}")
    return f"inputs of a node: {', '.join(inputs)}; network: three layers of graph attention, attention pooling"
