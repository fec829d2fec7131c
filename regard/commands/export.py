"""``regard export``: convert a trained model to another toolkit's format and compare the outputs of both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.commands.options import CheckpointName, Run, epilog
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.share.export_format import ExportFormat

EPILOG = epilog(
    "regard export runs/m30k exported --to ctranslate2 --source test.en",
    "regard export runs/m30k small --to ctranslate2 --quantization int8",
    "regard export runs/book exported --to transformers",
    "regard export runs/m30k given --to hub --push me/en-de",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the export; must not exist.")]
To = Annotated[
    Literal["ctranslate2", "gguf", "marian", "onnx", "hub", "transformers"],
    typer.Option(
        "--to",
        help="Convert to this format. transformers: language models (Llama, GPT-2 or GPT-NeoX), classifiers, taggers "
        "and masked models; gguf: language models for llama.cpp; marian: translation models in transformers; hub: a "
        "run folder to share.",
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
Quantization = Annotated[
    str | None,
    typer.Option(
        "--quantization",
        metavar="NAME",
        help="Write smaller numbers: int8, int8_float16, int8_bfloat16, int16, float16 or bfloat16 (ctranslate2).",
        show_default="float32",
    ),
]
Push = Annotated[
    str | None,
    typer.Option(
        "--push",
        metavar="OWNER/NAME",
        help="Upload the folder to this repository of the Hugging Face hub; needs --to hub, and a token of the hub.",
        show_default=False,
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
    quantization: Quantization = None,
    push: Push = None,
) -> None:
    """Convert a trained model to another toolkit's format and compare the outputs of both.

    The command fails if the format cannot represent the model.
    """
    from dataclasses import replace

    from regard.core import atomic_files
    from regard.runs.run_folder import RunFolder
    from regard.share.export_format import export_format, missing_library, require_libraries

    opened = RunFolder.open(run)
    format = export_format(to, opened.config, str(run))
    _check_options(format, to, quantization, push)
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
    model: Any = format.open(opened, checkpoint)
    model = model if quantization is None else replace(model, quantization=quantization)
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
    if push is not None:
        from regard.share.hub_upload import upload

        print(upload(folder, push))


def _check_options(format: ExportFormat, to: str, quantization: str | None, push: str | None) -> None:
    """Raise ConfigError for an option that does not apply to the format."""
    if quantization is not None and quantization not in format.quantizations:
        names = ", ".join(format.quantizations)
        why = f"--to {to} writes {names or 'float32 only'}"
        raise ConfigError(f"{quantization} is not available", where="--quantization", why=why)
    if push is not None and to != "hub":
        why = f"--to {to} has no model card and no checksums"
        raise ConfigError("--push needs --to hub", where="--push", why=why)
    if push is not None:
        from regard.share.hub_upload import require_repository

        require_repository(push)
