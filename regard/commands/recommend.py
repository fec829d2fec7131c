"""``regard recommend``: the likeliest next items of sessions, by a trained model."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands.options import Run, epilog
from regard.commands.predict import Answering, answer, answers_lines

__all__ = ["register"]

EXAMPLES = epilog(
    "echo 'i3 i17 i5' | regard recommend runs/shop",
    "regard recommend runs/shop --top-k 3 --new --json < sessions.txt",
)

TopK = Annotated[
    int | None,
    typer.Option("--top-k", min=1, metavar="N", help="Items a session.", show_default="the run's, 10 unless set"),
]
New = Annotated[bool, typer.Option("--new", help="Only items that the session has not had.")]


def register(app: typer.Typer) -> None:
    """Add ``regard recommend`` to the command line."""
    app.command("recommend", epilog=EXAMPLES)(recommend)


@answers_lines
def recommend(
    run: Run,
    *,
    top_k: TopK = None,
    new: New = False,
    asked: Answering,
) -> None:
    """Tell the likeliest next items of sessions, by a trained model of next items.

    A session a line, items with spaces between them or a JSON list of items, gives items, best first. --json has their
    probabilities, and items of the session that training did not have.
    """
    answer(run, asked, task="next-item", top_k=top_k, new=True if new else None)
