"""``regard nodes``: the classes of nodes of a graph, by a trained model."""

from __future__ import annotations

import typer

from regard.commands.bulk import Bulk, Folder, takes_bulk
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog
from regard.commands.predict import AsJson, Input, Settings, answer

__all__ = ["register"]

EXAMPLES = epilog(
    "echo 31336 | regard nodes runs/papers",
    "regard nodes runs/papers --json < names.txt > classes.jsonl",
)


def register(app: typer.Typer) -> None:
    """Add ``regard nodes`` to the command line."""
    app.command("nodes", epilog=EXAMPLES)(nodes)


@takes_bulk
def nodes(
    run: Run,
    files: Input = None,
    *,
    output: Folder = None,
    as_json: AsJson = False,
    set_: Settings = None,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Tell the classes of nodes, by a model trained on their graph.

    The name of a node a line, or its number where nodes have none, gives its class. --json has the probabilities of
    all classes.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "nodes")
    answer(run, files, {}, output, as_json, set_, bulk, checkpoint=checkpoint, device=device, threads=threads)
