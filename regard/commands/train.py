"""``regard train``: train a model from files or a recipe, or resume a run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from regard.commands import completion
from regard.commands.cross_validation import FoldJob, cross_validate
from regard.commands.options import epilog
from regard.errors import ConfigError
from regard.runs.run_names import default_name, new_folder

if TYPE_CHECKING:
    from regard.runs.run_config import RunConfig
    from regard.runs.run_folder import RunFolder
    from regard.training.display import TrainingDisplay
    from regard.training.start import OpenDisplay

EPILOG = epilog(
    "regard train train.en train.de --valid val.en val.de",
    "regard train pairs.tsv",
    "regard train reviews.csv --set data.text=body --set data.label=stars",
    "regard train train.conllu --valid-file dev.conllu",
    "regard train book.txt",
    "regard train nodes.csv edges.csv",
    "regard train reviews.csv --for transformers",
    "regard train multi30k --set train.lr=3e-3 --name first",
    "regard train reviews.csv --folds 5 -o predictions.csv",
    "regard train --resume runs/first",
    "regard train --continue runs/first --set train.epochs=40",
    "torchrun --standalone --nproc-per-node 2 -m regard train multi30k",
)

WHAT = (
    "Training data: SOURCE TARGET; a .tsv, .csv, .parquet, .jsonl, .conllu, .npz or text file; a folder of texts; or a "
    "node table and an edge table. Or a recipe: its name or a .toml file."
)


TaskName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Train this task, such as classification, instead of detecting it from files."),
]
Valid = Annotated[
    tuple[Path, Path] | None,
    typer.Option(help="Validate on these two files, source and target.", show_default=False),
]
ValidFile = Annotated[
    Path | None, typer.Option(help="Validate on this .tsv, .jsonl, .csv, .parquet or text.", show_default=False)
]
Longer = Annotated[
    Path | None,
    typer.Option(
        "--continue",
        help="Train a finished run longer, in a new folder; --set train.epochs=N counts from its start.",
        metavar="RUN",
        show_default=False,
        autocompletion=completion.runs,
    ),
]


What = Annotated[
    list[str] | None,
    typer.Argument(help=WHAT, show_default=False, autocompletion=completion.recipes_and_files),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of the config: KEY=VALUE; may be repeated.")
]
For = Annotated[
    Literal["ctranslate2", "gguf", "marian", "onnx", "sentence-transformers", "transformers"] | None,
    typer.Option("--for", help="Train a model that can be exported to this format; refuse other settings first."),
]
Resumed = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        help="Resume the training of this run folder.",
        metavar="RUN",
        show_default=False,
        autocompletion=completion.runs,
    ),
]
Folds = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=2,
        help="Cross-validate: train N runs, each without one fold of the examples, and measure them on it.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="With --folds, write the predictions for all examples to this file (.csv or .jsonl).",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="With --folds, print JSON to standard output.")]


def register(app: typer.Typer) -> None:
    app.command("train", epilog=EPILOG)(train)


def train(
    what: What = None,
    valid: Valid = None,
    valid_file: ValidFile = None,
    task: TaskName = None,
    set_: Overrides = None,
    for_: For = None,
    name: Annotated[str | None, typer.Option(help="Use this name for the run folder in --runs.")] = None,
    runs: Annotated[Path, typer.Option(help="Create run folders in this folder.")] = Path("runs"),
    resume: Resumed = None,
    continue_: Longer = None,
    rank_timeout: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="Wait this long for a rank that does not respond, if there are several."
        ),
    ] = 600,
    folds: Folds = None,
    output: Output = None,
    as_json: AsJson = False,
    tensorboard: Annotated[
        bool, typer.Option(help="Also write TensorBoard logs, as train.report does (needs the extra tensorboard).")
    ] = False,
) -> None:
    """Train a model from files or a recipe; the task and its settings are chosen from the files and printed.

    Ctrl-C saves a checkpoint and stops; --resume continues with the same result as an uninterrupted training. Started
    by torchrun or a scheduler that sets RANK and WORLD_SIZE, the command trains as one of several ranks; run it again
    to resume.
    """
    overrides = [*([f"task.kind={task}"] if task else []), *(set_ or [])]
    new = _NewRun(what or [], _held_out(valid, valid_file), overrides, name, runs, for_)
    if for_ is not None and (resume or continue_):
        why = "the run already has its config"
        raise ConfigError("--for is only for a new run", where="--for", why=why, help="omit --for")
    job = _select_job(new, resume, continue_)
    display = partial(open_display, report=("tensorboard",) if tensorboard else ())
    if folds is not None:
        return cross_validate(_fold_job(new, job), folds, display, output=output, as_json=as_json)
    _refuse_results({"--output": output, "--json": as_json or None})
    train_job = partial(_train_on_ranks, timeout=rank_timeout) if "RANK" in os.environ else _train
    raise typer.Exit(train_job(job, display))


def _fold_job(new: _NewRun, job: object) -> FoldJob:
    """Return the config and the folder of a cross-validation; raise ConfigError for conflicting options."""
    if job is not new or new.held_out or "RANK" in os.environ:
        why = "it trains new runs in one process, and takes validation data from the training folds"
        help = "remove --resume, --continue, --valid and --valid-file, and start no ranks"
        raise ConfigError("--folds cannot be combined with these options", where="--folds", why=why, help=help)
    config = new.config()
    name = new.requested_name(config)
    default = f"{new.default_name(config)}-folds"
    return FoldJob(config, new.runs / name if name else new_folder(new.runs, default))


def _refuse_results(options: Mapping[str, object]) -> None:
    """Raise ConfigError if an option for the results of --folds is set without it."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError("this option does not apply", where=name, why="it shows the results of --folds")


