"""Time of an update with the passes of training in C and with torch's own operations, in turn within one process.

    python bench/training_passes.py RECIPE [--set KEY=VALUE ...] [--updates 40] [--threads 1]

The trainer is as it is; what it learns is thrown away. Every other pair of updates is made by torch alone, so that both
meet the same batches in the long run. Prints medians and quartiles of both, and of the ratio of neighbors.
"""

from __future__ import annotations

import argparse
import shutil
import time

from alternate import quartiles
from environments import ROOT
from machine import machine

from regard.native import passes
from regard.runs.run_folder import RunFolder
from regard.tasks.find_config import find_config
from regard.training.progress import TrainingProgress, Validation
from regard.training.setup import set_up
from regard.training.trainer import Trainer

FOLDER = ROOT / "runs" / "bench" / "training-passes"
NEVER = ("train.validate_every=1000000000", "train.save_every=1000000000", "train.steps=1000000000", "train.workers=1")
WARM_UP = 4
kernels = passes.library


class Switch:
    """The trainer's reporter, which changes sides after every second update and keeps the times of both."""

    def __init__(self, updates: int) -> None:
        self.updates, self.made, self.times = updates, 0, ([], [])  # type: int, int, tuple[list[float], list[float]]
        self.last = time.perf_counter()

    def updated(self, place: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
        if self.made >= WARM_UP:
            self.times[self.made // 2 % 2].append(time.perf_counter() - self.last)
        self.made += 1
        passes.library = kernels if self.made // 2 % 2 == 0 else lambda: None
        self.last = time.perf_counter()

    def validated(self, place: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def log(self, message: str) -> None:
        print(message)

    def interrupted(self) -> bool:
        if self.made >= self.updates + WARM_UP:
            raise SystemExit  # nothing of this run is to be saved
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of the config")
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    threads = f"train.threads={given.threads}"
    run = RunFolder.create(FOLDER, find_config([given.recipe], [], [*given.overrides, *NEVER, threads]))
    switch = Switch(given.updates)
    ready = set_up(run, log=switch.log)
    trainer = Trainer(run, ready.net, ready.data, steps=10**9, reporter=switch, interrupted=switch.interrupted)
    try:
        trainer.fit()
    except SystemExit:
        ours, torchs = switch.times
        pairs = [b / a for a, b in zip(ours, torchs, strict=False)]
        print(machine())
        told("with the passes, ms", [1e3 * each for each in ours])
        told("torch alone, ms", [1e3 * each for each in torchs])
        told("faster by", pairs)


def told(name: str, values: list[float]) -> None:
    low, median, high = quartiles(values).values()
    print(f"{name:24} {median:8.2f} [{low:.2f} {high:.2f}]")


if __name__ == "__main__":
    main()
