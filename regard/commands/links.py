"""``regard links``: predict the probability of edges between nodes of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands.options import Run, epilog, open_predictor
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import LinkedNodeSettings
from regard.errors import ConfigError

EXAMPLES = epilog(
    "echo 'ann bob' | regard links runs/friends",
    "echo ann | regard links runs/friends --top-k 3 --json",
    "regard links runs/friends --missing 20",
)

Missing = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Print the N most probable missing edges of the graph; reads no input."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard links`` to the command line."""
    app.command("links", epilog=EXAMPLES)(links)


@takes_predict_options
@takes_settings("settings", LinkedNodeSettings)
def links(
    run: Run,
    *,
    settings: dict[str, Any],
    missing: Missing = None,
    options: PredictOptions,
) -> None:
    """Predict edges between nodes with a model trained on their graph.

    Each line has one or two node names, separated by a space or as a JSON list. Two names give the probability of an
    edge between them. One name gives the most probable new neighbors of that node, best first. --json prints names and
    probabilities.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "links")
    if missing is not None:
        if options.files or options.output or options.set_ or any(value is not None for value in settings.values()):
            why = "it ranks all pairs of the graph and reads no names"
            what = "--missing cannot be combined with FILE, --output, --set or --top-k"
            raise ConfigError(what, where="--missing", why=why, help="use --missing alone")
        _print_missing(run, missing, options)
        return
    run_prediction(run, options, **settings)


def _print_missing(run: Path, number: int, options: PredictOptions) -> None:
    """Print the most probable missing edges: source, target and probability, separated by tabs."""
    model = open_predictor(run, **options.opening)
    for link in model.missing(number):
        line = f"{link.source}\t{link.target}\t{link.probability:.6f}"
        print(model.write(link, json=True) if options.as_json else line)
