"""Accuracy and seconds of processor time of classifiers of nodes over seeds: mean ± standard deviation.

    python bench/graphs.py cora-gat --seeds 10
    python bench/graphs.py cora-gat --seeds 2 --epochs 200 --peer .envs/peers/bin/python

Runs a recipe with seeds 1, 2, …, each in a temporary folder; the test nodes are measured once, with the checkpoint that
the recipe chooses by the validation nodes. ``--peer``: the Python of an environment with PyG, whose own layers are then
trained beside it (bench/peers/pyg_graphs.py), alternately and for the same epochs, without early stopping. Run it where
data/planetoid lies. ``--valid``: accuracy of the validation nodes alone, to choose settings by; no test node is read.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.evaluation import evaluate_run
from regard.training.progress import NullReporter
from regard.training.setup import set_up
from regard.training.trainer import Trainer

PEER = Path(__file__).parent / "peers" / "pyg_graphs.py"


def ours(
    recipe: str, seed: int, epochs: int | None, settings: list[str], *, test: bool
) -> tuple[float, float, float, int]:
    """Accuracy on the validation nodes and, unless not asked for, on the test nodes; seconds of processor for training
    with its validations; epochs."""
    fixed = [] if epochs is None else [f"train.epochs={epochs}", "train.early_stopping="]
    config = load_config(recipe, [f"seed={seed}", *fixed, *settings])
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", config)
        torch.manual_seed(seed)
        ready = set_up(run, log=lambda message: None)
        trainer = Trainer(
            run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), interrupted=lambda: False
        )  # fmt: skip
        began = time.process_time()
        outcome = trainer.fit()
        seconds = time.process_time() - began
        valid = outcome.progress.best_value or 0.0
        told = evaluate_run(run, [config.data.train[0].source]).figures["accuracy"] if test else valid
    return valid, told, seconds, outcome.progress.step


def peer(python: str, recipe: str, seed: int, epochs: int, source: Path) -> tuple[float, float]:
    """The same of PyG."""
    kind = recipe.rpartition("-")[2]
    command = [python, str(PEER), str(source), kind, str(seed), str(epochs)]
    accuracy, seconds = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]
    return float(accuracy), float(seconds)


def summary(name: str, accuracies: list[float], seconds: list[float]) -> str:
    spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
    mean, took = statistics.mean(accuracies), statistics.mean(seconds)
    return f"{name}: {100 * mean:.2f} ± {100 * spread:.2f} %, {took:.1f} s of processor a run ({len(seconds)} runs)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recipe")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--peer")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--valid", action="store_true")
    given = parser.parse_args()
    mine: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for seed in range(given.first, given.first + given.seeds):
        valid, accuracy, seconds, step = ours(given.recipe, seed, given.epochs, given.set, test=not given.valid)
        mine.append((accuracy, seconds))
        tested = "" if given.valid else f"{100 * accuracy:.1f} %, "
        print(f"seed {seed}: {tested}validation {100 * valid:.1f} %, {step} epochs, {seconds:.1f} s", flush=True)
        if given.peer:
            source = load_config(given.recipe).data.train[0].source
            theirs.append(peer(given.peer, given.recipe, seed, given.epochs or 200, source))
            print(f"  PyG: {100 * theirs[-1][0]:.1f} %, {theirs[-1][1]:.1f} s", flush=True)
    for name, found in (("regard", mine), ("PyG", theirs)):
        if found:
            print(summary(f"{given.recipe} {name}", *map(list, zip(*found, strict=True))))


if __name__ == "__main__":
    sys.exit(main())
