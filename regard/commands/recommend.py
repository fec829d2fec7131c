"""``regard recommend``: predict the most probable next items of sessions."""

from __future__ import annotations

from typing import Any

import typer

from regard.commands.options import Run, epilog
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import RankingSettings

EXAMPLES = epilog(
    "echo 'i3 i17 i5' | regard recommend runs/shop",
    "regard recommend runs/shop --top-k 3 --new --json < sessions.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard recommend`` to the command line."""
    app.command("recommend", epilog=EXAMPLES)(recommend)


@takes_predict_options
@takes_settings("settings", RankingSettings)
def recommend(
    run: Run,
    *,
    settings: dict[str, Any],
    options: PredictOptions,
) -> None:
    """Predict the most probable next items of sessions with a trained next-item model.

    Each line is a session: items separated by spaces, or a JSON list of items. It gives items, best first. --json adds
    their probabilities, and the items of the session that are not in the training data.
    """
    run_prediction(run, options, task="next-item", **settings)
