"""``regard import``: make a run folder of a model that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import epilog
from regard.core.wording import pluralize
from regard.errors import ConfigError, ModelError

EPILOG = epilog(
    "regard import opus-mt-en-de runs/opus-en-de && regard translate runs/opus-en-de",
    'regard import gpt2 runs/gpt2 && regard generate runs/gpt2 --prompt "Once upon a time"',
)

Folder = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="Model as transformers saves it: Marian (OPUS-MT), or a language model."),
]
New = Annotated[Path, typer.Argument(metavar="RUN", help="New run folder; must not exist.")]


def register(app: typer.Typer) -> None:
    """Add ``regard import`` to the command line."""
    app.command("import", epilog=EPILOG)(import_)


def import_(folder: Folder, run: New) -> None:
    """Make a run folder of a model of transformers: Marian, which translates, or a language model.

    Language models: Llama, Mistral, Qwen 2, GPT-2, and GPT-NeoX whose layers follow one another.
    """
    from regard.share.import_folder import import_folder

    if run.exists() or run.is_symlink():
        raise ConfigError(f"{run} exists", where=str(run), help="name a new folder, or remove that one")
    if not folder.is_dir():
        help = "download a model first; a name on a hub is no folder"
        raise ModelError(f"there is no folder {folder}", where=str(folder), help=help)
    made = import_folder(folder, run)
    plan = made.read_plan()
    types = f", {pluralize(next(reversed(plan.spec.values())), 'piece')}" if plan else ""
    print(f"{run}: {made.config.summary}{types}")
