"""Accuracy of models of whole graphs on generated ones, beside baselines that know degrees alone.

    python bench/whole_graphs.py shapes rewired rings --seeds 3
    python bench/whole_graphs.py rings --networks gin gin+walks --seeds 1
    python bench/whole_graphs.py shapes --write data/shapes

Three problems, of as many graphs of each class:

    shapes    trees of 12 to 30 nodes with three more edges: triangles, squares, long rings, or all from one hub
    rewired   graphs rich in triangles, and the same ones after exchanges of the ends of edges, which keep each degree
    rings     one ring of 2 k nodes or two of k, k = 3 … 8: each node has two neighbors, as has each of its neighbors

A network is a kind of layer and what nodes are told beside degrees: ``gin``, ``gin+walks``, ``gatv2+noise`` …; ``/sum``
names the pooling. The baselines are the majority and a logistic regression on how many nodes have each degree. Test
graphs are measured once, by the checkpoint that validation chose. ``--write``: the files of a problem alone.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import torch

import regard

Graph = dict[str, Any]
NETWORKS = ("gcn", "gatv2", "transformer", "gin", "gin/sum", "gatv2+noise", "gin+noise", "gatv2+walks", "gin+walks")
SIZES = {"train": 600, "valid": 200, "test": 400}
TOLD = {"walks": {"walks": 8}, "noise": {"noise": 8}}
DEGREES = 16


def tree(nodes: int, draw: random.Random) -> list[tuple[int, int]]:
    """A random recursive tree."""
    return [(draw.randrange(node), node) for node in range(1, nodes)]


def closed(nodes: int, kind: str, draw: random.Random) -> list[tuple[int, int]] | None:
    """A tree with three more edges of a kind; None where it has no three places for them."""
    edges = tree(nodes, draw)
    near = {node: {b if a == node else a for a, b in edges if node in (a, b)} for node in range(nodes)}
    hub = draw.randrange(nodes)
    pairs = []
    for start in range(nodes):
        away = distances(near, start)
        for end in range(start + 1, nodes):
            wanted = {"triangles": away[end] == 2, "squares": away[end] == 3, "rings": away[end] >= 6}
            wanted["hub"] = away[end] > 1 and hub in (start, end)
            pairs += [(start, end)] * wanted[kind]
    return [*edges, *draw.sample(pairs, 3)] if len(pairs) >= 3 else None


def distances(near: dict[int, set[int]], start: int) -> dict[int, int]:
    """Edges from a node to each other one."""
    found, queue = {start: 0}, [start]
    for node in queue:
        for other in sorted(near[node] - found.keys()):
            found[other] = found[node] + 1
            queue.append(other)
    return found


def clustered(nodes: int, draw: random.Random) -> list[tuple[int, int]]:
    """A ring lattice in which each node has edges to the next two, a tenth moved (Watts & Strogatz 1998)."""
    edges = {tuple(sorted((node, (node + step) % nodes))) for node in range(nodes) for step in (1, 2)}
    for edge in sorted(edges):
        end = draw.randrange(nodes)
        moved = tuple(sorted((edge[0], end)))
        if draw.random() < 0.1 and end != edge[0] and moved not in edges:
            edges = edges - {edge} | {moved}
    return [(one, other) for one, other in sorted(edges)]


def rewired(edges: list[tuple[int, int]], draw: random.Random) -> list[tuple[int, int]]:
    """Edges after ten exchanges of ends for each: all degrees stay, triangles mostly go."""
    found, known = list(edges), {frozenset(edge) for edge in edges}
    for _ in range(10 * len(found)):
        one, other = draw.sample(range(len(found)), 2)
        (a, b), (c, d) = found[one], found[other]
        new = frozenset((a, d)), frozenset((c, b))
        if len({a, b, c, d}) == 4 and not known & {*new}:
            known = known - {frozenset(found[one]), frozenset(found[other])} | {*new}
            found[one], found[other] = (a, d), (c, b)
    return found


def shuffled(edges: list[tuple[int, int]], nodes: int, label: str, draw: random.Random) -> Graph:
    """The graph with its nodes numbered at random, so that no number tells anything."""
    order = draw.sample(range(nodes), nodes)
    return {"nodes": nodes, "edges": [[order[one], order[other]] for one, other in edges], "label": label}


def problem(name: str, number: int, draw: random.Random) -> list[Graph]:
    """So many graphs of a problem, its classes in turn."""
    found = []
    while len(found) < number:
        nodes = draw.randint(12, 30)
        if name == "shapes":
            made = {kind: closed(nodes, kind, draw) for kind in ("triangles", "squares", "rings", "hub")}
            kinds = {kind: edges for kind, edges in made.items() if edges is not None}
            if len(kinds) < len(made):
                continue
        elif name == "rewired":
            rich = clustered(nodes, draw)
            kinds = {"rich": rich, "rewired": rewired(rich, draw)}
        else:
            k = draw.randint(3, 8)
            nodes = 2 * k
            two = [(start + at, start + (at + 1) % k) for start in (0, k) for at in range(k)]
            kinds = {"one": [(at, (at + 1) % nodes) for at in range(nodes)], "two": two}
        found += [shuffled(edges, nodes, label, draw) for label, edges in kinds.items()]
    return found[:number]


def write(name: str, folder: Path, seed: int) -> dict[str, list[Graph]]:
    """The parts of a problem, and a file of each."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {part: problem(name, number, random.Random(f"{name} {part} {seed}")) for part, number in SIZES.items()}
    for part, graphs in parts.items():
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in graphs), encoding="utf-8")
    return parts


