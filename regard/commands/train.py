"""``regard train``: two files, a recipe or a run folder in, a trained run out."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from regard.commands import completion
from regard.commands.options import epilog
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.commands.training_progress import TrainingDisplay
    from regard.runs.run_config import RunConfig
    from regard.runs.run_folder import RunFolder
    from regard.training.start import OpenDisplay

EPILOG = epilog(
    "regard train train.en train.de --valid val.en val.de",
    "regard train pairs.tsv",
    "regard train reviews.csv --set data.text=body --set data.label=stars",
    "regard train train.conllu --valid-file dev.conllu",
    "regard train book.txt",
    "regard train nodes.csv edges.csv",
    "regard train multi30k --set train.lr=3e-3 --name first",
    "regard train --resume runs/first",
    "regard train --continue runs/first --set train.epochs=40",
    "torchrun --standalone --nproc-per-node 2 -m regard train multi30k",
)

WHAT = (
    "Files of one kind: SOURCE TARGET, a .tsv, .csv, .parquet, .jsonl, .conllu or text, a folder of texts, tables of "
    "nodes and of edges, or a .npz; or a recipe, by its name or as a .toml."
)


TaskName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Train this task, such as classification, whatever the files look like."),
]
Longer = Annotated[
    Path | None,
    typer.Option(
        "--continue",
        help="Train a finished run longer, in a new folder: --set train.epochs=N, counted from its beginning.",
        metavar="RUN",
        show_default=False,
        autocompletion=completion.runs,
    ),
]


def register(app: typer.Typer) -> None:
    app.command("train", epilog=EPILOG)(train)


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help=WHAT,
            show_default=False,
            autocompletion=completion.recipes_and_files,
        ),
    ] = None,
    valid: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Validation data: source and target file.", show_default=False)
    ] = None,
    valid_file: Annotated[
        Path | None, typer.Option(help="Validation data: one .tsv, .jsonl, .csv, .parquet or text.", show_default=False)
    ] = None,
    task: TaskName = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key of the config, key=value; may be repeated.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the run folder under --runs.")] = None,
    runs: Annotated[Path, typer.Option(help="Where run folders are made.")] = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Go on with this run folder.", metavar="RUN", show_default=False, autocompletion=completion.runs
        ),
    ] = None,
    continue_: Longer = None,
    rank_timeout: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="On several ranks: how long one waits for another that does not answer."
        ),
    ] = 600,
    tensorboard: Annotated[bool, typer.Option(help="Write TensorBoard curves too (the extra tensorboard).")] = False,
) -> None:
    """Train a model from files, or by a recipe; what the files hold tells the task, and what was chosen is said.

    Ctrl-C saves and stops; --resume goes on as if nothing had happened. Started by torchrun or a scheduler that sets
    RANK and WORLD_SIZE, it trains as one of several ranks, and the same command goes on with the run that it began.
    """
    overrides = [*([f"task.kind={task}"] if task else []), *(set_ or [])]
    new = _Wanted(what or [], _held_out(valid, valid_file), overrides, name, runs)
    wanted = _run_meant(new, resume, continue_)
    display = partial(open_display, tensorboard=tensorboard)
    work = partial(_train_on_ranks, timeout=rank_timeout) if "RANK" in os.environ else _train
    raise typer.Exit(work(wanted, display))


def _run_meant(new: _Wanted, resume: Path | None, source: Path | None) -> Path | _Wanted | _Longer:
    """The run to resume, to begin, or to train longer in a new folder. ConfigError where options contradict."""
    files = new.what or new.held_out
    if resume is not None:
        if files or new.overrides or new.name or source:
            raise _resumes_alone(resume, new.overrides)
        return resume
    if source is not None and files:
        why, help = "a run continues with its own data", f"regard train --continue {source} --set train.epochs=N"
        raise ConfigError("--continue cannot be combined with files", where="--continue", why=why, help=help)
    name = new.name
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        help = "--runs says where run folders lie"
        raise ConfigError(f"{name!r} is no name of a run folder", where="--name", help=help)
    return new if source is None else _Longer(source, new.overrides, name, new.runs)


def _resumes_alone(run: Path, overrides: list[str]) -> ConfigError:
    """The error for a resumed run that is to change; another budget is a new run."""
    why, help = "a resumed run keeps its config", f"regard train --resume {run}"
    if overrides and all(each.startswith("train.") for each in overrides):
        changes = " ".join(f"--set {shlex.quote(each)}" for each in overrides)
        help = f"to train it longer, in a new folder: regard train --continue {run} {changes}"
    return ConfigError("--resume cannot be combined with other options", where="--resume", why=why, help=help)


def _held_out(valid: tuple[Path, Path] | None, valid_file: Path | None) -> list[Path]:
    """The files to validate on. ConfigError where --valid took the next option for its second file."""
    if valid is not None and str(valid[1]).startswith("-"):
        what, help = "two files follow --valid, of sources and of targets", f"one of both: --valid-file {valid[0]}"
        raise ConfigError(what, where=f"--valid {valid[0]}", help=help)
    return [*(valid or ()), *([valid_file] if valid_file else ())]


class _Wanted(NamedTuple):
    """A new run, as it was asked for."""

    what: list[str]
    held_out: list[Path]
    overrides: list[str]
    name: str | None
    runs: Path

    def config(self) -> RunConfig:
        from regard.tasks.find_config import find_config

        return find_config(self.what, self.held_out, self.overrides, say=partial(typer.echo, err=True))

    def asked(self, config: RunConfig) -> str | None:
        """The name of the folder where that was asked for."""
        named = any(each.partition("=")[0].strip() == "name" for each in self.overrides)
        return self.name or (config.name if named else None)

    def usual(self, config: RunConfig) -> str:
        return config.name or _stem((self.what or [""])[0])


class _Longer(NamedTuple):
    """A run to train longer, in a new folder."""

    source: Path
    overrides: list[str]
    name: str | None
    runs: Path

    @property
    def usual(self) -> str:
        return f"{self.source.resolve().name}-continued"

    def begin(self, folder: Path) -> RunFolder:
        """Make the new run folder; it is then resumed as any other."""
        from regard.runs.run_folder import RunFolder
        from regard.training.longer import longer_run

        say = partial(typer.echo, err=True)
        return longer_run(RunFolder.open(self.source), self.overrides, say).begin(folder, say)


def _train(wanted: Path | _Wanted | _Longer, display: OpenDisplay) -> int:
    """Train a new run, or go on with that of a folder."""
    from regard.runs.run_folder import RunFolder
    from regard.training.start import train_new, train_run

    if isinstance(wanted, Path):
        return train_run(RunFolder.open(wanted), display)
    if isinstance(wanted, _Longer):
        folder = wanted.runs / wanted.name if wanted.name else new_folder(wanted.runs, wanted.usual)
        return train_run(wanted.begin(folder), display)
    config = wanted.config()
    asked = wanted.asked(config)
    while True:
        folder = wanted.runs / asked if asked else new_folder(wanted.runs, wanted.usual(config))
        try:
            run = RunFolder.create(folder, config)
        except ConfigError:
            if asked:
                raise
            continue  # another training took the name meanwhile, and takes it no more than once
        return train_new(run, display)


def _train_on_ranks(wanted: Path | _Wanted | _Longer, display: OpenDisplay, *, timeout: float) -> int:
    """Train as one of several ranks. Rank 0 makes the folder; one of the same config is gone on with, since a job that
    is started again gives the same command."""
    from regard.runs.run_folder import RunFolder
    from regard.training.ranks import joined
    from regard.training.start import train_new, train_run

    with joined(timeout) as peers:
        assert peers is not None
        begun, folder = False, wanted if isinstance(wanted, Path) else Path()
        with peers.first() as leads:
            if leads and isinstance(wanted, _Wanted):
                config = wanted.config()
                folder = wanted.runs / (wanted.asked(config) or wanted.usual(config))
                begun = not ((folder / "config.toml").is_file() and RunFolder.open(folder).config == config)
                if begun:
                    RunFolder.create(folder, config)
            if leads and isinstance(wanted, _Longer):
                folder = wanted.runs / (wanted.name or wanted.usual)
                if not (folder / "config.toml").is_file():
                    wanted.begin(folder)
        run = RunFolder.open(Path(peers.gather(str(folder.absolute()).encode())[0].decode()))
        return (train_new if begun else train_run)(run, display, peers)


def _stem(path: str) -> str:
    """The name of a file without its endings; for the config of a run, the name of its folder."""
    file = Path(path)
    return (file.parent.name if file.name == "config.toml" else file.name.split(".")[0]) or "run"


def new_folder(runs: Path, name: str) -> Path:
    """``runs/name``, or ``runs/name-2`` and so on where that exists: a name that was not asked for must not clash."""
    path, number = runs / name, 2
    while path.exists():
        path, number = runs / f"{name}-{number}", number + 1
    return path


def open_display(run: Path, *, tensorboard: bool = False) -> TrainingDisplay:
    """Progress of a training on standard error; with curves for TensorBoard where wanted."""
    from regard.commands.training_progress import TrainingDisplay

    return TrainingDisplay(run, tensorboard=tensorboard)
