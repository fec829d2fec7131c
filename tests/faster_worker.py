"""One of two processes that train by DDP or FSDP2, beside the one process that they are compared with.

Started by ``tests/several_ranks.py``, as ``tests/rank_worker.py`` is.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core import atomic_files
from regard.core.task import ExampleIndices
from regard.core.tensors import digest
from regard.errors import StorageError
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.runs import row_files
from regard.runs.run_folder import RunFolder
from regard.runs.shared_checkpoint import Ranks, save_shared
from regard.training.ddp import DDP
from regard.training.fsdp2 import FSDP2
from regard.training.one_shard import OneShard
from regard.training.optim import Optimizer
from regard.training.progress import NullReporter
from regard.training.ranks import ProcessGroup
from regard.training.row_parts import whole
from regard.training.setup import set_up
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy, Trainable
from regard.training.trainer import Trainer
from tests import rank_worker
from tests.test_shards import TYPES, WHOLE, Rows, picks, smoothed

SMALL: dict[str, Any] = dict(layers=2, width=8, feed_forward=12, heads=2, dropout=0.3)
# Accumulated updates of unequal batches, with fewer examples than ranks in the first of them and in the last.
UPDATES = [[picks(1), WHOLE], [WHOLE, picks(2, 5), picks(3)]]


def net(dtype: str, keys: dict[str, Any]) -> nn.Module:
    torch.manual_seed(1)
    given = {name: value for name, value in (SMALL | keys).items() if value is not None}
    model = build(ModelConfig(**given), source_types=TYPES, target_types=TYPES)
    return model.to(getattr(torch, dtype)).train()


def made(strategy: str, peers: ProcessGroup) -> Strategy:
    makers: dict[str, Any] = {
        "shards": lambda: Shards(2, Workers(1, 1)),
        "alone": lambda: OneShard(None),
        "ddp": lambda: DDP(peers),
        "fsdp2": lambda: FSDP2(peers),
        "offload": lambda: FSDP2(peers, offload=True),
    }
    found: Strategy = makers[strategy]()
    return found


class Trained:
    """A network after some updates by a strategy."""

    def __init__(self, strategy: Strategy, net: nn.Module, updates: Sequence[list[ExampleIndices]], **given: Any):
        self.strategy, self.net = strategy, net
        self.model = strategy.wrap(Trainable(net, smoothed()))
        self.optimizer = Optimizer(net, **given)
        self.norms: list[float] = []
        self.losses: list[float] = []
        for step, update in enumerate(updates):
            self.update(step, update)

    def update(self, step: int, update: list[ExampleIndices]) -> None:
        found = self.strategy.gradient(self.model.train(), Rows(), update, {}, seed=(3, step))
        self.losses += [found.minimized, found.weight, float(found.sums["nll"]), float(found.sums["tokens"])]
        self.norms.append(self.optimizer.step(0.01, found.values))

    def weights(self) -> dict[str, Tensor]:
        return {name: whole(tensor).clone() for name, tensor in self.optimizer.weights().items()}

    def kept(self) -> dict[str, Tensor]:
        return {name: whole(tensor).clone() for name, tensor in self.optimizer.tensors().items()}


def farthest(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    assert list(one) == list(other)
    return max((float((one[name] - other[name]).abs().max()) for name in one), default=0.0)


def updates(peers: ProcessGroup, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far each case ends from one process with as many shards, and from where it began."""
    found = []
    for case in cases:
        dtype, keys, given = case.get("dtype", "float64"), case.get("model", {}), case.get("optimizer", {})
        chosen = UPDATES[: case.get("updates", len(UPDATES))]
        other = Trained(made("shards", peers), net(dtype, keys), chosen, **given)
        one = Trained(made(case["strategy"], peers), net(dtype, keys), chosen, **given)
        start = Optimizer(net(dtype, keys), **given).weights()
        scale = max(abs(each) for each in other.losses)
        found.append({
            "weights": farthest(one.weights(), other.weights()), "kept": farthest(one.kept(), other.kept()),
            "norms": max(abs(a - b) for a, b in zip(one.norms, other.norms, strict=True)),
            "losses": max(abs(a - b) for a, b in zip(one.losses, other.losses, strict=True)) / scale,
            "moved": farthest(start, other.weights()),
            "rows": sum(p.numel() for p in one.optimizer.masters) / sum(p.numel() for p in one.optimizer.parameters),
        })  # fmt: skip
    return found


def legs(peers: ProcessGroup, run: str, stops: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Train a run by one strategy after another, each until so many updates are made; what each left."""
    return [leg(peers, RunFolder.open(Path(run)), made(strategy, peers), stop) for strategy, stop in stops]


def leg(peers: ProcessGroup, run: RunFolder, strategy: Strategy, stop: int) -> dict[str, Any]:
    with peers.first() as leads:
        ready = set_up(run, log=_unsaid) if leads else None
    ready = ready or set_up(run, log=_unsaid)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=NullReporter(), strategy=strategy,
        interrupted=lambda: trainer.progress.step >= stop,
    )  # fmt: skip
    trainer.resume()
    progress, reason = trainer.fit()
    held = {"model": trainer.optimizer.weights(), "optimizer": trainer.optimizer.tensors()}
    gathered = {group: {name: whole(each) for name, each in tensors.items()} for group, tensors in held.items()}
    return {"digest": digest(gathered), "step": progress.step, "reason": reason,
            "best": [progress.best_step, progress.best_value]}  # fmt: skip


def _unsaid(message: str) -> None: ...


def spoiled(peers: ProcessGroup, folder: str) -> dict[str, Any]:
    """A disk that is full on rank 1, and one that it does not see: what each rank is told, and what is left."""
    rows = {"model": {"w": row_files.Rows(torch.full((2, 3), float(peers.rank)), 2 * peers.rank, (4, 3))}}
    ranks, at, found = Ranks(peers.rank, peers.world, peers.gather), Path(folder), dict[str, Any]()

    def save(step: int, fault: str | None, where: Path = at) -> None:
        def raised(point: str) -> None:
            if point == fault:
                raise OSError(errno.ENOSPC, "No space left on device")

        atomic_files.fault = raised
        try:
            save_shared(where, step, rows, {}, {}, ranks, keep=3)
            found[f"step {step}"] = None
        except StorageError as error:
            found[f"step {step}"] = [error.what, error.help]
        finally:
            atomic_files.fault = lambda point: None

    save(1, None)
    save(2, "writing" if peers.rank else None)  # a full disk on rank 1
    save(3, None if peers.rank else "state-written")  # on rank 0, after the rows
    save(4, None, at / "elsewhere" if peers.rank else at)  # another disk than rank 0's
    save(5, None)
    peers.barrier()
    return found | {"left": sorted(each.name for each in at.iterdir() if each.name != "elsewhere")}


def die(peers: ProcessGroup, strategy: str) -> None:
    """Rank 1 is killed in the middle of its second update."""
    trained = Trained(made(strategy, peers), net("float32", {}), UPDATES[:1])
    if peers.rank:
        trained.net.register_forward_hook(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    trained.update(1, UPDATES[1])


JOBS: dict[str, Any] = {each.__name__: each for each in (updates, legs, spoiled, die)}


if __name__ == "__main__":
    rank_worker.JOBS = JOBS
    rank_worker.main(Path(sys.argv[1]), json.loads(sys.argv[2]))
