"""``regard train``: two files, a recipe or a run folder in, a trained run out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands import completion
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.commands.training_progress import TrainingDisplay

__all__ = ["new_folder", "open_display", "register"]

EPILOG = (
    "Examples:  regard train train.en train.de --valid val.en val.de   |   regard train pairs.tsv   |   "
    "regard train book.txt   |   regard train multi30k --set train.lr=3e-3 --name first   |   "
    "regard train --resume runs/first"
)


def register(app: typer.Typer) -> None:
    app.command("train", epilog=EPILOG)(train)


def train(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            help="SOURCE TARGET, one .tsv, .jsonl or text, a folder of texts, a recipe's name, or a .toml file.",
            show_default=False,
            autocompletion=completion.recipes_and_files,
        ),
    ] = None,
    valid: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Validation data: source and target file.", show_default=False)
    ] = None,
    valid_file: Annotated[
        Path | None, typer.Option(help="Validation data: one .tsv, .jsonl or text.", show_default=False)
    ] = None,
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
    tensorboard: Annotated[bool, typer.Option(help="Write TensorBoard curves too (the extra tensorboard).")] = False,
) -> None:
    """Train a model from parallel text, or a language model from one text.

    Ctrl-C saves and stops; --resume goes on as if nothing had happened.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.find_config import find_config
    from regard.training.start import train_new, train_run

    display = partial(open_display, tensorboard=tensorboard)
    if resume is not None:
        if what or valid or valid_file or set_ or name:
            raise ConfigError("--resume takes the run as it is", help=f"regard train --resume {resume}")
        raise typer.Exit(train_run(RunFolder.open(resume), display))
    held_out = [*(valid or ()), *([valid_file] if valid_file else ())]
    config = find_config(what or [], held_out, set_ or [], say=partial(typer.echo, err=True))
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        raise ConfigError(
            f"{name!r} is no name of a run folder", where="--name", help="--runs says where run folders lie"
        )
    asked = name or (config.name if any(each.partition("=")[0].strip() == "name" for each in set_ or []) else None)
    folder = runs / asked if asked else new_folder(runs, config.name or _stem((what or [""])[0]))
    raise typer.Exit(train_new(RunFolder.create(folder, config), display))


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0] or "run"


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
