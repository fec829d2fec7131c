"""Training: from a run folder to checkpoints, one update at a time, killed and resumed without a trace.

The order of things is fixed by the step alone. At the head of the loop, at step k: validate if k is due and not yet
validated, save if due, stop if done; then one update makes it step k + 1. A checkpoint says where the run stands in
a few integers; randomness is drawn from (seed, step), so nothing else needs to be remembered.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from pydantic import TypeAdapter
from torch import Tensor

from regard.core import atomic_files
from regard.core.out_of_memory import within_memory
from regard.core.reference_mode import as_textbook
from regard.data.batches import Batch, Indices, batches_in_order, collate, epoch_batches, mixed_epoch, pair_lengths
from regard.data.corpora import Corpora
from regard.errors import DataError, ModelError, TrainingError
from regard.metrics.text import METRICS
from regard.models.cross_entropy import Loss
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs import checkpoint
from regard.runs.averaging import average_run
from regard.runs.config import Config
from regard.runs.plan import Decision
from regard.runs.run_folder import MetricsLog, RunFolder
from regard.training.gradients import Workers, batch_loss, gradient
from regard.training.optim import Optimizer, Schedule, schedule
from regard.training.pace import Pace, fit, rate_over

__all__ = [
    "Data",
    "Outcome",
    "Reporter",
    "Trainer",
    "TrainingProgress",
    "Validation",
    "batch_memory",
    "planned_epoch",
    "to_device",
]


class Reporter(Protocol):
    """Who is told how training goes; commands print it, nothing below them does."""

    def updated(self, place: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None: ...
    def validated(self, place: TrainingProgress, validation: Validation, best: bool) -> None: ...
    def said(self, message: str) -> None: ...


class Data(NamedTuple):
    """What training works on: corpora as token arrays, and the mixture's weights."""

    train: Corpora
    weights: list[float]
    valid: Corpora | None


class Validation(NamedTuple):
    """``loss``: nats a token, unsmoothed; ``metrics``: of decoded output, where asked for."""

    loss: float
    metrics: dict[str, float]


