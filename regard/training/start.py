"""A run from its folder to its end: set-up, training, the model card; started anew or resumed."""

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
from regard.core.tensors import digest
from regard.errors import ConfigError, ModelError, RegardError, StorageError
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.model_card import write_card
from regard.runs.run_config import RunConfig
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings
from regard.training.progress import Outcome, Quiet, Reporter
from regard.training.ranks import PeerFailure, Peers, joined
from regard.training.setup import TrainingInputs, require_trainable, set_up
from regard.training.strategies import make_strategy
from regard.training.strategy import SharesRows
from regard.training.trainer import Trainer


class Display(Reporter, Protocol):
    """A reporter that also shows preparation and the end of training; ``unit`` is that of the task."""

    unit: str

    def prepared(self, examples: int) -> None: ...
    def finished(self, outcome: Outcome) -> None: ...


OpenDisplay = Callable[[Path], AbstractContextManager[Display]]


def train_new(run: RunFolder, open_display: OpenDisplay, peers: Peers | None = None) -> int:
    """Train a run whose folder was created a moment ago; remove the folder if the start leaves nothing to resume.

    Kept: a run with a checkpoint, and one with a plan that was interrupted, ran into a full disk or lost a rank. Any
    other error after the plan would come again, so that folder goes, too.
    """
    try:
        return train_run(run, open_display, peers)
    except BaseException as error:
        passing = isinstance(error, StorageError | PeerFailure) or not isinstance(error, RegardError)
        resumable = _is_prepared(run) and passing
        if not resumable and not checkpoint.list_steps(run.checkpoints):
            # A machine that refuses does so again; the first failure is the one to report. A run that another process
            # trains by now (ModelError) is not ours to remove.
            with suppress(StorageError, ModelError), run.training():
                atomic_files.remove_folder(run.path)
                if isinstance(error, StorageError):
                    error.why = f"training had not begun; {run.path} is removed"
        raise


def train_run(run: RunFolder, open_display: OpenDisplay, peers: Peers | None = None) -> int:
    """Train or resume a run, reporting to a display. Returns the exit code: 0, 130 or 143.

    With ``peers`` this is one of several ranks, each of which calls this; rank 0 alone locks, writes and shows.
    """
    leads = peers is None or peers.rank == 0
    with (
        _resumable(run),
        run.training() if leads else nullcontext(),
        Interrupts() as interrupts,
        open_display(run.path) if leads else nullcontext(_Unseen()) as display,
    ):
        display.unit = run.task.unit
        ready = _set_up(run, display.said, display.prepared, peers)
        interrupts.polite = True
        outcome = _fit(run, ready, display, interrupts.interrupted, peers)
        display.finished(outcome)
        if outcome.reason != "interrupted":
            _warn(run, display)
            display.said(f"next: regard {run.task.card_of(run.config).command.format(run=run.path)}")
    if outcome.reason != "interrupted":
        return 0
    return interrupts.exit_code or 128 + signal.SIGTERM  # without a signal of its own, this rank left with another


def train(
    config: str | Path | Mapping[str, Any] | RunConfig,
    folder: str | Path,
    *,
    overrides: Sequence[str] = (),
    reporter: Reporter | None = None,
) -> Path:
    """Train a run to its end and return its folder; resumes where ``folder`` is a run of the same config.

    ``config``: a recipe's name, a TOML file, nested tables, or a config. ``overrides``: as ``--set``,
    ``["train.steps=100"]``. ``reporter``: told of every update and validation. No signal is caught: Ctrl-C raises
    KeyboardInterrupt, and the same call resumes from the last checkpoint. In a program that torchrun started, every
    process calls this, and rank 0 alone reports. Raises ConfigError for a config that cannot be trained or another one
    than the folder's.
    """
    wanted = config if isinstance(config, RunConfig) else load_config(config, overrides)
    path, reporter = Path(folder), reporter or Quiet()
    with joined() as peers:
        leads = peers is None or peers.rank == 0
        with nullcontext() if peers is None else peers.first():
            made = _open_or_create(path, wanted) if leads else None
        run = made or RunFolder.open(path)
        shown = reporter if leads else Quiet()
        with run.training() if leads else nullcontext():
            _fit(run, _set_up(run, shown.said, None, peers), shown, lambda: False, peers)
            _warn(run, shown)
    return run.path