def histogram(graph: Graph) -> list[float]:
    """How many nodes have each degree."""
    degree = Counter(end for edge in graph["edges"] for end in edge)
    counts = Counter(min(degree[node], DEGREES) for node in range(graph["nodes"]))
    return [float(counts[each]) for each in range(DEGREES + 1)]


def regression(parts: dict[str, list[Graph]]) -> float:
    """Test accuracy of a logistic regression on histograms of degrees, its penalty chosen by validation."""
    names = sorted({graph["label"] for graph in parts["train"]})
    tables = {part: torch.tensor([histogram(each) for each in graphs]) for part, graphs in parts.items()}
    mean, spread = tables["train"].mean(0), tables["train"].std(0) + 1e-6
    x = {part: (table - mean) / spread for part, table in tables.items()}
    y = {part: torch.tensor([names.index(each["label"]) for each in graphs]) for part, graphs in parts.items()}
    best = (-1.0, -1.0)
    for penalty in (1e-4, 1e-3, 1e-2, 1e-1):
        model = torch.nn.Linear(DEGREES + 1, len(names))
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=300, line_search_fn="strong_wolfe")
        optimizer.step(partial(_loss, optimizer, model, x["train"], y["train"], penalty))
        right = {p: float((model(x[p]).argmax(1) == y[p]).float().mean()) for p in ("valid", "test")}
        best = max(best, (right["valid"], right["test"]))
    return best[1]


def _loss(optimizer: Any, model: torch.nn.Linear, x: torch.Tensor, y: torch.Tensor, penalty: float) -> torch.Tensor:
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y) + penalty * model.weight.square().sum()
    loss.backward()
    return loss


def trained(network: str, folder: Path, seed: int, epochs: int) -> tuple[float, float]:
    """Test accuracy of a network, and seconds of processor time of its training."""
    name, _, pooling = network.partition("/")
    kind, *told = name.split("+")
    data: dict[str, Any] = {"train": [{"source": str(folder / "train.jsonl")}]}
    data |= {"valid": [{"source": str(folder / "valid.jsonl")}]}
    for each in told:
        data |= TOLD[each]
    model = {"kind": kind, "width": 64 if kind in ("gcn", "gin") else 16, "pooling": pooling or "attention"}
    train = {"epochs": epochs, "early_stopping": 20, "optimizer": "adamw", "learning_rate": 2e-3, "warmup": 50}
    train |= {"schedule": "constant", "batch_tokens": 672, "clip_norm": 1.0, "precision": "float32", "threads": 1}
    tables = {"task": "graphs", "seed": seed, "data": data, "model": model, "train": train}
    with tempfile.TemporaryDirectory() as place:
        began = time.process_time()
        run = regard.train(tables, Path(place) / "run")
        seconds = time.process_time() - began
        return regard.evaluate(run, folder / "test.jsonl").figures["accuracy"], seconds


def told(name: str, found: list[float], seconds: list[float]) -> str:
    spread = statistics.stdev(found) if len(found) > 1 else 0.0
    took = f", {statistics.mean(seconds):.0f} s of processor a run" if seconds else ""
    return f"{name:18} {100 * statistics.mean(found):6.2f} ± {100 * spread:.2f} %{took}"


def main() -> None:
    given = _arguments()
    for name in given.problems:
        if given.write:
            write(name, given.write, given.first)
            continue
        results: dict[str, tuple[list[float], list[float]]] = {}
        for seed in range(given.first, given.first + given.seeds):
            with tempfile.TemporaryDirectory() as place:
                parts = write(name, Path(place), seed)
                counts = Counter(graph["label"] for graph in parts["test"])
                results.setdefault("majority", ([], []))[0].append(max(counts.values()) / counts.total())
                results.setdefault("degrees", ([], []))[0].append(regression(parts))
                for network in given.networks:
                    accuracy, seconds = trained(network, Path(place), seed, given.epochs)
                    results.setdefault(network, ([], []))[0].append(accuracy)
                    results[network][1].append(seconds)
                    print(f"  {name}, seed {seed}, {network}: {100 * accuracy:.1f} %, {seconds:.0f} s", flush=True)
        print(f"{name}: {SIZES['train']} graphs to train on, {given.seeds} seeds")
        for network, (accuracies, seconds) in results.items():
            print(told(network, accuracies, seconds), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problems", nargs="+", choices=("shapes", "rewired", "rings"))
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
