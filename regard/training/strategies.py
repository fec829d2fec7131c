"""The strategy of a run, from its plan and config, for one process or for each of several ranks."""

from __future__ import annotations

import torch

from regard.config.settings import TrainConfig
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.training.canonical_ranks import CanonicalRanks, require_shards
from regard.training.one_shard import OneShard
from regard.training.ranks import ProcessGroup
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy


def make_strategy(run: RunFolder, device: torch.device, peers: ProcessGroup | None) -> Strategy:
    """Return the strategy of a run.

    Args:
        run: the run.
        device: of the network.
        peers: the ranks; None: one process.

    Raises:
        ConfigError: if its updates cannot be divided among the ranks.
    """
    if run.config.train.strategy != "canonical":
        return _faster(run.config.train, device, peers)
    plan, workers = run.read_plan(), run.config.train.workers
    if plan is None or plan.shards is None:  # in older runs, threads are those of all workers together
        if peers is not None:
            require_shards(1, peers.world)
        return Shards(None, Workers(workers, torch.get_num_threads() // workers), device)
    if peers is None:
        return Shards(plan.shards, Workers(workers, plan.threads), device)
    require_shards(plan.shards, peers.world)
    return CanonicalRanks(plan.shards, Workers(workers, plan.threads), peers, device)


def _faster(settings: TrainConfig, device: torch.device, peers: ProcessGroup | None) -> Strategy:
    """Return DDP or FSDP2, whose imports take a second; in a single process, neither is needed."""
    if peers is None:
        if settings.fsdp_offload:
            raise ConfigError(
                "train.fsdp_offload requires torchrun",
                where="train.fsdp_offload",
                why="fsdp2 offloads weights, and this process trains without other ranks",
                help="start with torchrun --nproc-per-node 1 -m regard train …, or --set train.fsdp_offload=false",
            )
        return OneShard(None, device)
    if settings.strategy == "ddp":
        from regard.training.ddp import DDP

        return DDP(peers, device)
    from regard.training.fsdp2 import FSDP2

    return FSDP2(peers, device, offload=settings.fsdp_offload)