@dataclass
class TrainingProgress:
    """Where a run stands: everything beside tensors that a checkpoint must know. Plain numbers only."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch done
    validated: int = 0  # the last step that was validated
    saved: int = 0  # the last step that was saved
    sound: int = 0  # the last step saved by plan, not by an interruption, with a finite loss: where rolling back leads
    best_step: int = 0
    best_value: float | None = None
    without_better: int = 0  # validations since the best one
    nonfinite: int = 0  # updates in a row without a finite loss
    rolled_back: int = 0  # the step at which weights were rolled back, until a later checkpoint is sound
    metrics_size: int = 0  # bytes of metrics.jsonl
    seconds: float = 0.0  # of training, over all sittings


class Outcome(NamedTuple):
    place: TrainingProgress
    reason: str  # "steps", "epochs", "early stopping", "interrupted"


class Trainer:
    """One run. ``interrupted`` is asked after every update, batch of validation and decoded sentence batch."""

    def __init__(
        self,
        run: RunFolder,
        model: EncoderDecoder,
        data: Data,
        *,
        steps: int | None,
        reporter: Reporter,
        interrupted: Callable[[], bool],
        decode_metrics: Callable[[EncoderDecoder], dict[str, float] | None],
    ) -> None:
        self.run, self.model, self.data = run, model, data
        self.config: Config = run.config
        self.reporter, self.interrupted, self.decode_metrics = reporter, interrupted, decode_metrics
        settings = self.config.train
        self.optimizer = Optimizer(
            model,
            kind=settings.optimizer,
            betas=settings.betas,
            epsilon=settings.epsilon,
            rho=settings.rho,
            weight_decay=settings.weight_decay,
            clip_norm=settings.clip_norm,
            ema=settings.ema,
        )
        self.clock = time.perf_counter
        plan = run.read_plan()
        self.intervals = plan.fit if plan is not None and plan.fit is not None else fit(settings, steps)
        self.pace = Pace(
            steps,
            (plan.decisions if plan is not None else None) or [],
            minutes=settings.minutes if plan is not None and plan.decisions is not None else None,
            most=plan.most if plan is not None else None,
            record=self._record,
        )
        self.rate = self._rate()
        self.device = model.projection.device
        self.workers = Workers(settings.workers, torch.get_num_threads())
        self.place = TrainingProgress()
        self._planned: tuple[int, list[Any]] = (-1, [])
        self.metrics = MetricsLog(run.path / "metrics.jsonl")

    def _rate(self) -> Schedule:
        """The learning rate under the ends decided so far."""

        def shape(last: int | None) -> Schedule:
            settings = self.config.train
            return schedule(
                settings.schedule,
                learning_rate=settings.learning_rate,
                warmup=self.intervals.warmup,
                width=self.config.model.width,
                last_step=last,
                halve_after=settings.halve_after,
                halve_every=settings.halve_every,
            )

        return rate_over(shape, self.pace.first, self.pace.decisions)

    def _record(self, decisions: list[Decision]) -> None:
        plan = self.run.read_plan()
        assert plan is not None
        self.run.write_plan(plan.model_copy(update={"decisions": decisions}))

    def resume(self) -> bool:
        """Go to the newest whole checkpoint, if there is one."""
        found = checkpoint.load_latest(self.run.checkpoints, self.reporter.said)
        if found is None:
            return False
        for difference in self.run.elsewhere():
            self.reporter.said(f"the results will not be bit for bit those of one sitting: {difference}")
        if self.device.type != "cpu":
            self.reporter.said("an accelerator is not promised to give the results of one sitting bit for bit")
        try:
            self.place = _place(found.state)
            self.optimizer.load(found.groups["model"], found.groups["optimizer"])
        except (KeyError, TypeError, ValueError) as error:  # whole, yet of another model or another program
            raise ModelError(
                f"{found.path.name} is not of this run",
                where=str(found.path),
                why=str(error).splitlines()[0],
                help="remove this folder, or restore the run's own config.toml and tokenizer",
            ) from error
        self._point_at_best()
        return True

    def fit(self) -> Outcome:
        """Train until the steps, epochs or patience are used up, or until interrupted; the end is saved."""
        self.metrics.cut(self.place.metrics_size)
        while True:
            if self.interrupted():
                return self._leave("interrupted")
            if self.pace.ask(self.place.step, self.place.seconds):
                self.rate = self._rate()
            due = self._due(self.intervals.validate_every, self.place.validated)
            last = self._done() is not None and self.place.validated < self.place.step
            if (due or last) and not self._validate():
                return self._leave("interrupted")
            reason = self._done()
            if reason is not None:
                return self._leave(reason)
            if self.place.nonfinite == 0 and self._due(self.intervals.save_every, self.place.sound):
                self.save()
            with batch_memory("training", self.config):
                self._update()

    def _due(self, every: int, last: int) -> bool:
        return self.place.step % every == 0 and self.place.step > last

    def _done(self) -> str | None:
        settings, place = self.config.train, self.place
        steps = self.pace.end(place.step)
        if steps is not None and place.step >= steps:
            return "steps"
        if settings.epochs is not None and place.epoch >= settings.epochs:
            return "epochs"
        if settings.early_stopping is not None and place.without_better >= settings.early_stopping:
            return "early stopping"
        return None

    def _leave(self, reason: str) -> Outcome:
        planned = reason != "interrupted"
        if (self.place.sound if planned else self.place.saved) < self.place.step:
            self.save(planned=planned)
        if planned and self.config.train.average:
            self._average(self.config.train.average)
        return Outcome(self.place, reason)

    def _average(self, wanted: int) -> None:
        """The mean of the last checkpoints, of the second half of training; unless one was made since they were."""
        steps = [step for step in checkpoint.list_steps(self.run.checkpoints)[-wanted:] if 2 * step >= self.place.step]
        if not steps or self.run.averaged():
            return
        average_run(self.run, steps=steps)
        fewer = f" ({wanted} were asked for; no more are of its second half)" if len(steps) < wanted else ""
        self.reporter.said(f"averaged the last {len(steps)} checkpoints{fewer}: steps {', '.join(map(str, steps))}")

    def save(self, *, planned: bool = True) -> None:
        """Commit a checkpoint of this very moment.

        One that only an interruption asked for goes when the next is there and does not count among those kept:
        the last ten checkpoints, and so their average, are the same however often a run was interrupted.
        """
        place, folder = self.place, self.run.checkpoints
        steps = [step for step in checkpoint.list_steps(folder) if place.sound < step < place.step]
        passing = [step for step in steps if step != place.best_step]
        place.saved, place.metrics_size = place.step, self.metrics.sync()
        if planned and place.nonfinite == 0:
            place.sound = place.step
            if place.sound > place.rolled_back:
                place.rolled_back = 0  # it helped: another bad patch gets its own chance
        groups = {"model": self.optimizer.weights(), "optimizer": self.optimizer.tensors()}
        keep = self.config.train.keep + len(passing) + (not planned)
        protect = [checkpoint.step_path(folder, step).name for step in (place.best_step, place.sound)]
        checkpoint.save(folder, place.step, groups, asdict(place), keep=keep, protect=protect)
        for step in passing:
            atomic_files.remove_folder(checkpoint.step_path(folder, step))
        self._point_at_best()

    def _point_at_best(self) -> None:
        """Say which checkpoint is best; said anew at every save and resume, in case a kill came between the two."""
        place, folder = self.place, self.run.checkpoints
        if place.best_value is None or not checkpoint.step_path(folder, place.best_step).is_dir():
            return
        marked = checkpoint.best_or_none(folder)
        if marked is None or marked.step != place.best_step:
            checkpoint.mark_best(folder, place.best_step, self.config.train.best_by, place.best_value)

    def _update(self) -> None:
        settings, place = self.config.train, self.place
        started = self.clock()
        batches = self._next_batches()
        self.model.train()
        with as_textbook(settings.engine == "reference"):
            found = gradient(
                partial(self.loss, smoothing=settings.label_smoothing), self.optimizer.parameters, batches,
                seed=(self.config.seed, place.step), workers=self.workers,
            )  # fmt: skip
        rate, sound = self.rate(place.step + 1), math.isfinite(found.smoothed)
        norm = self.optimizer.step(rate, found.values) if sound else self.optimizer.skip()
        place.step += 1
        atomic_files.at("update")
        seconds = self.clock() - started
        place.seconds += seconds
        if not math.isfinite(norm):
            self._skip(batches)
            return
        place.nonfinite = 0
        figures = {
            "loss": found.smoothed,
            "nll": found.nll,
            "rate": rate,
            "norm": norm,
            "tokens": found.tokens,
            "seconds": seconds,
        }
        self.metrics.write({"step": place.step, "epoch": place.epoch, **figures})
        self.reporter.updated(place, self._expected(), figures)

    def loss(self, batch: Batch, *, smoothing: float) -> Loss:
        """The sum over the batch's target tokens."""
        return batch_loss(self.model, batch, smoothing=smoothing)

    def _next_batches(self) -> list[Batch]:
        """As many batches as make an update, fewer at an epoch's end."""
        place, wanted = self.place, self.config.train.accumulate
        if self._planned[0] != place.epoch:
            self._planned = (place.epoch, planned_epoch(self.config, self.data, place.epoch))
        plan = self._planned[1]
        taken = plan[place.batch : place.batch + wanted]
        if not taken:
            raise DataError(
                "The training data are not those this run began with.",
                where=f"epoch {place.epoch}",
                why=f"it has {len(plan):,} batches, and {place.batch:,} of them are done",
                help="restore the corpus to go on, or begin another run",
            )
        place.batch += len(taken)
        if place.batch >= len(plan):
            place.epoch, place.batch = place.epoch + 1, 0
        return [to_device(collate(self.data.train, indices), self.device) for indices in taken]

    def _expected(self) -> int | None:
        """How many updates there will be if nothing ends training early; for whoever shows progress."""
        epochs, steps = self.config.train.epochs, self.pace.end(self.place.step)
        if epochs is None:
            return steps
        by_epochs = epochs * math.ceil(len(self._planned[1]) / self.config.train.accumulate)
        return by_epochs if steps is None else min(steps, by_epochs)

    def _skip(self, batches: list[Batch]) -> None:
        """A loss or gradient that is not finite: nothing was learned; too many in a row roll back, then stop."""
        place = self.place
        place.nonfinite += 1
        lines = [self.data.train.where(int(index)) for batch in batches for index in batch.index[:3]]
        self.metrics.write({"step": place.step, "skipped": "not finite", "pairs": lines})
        self.reporter.said(f"step {place.step}: the loss is not finite; skipped, with {', '.join(lines)}, …")
        if place.nonfinite < self.config.train.max_nonfinite:
            return
        if place.rolled_back or not place.sound:
            raise TrainingError(
                f"no finite loss for {place.nonfinite} updates in a row",
                where=f"step {place.step}",
                why="the weights diverged" if place.sound else "training diverged before its first checkpoint",
                help=f"lower the learning rate: --set train.lr={self.config.train.learning_rate / 3:.1e}",
            )
        found = checkpoint.load(checkpoint.step_path(self.run.checkpoints, place.sound))
        self.optimizer.load(found.groups["model"], found.groups["optimizer"])
        place.nonfinite, place.rolled_back = 0, place.step
        self.reporter.said(f"rolled back to the weights of step {found.step}; the data goes on")

    @torch.no_grad()
    def _validate(self) -> bool:
        """Measure, remember the best; False when interrupted, as if it had not begun."""
        if self.data.valid is None:
            self.place.validated = self.place.step
            return True
        self.model.eval()
        plain = as_textbook(self.config.train.engine == "reference")
        with plain, self.optimizer.averaged(), batch_memory("validating", self.config):
            measured = self._measure(self.data.valid)
        if measured is None:
            return False
        place = self.place
        place.validated = place.step
        by = self.config.train.best_by
        value = measured.loss if by == "loss" else measured.metrics.get(by)  # None: this one did not decode
        better = value is not None and self._better(value)
        self.metrics.write({"step": place.step, "validation": {"loss": measured.loss, **measured.metrics}})
        self.reporter.validated(place, measured, better)
        if better:
            place.best_step, place.best_value, place.without_better = place.step, value, 0
            self.save()
        elif value is not None:
            place.without_better += 1
        return True

    def _better(self, value: float) -> bool:
        """Whether a checkpoint of this value would be the best; one that is not finite never is."""
        by, best = self.config.train.best_by, self.place.best_value
        if best is None or not math.isfinite(value):
            return math.isfinite(value)
        return value < best if by == "loss" or METRICS[by].lower_is_better else value > best

    def _decodes(self) -> bool:
        """Whether the validation of this step decodes: every ``decode_every``-th, and the one at the end."""
        number, beyond = divmod(self.place.step, self.intervals.validate_every)
        return beyond != 0 or number % self.config.train.decode_every == 0 or self._done() is not None

    def _measure(self, corpora: Corpora) -> Validation | None:
        total, count = 0.0, 0
        for batch in self._in_order(corpora):
            if self.interrupted():
                return None
            atomic_files.at("validation")
            total += float(self.loss(batch, smoothing=0.0).nll)
            count += int(batch.target_valid.sum())
        metrics = self.decode_metrics(self.model) if self._decodes() else {}
        return None if metrics is None else Validation(total / count, metrics)

    def _in_order(self, corpora: Corpora) -> Iterator[Batch]:
        for indices in batches_in_order(pair_lengths(corpora), self.config.train.batch_tokens):
            yield to_device(collate(corpora, indices), self.device)


