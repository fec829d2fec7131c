"""The training loop, which can be killed and resumed with the same result.

The order of operations depends only on the step. At the head of the loop, at step k: validate if it is due and not done
yet, save if it is due, stop if training has ended. Then one update leads to step k + 1. A checkpoint has the position
of the run in a few integers; randomness depends on (seed, step), so no other state is needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.core import atomic_files
from regard.core.task import Data, ExampleIndices, Task
from regard.runs.metrics_log import MetricsLog
from regard.runs.plan import Decision
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.training.checkpoints import Checkpoints
from regard.training.optim import Schedule, make_optimizer, schedule
from regard.training.pace import TimeBudget, fit, rate_over
from regard.training.progress import INTERRUPTED, STOPPED, Outcome, Reporter, TrainingProgress, is_best
from regard.training.strategies import make_strategy
from regard.training.strategy import Strategy, Trainable, on_any_rank
from regard.training.updater import Updater, batch_memory, require_not_diverged
from regard.training.validation import Validator


class Trainer:
    """Training of one run.

    Args:
        run: the run folder.
        net: the network.
        data: training and validation examples.
        steps: number of updates, if known.
        reporter: receives updates and validations.
        interrupted: checked after every update and validation batch, and during decoding.
        strategy: the division of the work; by default, the shards of the run's plan, in this process.
    """

    def __init__(
        self,
        run: RunFolder,
        net: nn.Module,
        data: Data,
        *,
        steps: int | None,
        reporter: Reporter,
        interrupted: Callable[[], bool],
        strategy: Strategy | None = None,
    ) -> None:
        self.task: Task = run.task
        self.run, self.net, self.data = run, net, data
        self.config: RunConfig = run.config
        self.reporter, self.interrupted = reporter, interrupted
        self.stop_requested = False  # by the reporter, which only rank 0 has
        self.strategy = strategy or make_strategy(run, next(net.parameters()).device, None)
        self.model = self.strategy.wrap(Trainable(net, self.task.objective(self.config)))
        self.optimizer = make_optimizer(net, self.config.train)
        self.clock = time.perf_counter
        self.budget = self._budget(steps)
        self.rate = self._rate()
        self.progress = TrainingProgress()
        self.metrics = MetricsLog(run.path / "metrics.jsonl")
        self.checkpoints = Checkpoints(run, self.optimizer, self.metrics, self.strategy, reporter.log)
        self.updater = Updater(self.config, self.model, data.train, self.optimizer, self.strategy)
        self.validator: Validator | None = None
        if data.valid is not None:
            self.validator = Validator(
                self.task, self.config, self.model, net, data.valid, data.codecs, self.strategy, self._stopped
            )

    def _budget(self, steps: int | None) -> TimeBudget:
        plan, settings = self.run.read_plan(), self.config.train
        self.intervals = plan.fit if plan is not None and plan.fit is not None else fit(settings, steps)
        return TimeBudget(
            steps,
            (plan.decisions if plan is not None else None) or [],
            minutes=settings.minutes if plan is not None and plan.decisions is not None else None,
            max_steps=plan.max_steps if plan is not None else None,
            record=self._record,
        )

    def _rate(self) -> Schedule:
        """Return the learning rate for the ends decided so far."""

        def shape(last: int | None) -> Schedule:
            settings = self.config.train
            return schedule(
                settings.schedule,
                learning_rate=settings.learning_rate,
                warmup=self.intervals.warmup,
                width=self.config.width,
                last_step=last,
                halve_after=settings.halve_after,
                halve_every=settings.halve_every,
            )

        return rate_over(shape, self.budget.first, self.budget.decisions)

    def _stopped(self) -> bool:
        """Return whether any rank is interrupted or stopped by its reporter, since all must stop together."""
        return on_any_rank(self.strategy, self.stop_requested or self.interrupted())

    def _record(self, decisions: list[Decision]) -> None:
        with self.strategy.first() as leads:
            if leads:
                plan = self.run.read_plan()
                assert plan is not None
                self.run.write_plan(plan.model_copy(update={"decisions": decisions}))

    def resume(self) -> bool:
        """Load the newest intact checkpoint; return whether one exists."""
        progress = self.checkpoints.resume(self.updater.continue_from)
        if progress is None:
            return False
        self.progress = progress
        return True

    def begin_with(self, weights: Mapping[str, Tensor] | None) -> None:
        """Start from the weights of another run, or from those of the network; they are validated as step 0."""
        if weights is not None:
            self.optimizer.begin_with(weights)
        if self.strategy.rank == 0:
            self.metrics.truncate(0)
        if not self._validate() or self.progress.best_value is None:
            self.save()

    def fit(self) -> Outcome:
        """Train to the planned end, or until interrupted or stopped by the reporter; the final state is saved."""
        if self.strategy.rank == 0:
            self.metrics.truncate(self.progress.metrics_size)
        while True:
            if self._stopped():
                return self._leave_early()
            if self.budget.replan(self.progress.step, self.progress.seconds):
                self.rate = self._rate()
            due = self._due(self.intervals.validate_every, self.progress.validated)
            last = self._done() is not None and self.progress.validated < self.progress.step
            if (due or last) and not self._validate():
                return self._leave_early()
            reason = self._done()
            if reason is not None:
                return self._leave(reason)
            if due and self._stopped():  # no update after a validation whose report requested to stop
                return self._leave_early()
            if self.progress.nonfinite == 0 and self._due(self.intervals.save_every, self.progress.last_good):
                self.save()
            with batch_memory("training", self.config):
                self._update()

    def _due(self, every: int, last: int) -> bool:
        return self.progress.step % every == 0 and self.progress.step > last

    def _done(self) -> str | None:
        settings, progress = self.config.train, self.progress
        steps = self.budget.last_step(progress.step)
        if settings.epochs is not None and progress.epoch >= settings.epochs:
            return "epochs"
        if steps is not None and progress.step >= steps:
            return "steps"
        if settings.early_stopping is not None and progress.without_better >= settings.early_stopping:
            return "early stopping"
        return None

    def _leave_early(self) -> Outcome:
        return self._leave(STOPPED if on_any_rank(self.strategy, self.stop_requested) else INTERRUPTED)

    def _leave(self, reason: str) -> Outcome:
        planned = reason not in (INTERRUPTED, STOPPED)
        if (self.progress.last_good if planned else self.progress.saved) < self.progress.step:
            self.save(planned=planned)
        if planned and self.config.train.average:
            self.checkpoints.average(self.config.train.average, self.progress)
        return Outcome(self.progress, reason)

    def save(self, *, planned: bool = True) -> None:
        self.checkpoints.save(self.progress, self.updater.carry, planned=planned)

    def _log(self, record: dict[str, Any]) -> None:
        if self.strategy.rank == 0:
            self.metrics.write(record)

    def _update(self) -> None:
        progress, started = self.progress, self.clock()
        gradient, norm, batches = self.updater.update(progress, self.rate)
        atomic_files.fault_point("update")
        seconds = self._mean(self.clock() - started)
        progress.seconds += seconds
        if not math.isfinite(norm):
            self._skip(batches)
            return
        progress.nonfinite = 0
        figures = {
            "loss": gradient.minimized,
            "nll": self.task.compute_metrics(gradient.sums)["loss"],
            "rate": self.rate(progress.step),
            "norm": norm,
            "tokens": int(gradient.weight),
            "seconds": seconds,
        }
        self._log({"step": progress.step, "epoch": progress.epoch, **figures})
        self.stop_requested |= self.reporter.updated(progress, self._expected(), figures) is True

    def _mean(self, seconds: float) -> float:
        """Return the mean over ranks, so decisions based on time are equal on all ranks."""
        summed = self.strategy.add({"seconds": torch.tensor(seconds, dtype=torch.float64)})
        return float(summed["seconds"]) / self.strategy.world

    def _expected(self) -> int | None:
        """Return the number of updates if training is not stopped early, for progress displays."""
        epochs, steps = self.config.train.epochs, self.budget.last_step(self.progress.step)
        if epochs is None:
            return steps
        by_epochs = epochs * self.updater.updates_per_epoch()
        return by_epochs if steps is None else min(steps, by_epochs)

    def _skip(self, batches: list[ExampleIndices]) -> None:
        """Skip an update whose loss or gradient is not finite; after several in a row, roll back, then stop."""
        progress = self.progress
        progress.nonfinite += 1
        lines = self.updater.lines_of(batches)
        self._log({"step": progress.step, "skipped": "not finite", "pairs": lines})
        self.reporter.log(
            f"step {progress.step}: skipped because the loss is not finite; examples {', '.join(lines)}, …"
        )
        if progress.nonfinite >= self.config.train.max_nonfinite:
            require_not_diverged(progress, self.config.train.learning_rate)
            self.checkpoints.roll_back(progress)

    def _validate(self) -> bool:
        """Validate and record the best; return False if interrupted, without any effect."""
        progress = self.progress
        if self.validator is None:
            progress.validated = progress.step
            return True
        measured = self.validator.measure(self.optimizer, decode=self._decodes())
        if measured is None:
            return False
        progress.validated = progress.step
        by = self.config.train.best_by
        value = measured.loss if by == "loss" else measured.metrics.get(by)  # None if this validation did not decode
        better = is_best(self.config.train, progress, measured.loss, value, self.validator.better)
        self._log({"step": progress.step, "validation": {"loss": measured.loss, **measured.metrics}})
        self.stop_requested |= self.reporter.validated(progress, measured, better) is True
        if better:
            progress.best_step, progress.best_value = progress.step, value
            self.save()
        return True

    def _decodes(self) -> bool:
        """Return whether the validation of this step decodes: every ``decode_every``-th, and the last one."""
        if self.config.train.best_by == "loss":
            return False
        number, beyond = divmod(self.progress.step, self.intervals.validate_every)
        return beyond != 0 or number % self.config.train.decode_every == 0 or self._done() is not None
