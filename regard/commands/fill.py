"""``regard fill``: words for the gaps of a text, by a masked model."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.predict import answer_lines
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import GapSettings

EXAMPLES = epilog(
    'regard fill runs/plays "A dog ___ over the fence"',
    'regard fill runs/plays "The ___ of ___" --top-k 3 --json',
    "regard fill runs/plays < lines.txt > filled.txt",
)

Text = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT",
        help="Text with gaps, each written ___ (three underscores, or what fill.blank of the run says).",
        show_default="lines of standard input",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object a line.", rich_help_panel="Output")]


def register(app: typer.Typer) -> None:
    """Add ``regard fill`` to the command line."""
    app.command("fill", epilog=EXAMPLES)(fill)


@takes_settings("requested", GapSettings)
def fill(
    run: Run,
    texts: Text = None,
    *,
    requested: dict[str, Any],
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Fill the gaps of a text with the likeliest words, by a masked model.

    A line for each text: the text filled, and after a tab the K likeliest words or pieces of each gap with their
    probabilities, gaps apart by |. Each gap is one word or piece of the model's vocabulary, predicted from all of the
    text around it while the other gaps are unknown. Without TEXT, lines of standard input, a pipe answered when its
    writer pauses.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.prediction import predict_lines, read_inputs

    require_task(RunFolder.open(run), "masked")
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    settings = {name: value for name, value in requested.items() if value is not None}
    if not texts:
        answer_lines(model, None, settings, as_json=as_json, run=run, doing="filling")
        return
    inputs, error = read_inputs(model, texts, name="TEXT")
    for line in predict_lines(model, inputs, settings, json=as_json):
        sys.stdout.write(f"{line}\n")
    if error is not None:
        raise error