def _place(state: dict[str, Any]) -> TrainingProgress:
    """What a checkpoint says of it. TypeError for other names, ValueError for what is no plain number."""
    place = TypeAdapter(TrainingProgress).validate_python(asdict(TrainingProgress(**state)))
    if not all(0 <= each < 10**15 for each in asdict(place).values() if isinstance(each, int)):
        raise ValueError("a number in it is out of range")
    return place


def planned_epoch(config: Config, data: Data, epoch: int) -> list[Indices]:
    """The batches of one epoch in their order, as numbers of pairs; ``train.accumulate`` of them make an update."""
    chosen = mixed_epoch(data.train.sizes, data.weights, seed=config.seed, epoch=epoch)
    return epoch_batches(
        pair_lengths(data.train), config.train.batch_tokens, seed=config.seed, epoch=epoch, chosen=chosen,
        where=data.train.where,
    )  # fmt: skip


def batch_memory(doing: str, config: Config) -> AbstractContextManager[None]:
    """``within_memory`` for work whose memory goes with the tokens of a batch."""
    half = max(config.train.batch_tokens // 2, 1)
    help = f"lower train.batch_tokens: begin again with --set train.batch_tokens={half}, or with a smaller model"
    return within_memory(doing, help=help)


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch's tensors on another device."""
    moved: list[Tensor] = [tensor.to(device, non_blocking=True) for tensor in batch]
    return Batch(*moved)
