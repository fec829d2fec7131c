"""Training with torch's DistributedDataParallel: full weights on every rank, gradients added by one all-reduce."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.training.one_shard import OneShard, reaching_all
from regard.training.strategy import Trainable


class DDP(OneShard):
    """One shard per rank; gradients are added in buckets during the last backward pass of an update.

    Earlier passes only accumulate. Differs from ``CanonicalRanks``: any number of ranks is possible, and at most twice
    the size of the weights is sent per update. The order of sums, and so the bits, depends on the number of ranks.
    """

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        model.objective = reaching_all(
            model.objective
        )  # cheaper than find_unused_parameters, which searches each graph
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the argument is renamed in torch 2.13
            return DistributedDataParallel(model, broadcast_buffers=False)

    def joins(self, last: bool) -> bool:
        return last

    def passing(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        assert isinstance(model, DistributedDataParallel)
        return nullcontext() if last else model.no_sync()

    def scale(self) -> float:
        return float(self.world)  # torch takes the mean over ranks
