"""``regard recommend``: the likeliest next items of sessions, by a trained model."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands.bulk import Bulk, Folder, takes_bulk
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog
from regard.commands.predict import AsJson, Input, Settings, answer

__all__ = ["register"]

EXAMPLES = epilog(
    "echo 'i3 i17 i5' | regard recommend runs/shop",
    "regard recommend runs/shop --top-k 3 --new --json < sessions.txt",
)

TopK = Annotated[
    int | None,
    typer.Option("--top-k", min=1, metavar="N", help="Items a session.", show_default="the run's, 10 unless set"),
]
New = Annotated[bool, typer.Option("--new", help="Only items that the session has not had.")]


def register(app: typer.Typer) -> None:
    """Add ``regard recommend`` to the command line."""
    app.command("recommend", epilog=EXAMPLES)(recommend)


@takes_bulk
def recommend(
    run: Run,
    files: Input = None,
    *,
    top_k: TopK = None,
    new: New = False,
    output: Folder = None,
    as_json: AsJson = False,
    set_: Settings = None,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Tell the likeliest next items of sessions, by a trained model of next items.

    A session a line, items with spaces between them or a JSON list of items, gives items, best first. --json has their
    probabilities, and items of the session that training did not have.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "next-item")
    given = {"top_k": top_k, "new": True if new else None}
    wanted = {name: value for name, value in given.items() if value is not None}
    answer(run, files, wanted, output, as_json, set_, bulk, checkpoint=checkpoint, device=device, threads=threads)
