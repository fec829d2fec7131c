"""Updates: from batches to gradients to weights; handling of losses that are not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from regard.core.contents import contents_changed
from regard.core.out_of_memory import explain_out_of_memory
from regard.core.reference_mode import reference_mode
from regard.core.task import ExampleIndices, Examples
from regard.core.tensors import to_device
from regard.core.wording import pluralize
from regard.errors import TrainingError
from regard.runs.run_config import RunConfig
from regard.training.carry import continued, read_carries, reshard_carries
from regard.training.optim import Optimizer, Schedule
from regard.training.progress import TrainingProgress
from regard.training.strategy import Carries, Gradient, Strategy, on_any_rank

NAMED = 3  # examples of each batch to name if the loss is not finite


class Updater:
    """Updates of a model in the order of its examples, at the position of ``progress``.

    ``model`` is the module that the strategy's ``wrap`` returned. ``carry``: state for the next update; empty at the
    start of an epoch, and after an update without a finite loss, whose state may contain NaN.
    """

    def __init__(
        self, config: RunConfig, model: nn.Module, examples: Examples, optimizer: Optimizer, strategy: Strategy
    ) -> None:
        self.config, self.model, self.examples = config, model, examples
        self.optimizer, self.strategy = optimizer, strategy
        self.carry: Carries = {}
        self._modules = list(model.modules())
        self._planned: tuple[int, Sequence[ExampleIndices]] = (-1, [])

    def update(self, progress: TrainingProgress, rate: Schedule) -> tuple[Gradient, float, list[ExampleIndices]]:
        """Make one update in place; return the gradient, its norm, and the examples.

        The norm is NaN or infinite if the update was skipped.
        """
        batches = self.next_batches(progress)
        if not all(module.training for module in self._modules):
            self.model.train()
        with reference_mode(self.config.train.engine == "reference"):
            seed = (self.config.seed, progress.step)
            gradient = self.strategy.gradient(self.model, self.examples, batches, self.carry, seed=seed)
        finite = not on_any_rank(self.strategy, not math.isfinite(gradient.minimized))
        optimizer, number = self.optimizer, progress.step + 1
        norm = optimizer.step(rate(progress.step + 1), gradient.values, number=number) if finite else optimizer.skip()
        self.carry = gradient.carry if math.isfinite(norm) and progress.batch else {}
        progress.step += 1
        return gradient, norm, batches

    def next_batches(self, progress: TrainingProgress) -> list[ExampleIndices]:
        """Return the batches of an update, fewer at the end of an epoch, and advance ``progress``."""
        plan = self._plan(progress.epoch)
        batches = list(plan[progress.batch : progress.batch + self.config.train.accumulate])
        if not batches:
            why = f"it has {pluralize(len(plan), 'batch', 'batches')}; training has already used {progress.batch:,}"
            raise contents_changed("training data", where=f"epoch {progress.epoch}", why=why)
        progress.batch += len(batches)
        if progress.batch >= len(plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        return batches

    def continue_from(self, progress: TrainingProgress, carried: Mapping[str, Tensor]) -> None:
        """Restore the carried state of a checkpoint. ValueError if it does not fit the model and the data.

        Only the objective knows the required form, so the state is tested on the next batch, without any effect.
        """
        if not carried:
            self.carry = {}
            return
        plan = self._plan(progress.epoch)
        done = min(progress.batch, len(plan))
        lanes = len(plan[done - 1].index) if done else 0
        carries = read_carries(carried, lanes=lanes, device=self.strategy.device)
        self.carry = reshard_carries(carries, self.strategy.shard_count)
        for batch in plan[progress.batch : progress.batch + 1]:
            try:
                self._try(batch)
            except (RuntimeError, ValueError, TypeError, LookupError) as error:
                raise ValueError(f"the carried state does not fit: {error}") from error

    @torch.no_grad()
    def _try(self, examples: ExampleIndices) -> None:
        self.model.eval()
        parts = self.strategy.deal(examples)
        if not parts and (idle := self.strategy.idle(examples)) is not None:
            self.model(to_device(self.examples.collate(idle), self.strategy.device))
        for shard, part in parts:
            batch, carry = to_device(self.examples.collate(part), self.strategy.device), self.carry.get(shard, ())
            next_carry = self.model(batch, continued(carry, len(batch.index))).carry
            given_forms, returned_forms = (
                [(tensor.dtype, tensor.ndim) for tensor in state] for state in (carry, next_carry)
            )
            if carry and given_forms != returned_forms:
                raise ValueError(f"it has {given_forms}, the model {returned_forms}")

    def updates_per_epoch(self) -> int:
        """Return the number of updates of the current epoch."""
        return math.ceil(len(self._planned[1]) / self.config.train.accumulate)

    def _plan(self, epoch: int) -> Sequence[ExampleIndices]:
        if self._planned[0] != epoch:
            self._planned = (epoch, self.examples.batches(epoch))
        return self._planned[1]

    def lines_of(self, batches: list[ExampleIndices]) -> list[str]:
        """Return file and line of the first examples of each batch."""
        return [self.examples.where(int(index)) for batch in batches for index in batch.index[:NAMED]]


def require_not_diverged(progress: TrainingProgress, rate: float) -> None:
    """Raise TrainingError if another rollback cannot help."""
    if progress.rolled_back or not progress.last_good:
        raise TrainingError(
            f"no finite loss for {pluralize(progress.nonfinite, 'update')} in a row",
            where=f"step {progress.step}",
            why="the weights diverged" if progress.last_good else "training diverged before its first checkpoint",
            help=f"lower the learning rate: --set train.lr={rate / 3:.1e}",
        )


def batch_memory(doing: str, config: RunConfig) -> AbstractContextManager[None]:
    """Return ``explain_out_of_memory`` for work whose memory depends on the tokens of a batch."""
    half = max(config.train.batch_tokens // 2, 1)
    help = f"lower train.batch_tokens: start again with --set train.batch_tokens={half}, or use a smaller model"
    return explain_out_of_memory(doing, help=help)
