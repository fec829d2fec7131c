"""``regard nodes``: the classes of nodes of a graph, by a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands.options import Run, epilog, open_predictor
from regard.commands.predict import Answering, answer, answers_lines
from regard.core.atomic_files import explain_os_errors
from regard.core.installation import extra_command
from regard.errors import ConfigError

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
        help="Draw the hidden layer's vectors of labeled nodes in a plane (t-SNE), as figure.png and figure.svg; "
        "reads no names.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard nodes`` to the command line."""
    app.command("nodes", epilog=EXAMPLES)(nodes)


@answers_lines
def nodes(
    run: Run,
    *,
    draw: Draw = None,
    asked: Answering,
) -> None:
    """Tell the classes of nodes, by a model trained on their graph.

    The name of a node a line, or its number where nodes have none, gives its class. --json has the probabilities of
    all classes. --draw shows what the network makes of the nodes instead.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "nodes")
    if draw is not None:
        if asked.files or asked.output or asked.as_json or asked.set_:
            raise ConfigError(
                "--draw answers no names", where="--draw", help="leave FILE, --output, --json and --set out"
            )
        _draw(open_predictor(run, **asked.opened), draw)
        return
    answer(run, asked)


def _draw(model: Any, folder: Path) -> None:
    """Draw the labeled nodes by their hidden vectors, and say where it is."""
    import numpy as np

    from regard.core.figure import can_draw, save_figure
    from regard.inspection.projection import can_project, chosen_places, draw_classes, project

    missing = [name for name, there in (("matplotlib", can_draw()), ("scikit-learn", can_project())) if not there]
    if missing:
        why = f"{' and '.join(missing)}: not installed"
        raise ConfigError("there is no picture", where="--draw", why=why, help=extra_command("projection"))
    graph = model.graph
    labeled = np.flatnonzero(graph.labels >= 0)
    nodes = labeled[chosen_places(len(labeled))]
    try:
        points = project(model.hidden(nodes))
    except ValueError as error:
        raise ConfigError("there is nothing to draw", where="--draw", why=str(error)) from error
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = save_figure(lambda figure: draw_classes(figure, points, graph.labels[nodes], graph.classes), folder)
    told = "" if len(nodes) == len(labeled) else f" of {len(labeled):,}"
    typer.echo(f"drew {len(nodes):,}{told} labeled nodes: {', '.join(map(str, paths))}", err=True)
