"""``regard classify``: labels, sets of labels or numbers of texts, by a trained classifier."""

from __future__ import annotations

from typing import Any

import typer

from regard.commands.options import ReadingEngine, Run, epilog
from regard.commands.predict import Answering, answer, answers_lines
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import AbstentionSettings, ThresholdSettings

EXAMPLES = epilog(
    "regard classify runs/reviews < reviews.txt",
    "regard classify runs/reviews --json --abstain-below 0.8 < reviews.txt",
    "regard classify runs/topics --threshold 0.3 < articles.txt",
    "regard classify runs/reviews -o labels/ part-*.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard classify`` to the command line."""
    app.command("classify", epilog=EXAMPLES)(classify)


@answers_lines
@takes_settings("settings", AbstentionSettings, ThresholdSettings)
def classify(
    run: Run,
    *,
    settings: dict[str, Any],
    asked: Answering,
    engine: ReadingEngine = None,
) -> None:
    """Tell the label of each text, by a trained classifier.

    A line in gives a line out, in order, while input is read: LABEL, a tab and its probability; the labels, where there
    may be several; or the number. Several texts stand in one line with a tab between. --json has all probabilities.
    """
    answer(run, asked, task="classification", opened={"engine": engine}, **settings)
