"""Updates: batches to a gradient to weights, and what to do about a loss that is not finite."""

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
from regard.training.carry import continued, dealt_anew, read_carries
from regard.training.optim import Optimizer, Schedule
from regard.training.progress import TrainingProgress
from regard.training.strategy import Carries, Gradient, Strategy, on_any_rank

NAMED = 3  # examples of each batch that a message about a loss without a number names


class Updater:
    """Makes updates of a model in the order of its examples, which ``progress`` points into.

    ``model`` is what the strategy's ``wrap`` gave. ``carry``: what the next update begins with; nothing at the
    beginning of an epoch, nor after an update without a finite loss, which may have left something that is no number.
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
        """One update, in place. Returns the gradient, its norm, NaN or infinite where nothing was learned, and the
        examples."""
        batches = self.next_batches(progress)
        if not all(module.training for module in self._modules):
            self.model.train()
        with reference_mode(self.config.train.engine == "reference"):
            seed = (self.config.seed, progress.step)
            found = self.strategy.gradient(self.model, self.examples, batches, self.carry, seed=seed)
        finite = not on_any_rank(self.strategy, not math.isfinite(found.minimized))
        norm = self.optimizer.step(rate(progress.step + 1), found.values) if finite else self.optimizer.skip()
        self.carry = found.carry if math.isfinite(norm) and progress.batch else {}
        progress.step += 1
        return found, norm, batches

    def next_batches(self, progress: TrainingProgress) -> list[ExampleIndices]:
        """As many batches as make an update, fewer at an epoch's end; ``progress`` moves on."""
        plan = self._plan(progress.epoch)
        taken = list(plan[progress.batch : progress.batch + self.config.train.accumulate])
        if not taken:
            why = f"it has {pluralize(len(plan), 'batch', 'batches')}, and {progress.batch:,} of them are done"
            raise contents_changed("training data", where=f"epoch {progress.epoch}", why=why)
        progress.batch += len(taken)
        if progress.batch >= len(plan):
            progress.epoch, progress.batch = progress.epoch + 1, 0
        return taken

    def continue_from(self, progress: TrainingProgress, carried: Mapping[str, Tensor]) -> None:
        """Take back what a checkpoint of ``progress`` carries. ValueError where that is not of this model and data.

        What it should be like, only the objective knows: so it is tried on the next batch, which changes nothing.
        """
        if not carried:
            self.carry = {}
            return
        plan = self._plan(progress.epoch)
        done = min(progress.batch, len(plan))
        lanes = len(plan[done - 1].index) if done else 0
        found = read_carries(carried, lanes=lanes, device=self.strategy.device)
        self.carry = dealt_anew(found, self.strategy.number)
        for batch in plan[progress.batch : progress.batch + 1]:
            try:
                self._try(batch)
            except (RuntimeError, ValueError, TypeError, LookupError) as error:
                raise ValueError(f"what it carries does not fit: {error}") from error

    @torch.no_grad()
    def _try(self, examples: ExampleIndices) -> None:
        self.model.eval()
        dealt = self.strategy.deal(examples)
        if not dealt and (idle := self.strategy.idle(examples)) is not None:
            self.model(to_device(self.examples.collate(idle), self.strategy.device))
        for shard, part in dealt:
            batch, carry = to_device(self.examples.collate(part), self.strategy.device), self.carry.get(shard, ())
            left = self.model(batch, continued(carry, len(batch.index))).carry
            before, after = ([(each.dtype, each.ndim) for each in state] for state in (carry, left))
            if carry and before != after:
                raise ValueError(f"{before} where the model carries {after}")

    def updates_an_epoch(self) -> int:
        """Updates of the epoch under way."""
        return math.ceil(len(self._planned[1]) / self.config.train.accumulate)

    def _plan(self, epoch: int) -> Sequence[ExampleIndices]:
        if self._planned[0] != epoch:
            self._planned = (epoch, self.examples.batches(epoch))
        return self._planned[1]

    def lines_of(self, batches: list[ExampleIndices]) -> list[str]:
        """File and line of the first few examples of each batch."""
        return [self.examples.where(int(index)) for batch in batches for index in batch.index[:NAMED]]


def require_not_diverged(progress: TrainingProgress, rate: float) -> None:
    """TrainingError where rolling back cannot help any more."""
    if progress.rolled_back or not progress.last_good:
        raise TrainingError(
            f"no finite loss for {pluralize(progress.nonfinite, 'update')} in a row",
            where=f"step {progress.step}",
            why="the weights diverged" if progress.last_good else "training diverged before its first checkpoint",
            help=f"lower the learning rate: --set train.lr={rate / 3:.1e}",
        )


def batch_memory(doing: str, config: RunConfig) -> AbstractContextManager[None]:
    """``explain_out_of_memory`` for work whose memory goes with the tokens of a batch."""
    half = max(config.train.batch_tokens // 2, 1)
    help = f"lower train.batch_tokens: begin again with --set train.batch_tokens={half}, or with a smaller model"
    return explain_out_of_memory(doing, help=help)
