"""The strategy of a run: by its plan and config, for one process or for each of several ranks."""

from __future__ import annotations

import torch

from regard.config.settings import TrainConfig
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.training.canonical_ranks import CanonicalRanks, require_shards
from regard.training.one_shard import OneShard
from regard.training.ranks import Peers
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy


def make_strategy(run: RunFolder, device: torch.device, peers: Peers | None) -> Strategy:
    """ConfigError for a run whose updates cannot be divided among so many ranks."""
    if run.config.train.strategy != "canonical":
        return _quicker(run.config.train, device, peers)
    plan, workers = run.read_plan(), run.config.train.workers
    if plan is None or plan.shards is None:  # threads of an older run are of all workers together
        if peers is not None:
            require_shards(1, peers.world)
        return Shards(None, Workers(workers, torch.get_num_threads() // workers), device)
    if peers is None:
        return Shards(plan.shards, Workers(workers, plan.threads), device)
    require_shards(plan.shards, peers.world)
    return CanonicalRanks(plan.shards, Workers(workers, plan.threads), peers, device)


def _quicker(settings: TrainConfig, device: torch.device, peers: Peers | None) -> Strategy:
    """DDP or FSDP2, which take a second to import; in a process of its own neither has anything to do."""
    if peers is None:
        if settings.fsdp_offload:
            raise ConfigError(
                "weights are offloaded by fsdp2, which needs torchrun",
                where="train.fsdp_offload",
                why="this process trains alone",
                help="torchrun --nproc-per-node 1 -m regard train …, or --set train.fsdp_offload=false",
            )
        return OneShard(None, device)
    if settings.strategy == "ddp":
        from regard.training.ddp import DDP

        return DDP(peers, device)
    from regard.training.fsdp2 import FSDP2

    return FSDP2(peers, device, offload=settings.fsdp_offload)
