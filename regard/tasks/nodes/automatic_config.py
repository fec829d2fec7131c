"""A config for the files of a graph that nobody wrote a recipe for, each choice with its reason."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.file_names import has_ending
from regard.data.reading import read_lines
from regard.errors import RegardError
from regard.runs.config import Proposal

__all__ = ["choose"]

ENDS = ("steps", "epochs", "minutes", "tokens", "early_stopping")  # of train: one that is given leaves no other chosen
MASKS = {"train_mask.npy", "val_mask.npy"}


def choose(files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
    """A classifier of nodes, for the files of one graph with labels; None for any other files."""
    if valid or not all(file.is_file() for file in files):  # a graph holds its own validation nodes
        return None
    found = _kind(files)
    if found is None:
        return None
    why, has_split, corpus = found
    data: dict[str, Any] = {"train": [corpus], "valid": [corpus]}
    told = "validates on the nodes that the files name for it"
    if not has_split:
        data["split"] = {}
        told = "the files name no nodes to train and validate on: 20 of each class, 500 and 1,000 are drawn by a seed"
    settings: dict[str, Any] = {
        "optimizer": "adam", "learning_rate": 5e-3, "betas": [0.9, 0.999], "weight_decay": 5e-4, "schedule": "constant",
        "warmup": 0, "precision": "float32", "best_by": "accuracy", "stop_by": "either", "validate_every": 1,
        "save_every": 100_000, "keep": 1,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if "optimizer" not in given or name != "betas"}
    if not set(ENDS) & given.keys():
        settings |= {"epochs": 1000, "early_stopping": 100}
    config = {"task": {"kind": "nodes"}, "data": data, "train": settings}
    return Proposal(config, [f"{why}: classes of nodes (task.kind = nodes)", told, "two layers of graph attention"])


def _kind(files: Sequence[Path]) -> tuple[str, bool, dict[str, str]] | None:
    """Why files are a graph, whether they have a split, and how a config names them; None where they are none."""
    if [file.suffix for file in files] in ([".npz"], [".npz", ".npy"]):
        try:
            with zipfile.ZipFile(files[0]) as packed:
                names = {each.filename for each in packed.infolist()}
        except (OSError, zipfile.BadZipFile):
            return None
        graph = {"edges.npy", "y.npy"} <= names
        corpus = dict(zip(("source", "features"), map(str, files), strict=False))
        return ("it has edges and classes", names >= MASKS, corpus) if graph else None
    if len(files) != 2 or not all(has_ending(file, (".csv", ".tsv")) for file in files):
        return None
    try:
        lines = read_lines(files[0])
        head = [cell.strip() for cell in next(lines, "").replace("\t", ",").split(",")]
    except RegardError:  # whoever reads it next says so
        return None
    if not {"node", "label"} <= set(head):
        return None
    corpus = {"source": str(files[0]), "edges": str(files[1])}
    return "one table of nodes with labels, and one of edges", "split" in head, corpus
