"""``regard graphs``: the classes or numbers of whole graphs, by a trained model."""

from __future__ import annotations

import typer

from regard.commands.bulk import Bulk, Folder, takes_bulk
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog
from regard.commands.predict import AsJson, Input, Settings, answer

__all__ = ["register"]

EXAMPLES = epilog(
    "regard graphs runs/rings < graphs.jsonl",
    "regard graphs runs/rings --json < graphs.jsonl > classes.jsonl",
)


def register(app: typer.Typer) -> None:
    """Add ``regard graphs`` to the command line."""
    app.command("graphs", epilog=EXAMPLES)(graphs)


@takes_bulk
def graphs(
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
    """Tell the classes or numbers of whole graphs, by a trained model.

    A graph a line, as in the training file but for the label, gives its class or its number. --json has the
    probabilities of all classes.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "graphs")
    answer(run, files, {}, output, as_json, set_, bulk, checkpoint=checkpoint, device=device, threads=threads)
