"""``regard export``: convert a trained model to another toolkit's format and compare the outputs of both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands.options import CheckpointName, Run, epilog
from regard.errors import ConfigError

EPILOG = epilog(
    "regard export runs/m30k exported --to ctranslate2 --source test.en",
    "regard export runs/book exported --to transformers",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the export; must not exist.")]
To = Annotated[
    Literal["ctranslate2", "marian", "onnx", "hub", "transformers"],
    typer.Option(
        "--to",
        help="Convert to this format. transformers: language models (Llama, GPT-2 or GPT-NeoX), classifiers, taggers "
        "and masked models; marian: translation models in transformers; hub: a run folder to share.",
    ),
]
Source = Annotated[
    Path | None,
    typer.Option(
        "--source",
        metavar="FILE",
        help="Compare the outputs on the sentences of this file.",
        show_default="the validation data",
    ),
]
Sentences = Annotated[int, typer.Option("--sentences", min=1, metavar="N", help="Compare at most N sentences.")]


def register(app: typer.Typer) -> None:
    """Add ``regard export`` to the command line."""
    app.command("export", epilog=EPILOG)(export)


def export(
    run: Run,
    folder: Folder,
    *,
    to: To,
    source: Source = None,
    sentences: Sentences = 200,
    checkpoint: CheckpointName = None,
) -> None:
    """Convert a trained model to another toolkit's format and compare the outputs of both.

    The command fails if the format cannot represent the model.
    """
    from regard.core import atomic_files
    from regard.runs.run_folder import RunFolder
    from regard.share.export_format import export_format, missing_library, require_libraries

    opened = RunFolder.open(run)
    format = export_format(to, opened.config, str(run))
    opened.weights_path(checkpoint)  # raises the error of a run that is its baseline alone
    if folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder} already exists", where=str(folder), help="choose a new folder, or remove this one")
    training = f"a new training can choose such settings: regard train … --for {to}"
    if reasons := [*format.obstacles(opened.config), *format.codec_obstacles(opened)]:
        raise ConfigError(
            f"this model cannot be exported to {to}", where=str(run), why="; ".join(reasons), help=training
        )
    require_libraries(to, format)
    missing = missing_library(format)
    model = format.open(opened, checkpoint)
    inputs = [] if missing else model.inputs(source, sentences)
    message = f"outputs not compared: {missing or 'use --source FILE to name lines to compare'}"
    with atomic_files.publishing(folder) as workshop:
        with atomic_files.explain_os_errors(workshop):
            model.write(workshop)
        if missing is None and (parity := model.compare(inputs, workshop)) is not None:
            parity.write(workshop, to)
            message = str(parity)
        format.finish(workshop)
    print(f"{folder}: {message}")
