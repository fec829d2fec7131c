"""Training by torch's DistributedDataParallel: whole weights on every rank, gradients added by one all-reduce."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from regard.errors import ConfigError
from regard.training.one_shard import OneShard
from regard.training.strategy import Trainable

__all__ = ["DDP"]


class DDP(OneShard):
    """A shard a rank, whose gradients are added in buckets while the last pass of an update goes backwards.

    The passes before it only add up. Differs from ``CanonicalRanks`` in: any number of ranks, sends at most twice the
    size of the weights an update, and the order of its sums, so its bits, depends on the number of ranks.
    """

    def wrap(self, model: Trainable) -> nn.Module:
        self.require_stateless(model)
        # Unused parameters are not looked for in each pass: ``collected`` refuses a network that has some.
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

    def collected(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        if any(each.grad is None for each in parameters):  # then its whole bucket was not added up
            raise ConfigError(
                "this model cannot be trained by ddp",
                where="train.strategy",
                why="some of its parameters have no part in the loss, and torch would wait for their gradients",
                help="--set train.strategy=canonical or train.strategy=fsdp2",
            )
        return super().collected(parameters)
