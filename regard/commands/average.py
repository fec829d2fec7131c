"""``regard average``: average the weights of several checkpoints and save the result as a new checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.commands.options import Run, epilog
from regard.core.wording import pluralize
from regard.errors import ConfigError

EPILOG = epilog("regard average runs/m30k --last 10")

Last = Annotated[
    int | None, typer.Option("--last", min=1, metavar="K", help="Average the last K checkpoints.", show_default="10")
]
Steps = Annotated[
    str | None, typer.Option("--steps", metavar="A,B,…", help="Average the checkpoints of these steps instead.")
]


def register(app: typer.Typer) -> None:
    """Add ``regard average`` to the command line."""
    app.command("average", epilog=EPILOG)(average)


def average(run: Run, *, last: Last = None, steps: Steps = None) -> None:
    """Average the weights of several checkpoints of a run; the average is often better than any single checkpoint.

    The average is saved as checkpoints/average. All verbs then load it unless --checkpoint names another.
    """
    from regard.runs.averaging import average_run
    from regard.runs.run_folder import RunFolder

    if last is not None and steps is not None:
        raise ConfigError("--last and --steps cannot be combined", help="use only one of them")
    selected = None if steps is None else _numbers(steps)
    used = average_run(RunFolder.open(run), last=last or 10, steps=selected)
    fewer = f" ({last} requested; the run has no more)" if last is not None and len(used) < last else ""
    print(f"averaged {pluralize(len(used), 'checkpoint')}{fewer}: steps {', '.join(map(str, used))}")
    print(f"saved to {run / 'checkpoints' / 'average'}; it is loaded by default unless --checkpoint names another")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a list of steps", where="--steps", help="--steps 1000,1500,2000") from error
