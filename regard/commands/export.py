"""``regard export``: convert a trained model to another toolkit's format and compare the outputs of both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.commands.options import CheckpointName, Run, epilog

EPILOG = epilog(
    "regard export runs/m30k exported --to ctranslate2 --source test.en",
    "regard export runs/m30k small --to ctranslate2 --quantization int8",
    "regard export runs/book exported --to transformers",
    "regard export runs/m30k given --to hub --push me/en-de",
)

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the export; must not exist.")]
To = Annotated[
    Literal["ctranslate2", "gguf", "marian", "onnx", "hub", "sentence-transformers", "transformers"],
    typer.Option(
        "--to",
        help="Convert to this format. transformers: language models (Llama, GPT-2 or GPT-NeoX), classifiers, taggers "
        "and masked models; gguf: language models for llama.cpp; marian: translation models in transformers; "
        "sentence-transformers: encoders for embeddings; hub: a run folder to share.",
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
Pooling = Annotated[
    str | None,
    typer.Option(
        "--pooling",
        metavar="NAME",
        help="Pool the positions of a text by mean, max, first or last (sentence-transformers).",
        show_default="mean",
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
    pooling: Pooling = None,
) -> None:
    """Convert a trained model to another toolkit's format and compare the outputs of both.

    The command fails if the format cannot represent the model.
    """
    from regard.share.export_run import export_run

    message, address = export_run(
        run, folder, to, source=source, sentences=sentences, checkpoint=checkpoint, quantization=quantization,
        push=push, pooling=pooling,
    )  # fmt: skip
    print(f"{folder}: {message}")
    if address is not None:
        print(address)
