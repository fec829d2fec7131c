"""``regard fill``: fill the gaps of a text with a masked language model."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.predict import print_predictions
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
        help="Text with gaps, each written as ___ (three underscores, or the value of fill.blank in the config).",
        show_default="lines of standard input",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.", rich_help_panel="Output")]


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
    """Fill the gaps of a text with the most probable words of a masked language model.

    Prints one line per text: the filled text, a tab, and the K most probable words or pieces of each gap with their
    probabilities; gaps are separated by |. A gap is one word or piece of the vocabulary. It is predicted from the whole
    text, in which the other gaps stay masked. Without TEXT, reads standard input as a stream: results are flushed when
    no more input is waiting.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.prediction import predict_lines, read_inputs

    require_task(RunFolder.open(run), "masked")
    model = open_predictor(run, checkpoint=checkpoint, device=device, threads=threads)
    settings = {name: value for name, value in requested.items() if value is not None}
    if not texts:
        print_predictions(model, None, settings, as_json=as_json, run=run, doing="filling")
        return
    inputs, error = read_inputs(model, texts, name="TEXT")
    for line in predict_lines(model, inputs, settings, json=as_json):
        sys.stdout.write(f"{line}\n")
    if error is not None:
        raise error
