"""The cost of an update in canonical shards, by their number, measured alternately.

    python bench/shards.py [--preset small] [--tokens 4096] [--rounds 8] [--workers 1]

One worker and one torch thread unless given; each round makes one update with every number of shards. Prints the
median seconds and their ratio to one shard.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
from machine import machine

from regard.core.task import ExampleIndices
from regard.data.pairs import PairBatch
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs.config import load_config
from regard.tasks.translation.task import objective
from regard.training.optim import Optimizer
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable

NUMBERS = (1, 2, 4, 8)
TYPES, LENGTH = 8000, 18


class Rows:
    """Rows of random tokens of nearly equal length, as batches by like length have."""

    def __init__(self, rows: int) -> None:
        self.tokens = torch.randint(4, TYPES, (2, rows, LENGTH))

    def collate(self, examples: ExampleIndices) -> PairBatch:
        at = torch.from_numpy(examples.index)
        source, target = self.tokens[0, at], self.tokens[1, at]
        valid = torch.ones_like(source, dtype=torch.bool)
        return PairBatch(source, valid, target.roll(1, 1), target, valid, at, float(valid.sum()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = build(ModelConfig.model_validate({"preset": arguments.preset}), source_types=TYPES, target_types=TYPES)
    model = Trainable(net.train(), objective(load_config({"data": {"train": []}})))
    optimizer, rows = Optimizer(net), arguments.tokens // LENGTH
    examples, whole = Rows(rows), ExampleIndices(np.arange(rows), np.zeros(rows, np.int64))
    seconds: dict[int, list[float]] = {number: [] for number in NUMBERS}
    for round in range(arguments.rounds + 1):
        for number in NUMBERS if round % 2 else reversed(NUMBERS):
            began = time.perf_counter()
            shards = Shards(number, Workers(min(arguments.workers, number), 1))
            found = shards.gradient(model, examples, [whole], {}, seed=(1, round))  # type: ignore[arg-type]
            optimizer.step(1e-6, found.values)
            seconds[number] += [time.perf_counter() - began] if round else []
    print(f"{arguments.preset}, {rows * LENGTH:,} tokens a side, {arguments.workers} workers; {machine()['processor']}")
    first = statistics.median(seconds[1])
    for number, each in seconds.items():
        median = statistics.median(each)
        print(f"{number} shards: {median:.3f} s an update, {median / first:.3f} of one")


if __name__ == "__main__":
    main()
