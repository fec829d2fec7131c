"""``regard import``: create a run folder from a model trained with another library."""

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
    "regard import wmt16.en-de/checkpoint_best.pt runs/wmt16 && regard translate runs/wmt16",
    "regard import bert-base-uncased runs/bert && regard train labeled.tsv --set model.encoder.from=runs/bert",
)

Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="Model of transformers, fairseq, Joey NMT, OpenNMT-py or Sockeye; of several checkpoints, name the file.",
    ),
]
New = Annotated[Path, typer.Argument(metavar="RUN", help="New run folder; must not exist.")]


def register(app: typer.Typer) -> None:
    """Add ``regard import`` to the command line."""
    app.command("import", epilog=EPILOG)(import_)


def import_(folder: Folder, run: New) -> None:
    """Create a run folder from a model of another library. No pickle is loaded.

    Language models of transformers: Llama, Mistral, Qwen 2, GPT-2, and GPT-NeoX without parallel residual.

    Encoders of transformers: BERT, RoBERTa, DistilBERT, ModernBERT and ESM.

    Translation: Marian of transformers (OPUS-MT); Transformers of fairseq, Joey NMT, OpenNMT-py and Sockeye 3.
    """
    from regard.share.import_folder import import_folder

    if run.exists() or run.is_symlink():
        raise ConfigError(f"{run} already exists", where=str(run), help="choose a new folder, or remove this one")
    if not folder.exists():
        help = "download the model first; the name of a model on a hub is not enough"
        raise ModelError(f"the folder {folder} does not exist", where=str(folder), help=help)
    imported = import_folder(folder, run, log=print)
    plan = imported.read_plan()
    types = f", {pluralize(next(reversed(plan.spec.values())), 'piece')}" if plan else ""
    print(f"{run}: {imported.config.summary}{types}")
    if (note := imported.config.import_note) is not None:
        print(note)
