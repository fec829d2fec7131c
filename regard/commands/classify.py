"""``regard classify``: labels, sets of labels or numbers of texts, by a trained classifier."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands.options import ReadingEngine, Run, epilog
from regard.commands.predict import Answering, answer, answers_lines

__all__ = ["register"]

EXAMPLES = epilog(
    "regard classify runs/reviews < reviews.txt",
    "regard classify runs/reviews --json --abstain-below 0.8 < reviews.txt",
    "regard classify runs/topics --threshold 0.3 < articles.txt",
    "regard classify runs/reviews -o labels/ part-*.txt",
)

Share = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, metavar="P", help="Answer ? where the label's probability is below P.", show_default="0"
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(min=0, max=1, metavar="P", help="Of several labels: tell those of at least P.", show_default="0.5"),
]


def register(app: typer.Typer) -> None:
    """Add ``regard classify`` to the command line."""
    app.command("classify", epilog=EXAMPLES)(classify)


@answers_lines
def classify(
    run: Run,
    *,
    abstain_below: Share = None,
    threshold: Threshold = None,
    asked: Answering,
    engine: ReadingEngine = None,
) -> None:
    """Tell the label of each text, by a trained classifier.

    A line in gives a line out, in order, while input is read: LABEL, a tab and its probability; the labels, where there
    may be several; or the number. Several texts stand in one line with a tab between. --json has all probabilities.
    """
    answer(
        run, asked, task="classification", opened={"engine": engine}, abstain_below=abstain_below, threshold=threshold
    )