def _select_job(new: _NewRun, resume: Path | None, source: Path | None) -> Path | _NewRun | _Continuation:
    """Return the run to resume, to start, or to continue in a new folder; raise ConfigError for conflicting options."""
    files = new.what or new.held_out
    if resume is not None:
        if files or new.overrides or new.name or source:
            raise _resume_conflict(resume, new.overrides)
        return resume
    if source is not None and files:
        why, help = "a run continues on its own data", f"regard train --continue {source} --set train.epochs=N"
        raise ConfigError("--continue cannot be combined with files", where="--continue", why=why, help=help)
    name = new.name
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        help = "set the parent folder with --runs"
        raise ConfigError(f"{name!r} is not a valid name of a run folder", where="--name", help=help)
    return new if source is None else _Continuation(source, new.overrides, name, new.runs)


def _resume_conflict(run: Path, overrides: list[str]) -> ConfigError:
    """Return the error for --resume with other options; a longer training is a new run."""
    why, help = "a resumed run keeps its config", f"regard train --resume {run}"
    if overrides and all(override.startswith("train.") for override in overrides):
        changes = " ".join(f"--set {shlex.quote(override)}" for override in overrides)
        help = f"to train it longer, in a new folder: regard train --continue {run} {changes}"
    return ConfigError("--resume cannot be combined with other options", where="--resume", why=why, help=help)


def _held_out(valid: tuple[Path, Path] | None, valid_file: Path | None) -> list[Path]:
    """Return the validation files; raise ConfigError if --valid took the next option as its second file."""
    if valid is not None and str(valid[1]).startswith("-"):
        what = "--valid requires two files, source and target"
        help = f"for one file with both sides, use --valid-file {valid[0]}"
        raise ConfigError(what, where=f"--valid {valid[0]}", help=help)
    return [*(valid or ()), *([valid_file] if valid_file else ())]


class _NewRun(NamedTuple):
    """A new run, as requested on the command line."""

    what: list[str]
    held_out: list[Path]
    overrides: list[str]
    name: str | None
    runs: Path
    export: str | None = None

    def config(self) -> RunConfig:
        from regard.tasks.find_config import find_config

        log, target = partial(typer.echo, err=True), None
        if self.export is not None:
            from regard.share.export_target import ExportTarget

            target = ExportTarget(self.export)
        return find_config(self.what, self.held_out, self.overrides, log=log, target=target)

    def requested_name(self, config: RunConfig) -> str | None:
        """Return the requested name of the folder; None if the user did not set one."""
        named = any(override.partition("=")[0].strip() == "name" for override in self.overrides)
        return self.name or (config.name if named else None)

    def default_name(self, config: RunConfig) -> str:
        return config.name or default_name((self.what or [""])[0])


class _Continuation(NamedTuple):
    """A finished run to train longer, in a new folder."""

    source: Path
    overrides: list[str]
    name: str | None
    runs: Path

    @property
    def default_name(self) -> str:
        return f"{self.source.resolve().name}-continued"

    def begin(self, folder: Path) -> RunFolder:
        """Create the new run folder, which is then resumed like any other."""
        from regard.runs.run_folder import RunFolder
        from regard.training.longer import longer_run

        log = partial(typer.echo, err=True)
        return longer_run(RunFolder.open(self.source), self.overrides, log).begin(folder, log)


def _train(job: Path | _NewRun | _Continuation, display: OpenDisplay) -> int:
    """Train a new run, or resume the run of a folder."""
    from regard.runs.run_folder import RunFolder
    from regard.training.start import train_new, train_run

    if isinstance(job, Path):
        return train_run(RunFolder.open(job), display)
    if isinstance(job, _Continuation):
        folder = job.runs / job.name if job.name else new_folder(job.runs, job.default_name)
        return train_run(job.begin(folder), display)
    config = job.config()
    name = job.requested_name(config)
    while True:
        folder = job.runs / name if name else new_folder(job.runs, job.default_name(config))
        try:
            run = RunFolder.create(folder, config)
        except ConfigError:
            if name:
                raise
            continue  # another training created a folder of this name in the meantime: try the next name
        return train_new(run, display)


def _train_on_ranks(job: Path | _NewRun | _Continuation, display: OpenDisplay, *, timeout: float) -> int:
    """Train as one of several ranks.

    Rank 0 creates the run folder. A folder with the same config is resumed, because a scheduler restarts a job with the
    same command.
    """
    from regard.runs.run_folder import RunFolder
    from regard.training.ranks import joined
    from regard.training.start import train_new, train_run

    with joined(timeout) as peers:
        assert peers is not None
        is_new, folder = False, job if isinstance(job, Path) else Path()
        with peers.first() as leads:
            if leads and isinstance(job, _NewRun):
                config = job.config()
                folder = job.runs / (job.requested_name(config) or job.default_name(config))
                is_new = not ((folder / "config.toml").is_file() and RunFolder.open(folder).config == config)
                if is_new:
                    RunFolder.create(folder, config)
            if leads and isinstance(job, _Continuation):
                folder = job.runs / (job.name or job.default_name)
                if not (folder / "config.toml").is_file():
                    job.begin(folder)
        # Every rank opens the folder that rank 0 chose.
        run = RunFolder.open(Path(peers.gather(str(folder.absolute()).encode())[0].decode()))
        return (train_new if is_new else train_run)(run, display, peers)


def open_display(run: Path, *, report: Sequence[str] = ()) -> TrainingDisplay:
    """Return the display of a training on standard error; ``report`` names further reporters of the session."""
    from regard.training.display import TrainingDisplay

    return TrainingDisplay(run, report=report)
