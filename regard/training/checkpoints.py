"""The checkpoints of a training: saved, thinned out, marked best, averaged, and gone back to."""

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
    """The checkpoints of one run in training, with its metrics log, which each of them counts on.

    Every rank calls the same methods; rank 0 alone writes.
    """

    def __init__(
        self,
        run: RunFolder,
        optimizer: Optimizer,
        metrics: MetricsLog,
        strategy: Strategy,
        say: Callable[[str], None],
    ) -> None:
        self.run, self.optimizer, self.metrics, self.strategy, self.say = run, optimizer, metrics, strategy, say
        self.folder = run.checkpoints

    def resume(
        self, continue_from: Callable[[TrainingProgress, Mapping[str, Tensor]], None]
    ) -> TrainingProgress | None:
        """Load the newest whole checkpoint; None where there is none. ModelError for one of another model.

        ``continue_from`` is given its progress and what it carries, and raises ValueError where that does not fit.
        """
        found = checkpoint.load_latest(self.folder, self.say)
        if found is None:
            return None
        for difference in self.run.elsewhere():
            self.say(f"the results will not be bit for bit those of one sitting: {difference}")
        if self.strategy.device.type != "cpu":
            self.say("an accelerator is not promised to give the results of one sitting bit for bit")
        try:
            progress = saved_progress(found.state)
            self.optimizer.load(found.groups["model"], found.groups["optimizer"])
            continue_from(progress, found.groups.get("carry", {}))
        except (KeyError, TypeError, ValueError) as error:  # whole, yet of another model or another program
            raise ModelError(
                f"{found.path.name} is not of this run",
                where=str(found.path),
                why=str(error).splitlines()[0],
                help="remove this folder, or restore the run's own config.toml and tokenizer",
            ) from error
        self.mark_best(progress)
        return progress

    def save(self, progress: TrainingProgress, carry: Carries, *, planned: bool = True) -> None:
        """Commit a checkpoint of this very moment. ``carry``: what the next update begins with.

        One that only an interruption asked for goes when the next is there and does not count among those kept:
        the last ten checkpoints, and so their average, are the same however often a run was interrupted.
        """
        since = progress.last_good
        progress.saved, progress.metrics_size = progress.step, self.metrics.sync()
        if planned and progress.nonfinite == 0:
            progress.last_good = progress.step
            if progress.last_good > progress.rolled_back:
                progress.rolled_back = 0  # it helped: another bad patch gets its own chance
        if isinstance(self.strategy, SharesRows):
            self._write_rows(self.strategy, progress, since, carry, planned)
            return
        full = self.strategy.full
        groups = {"model": full(self.optimizer.weights()), "optimizer": full(self.optimizer.tensors())}
        if carried := full(named_carries(carry)):
            groups["carry"] = carried
        with self.strategy.first() as leads:
            if leads:
                self._write(progress, since, groups, planned)

    def _write(
        self, progress: TrainingProgress, since: int, groups: Mapping[str, Mapping[str, Tensor]], planned: bool
    ) -> None:
        passing, kept = self._passing(progress, since), self._kept(progress, since, planned)
        checkpoint.save(self.folder, progress.step, groups, asdict(progress), **kept)
        self._drop(passing, progress)

    def _write_rows(
        self, strategy: SharesRows, progress: TrainingProgress, since: int, carry: Carries, planned: bool
    ) -> None:
        """Each rank its own rows."""
        passing, kept = self._passing(progress, since), self._kept(progress, since, planned)
        held = {"model": self.optimizer.weights(), "optimizer": self.optimizer.tensors()}
        rows = {group: strategy.rows(tensors) for group, tensors in held.items()}
        carried = strategy.full(named_carries(carry))
        whole = {"carry": carried} if carried else {}
        save_shared(self.folder, progress.step, rows, whole, asdict(progress), strategy.ranks, **kept)
        with strategy.first() as leads:
            if leads:
                self._drop(passing, progress)

    def _passing(self, progress: TrainingProgress, since: int) -> list[int]:
        """Checkpoints that only an interruption asked for."""
        steps = [step for step in checkpoint.list_steps(self.folder) if since < step < progress.step]
        return [step for step in steps if step != progress.best_step]

    def _kept(self, progress: TrainingProgress, since: int, planned: bool) -> dict[str, Any]:
        """Count the checkpoints to keep, and name those that stay whatever happens."""
        keep = self.run.config.train.keep + len(self._passing(progress, since)) + (not planned)
        steps = (progress.best_step, progress.last_good)
        return {"keep": keep, "protect": [checkpoint.step_path(self.folder, step).name for step in steps]}

    def _drop(self, passing: list[int], progress: TrainingProgress) -> None:
        for step in passing:
            atomic_files.remove_folder(checkpoint.step_path(self.folder, step))
        self.mark_best(progress)

    def mark_best(self, progress: TrainingProgress) -> None:
        """Name the best checkpoint; anew at every save and resume, in case a kill came between the two."""
        if self.strategy.rank or progress.best_value is None:
            return
        if not checkpoint.step_path(self.folder, progress.best_step).is_dir():
            return
        marked = checkpoint.best_or_none(self.folder)
        if marked is None or marked.step != progress.best_step:
            best_by = self.run.config.train.best_by
            checkpoint.mark_best(self.folder, progress.best_step, best_by, progress.best_value)

    def roll_back(self, progress: TrainingProgress) -> None:
        """Go back to the weights of the last good checkpoint; the data goes on."""
        found = checkpoint.load(checkpoint.step_path(self.folder, progress.last_good))
        self.optimizer.load(found.groups["model"], found.groups["optimizer"])
        progress.nonfinite, progress.rolled_back = 0, progress.step
        self.say(f"rolled back to the weights of step {found.step}; the data goes on")

    def average(self, wanted: int, progress: TrainingProgress) -> None:
        """Average the last checkpoints of the second half of training; unless it was done since they were saved."""
        with self.strategy.first() as leads:
            if leads:
                self._average(wanted, progress)

    def _average(self, wanted: int, progress: TrainingProgress) -> None:
        steps = [step for step in checkpoint.list_steps(self.folder)[-wanted:] if 2 * step >= progress.step]
        if not steps or self.run.averaged():
            return
        average_run(self.run, steps=steps)
        fewer = f" ({wanted} were asked for; no more are of its second half)" if len(steps) < wanted else ""
        self.say(f"averaged the last {pluralize(len(steps), 'checkpoint')}{fewer}: steps {', '.join(map(str, steps))}")
