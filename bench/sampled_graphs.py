"""Peak memory, accuracy and time of classifiers of nodes: the whole graph in each update, or drawn neighbors.

    python bench/sampled_graphs.py --nodes 200000

A stochastic block model: ``--classes`` blocks of equal size, ``--degree`` edges a node in the mean, half of them within
the block; features are the mean of the block and much noise. A tenth of the nodes is to train on, a hundredth to
validate and a tenth to test. Each way runs in a process of its own, one thread, and tells the most memory that it held;
``features alone`` is the same network on the same nodes without an edge.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BATCH = {"batch_nodes": 512, "neighbors": [10, 10]}
WAYS = {  # edges, keys of data, epochs as a part of --epochs
    "whole graph": ("graph.npz", {}, 1.0),
    "drawn neighbors": ("graph.npz", BATCH, 0.1),
    "features alone": ("alone.npz", BATCH, 0.1),
}


def write_graph(folder: Path, nodes: int, classes: int, degree: int, features: int) -> None:
    """The graph, the same without edges, and the features of both."""
    draw = np.random.default_rng(1)
    label = draw.integers(0, classes, nodes)
    blocks = [np.flatnonzero(label == each) for each in range(classes)]
    number = nodes * degree // 2
    source = draw.integers(0, nodes, number)
    target = draw.integers(0, nodes, number)
    inside = np.flatnonzero(draw.random(number) < 0.5)
    place = draw.random(len(inside))
    sizes = np.array([len(block) for block in blocks])
    order, start = np.concatenate(blocks), np.cumsum(sizes) - sizes
    own = label[source[inside]]
    target[inside] = order[start[own] + (place * sizes[own]).astype(np.int64)]
    center = draw.standard_normal((classes, features))
    x = np.lib.format.open_memmap(folder / "x.npy", mode="w+", dtype=np.float32, shape=(nodes, features))
    for begin in range(0, nodes, 10_000):
        own = label[begin : begin + 10_000]
        x[begin : begin + 10_000] = center[own] + 6 * draw.standard_normal((len(own), features))
    x.flush()
    part = draw.random(nodes)
    masks = {"train_mask": part < 0.1, "val_mask": (part >= 0.1) & (part < 0.11), "test_mask": part >= 0.9}
    edges = np.stack([source, target], 1)
    np.savez(folder / "graph.npz", edges=edges, y=label, **masks)
    np.savez(folder / "alone.npz", edges=edges[:0], y=label, **masks)


def run(folder: Path, way: str, kind: str, epochs: int) -> dict[str, float]:
    """Trained and measured in this very process."""
    import torch

    import regard

    torch.set_num_threads(1)
    began, graph = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, WAYS[way]
    source = {"source": str(folder / graph[0]), "features": str(folder / "x.npy")}
    most = max(round(epochs * graph[2]), 1)
    train = {
        "optimizer": "adam", "learning_rate": 1e-2, "schedule": "constant", "warmup": 0, "epochs": most, "threads": 1,
        "shards": 1, "precision": "float32", "best_by": "accuracy", "save_every": 100_000, "keep": 1,
        "validate_every": 50 if graph[1] else 10,
    }  # fmt: skip
    data = {"train": [source], "valid": [source], "normalize": "none", **graph[1]}
    model = {"kind": kind, "width": 8, "heads": 8, "dropout": 0.0, "attention_dropout": 0.0}
    at = time.process_time()
    made = regard.train({"task": "nodes", "data": data, "model": model, "train": train}, folder / way)
    seconds, trained = time.process_time() - at, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = regard.evaluate(made, source["source"], source["features"]).figures
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"accuracy": figures["accuracy"], "seconds": seconds, "begin": began, "trained": trained, "evaluated": held}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--kind", default="gat")
    parser.add_argument("--way", choices=list(WAYS), help="one alone")
    parser.add_argument("--folder", type=Path, help="of a graph that is there: the way runs in this very process")
    given = parser.parse_args()
    if given.folder is not None:
        print(json.dumps(run(given.folder, given.way, given.kind, given.epochs)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_graph(Path(folder), given.nodes, given.classes, given.degree, given.features)
        for way in WAYS if given.way is None else [given.way]:
            command = [sys.executable, __file__, "--folder", folder, "--way", way, "--kind", given.kind]
            done = subprocess.run(
                [*command, "--epochs", str(given.epochs)], check=True, stdout=subprocess.PIPE, text=True
            )
            found = json.loads(done.stdout.splitlines()[-1])
            memory = " → ".join(f"{found[each] / 1024:,.0f}" for each in ("begin", "trained", "evaluated"))
            print(f"{way}: {found['accuracy']:.2%}, {found['seconds']:.0f} s, MiB at most {memory}", flush=True)


if __name__ == "__main__":
    main()
