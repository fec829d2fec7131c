"""``regard train``: two files, a recipe or a run folder in, a trained run out."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.commands.training_progress import TrainingDisplay
    from regard.runs.config import Proposal, RunConfig

__all__ = ["find_config", "new_folder", "open_display", "register", "require_data"]

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
            help="SOURCE TARGET, one .tsv, .jsonl or text, a recipe's name, or a .toml file.",
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
    from regard.training.start import train_new, train_run

    display = partial(open_display, tensorboard=tensorboard)
    if resume is not None:
        if what or valid or valid_file or set_ or name:
            raise ConfigError("--resume takes the run as it is", help=f"regard train --resume {resume}")
        raise typer.Exit(train_run(RunFolder.open(resume), display))
    config = find_config(what or [], valid, valid_file, set_ or [])
    if name is not None and (name in ("", ".", "..") or Path(name).name != name):
        raise ConfigError(
            f"{name!r} is no name of a run folder", where="--name", help="--runs says where run folders lie"
        )
    asked = name or (config.name if any(each.partition("=")[0].strip() == "name" for each in set_ or []) else None)
    folder = runs / asked if asked else new_folder(runs, config.name or _stem((what or [""])[0]))
    raise typer.Exit(train_new(RunFolder.create(folder, config), display))


def find_config(
    what: list[str],
    valid: tuple[Path, Path] | None,
    valid_file: Path | None,
    overrides: list[str],
    *,
    say: Callable[[str], None] = partial(typer.echo, err=True),
) -> RunConfig:
    """The config that files or a recipe mean, which can be trained as far as that shows without reading all text."""
    from regard.runs.config import load_config
    from regard.training.setup import require_trainable

    if os.environ.get("REGARD_QUICK"):  # the README's commands as a test: every part of the work, hardly any of it
        overrides = [*overrides, "train.steps=3", "train.minutes="]
    held_out = [*(valid or ()), *([valid_file] if valid_file else ())]
    proposal = _proposal(what, held_out, _given(overrides))
    if proposal is not None:
        for reason in proposal.reasons:
            say(reason)
        config = load_config(proposal.config, overrides)
    elif len(what) == 1:
        if held_out:
            raise ConfigError("a recipe names its validation data itself", help="--set data.valid=…")
        config = load_config(what[0], overrides)
    else:
        raise ConfigError(
            "train takes SOURCE TARGET, one .tsv, .jsonl or text, a recipe, or --resume RUN",
            help="regard train --help",
        )
    require_data(config)
    require_trainable(config)
    return config


def _given(overrides: list[str]) -> dict[str, Any]:
    """The keys of train that are set by hand: what is chosen goes by them."""
    from regard.config.toml_layers import merge, parse_override

    train = merge([], map(parse_override, overrides)).get("train")
    return train if isinstance(train, dict) else {}


def _proposal(what: list[str], held_out: list[Path], given: dict[str, Any]) -> Proposal | None:
    """A config for data files: of the first task of the table that takes them; None for a recipe."""
    from regard.core.task_table import locate
    from regard.tasks import TASKS

    files = [Path(each) for each in what]
    if len(files) == 1 and (files[0].suffix == ".toml" or not (files[0].suffix or files[0].is_file())):
        return None
    found = (locate(kind).config().propose(files, held_out, given) for kind in TASKS)
    return next((proposal for proposal in found if proposal is not None), None)


def require_data(config: RunConfig) -> None:
    """Before a run folder is made: a recipe's data may not have been fetched yet."""
    from regard.data.public.catalogue import corpora

    for corpus in (*config.data.train, *(config.data.valid or ())):
        for path in (getattr(corpus, "source", None), getattr(corpus, "target", None)):
            known = isinstance(path, Path) and path.parent.name in corpora() and not path.parent.exists()
            if isinstance(path, Path) and known:
                raise DataError(
                    f"the corpus {path.parent.name} is not here",
                    where=str(path),
                    help=f"regard data fetch {path.parent.name} --to {path.parent}",
                )


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
