"""``regard classify``: predict labels, sets of labels or numbers for texts, sounds and images."""

from __future__ import annotations

from typing import Any

import typer

from regard.commands.options import EncoderEngine, Run, epilog
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import AbstentionSettings, ThresholdSettings

EXAMPLES = epilog(
    "regard classify runs/reviews < reviews.txt",
    "regard classify runs/reviews --json --abstain-below 0.8 < reviews.txt",
    "regard classify runs/topics --threshold 0.3 < articles.txt",
    "regard classify runs/reviews -o labels/ part-*.txt",
    "regard classify runs/digits seven.wav --json",
)


def register(app: typer.Typer) -> None:
    """Add ``regard classify`` to the command line."""
    app.command("classify", epilog=EXAMPLES)(classify)


@takes_predict_options
@takes_settings("settings", AbstentionSettings, ThresholdSettings)
def classify(
    run: Run,
    *,
    settings: dict[str, Any],
    options: PredictOptions,
    engine: EncoderEngine = None,
) -> None:
    """Predict the label of each text, sound or image with a trained classifier.

    Each input line gives one output line, in order, as input arrives; so does each file of a sound or an image. An
    output is the label, a tab and its probability; several labels for a multi-label model; or a number. Texts of one
    example are separated by tabs. --json adds all probabilities.
    """
    run_prediction(run, options, task="classification", opening={"engine": engine}, **settings)
