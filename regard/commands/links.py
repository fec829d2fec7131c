"""``regard links``: how likely nodes of a graph have an edge, by a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands.options import Run, epilog, open_predictor
from regard.commands.predict import Answering, answer, answers_lines
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
    typer.Option(min=1, metavar="N", help="Tell the N likeliest pairs of the graph without an edge; read nothing."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard links`` to the command line."""
    app.command("links", epilog=EXAMPLES)(links)


@answers_lines
@takes_settings("settings", LinkedNodeSettings)
def links(
    run: Run,
    *,
    settings: dict[str, Any],
    missing: Missing = None,
    asked: Answering,
) -> None:
    """Tell how likely nodes have an edge, by a model trained on their graph.

    Two names a line, with a space between them or as a JSON list, give the probability of an edge; one name gives the
    nodes it likeliest has an edge to of those it has none to, best first. --json has names and probabilities.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "links")
    if missing is not None:
        if asked.files or asked.output or asked.set_ or any(value is not None for value in settings.values()):
            why = "it goes over all pairs of the graph"
            help = "leave FILE, --output, --set and --top-k out"
            raise ConfigError("--missing reads no names", where="--missing", why=why, help=help)
        _tell_missing(run, missing, asked)
        return
    answer(run, asked, **settings)


def _tell_missing(run: Path, number: int, asked: Answering) -> None:
    """Print the likeliest pairs without an edge: source, target and probability, tabs between."""
    model = open_predictor(run, **asked.opened)
    for each in model.missing(number):
        told = f"{each.source}\t{each.target}\t{each.probability:.6f}"
        print(model.write(each, json=True) if asked.as_json else told)
