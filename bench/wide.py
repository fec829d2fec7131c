"""Runs with the automatic choice beside their baselines, over seeds: nodes, links, whole graphs, fifty classes.

    python bench/wide.py links --data FOLDER/cora.npz --seeds 10
    python bench/wide.py nodes --data FOLDER/citeseer.npz --seeds 10
    python bench/wide.py rings rewired shapes partition --seeds 3
    python bench/wide.py texts --data FOLDER/train.csv --test FOLDER/test.csv --seeds 5

Each seed of ``links`` holds out other edges, each seed of the graphs draws other graphs; ``nodes`` and ``texts`` repeat
the training. ``partition``: nodes of a graph of 400 in four blocks, with weak features, 20 nodes of each block for
training. The test part is measured once for each seed, by the checkpoint that validation chose. Prints the mean of each
metric, and its deviation over seeds, for the model (``model.wide``), for its baseline alone, and with ``--deep`` for a
network without a wide part.

Goals: nodes, not below the baseline; links, AUC 0.945 and average precision 0.955; rings, rewired, shapes: 100, 99.5,
92 %; fifty classes: 84 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from whole_graphs import write

import regard
from regard.tasks.find_config import find_config

CALIBRATION = ("calibration_error", "scaled_calibration_error")
GRAPHS = ("rings", "rewired", "shapes", "partition")
NODES, BLOCKS = 400, 4  # of ``partition``
METRICS = {"links": ("auc", "average_precision", *CALIBRATION)}


def write_partition(path: Path, seed: int) -> Path:
    """Write a planted partition: a pair of nodes has an edge with 6 % within a block, and with 1 % between two."""
    draw, block = np.random.default_rng(seed), np.repeat(np.arange(BLOCKS), NODES // BLOCKS)
    pairs = np.stack(np.triu_indices(NODES, 1), 1)
    same = block[pairs[:, 0]] == block[pairs[:, 1]]
    edges = pairs[draw.random(len(pairs)) < np.where(same, 0.06, 0.01)]
    features = draw.normal(size=(NODES, 16)) + 0.5 * draw.normal(size=(BLOCKS, 16))[block]
    order = np.concatenate([draw.permutation(np.flatnonzero(block == number)) for number in range(BLOCKS)])
    rank = np.empty(NODES, int)
    rank[order] = np.tile(np.arange(NODES // BLOCKS), BLOCKS)
    masks = {"train_mask": rank < 20, "val_mask": (rank >= 20) & (rank < 40), "test_mask": rank >= 40}
    np.savez(path, edges=edges, x=features.astype(np.float32), y=block, **masks)
    return path


def measured(problem: str, given: argparse.Namespace, seed: int, folder: Path, overrides: list[str]) -> Any:
    """The evaluation of a run of one seed."""
    overrides = [*overrides, f"seed={seed}", "train.threads=1", *given.set]
    if problem == "links":
        files, valid, test = [given.data], [], given.data
        overrides += ["task=links", f"data.draw={seed}"]
    elif problem in ("nodes", "partition"):
        file = given.data if problem == "nodes" else write_partition(folder / "partition.npz", seed)
        files, valid, test = [file], [], file
        overrides += ["task=nodes"]
    elif problem == "texts":
        files, valid, test = [given.data], [], given.test
    else:
        write(problem, folder / "graphs", seed)
        files, valid, test = ([folder / "graphs" / f"{part}.jsonl"] for part in ("train", "valid", "test"))
        test = test[0]
    config = find_config([str(file) for file in files], valid, overrides)
    return regard.evaluate(regard.train(config, folder / f"run-{len(overrides)}"), test)


def main() -> None:
    given = _arguments()
    for problem in given.problems:
        values: dict[str, list[float]] = {}
        for seed in range(1, given.seeds + 1):
            with tempfile.TemporaryDirectory() as place:
                both = measured(problem, given, seed, Path(place), [])
                parts = {"model": both.figures, "baseline": both.baseline.figures}
                if given.deep:
                    parts["deep"] = measured(problem, given, seed, Path(place), ["model.wide=false"]).figures
            for name, figures in parts.items():
                for metric in figures.keys() & {*METRICS.get(problem, ("accuracy", *CALIBRATION))}:
                    values.setdefault(f"{metric}, {name}", []).append(figures[metric])
        for name, found in sorted(values.items()):
            spread = statistics.stdev(found) if len(found) > 1 else 0.0
            print(f"{problem}: {name:28} {statistics.mean(found):.4f} ± {spread:.4f} ({len(found)} seeds)", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problems", nargs="+", choices=("links", "nodes", "texts", *GRAPHS))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="a key of the config")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
