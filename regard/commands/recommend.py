"""``regard recommend``: the likeliest next items of sessions, by a trained model."""

from __future__ import annotations

from typing import Any

import typer

from regard.commands.options import Run, epilog
from regard.commands.predict import Answering, answer, answers_lines
from regard.commands.setting_options import takes_settings
from regard.config.prediction_settings import RankingSettings

EXAMPLES = epilog(
    "echo 'i3 i17 i5' | regard recommend runs/shop",
    "regard recommend runs/shop --top-k 3 --new --json < sessions.txt",
)


def register(app: typer.Typer) -> None:
    """Add ``regard recommend`` to the command line."""
    app.command("recommend", epilog=EXAMPLES)(recommend)


@answers_lines
@takes_settings("settings", RankingSettings)
def recommend(
    run: Run,
    *,
    settings: dict[str, Any],
    asked: Answering,
) -> None:
    """Tell the likeliest next items of sessions, by a trained model of next items.

    A session a line, items with spaces between them or a JSON list of items, gives items, best first. --json has their
    probabilities, and items of the session that training did not have.
    """
    answer(run, asked, task="next-item", **settings)
