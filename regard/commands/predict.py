"""``regard predict``: lines in, lines out, by a model of any task; also under the verbs that tasks name."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from regard.commands.bulk import BULK_OPTIONS, Bulk, Folder, run_bulk
from regard.commands.incoming_lines import chunks, count_lines, open_inputs, reader_left
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.output import open_output
from regard.commands.progress import progress
from regard.commands.shared_arguments import SharedOption, taken_together
from regard.core.task_table import TASKS

CHUNK = 64  # lines predicted together at most

Input = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE", help="Text with an input a line, plain or .gz; several for bulk.", show_default="standard input"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object a line.", rich_help_panel="Output")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Setting of the prediction, such as beam=1 or top_k=3; may be repeated."
    ),
]


class Answering(NamedTuple):
    """The options of a verb that answers lines, as given."""

    files: list[Path] | None = None
    output: str | None = None
    as_json: bool = False
    set_: list[str] | None = None
    bulk: Bulk = Bulk()
    checkpoint: str | None = None
    device: str | None = None
    threads: int | None = None

    @classmethod
    def of(cls, **given: Any) -> Answering:
        """The same from all options, those of bulk work among them."""
        bulk = Bulk(**{name: given.pop(name) for name in BULK_OPTIONS if name in given})
        return cls(bulk=bulk, **given)

    @property
    def opened(self) -> dict[str, Any]:
        """The options by which a model is opened: see ``open_predictor``."""
        return {"checkpoint": self.checkpoint, "device": self.device, "threads": self.threads}


ANSWERING_OPTIONS = {
    "files": SharedOption(Input),
    "output": SharedOption(Folder),
    "as_json": SharedOption(AsJson, False),
    "set_": SharedOption(Settings),
    **BULK_OPTIONS,
    "checkpoint": SharedOption(CheckpointName),
    "device": SharedOption(DeviceName),
    "threads": SharedOption(Threads),
}
answers_lines = taken_together("asked", ANSWERING_OPTIONS, Answering.of)


def register(app: typer.Typer) -> None:
    """Add ``regard predict`` to the command line."""
    examples = "regard predict runs/mean < in.txt > out.txt", "regard predict runs/m30k --json --set beam=1 < in.txt"
    app.command("predict", epilog=epilog(*examples))(predict)


def register_verbs(app: typer.Typer) -> None:
    """Add each verb that a task names and no command has: ``regard predict`` for the runs of that task."""
    taken = {command.name for command in app.registered_commands}
    for verb in dict.fromkeys(place.verb for place in TASKS.values() if place.verb not in taken):
        app.command(verb, epilog=epilog(f"regard {verb} RUN < in.txt > out.txt"))(_for_tasks(verb))


def _for_tasks(verb: str) -> Any:
    """The command under another name, for the tasks whose verb that is alone."""
    kinds = [kind for kind, place in TASKS.items() if place.verb == verb]

    @wraps(predict)
    def command(run: Path, **given: Any) -> None:
        from regard.runs.run_folder import RunFolder
        from regard.tasks.load import require_task

        require_task(RunFolder.open(run), *kinds)
        predict(run, **given)

    return command


@answers_lines
def predict(run: Run, *, asked: Answering) -> None:
    """Predict an output for each line with a trained model of any task.

    A line in gives a line out, in order, while input is read: a pipe is answered when its writer pauses. What a line
    spells is the task's own: a sentence, a prompt, numbers, JSON. Settings are those of the model in Python.
    With -o OUT/ files are work in bulk: in blocks, by --workers that may die, and the same command goes on.
    """
    answer(run, asked)


def answer(
    run: Path,
    asked: Answering,
    *,
    task: str | None = None,
    opened: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Answer lines, or files in bulk; ``settings`` of the prediction that are None are left to the run.

    ``task``: whose runs the verb is for, where not for all. ``opened``: options of opening the model, beside those.
    """
    from regard.config.toml_layers import parse_override
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.prediction import require_settings

    if task is not None:
        require_task(RunFolder.open(run), task)
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {".".join(map(str, key)): value for key, value in map(parse_override, asked.set_ or [])}
    whole = asked.opened | dict(opened or {})
    if (bulk := asked.bulk.of(asked.files, asked.output, folder=True)).wanted:
        spec = {"verb": "predict", "settings": settings, "json": asked.as_json, "seed": None}
        run_bulk(bulk, run, spec | whole, doing="predicting")
        return
    model = open_predictor(run, **whole)
    require_settings(model, settings)
    answer_lines(model, bulk.source, settings, as_json=asked.as_json, run=run, columns=bulk.columns)


def answer_lines(
    model: Any, source: Path | None, settings: Mapping[str, Any], *, as_json: bool, run: Path,
    columns: Sequence[int | str] = (), doing: str = "predicting",
) -> None:  # fmt: skip
    """Print the output of each line of a file or of standard input, in order, as its lines come; or of each row."""
    from regard.tasks.prediction import predict_lines, read_inputs

    name = str(source or "standard input")
    with (
        open_output(None, source, job={}, resume=False) as lines,
        progress(doing, count_lines(source), hidden=sys.stdout.isatty()) as advance,
        open_inputs(run, source, columns, watched=True) as (read, ready, places),
    ):
        number = 1
        for chunk in chunks(read, 1 if source is None and sys.stdin.isatty() else CHUNK, first=1, ready=ready):
            reader_left()
            where = None if places is None else list(places)[-len(chunk) :]
            inputs, error = read_inputs(model, chunk, name=name, first=number, places=where)
            for line in predict_lines(model, inputs, settings, json=as_json):
                lines.write(line)
            if error is not None:
                raise error
            number += len(chunk)
            advance(len(chunk))
