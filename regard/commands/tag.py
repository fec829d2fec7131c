"""``regard tag``: predict the tag of each word of sentences."""

from __future__ import annotations

import typer

from regard.commands.options import EncoderEngine, Run, epilog
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options

EXAMPLES = epilog(
    "echo 'The dog runs' | regard tag runs/tags",
    "regard tag runs/tags --json < sentences.txt > tags.jsonl",
    "regard tag runs/tags -o tagged/ part-*.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard tag`` to the command line."""
    app.command("tag", epilog=EXAMPLES)(tag)


@takes_predict_options
def tag(
    run: Run,
    *,
    options: PredictOptions,
    engine: EncoderEngine = None,
) -> None:
    """Predict the tag of each word with a trained tagger.

    Each line is a sentence: words separated by spaces, or a JSON list of words. It gives word/TAG pairs separated by
    spaces. --json prints tags with their probabilities, and spans if the tags are B-X and I-X.
    """
    run_prediction(run, options, task="tagging", opening={"engine": engine})
