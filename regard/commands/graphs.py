"""``regard graphs``: predict classes or numbers of whole graphs."""

from __future__ import annotations

import typer

from regard.commands.options import Run, epilog
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options

EXAMPLES = epilog(
    "regard graphs runs/rings < graphs.jsonl",
    "regard graphs runs/rings --json < graphs.jsonl > classes.jsonl",
)


def register(app: typer.Typer) -> None:
    """Add ``regard graphs`` to the command line."""
    app.command("graphs", epilog=EXAMPLES)(graphs)


@takes_predict_options
def graphs(
    run: Run,
    *,
    options: PredictOptions,
) -> None:
    """Predict the class or the number of whole graphs with a trained model.

    Each line is a graph as in the training file, without its label, and gives its class or number. --json adds the
    probabilities of all classes.
    """
    run_prediction(run, options, task="graphs")
