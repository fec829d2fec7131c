"""Checkpoints during training: saved, pruned, marked as best, averaged, and restored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.errors import ModelError
from regard.runs import checkpoint
from regard.runs.averaging import average_run
from regard.runs.metrics_log import MetricsLog
from regard.runs.run_folder import RunFolder
from regard.runs.shared_checkpoint import save_shared
from regard.training.carry import named_carries
from regard.training.optim import Optimizer
from regard.training.progress import TrainingProgress, saved_progress
from regard.training.strategy import Carries, SharesRows, Strategy


class Checkpoints:
    """The checkpoints of a run in training, and its metrics log, whose size each checkpoint records.

    Every rank calls the same methods; only rank 0 writes.
    """

    def __init__(
        self,
        run: RunFolder,
        optimizer: Optimizer,
        metrics: MetricsLog,
        strategy: Strategy,
        log: Callable[[str], None],
    ) -> None:
        self.run, self.optimizer, self.metrics, self.strategy, self.log = run, optimizer, metrics, strategy, log
        self.folder = run.checkpoints

    def resume(
        self, continue_from: Callable[[TrainingProgress, Mapping[str, Tensor]], None]
    ) -> TrainingProgress | None:
        """Load the newest intact checkpoint; None if none exists. ModelError for a checkpoint of another model.

        ``continue_from`` receives its progress and carried state, and raises ValueError if they do not fit.
        """
        loaded = checkpoint.load_latest(self.folder, self.log)
        if loaded is None:
            return None
        for difference in self.run.environment_changes():
            self.log(f"warning: the results may differ in bits from an uninterrupted training: {difference}")
        if self.strategy.device.type != "cpu":
            self.log("warning: on an accelerator, the results may differ in bits from an uninterrupted training")
        try:
            progress = saved_progress(loaded.state)
            self.optimizer.load(loaded.groups["model"], loaded.groups["optimizer"])
            continue_from(progress, loaded.groups.get("carry", {}))
        except (KeyError, TypeError, ValueError) as error:  # intact, but of another model or program
            raise ModelError(
                f"{loaded.path.name} does not belong to this run",
                where=str(loaded.path),
                why=str(error).splitlines()[0],
                help="remove this folder, or restore the config.toml and tokenizer of the run",
            ) from error
        self.mark_best(progress)
        return progress

    def save(self, progress: TrainingProgress, carry: Carries, *, planned: bool = True) -> None:
        """Save a checkpoint of the current state. ``carry``: the carried state for the next update.

        A checkpoint that was only saved on an interruption (``planned`` False) is deleted when the next one exists. It
        does not count toward those to keep. The last ten checkpoints, and so their average, therefore do not depend on
        interruptions.
        """
        since = progress.last_good
        progress.saved, progress.metrics_size = progress.step, self.metrics.sync()
        if planned and progress.nonfinite == 0:
            progress.last_good = progress.step
            if progress.last_good > progress.rolled_back:
                progress.rolled_back = 0  # the rollback helped: allow another one
        if isinstance(self.strategy, SharesRows):
            self._write_rows(self.strategy, progress, since, carry, planned)
            return
        gather_full = self.strategy.gather_full
        groups = {"model": gather_full(self.optimizer.weights()), "optimizer": gather_full(self.optimizer.tensors())}
        if carried_state := gather_full(named_carries(carry)):
            groups["carry"] = carried_state
        with self.strategy.first() as leads:
            if leads:
                self._write(progress, since, groups, planned)

    def _write(
        self, progress: TrainingProgress, since: int, groups: Mapping[str, Mapping[str, Tensor]], planned: bool
    ) -> None:
        unplanned, retention = self._unplanned(progress, since), self._retention(progress, since, planned)
        checkpoint.save(self.folder, progress.step, groups, asdict(progress), **retention)
        self._drop(unplanned, progress)

    def _write_rows(
        self, strategy: SharesRows, progress: TrainingProgress, since: int, carry: Carries, planned: bool
    ) -> None:
        """Save the rows of this rank."""
        unplanned, retention = self._unplanned(progress, since), self._retention(progress, since, planned)
        tensors_by_group = {"model": self.optimizer.weights(), "optimizer": self.optimizer.tensors()}
        rows = {group: strategy.rows(tensors) for group, tensors in tensors_by_group.items()}
        carried_state = strategy.gather_full(named_carries(carry))
        whole = {"carry": carried_state} if carried_state else {}
        save_shared(self.folder, progress.step, rows, whole, asdict(progress), strategy.ranks, **retention)
        with strategy.first() as leads:
            if leads:
                self._drop(unplanned, progress)

    def _unplanned(self, progress: TrainingProgress, since: int) -> list[int]:
        """Return the checkpoints that were only saved on an interruption."""
        steps = [step for step in checkpoint.list_steps(self.folder) if since < step < progress.step]
        return [step for step in steps if step != progress.best_step]

    def _retention(self, progress: TrainingProgress, since: int, planned: bool) -> dict[str, Any]:
        """Return the number of checkpoints to keep, and the names of those that are always kept."""
        keep = self.run.config.train.keep + len(self._unplanned(progress, since)) + (not planned)
        steps = (progress.best_step, progress.last_good)
        return {"keep": keep, "protect": [checkpoint.step_path(self.folder, step).name for step in steps]}

    def _drop(self, steps: list[int], progress: TrainingProgress) -> None:
        for step in steps:
            atomic_files.remove_folder(checkpoint.step_path(self.folder, step))
        self.mark_best(progress)

    def mark_best(self, progress: TrainingProgress) -> None:
        """Record the best checkpoint; repeated at every save and resume, in case of a kill between both writes."""
        if self.strategy.rank or progress.best_value is None:
            return
        if not checkpoint.step_path(self.folder, progress.best_step).is_dir():
            return
        marked = checkpoint.best_or_none(self.folder)
        if marked is None or marked.step != progress.best_step:
            best_by = self.run.config.train.best_by
            checkpoint.mark_best(self.folder, progress.best_step, best_by, progress.best_value)

    def roll_back(self, progress: TrainingProgress) -> None:
        """Restore the weights of the last good checkpoint; the position in the data is unchanged."""
        good = checkpoint.load(checkpoint.step_path(self.folder, progress.last_good))
        self.optimizer.load(good.groups["model"], good.groups["optimizer"])
        progress.nonfinite, progress.rolled_back = 0, progress.step
        self.log(f"rolled back to the weights of step {good.step}; training continues with the next batch")

    def average(self, count: int, progress: TrainingProgress) -> None:
        """Average the last checkpoints of the second half of training, unless an up-to-date average exists."""
        with self.strategy.first() as leads:
            if leads:
                self._average(count, progress)

    def _average(self, count: int, progress: TrainingProgress) -> None:
        steps = [step for step in checkpoint.list_steps(self.folder)[-count:] if 2 * step >= progress.step]
        if not steps or self.run.averaged():
            return
        average_run(self.run, steps=steps)
        fewer = f" of {count} requested, limited to the second half of training" if len(steps) < count else ""
        self.log(f"averaged the last {pluralize(len(steps), 'checkpoint')}{fewer}: steps {', '.join(map(str, steps))}")
