"""The strategy of a run: by its plan and config, for one process or for each of several ranks."""

from __future__ import annotations

import torch

from regard.runs.run_folder import RunFolder
from regard.training.canonical_ranks import CanonicalRanks, require_shards
from regard.training.ranks import Peers
from regard.training.shards import Shards, Workers
from regard.training.strategy import Strategy

__all__ = ["make_strategy"]


def make_strategy(run: RunFolder, device: torch.device, peers: Peers | None) -> Strategy:
    """ConfigError for a run whose updates cannot be divided among so many ranks."""
    plan, workers = run.read_plan(), run.config.train.workers
    if plan is None or plan.shards is None:  # threads of an older run are of all workers together
        if peers is not None:
            require_shards(1, peers.world)
        return Shards(None, Workers(workers, torch.get_num_threads() // workers), device)
    if peers is None:
        return Shards(plan.shards, Workers(workers, plan.threads), device)
    require_shards(plan.shards, peers.world)
    return CanonicalRanks(plan.shards, Workers(workers, plan.threads), peers, device)
