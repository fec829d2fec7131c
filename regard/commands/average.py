"""``regard average``: the mean of several checkpoints' weights, as a checkpoint of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.commands.options import Run
from regard.errors import ConfigError, ModelError

__all__ = ["average_run", "register"]

EPILOG = "Example: regard average runs/m30k --last 10   (translate and evaluate then use the average)"

Last = Annotated[
    int | None, typer.Option("--last", min=1, metavar="K", help="The last K checkpoints; 10 unless given.")
]
Steps = Annotated[str | None, typer.Option("--steps", metavar="A,B,…", help="The checkpoints of these steps.")]


def register(app: typer.Typer) -> None:
    """Add ``regard average`` to the command line."""
    app.command("average", epilog=EPILOG)(average)


def average(run: Run, *, last: Last = None, steps: Steps = None) -> None:
    """Average the weights of several checkpoints of a run; often better than any one of them."""
    if last is not None and steps is not None:
        raise ConfigError("--last and --steps both say what to average", help="give one of them")
    wanted = None if steps is None else _numbers(steps)
    used = average_run(run, last=last or 10, steps=wanted)
    fewer = f" ({last} were asked for; no more are kept)" if last is not None and len(used) < last else ""
    print(f"averaged {len(used)} checkpoints{fewer}: steps {', '.join(map(str, used))}")
    print(
        f"in {run / 'checkpoints' / 'average'}, which translate, evaluate and score now use; --checkpoint best does not"
    )


def average_run(path: Path, *, last: int = 10, steps: list[int] | None = None) -> list[int]:
    """Write ``checkpoints/average`` of a run from its ``last`` checkpoints, or from ``steps``; returns the steps used.

    Whole or not there, as any checkpoint. Raises ModelError where one is missing or damaged; the average that was
    there before then stays.
    """
    from regard import checkpoint, storage
    from regard.run import RunFolder

    run = RunFolder.open(path)
    there = checkpoint.list_steps(run.checkpoints)
    used = there[-last:] if steps is None else sorted(set(steps))
    missing = [step for step in used if step not in there]
    if missing or not used:
        raise ModelError(
            f"{path} has no checkpoint of step {', '.join(map(str, missing))}"
            if missing
            else f"{path} has no checkpoints",
            where=str(run.checkpoints),
            help=f"there are {', '.join(map(str, there))}" if there else f"regard train --resume {path}",
        )
    mean = checkpoint.average([checkpoint.step_path(run.checkpoints, step) for step in used])
    # Made outside the folder of checkpoints, where a training that goes on would sweep it away half made.
    workshop = storage.hidden(run.checkpoints, "tmp")
    with storage.storing(workshop):
        shutil.rmtree(workshop, ignore_errors=True)
    made = checkpoint.save(workshop, used[-1], {"model": mean}, {"averaged": used, "newest": there[-1]}, keep=1)
    storage.commit_folder(made, run.checkpoints / "average")
    with storage.storing(workshop):
        workshop.rmdir()
    return used


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} is no list of steps", where="--steps", help="--steps 1000,1500,2000") from error
