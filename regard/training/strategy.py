"""The contract of a training strategy: who computes which part of an update, and how the parts become one.

The loop, updates, validation and checkpoints know ``Strategy`` alone. ``Shards`` is the one of a single process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.task import Batch, Carry, ExampleIndices, Examples, LossTerms, MetricSums, Objective
from regard.runs.row_files import Rows
from regard.runs.shared_checkpoint import Ranks

Carries = Mapping[int, Carry]  # by shard; no entry where nothing is carried


class Trainable(nn.Module):
    """A network with its objective: what a strategy calls, wraps and differentiates.

    Checkpoints hold the network's names; the objective has no parameters.
    """

    def __init__(self, net: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, batch: Batch, carry: Carry = ()) -> LossTerms:
        return self.objective(self.net, batch, carry)


class Gradient(NamedTuple):
    """The gradient of the mean loss by parameter, at least float32, and what it was measured on: all ranks together.

    ``minimized``: the mean loss per unit of weight. ``sums``: of the objective, float64. ``carry``: of this rank's
    shards, for its next update.
    """

    values: list[Tensor]
    minimized: float
    sums: MetricSums
    weight: float
    carry: Carries


class Strategy(Protocol):
    """Division of the work among shards, threads and ranks.

    All ranks call the same methods in the same order; what they decide by (flags, measures, seconds) goes through
    ``add`` first, so that none leaves alone. Rank 0 alone writes files.
    """

    rank: int
    world: int
    device: torch.device
    number: int | None  # of shards that a batch is dealt to; None: an older run's, dealt whole

    def wrap(self, model: Trainable) -> nn.Module:
        """The module that is called instead of the model. Before the optimizer is made: parameters may be replaced."""

    def deal(self, examples: ExampleIndices) -> list[tuple[int, ExampleIndices]]:
        """This rank's part of a batch, by the number of the shard; over all ranks, each example once."""

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        """The examples that a rank computes for nothing where it is dealt none of a batch; None: it need not.

        Where weights are in parts, all ranks take part in every pass, or the others would wait for ever.
        """

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        """Have whole weights on every rank in the block, so that each can call any part of the model on its own."""

    def gradient(
        self,
        model: nn.Module,
        examples: Examples,
        update: Sequence[ExampleIndices],
        carry: Carries,
        *,
        seed: tuple[int, ...],
    ) -> Gradient:
        """The gradient of one update over several batches. ``model`` is what ``wrap`` gave.

        ``carry``: of the update before, by shard; none at the beginning of an epoch. ``seed`` is mixed with the number
        of each pass.
        """

    def add(self, sums: MetricSums) -> MetricSums:
        """Sums over all ranks, on every rank."""

    def first(self) -> AbstractContextManager[bool]:
        """Let rank 0 do the block before the others go through it, however long it takes; gives whether this is it.

        For what one rank alone does, such as writing: where it fails, all fail.
        """

    def full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """All tensors by name, whole, for rank 0 to save: parts put together, and names that other ranks hold."""


@runtime_checkable
class SharesRows(Strategy, Protocol):
    """A strategy under which each rank holds some rows of every weight, and saves them itself."""

    @property
    def ranks(self) -> Ranks:
        """This rank among those that save."""

    def rows(self, tensors: Mapping[str, Tensor]) -> dict[str, Rows]:
        """This rank's rows of these tensors; of what is whole, those of rank 0 are all."""


def on_any_rank(strategy: Strategy, flag: bool) -> bool:
    """Return whether ``flag`` is set on any rank: the same answer on all."""
    return bool(strategy.add({"flag": torch.tensor(float(flag), dtype=torch.float64)})["flag"])
