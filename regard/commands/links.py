"""``regard links``: how likely nodes of a graph have an edge, by a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.commands.bulk import Bulk, Folder, takes_bulk
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.predict import AsJson, Input, Settings, answer
from regard.errors import ConfigError

__all__ = ["register"]

EXAMPLES = epilog(
    "echo 'ann bob' | regard links runs/friends",
    "echo ann | regard links runs/friends --top-k 3 --json",
    "regard links runs/friends --missing 20",
)

TopK = Annotated[
    int | None,
    typer.Option("--top-k", min=1, metavar="N", help="Links of a line that names one node.", show_default="10"),
]
Missing = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Tell the N likeliest pairs of the graph without an edge; read nothing."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard links`` to the command line."""
    app.command("links", epilog=EXAMPLES)(links)


@takes_bulk
def links(
    run: Run,
    files: Input = None,
    *,
    top_k: TopK = None,
    missing: Missing = None,
    output: Folder = None,
    as_json: AsJson = False,
    set_: Settings = None,
    bulk: Bulk = Bulk(),
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
) -> None:
    """Tell how likely nodes have an edge, by a model trained on their graph.

    Two names a line, with a space between them or as a JSON list, give the probability of an edge; one name gives the
    nodes it likeliest has an edge to of those it has none to, best first. --json has names and probabilities.
    """
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task

    require_task(RunFolder.open(run), "links")
    opened: dict[str, Any] = {"checkpoint": checkpoint, "device": device, "threads": threads}
    if missing is not None:
        if files or output or set_ or top_k is not None:
            why = "it goes over all pairs of the graph"
            help = "leave FILE, --output, --set and --top-k out"
            raise ConfigError("--missing reads no names", where="--missing", why=why, help=help)
        _tell_missing(run, missing, as_json, opened)
        return
    settings = {} if top_k is None else {"top_k": top_k}
    answer(run, files, settings, output, as_json, set_, bulk, **opened)


def _tell_missing(run: Path, number: int, as_json: bool, opened: dict[str, Any]) -> None:
    """Print the likeliest pairs without an edge: source, target and probability, tabs between."""
    model = open_predictor(run, **opened)
    for each in model.missing(number):
        line = model.write(each, json=True) if as_json else f"{each.source}\t{each.target}\t{each.probability:.6f}"
        print(line)
