"""``regard nodes``: predict the classes of nodes of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands.options import Run, epilog, open_predictor
from regard.commands.predict import PredictOptions, run_prediction, takes_predict_options
from regard.core.atomic_files import explain_os_errors
from regard.core.installation import extra_command
from regard.errors import ConfigError

MAX_NAMED = 30  # drawn nodes with names; names of more would overlap

EXAMPLES = epilog(
    "echo 31336 | regard nodes runs/papers",
    "regard nodes runs/papers --json < names.txt > classes.jsonl",
    "regard nodes runs/papers --draw pictures",
)

Draw = Annotated[
    Path | None,
    typer.Option(
        "--draw",
        metavar="FOLDER",
        help="Draw the hidden vectors of labeled nodes in two dimensions (t-SNE) as figure.png and figure.svg in this "
        "folder; reads no input.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard nodes`` to the command line."""
    app.command("nodes", epilog=EXAMPLES)(nodes)


@takes_predict_options
def nodes(
    run: Run,
    *,
    draw: Draw = None,
    options: PredictOptions,
) -> None:
    """Predict the classes of nodes with a model trained on their graph.

    Each line has the name of a node, or its number if nodes have no names, and gives its class. --json adds the
    probabilities of all classes. --draw draws the hidden vectors of nodes instead.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "nodes")
    if draw is not None:
        if options.files or options.output or options.as_json or options.set_:
            what = "--draw cannot be combined with FILE, --output, --json or --set"
            raise ConfigError(what, where="--draw", help="use --draw alone")
        _draw(open_predictor(run, **options.opening), draw)
        return
    run_prediction(run, options)


def _draw(model: Any, folder: Path) -> None:
    """Draw the hidden vectors of labeled nodes, and print the paths of the files."""
    import numpy as np

    from regard.core.figure import Caption, can_draw, save_figure
    from regard.inspection.projection import can_project, chosen_places, draw_classes, project

    libraries = {"matplotlib": can_draw(), "scikit-learn": can_project()}
    missing = [name for name, installed in libraries.items() if not installed]
    if missing:
        what = "--draw needs libraries that are not installed"
        raise ConfigError(what, where="--draw", why=" and ".join(missing), help=extra_command("projection"))
    graph = model.graph
    labeled = np.flatnonzero(graph.labels >= 0)
    nodes = labeled[chosen_places(len(labeled))]
    total = "" if len(nodes) == len(labeled) else f" of {len(labeled):,}"
    try:
        points = project(model.hidden(nodes))
    except ValueError as error:
        raise ConfigError("cannot draw the nodes", where="--draw", why=str(error)) from error
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        caption = Caption(f"hidden vectors of nodes, t-SNE · n = {len(nodes):,}{total}", "regard nodes --draw")
        names = [graph.name(node) for node in nodes] if len(nodes) <= MAX_NAMED else []
        paths = save_figure(
            lambda figure: draw_classes(figure, points, graph.labels[nodes], graph.classes, names), folder, caption
        )
    typer.echo(f"drew {len(nodes):,}{total} labeled nodes: {', '.join(map(str, paths))}", err=True)
