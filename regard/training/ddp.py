"""Training by torch's DistributedDataParallel: whole weights on every rank, gradients added by one all-reduce."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from regard.training.one_shard import OneShard, reaching_all
from regard.training.strategy import Trainable


class DDP(OneShard):
    """A shard a rank, whose gradients are added in buckets while the last pass of an update goes backwards.

    The passes before it only add up. Differs from ``CanonicalRanks`` in: any number of ranks, sends at most twice the
    size of the weights an update, and the order of its sums, so its bits, depends on the number of ranks.
    """

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        model.objective = reaching_all(model.objective)  # find_unused_parameters would search the graph of each pass
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # the name of the argument from torch 2.13 on
            return DistributedDataParallel(model, broadcast_buffers=False)

    def joins(self, last: bool) -> bool:
        return last

    def passing(self, model: nn.Module, last: bool) -> AbstractContextManager[None]:
        assert isinstance(model, DistributedDataParallel)
        return nullcontext() if last else model.no_sync()

    def scale(self) -> float:
        return float(self.world)  # of which torch takes the mean
