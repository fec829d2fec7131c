"""A run from its folder to its end, new or resumed: set-up, training, model card."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from regard.core import atomic_files
from regard.core.interrupt import Interrupts
from regard.core.task import Data
from regard.core.tensors import digest
from regard.core.wording import figure_text
from regard.errors import ConfigError, ModelError, RegardError, StorageError
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.model_card import write_card
from regard.runs.network_comparison import NAME
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings
from regard.training.final_comparison import compare_with_baseline, trained_network
from regard.training.model_choice import choose_model
from regard.training.progress import FAILED, INTERRUPTED, NullReporter, Outcome, Reporter, TrainingStart
from regard.training.ranks import PeerFailure, ProcessGroup, joined
from regard.training.reporters import Reporters, default_reporters, make_reporters
from regard.training.setup import TrainingInputs, require_trainable, set_up
from regard.training.strategies import make_strategy
from regard.training.strategy import SharesRows
from regard.training.trainable import parameter_count, trainable_count
from regard.training.trainer import Trainer


class Display(Reporter, Protocol):
    """A reporter that also shows preparation. ``unit`` is that of the task; ``report`` names further reporters."""

    unit: str
    report: Sequence[str]

    def prepared(self, examples: int) -> None: ...


OpenDisplay = Callable[[Path], AbstractContextManager[Display]]


def train_new(run: RunFolder, open_display: OpenDisplay, peers: ProcessGroup | None = None) -> int:
    """Train a run whose folder was just created; remove the folder if nothing in it can be resumed.

    The folder is kept if it has a checkpoint. It is also kept if it has a plan and the run was interrupted, ran out of
    disk space or lost a rank. Other errors after the plan would occur again, so the folder is removed.
    """
    try:
        return train_run(run, open_display, peers)
    except BaseException as error:
        temporary = isinstance(error, StorageError | PeerFailure) or not isinstance(error, RegardError)
        resumable = _is_prepared(run) and temporary
        if not resumable and not checkpoint.list_steps(run.checkpoints):
            # If removing fails, too, report the first failure. A run that another process trains by now (ModelError)
            # must not be removed.
            with suppress(StorageError, ModelError), run.training():
                atomic_files.remove_folder(run.path)
                if isinstance(error, StorageError):
                    error.why = f"training had not started; {run.path} was removed"
        raise


def train_run(run: RunFolder, open_display: OpenDisplay, peers: ProcessGroup | None = None) -> int:
    """Train or resume a run, reporting to a display. Returns the exit code: 0, 130 or 143.

    With ``peers``, this process is one of several ranks, which all call this; only rank 0 locks, writes and displays.
    """
    leads = peers is None or peers.rank == 0
    with (
        _resumable(run),
        run.training() if leads else nullcontext(),
        Interrupts() as interrupts,
        open_display(run.path) if leads else nullcontext(_Unseen()) as display,
    ):
        display.unit = run.task.unit
        named = make_reporters([*display.report, *run.config.train.report]) if leads else []
        ready = _set_up(run, display.log, display.prepared, peers)
        interrupts.polite = True
        outcome = _fit(run, ready, Reporters([display, *named]), interrupts.interrupted, peers)
        if outcome.is_complete:
            _warn(run, display)
            display.log(f"next: regard {run.task.card_of(run.config).command.format(run=run.path)}")
    if outcome.reason != INTERRUPTED:
        return 0
    return interrupts.exit_code or 128 + signal.SIGTERM  # no own signal: this rank stopped with another one


def train(
    config: str | Path | Mapping[str, Any] | RunConfig,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    reporter: Reporter | Sequence[Reporter] | None = None,
) -> Path:
    """Train a run to its end and return its folder; resume it if ``folder`` is a run with the same config.

    No signal is caught: Ctrl-C raises KeyboardInterrupt, and the same call resumes from the last checkpoint. In a
    program started by torchrun, every process calls this, and only rank 0 reports.

    Args:
        config: the name of a recipe, a TOML file, nested tables, or a config.
        folder: the run folder.
        overrides: overrides as in ``--set``: ``["train.steps=100"]``.
        reporter: one or several reporters, in addition to those of ``train.report``. They receive every update and
            validation and may stop the training, which the same call then resumes. An error of a reporter is logged,
            and that reporter is dropped. By default a progress bar in a notebook, and otherwise nothing.

    Raises:
        ConfigError: the config cannot be trained, or differs from that of the folder.
    """
    resolved = config if isinstance(config, RunConfig) else load_config(config, overrides)
    path = Path(folder)
    if reporter is None:
        reporters = default_reporters()
    else:
        reporters = list(reporter) if isinstance(reporter, Sequence) else [reporter]
    with joined() as peers:
        leads = peers is None or peers.rank == 0
        with nullcontext() if peers is None else peers.first():
            new_run = _open_or_create(path, resolved) if leads else None
        run = new_run or RunFolder.open(path)
        all_reporters = Reporters([*reporters, *make_reporters(run.config.train.report)] if leads else [])
        with run.training() if leads else nullcontext():
            outcome = _fit(run, _set_up(run, all_reporters.log, None, peers), all_reporters, lambda: False, peers)
            if outcome.is_complete:
                _warn(run, all_reporters)
    return run.path


def _warn(run: RunFolder, reporter: Reporter) -> None:
    """Report each shortcoming of a finished run."""
    for shortcoming in shortcomings(run):
        reporter.log(str(shortcoming))


def _open_or_create(path: Path, config: RunConfig) -> RunFolder:
    if (path / "config.toml").is_file():
        run = RunFolder.open(path)
        if run.config != config:
            raise ConfigError(f"the run {path} has another config", where=str(path), help="name another folder")
        return run
    require_trainable(config)
    return RunFolder.create(path, config)


class _Unseen(NullReporter):
    """The display of ranks that do not display anything."""

    unit, report = "", ()

    def prepared(self, examples: int) -> None: ...


def _set_up(
    run: RunFolder, log: Callable[[str], None], progress: Callable[[int], None] | None, peers: ProcessGroup | None
) -> TrainingInputs:
    """Prepare on rank 0 first; the other ranks then open the files."""
    if peers is None:
        return set_up(run, log=log, progress=progress)
    with peers.first() as leads:
        ready = set_up(run, log=log, progress=progress, ranks=peers.world) if leads else None
    return ready or set_up(run, log=log, progress=progress, ranks=peers.world)


def _fit(
    run: RunFolder,
    ready: TrainingInputs,
    reporter: Reporter,
    interrupted: Callable[[], bool],
    peers: ProcessGroup | None = None,
) -> Outcome:
    """Train from the newest checkpoint, if any, and write the model card; report the beginning and the end."""
    strategy = make_strategy(run, next(ready.net.parameters()).device, peers)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=reporter, interrupted=interrupted, strategy=strategy
    )
    resumed = trainer.resume()
    parameters = parameter_count(ready.net)
    reporter.started(TrainingStart(run.path, run.config, parameters, trainer.progress.step))
    try:
        if resumed:
            reporter.log(f"resuming at step {trainer.progress.step:,}")
        elif ready.start is not None or (run.config.wide and not run.config.is_combined):
            trainer.begin_with(ready.start)
        if peers is not None:
            peers.agree("beginning", _beginning(trainer))
        outcome = _train_and_describe(run, ready, trainer, parameters)
    except BaseException:
        reporter.finished(Outcome(trainer.progress, FAILED))
        raise
    reporter.finished(outcome)
    return outcome


def _train_and_describe(run: RunFolder, ready: TrainingInputs, trainer: Trainer, parameters: int) -> Outcome:
    """Train, choose the model, compare it with the baseline, and write the model card."""
    strategy, reporter, interrupted = trainer.strategy, trainer.reporter, trainer.interrupted
    first_step = trainer.progress.step
    outcome = trainer.fit()
    if outcome.is_complete:
        with strategy.first() as leads:
            if leads and not choose_model(run, ready, reporter.log, interrupted):
                outcome = outcome._replace(reason=INTERRUPTED)
    if 0 < first_step == outcome.progress.step and outcome.is_complete:
        more = f"regard train --continue {run.path} --set train.epochs={max(2 * outcome.progress.epoch, 1)}"
        reporter.log(f"the run is already finished; train it longer: {more}")
    with strategy.first() as leads:
        if leads:
            data = _combine(run, ready, trainer, reporter.log) if outcome.is_complete else ready.data
            compares = run.config.train.baseline and outcome.is_complete
            if compares and not (first_step == outcome.progress.step and (run.path / NAME).exists()):
                compare_with_baseline(run, data, strategy.device, interrupted)
            trained = None if run.config.lora is None else trainable_count(ready.net)
            progress = outcome.progress
            write_card(run, parameters=parameters, updates=progress.step, seconds=progress.seconds, trained=trained)
    return outcome


def _combine(run: RunFolder, ready: TrainingInputs, trainer: Trainer, log: Callable[[str], None]) -> Data:
    """Choose the weights of the network and its baseline, if both are combined; return the data with these weights.

    The validation figures of the combination are logged.
    """
    combine, data, progress = run.task.combine, ready.data, trainer.progress
    if not run.config.is_combined or combine is None or data.valid is None:
        return data
    _, net = trained_network(run, data, trainer.strategy.device)
    combined = combine(run, net, data)
    step = progress.step if progress.best_value is None else progress.best_step
    trainer.metrics.write({"step": step, "validation": combined.figures})
    loss, *metrics = (f"{name} {figure_text(value)}" for name, value in combined.figures.items())
    log(f"output: {combined.network:.2f} × network + {combined.wide:.2f} × baseline, chosen on the validation data")
    log(" · ".join((f"together: validation {loss}", *metrics[:3])))
    return combined.data


def _beginning(trainer: Trainer) -> str:
    """Return the initial step, and digests of weights and data, in one line."""
    weights = "in rows"  # broadcast by rank 0, or read from one checkpoint
    if not isinstance(trainer.strategy, SharesRows):
        weights = digest({"model": trainer.strategy.gather_full(trainer.optimizer.weights())})
    contents = json.dumps(trainer.data.contents, sort_keys=True).encode()
    return f"step {trainer.progress.step}, weights {weights[:12]}, data {sha256(contents).hexdigest()[:12]}"


@contextmanager
def _resumable(run: RunFolder) -> Iterator[None]:
    """Add the command that resumes the run to a storage failure, if there is something to resume."""
    try:
        yield
    except StorageError as error:
        if _is_prepared(run) or checkpoint.list_steps(run.checkpoints):
            error.help = ", then ".join(filter(None, (error.help, f"regard train --resume {run.path}")))
        raise


def _is_prepared(run: RunFolder) -> bool:
    """Return whether preparation has finished: the plan is written last."""
    return (run.path / "plan.json").exists()