def _warn(run: RunFolder, reporter: Reporter) -> None:
    """Report each shortcoming of a run that ended."""
    for shortcoming in shortcomings(run):
        reporter.said(str(shortcoming))


def _open_or_create(path: Path, wanted: RunConfig) -> RunFolder:
    if (path / "config.toml").is_file():
        run = RunFolder.open(path)
        if run.config != wanted:
            raise ConfigError(f"{path} is a run of another config", where=str(path), help="name another folder")
        return run
    require_trainable(wanted)
    return RunFolder.create(path, wanted)


class _Unseen(Quiet):
    """The display of a rank that shows nothing."""

    unit = ""

    def prepared(self, examples: int) -> None: ...
    def finished(self, outcome: Outcome) -> None: ...


def _set_up(
    run: RunFolder, say: Callable[[str], None], progress: Callable[[int], None] | None, peers: Peers | None
) -> TrainingInputs:
    """Rank 0 makes what the run needs; then the others open it."""
    if peers is None:
        return set_up(run, say=say, progress=progress)
    with peers.first() as leads:
        ready = set_up(run, say=say, progress=progress, ranks=peers.world) if leads else None
    return ready or set_up(run, say=say, progress=progress, ranks=peers.world)


def _fit(
    run: RunFolder,
    ready: TrainingInputs,
    reporter: Reporter,
    interrupted: Callable[[], bool],
    peers: Peers | None = None,
) -> Outcome:
    """Train from the newest checkpoint, if there is one, and write the model card."""
    strategy = make_strategy(run, next(ready.net.parameters()).device, peers)
    trainer = Trainer(
        run, ready.net, ready.data, steps=ready.steps, reporter=reporter, interrupted=interrupted, strategy=strategy
    )
    if trainer.resume():
        reporter.said(f"going on from step {trainer.progress.step:,}")
    elif ready.start is not None:
        trainer.begin_with(ready.start)
    if peers is not None:
        peers.agree("beginning", _beginning(trainer))
    begun = trainer.progress.step
    outcome = trainer.fit()
    if 0 < begun == outcome.progress.step and outcome.reason != "interrupted":
        end = run.config.train.longer_end(epochs=outcome.progress.epoch, updates=outcome.progress.step)
        more = f"regard train --continue {run.path} --set {end}"
        reporter.said(f"this run was already finished; train it longer: {more}")
    parameters = sum(parameter.numel() for parameter in ready.net.parameters())
    with strategy.first() as leads:
        if leads:
            write_card(run, parameters=parameters, updates=outcome.progress.step, seconds=outcome.progress.seconds)
    return outcome


def _beginning(trainer: Trainer) -> str:
    """Name step, weights and data that training begins with, in a line."""
    weights = "in rows"  # made by rank 0, or read from one checkpoint
    if not isinstance(trainer.strategy, SharesRows):
        weights = digest({"model": trainer.strategy.full(trainer.optimizer.weights())})
    contents = json.dumps(trainer.data.contents, sort_keys=True).encode()
    return f"step {trainer.progress.step}, weights {weights[:12]}, data {sha256(contents).hexdigest()[:12]}"


@contextmanager
def _resumable(run: RunFolder) -> Iterator[None]:
    """Add the command that resumes to a storage failure, where there is something to resume."""
    try:
        yield
    except StorageError as error:
        if _is_prepared(run) or checkpoint.list_steps(run.checkpoints):
            error.help = ", then ".join(filter(None, (error.help, f"regard train --resume {run.path}")))
        raise


def _is_prepared(run: RunFolder) -> bool:
    """Return whether preparation is over: the plan is written last."""
    return (run.path / "plan.json").exists()
