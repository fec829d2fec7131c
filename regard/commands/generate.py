"""``regard generate``: text that goes on from a prompt, by a language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands.options import AsJson, CheckpointName, DeviceName, Run, Threads, open_predictor
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.tasks.language_model.generator import Generator

__all__ = ["register"]

EPILOG = 'Example: regard generate runs/book --prompt "It was" --length 200 --temperature 0.8 --seed 1'

Prompt = Annotated[str, typer.Option(help="Text to go on from.")]
Length = Annotated[int | None, typer.Option(min=1, metavar="N", help="Tokens at most; the run's setting unless given.")]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", min=0, help="Below 1: likelier tokens; 0: always the likeliest.")
]
TopK = Annotated[int | None, typer.Option(min=1, metavar="K", help="Draw among the K most probable tokens.")]
TopP = Annotated[
    float | None, typer.Option(metavar="P", help="Draw among the fewest tokens whose probability reaches P.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed for the draws; another text each time unless given.")]


def register(app: typer.Typer) -> None:
    """Add ``regard generate`` to the command line."""
    app.command("generate", epilog=EPILOG)(generate)


def generate(
    run: Run,
    *,
    prompt: Prompt = "",
    length: Length = None,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Print a prompt and text that goes on from it, as it is generated."""
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "language-model")
    model: Generator = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    given = {"length": length, "temperature": temperature or None, "top_k": top_k, "top_p": top_p}
    try:
        settings = model.adjusted({key: value for key, value in given.items() if value is not None})
    except ConfigError as error:
        error.where = None if error.where is None else "--" + error.where.replace("_", "-")
        raise
    if as_json:
        whole = model(prompt, seed=seed, greedy=temperature == 0, **settings.model_dump())
        print(model.write(whole, json=True))
        return
    parts = model.stream(prompt, settings, seed=seed, greedy=temperature == 0)
    print(
        prompt + next(parts).text, end="", flush=True
    )  # together, so that no failure of the first is glued to a prompt
    for part in parts:
        print(part.text, end="", flush=True)
    print()
