"""The contract of training strategies: the division of an update, and the combination of its parts.

The training loop, updates, validation and checkpoints use only ``Strategy``. ``Shards`` is the one for a single
process.
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

Carries = Mapping[int, Carry]  # by shard; no entry without carried state


class Trainable(nn.Module):
    """A network with its objective: the module that a strategy calls, wraps and differentiates.

    Checkpoints use the names of the network; the objective has no parameters.

    Args:
        net: the network.
        objective: its loss.
    """

    def __init__(self, net: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.net, self.objective = net, objective

    def forward(self, batch: Batch, carry: Carry = ()) -> LossTerms:
        return self.objective(self.net, batch, carry)


class Gradient(NamedTuple):
    """The gradient of the mean loss, and its statistics over all ranks.

    Attributes:
        values: the gradient of each parameter, at least float32; empty for a frozen one.
        minimized: the mean loss per unit of weight.
        sums: those of the objective, float64.
        weight: the sum of the weights of the batches.
        carry: state of this rank's shards for its next update.
    """

    values: list[Tensor]
    minimized: float
    sums: MetricSums
    weight: float
    carry: Carries


class Strategy(Protocol):
    """Division of the work among shards, threads and ranks.

    All ranks call the same methods in the same order. Values on which they decide (flags, measurements, seconds) are
    first combined with ``add``, so all ranks decide alike. Only rank 0 writes files.
    """

    rank: int
    world: int
    device: torch.device
    shard_count: int | None  # shards of a batch; None in older runs, which do not divide batches

    def wrap(self, model: Trainable) -> nn.Module:
        """Return the module to call instead of the model.

        Must be called before the optimizer is created, since it may replace parameters.
        """

    def deal(self, examples: ExampleIndices) -> list[tuple[int, ExampleIndices]]:
        """Return this rank's parts of a batch, by shard; over all ranks, each example occurs once."""

    def idle(self, examples: ExampleIndices) -> ExampleIndices | None:
        """Return the examples of an uncounted pass for a rank without a part of a batch; None if it needs no pass.

        If weights are sharded, all ranks must take part in every pass; otherwise the others would wait forever.
        """

    def gathered(self, model: nn.Module) -> AbstractContextManager[None]:
        """Gather full weights on every rank during the block, so each rank can call any part of the model by itself."""

    def gradient(
        self,
        model: nn.Module,
        examples: Examples,
        update: Sequence[ExampleIndices],
        carry: Carries,
        *,
        seed: tuple[int, ...],
    ) -> Gradient:
        """Return the gradient of one update over several batches.

        Args:
            model: the module that ``wrap`` returned.
            examples: the training examples.
            update: the batches of the update.
            carry: state of the previous update, by shard; empty at the start of an epoch.
            seed: combined with the number of each pass.
        """

    def add(self, sums: MetricSums) -> MetricSums:
        """Return the sums over all ranks, on every rank."""

    def first(self) -> AbstractContextManager[bool]:
        """Run the block on rank 0 before the others, for any duration; yields whether this is rank 0.

        Used for the work of a single rank, such as writing: if it fails, all fail.
        """

    def gather_full(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return all tensors in full, by name, for rank 0 to save, including those that only other ranks hold."""


@runtime_checkable
class SharesRows(Strategy, Protocol):
    """A strategy in which each rank holds and saves some rows of every weight."""

    @property
    def ranks(self) -> Ranks:
        """The rank of this process among those that save."""

    def rows(self, tensors: Mapping[str, Tensor]) -> dict[str, Rows]:
        """Return this rank's rows of these tensors; unsharded tensors are saved by rank 0."""


def on_any_rank(strategy: Strategy, flag: bool) -> bool:
    """Return whether ``flag`` is set on any rank; the result is equal on all ranks."""
    return bool(strategy.add({"flag": torch.tensor(float(flag), dtype=torch.float64)})["flag"])
