"""Longer training of a finished run: a new run folder that continues its last checkpoint and optimizer state.

Steps, epochs and minutes count from the start of the first run, so the new run equals one longer training. If the
schedule does not depend on the end, it has the same bits.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from regard.config.explain import expand_key, short_keys
from regard.config.settings import TrainConfig
from regard.config.toml_layers import Key, dotted, parse_override
from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError
from regard.models.origin_config import Origin
from regard.runs import checkpoint
from regard.runs.checkpoint_files import Checkpoint
from regard.runs.config import load_config
from regard.runs.plan import Decision, Plan, PlannedOrigin
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.training.origin import copy_codecs
from regard.training.pace import fit, updates_within
from regard.training.progress import TrainingProgress, saved_progress
from regard.training.setup import counted_ends, planned_updates, prepare, updates_of, updates_per_epoch

ENDS = ("steps", "epochs", "minutes", "tokens")
CHANGEABLE = {
    *ENDS, "early_stopping", "stop_by", "learning_rate", "schedule", "halve_after", "halve_every", "weight_decay",
    "label_smoothing", "clip_norm", "validate_every", "save_every", "keep", "average", "threads", "workers",
    "max_nonfinite",
}  # fmt: skip


class LongerRun:
    """A run to train longer: its config with a new end, its last checkpoint and its progress."""

    def __init__(self, source: RunFolder, config: RunConfig, last: Checkpoint, progress: TrainingProgress) -> None:
        self.source, self.config, self.last = source, config, last
        # The patience of early stopping starts over.
        self.progress = replace(progress, without_better=0, recent=[], saved=progress.step, last_good=progress.step)

    def begin(self, folder: Path, log: Callable[[str], None]) -> RunFolder:
        """Create the run folder: checkpoints, tokenizers, metrics and plan. It is removed after a failure."""
        run = RunFolder.create(folder, self.config)
        try:
            copy_codecs(run, Origin(run=str(self.source.path)))
            run.write_plan(self._plan(run))
            self._copy_metrics(run)
            self._copy_checkpoints(run)
        except BaseException:
            atomic_files.remove_folder(run.path)
            raise
        log(f"continues {self.source.path} from step {self.progress.step:,}, with its optimizer state")
        return run

    def _plan(self, run: RunFolder) -> Plan:
        """Return the plan of the first run with the new end."""
        digest = checkpoint.digest({"model": self.last.groups["model"]})
        origin = PlannedOrigin(run=str(self.source.path), checkpoint=f"step {self.progress.step:,}", digest=digest)
        plan = self.source.read_plan()
        if plan is None:
            raise ModelError(f"{self.source.path} has no plan.json", help="copy the whole run folder again")
        run.write_plan(plan)  # preparation verifies the data against the plan
        data = prepare(run, log=lambda message: None)
        settings, progress = self.config.train, self.progress
        limits = counted_ends(self.config, data)
        if settings.tokens is not None:
            reached = updates_of(settings.tokens, self.config, data) <= progress.step
            _require_longer(self.source, "tokens", not reached, f"{settings.tokens:,} tokens", "")
        fitting = None
        if settings.minutes is not None:
            fitting = max(updates_within(settings.minutes, progress.seconds / max(progress.step, 1)), progress.step + 1)
        steps = min([*limits, *([] if fitting is None else [fitting])], default=None)
        planned = planned_updates(steps, self.config, data)
        intervals = fit(settings, planned, updates_per_epoch(self.config, data))
        if settings.warmup is None and plan.fit is not None:
            intervals = intervals._replace(warmup=plan.fit.warmup)
        decisions: list[Decision] | None = None if fitting is None else []
        return plan.model_copy(
            update={
                "origin": origin,
                "fit": intervals,
                "steps": steps,
                "max_steps": min(limits, default=None),
                "decisions": decisions,
            }
        )

    def _copy_metrics(self, run: RunFolder) -> None:
        source = self.source.path / "metrics.jsonl"
        if source.is_file():
            with atomic_files.explain_os_errors(run.path):
                shutil.copyfile(source, run.path / "metrics.jsonl")

    def _copy_checkpoints(self, run: RunFolder) -> None:
        best = checkpoint.best_or_none(self.source.checkpoints)
        if best is not None and best.step != self.last.step:
            path = checkpoint.step_path(self.source.checkpoints, best.step)
            if path.is_dir():
                with atomic_files.explain_os_errors(run.checkpoints):
                    shutil.copytree(path, checkpoint.step_path(run.checkpoints, best.step))
        state, keep = asdict(self.progress), self.config.train.keep
        protect = [checkpoint.step_path(run.checkpoints, self.progress.best_step).name]
        checkpoint.save(run.checkpoints, self.last.step, self.last.groups, state, keep=keep, protect=protect)


def longer_run(source: RunFolder, overrides: Sequence[str], log: Callable[[str], None]) -> LongerRun:
    """Load the inputs of a longer training of ``source``.

    Args:
        source: a run with a checkpoint, finished or not.
        overrides: keys of ``train`` as ``key=value``. A new end of training replaces all other ends.
        log: receives a message about each damaged checkpoint that is skipped.

    Raises:
        ConfigError: a key that the optimizer state does not allow to change, or an end that has already been reached.
        ModelError: no checkpoint to continue from.
    """
    config = _config(source, overrides)
    last = checkpoint.load_latest(source.checkpoints, log)
    if last is None:
        help = f"train it first: regard train --resume {source.path}"
        raise ModelError(f"{source.path} has no checkpoint", where=str(source.checkpoints), help=help)
    try:
        progress = saved_progress(last.state)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{last.path.name} is damaged", where=str(last.path), why=str(error)) from error
    _require_end(source, config.train, progress)
    return LongerRun(source, config, last, progress)


def _config(source: RunFolder, overrides: Sequence[str]) -> RunConfig:
    short = short_keys(type(source.config))
    keys = {override: expand_key(parse_override(override)[0], short) for override in overrides}
    for override, key in keys.items():
        if key != ("name",) and (key[0] != "train" or len(key) != 2 or key[1] not in CHANGEABLE):
            raise ConfigError(
                f"{dotted(key)} cannot be changed during a training",
                where=f"--set {override}",
                why="the optimizer state and the order of the data depend on it",
                help=_new_run(source, override, key),
            )
    stated = {key[1] for key in keys.values() if key[0] == "train"}
    dropped = [f"train.{end}=" for end in ENDS if stated & {*ENDS} and end not in stated]
    return load_config(source.path / "config.toml", [*dropped, *overrides], saved=True)


def _new_run(source: RunFolder, override: str, key: Key) -> str:
    """Return the command of a new run with that key, which inherits the weights if the key is one of training."""
    command = f"regard train {source.path / 'config.toml'}"
    if key[0] != "train":
        return f"start a new run: {command} --set {shlex.quote(override)}"
    net = next(iter(source.config.nets()))
    started = f"--set {net}.from={shlex.quote(str(source.path))}"
    return f"start a new run from the weights: {command} {started} --set {shlex.quote(override)}"


def _require_end(source: RunFolder, settings: TrainConfig, progress: TrainingProgress) -> None:
    epochs, steps, minutes = settings.epochs, settings.steps, settings.minutes
    done = pluralize(progress.epoch, "epoch")
    _require_longer(source, "epochs", epochs is None or epochs > progress.epoch, done, f"{2 * progress.epoch}")
    done = pluralize(progress.step, "update")
    _require_longer(source, "steps", steps is None or steps > progress.step, done, f"{2 * progress.step}")
    spent = progress.seconds / 60
    done = f"{spent:.1f} minutes"
    _require_longer(source, "minutes", minutes is None or minutes > spent, done, f"{2 * spent:.2g}")


def _require_longer(source: RunFolder, end: str, longer: bool, done: str, more: str) -> None:
    """Raise ConfigError for an end that the run has already reached; ``more``: a larger value."""
    if not longer:
        raise ConfigError(
            f"{source.path} has already trained for {done}",
            where=f"train.{end}",
            why="steps, epochs, minutes and tokens count from the start of the first run",
            help=f"regard train --continue {source.path} --set train.{end}={more}"
            if more
            else "set a higher train.tokens",
        )
