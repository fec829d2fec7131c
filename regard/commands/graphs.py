"""``regard graphs``: the classes or numbers of whole graphs, by a trained model."""

from __future__ import annotations

import typer

from regard.commands.options import Run, epilog
from regard.commands.predict import Answering, answer, answers_lines

EXAMPLES = epilog(
    "regard graphs runs/rings < graphs.jsonl",
    "regard graphs runs/rings --json < graphs.jsonl > classes.jsonl",
)


def register(app: typer.Typer) -> None:
    """Add ``regard graphs`` to the command line."""
    app.command("graphs", epilog=EXAMPLES)(graphs)


@answers_lines
def graphs(
    run: Run,
    *,
    asked: Answering,
) -> None:
    """Tell the classes or numbers of whole graphs, by a trained model.

    A graph a line, as in the training file but for the label, gives its class or its number. --json has the
    probabilities of all classes.
    """
    answer(run, asked, task="graphs")
