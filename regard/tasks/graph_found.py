"""Files of one graph that nobody wrote a config for: what they hold, as far as their first lines tell."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.data.file_names import has_ending
from regard.data.foreign_errors import foreign_errors
from regard.data.reading import read_lines
from regard.errors import RegardError

__all__ = ["FoundGraph", "found_graph"]

MASKS = {"train_mask.npy", "val_mask.npy"}


class FoundGraph(NamedTuple):
    """The files as a config names them, whether nodes have classes and a split, and how to say so."""

    corpus: dict[str, str]
    labelled: bool
    split: bool
    told: str


def found_graph(files: Sequence[Path]) -> FoundGraph | None:
    """The graph of a .npz with edges, a .npy of features beside it or not, or of a table of nodes and one of edges.

    None where they are none.
    """
    if not all(file.is_file() for file in files):
        return None
    if [file.suffix for file in files] in ([".npz"], [".npz", ".npy"]):
        return _of_arrays(files)
    if len(files) != 2 or not all(has_ending(file, (".csv", ".tsv")) for file in files):
        return None
    try:
        head, edge = ([cell.strip() for cell in _first(file).replace("\t", ",").split(",")] for file in files)
    except RegardError:  # whoever reads it next says so
        return None
    if "node" not in head or len(edge) < 2:
        return None
    corpus, labelled = {"source": str(files[0]), "edges": str(files[1])}, "label" in head
    told = f"one table of nodes {'with' if labelled else 'without'} labels, and one of edges"
    return FoundGraph(corpus, labelled, "split" in head, told)


def _of_arrays(files: Sequence[Path]) -> FoundGraph | None:
    try:
        with foreign_errors("the file is no .npz of plain arrays", files[0]), zipfile.ZipFile(files[0]) as packed:
            names = {each.filename for each in packed.infolist()}
    except RegardError:  # reported by the next reader
        return None
    if "edges.npy" not in names:
        return None
    labelled = "y.npy" in names
    corpus = dict(zip(("source", "features"), map(str, files), strict=False))
    return FoundGraph(corpus, labelled, names >= MASKS, f"it has edges and {'' if labelled else 'no '}classes")


def _first(path: Path) -> str:
    return next(islice(read_lines(path), 1), "")
