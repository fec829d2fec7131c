"""``regard predict``: predict an output per line with a model of any task; also available as each task's own verb."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from regard.commands.bulk import BULK_OPTIONS, Bulk, Folder, run_bulk
from regard.commands.incoming_files import are_inputs, print_file_predictions
from regard.commands.incoming_lines import chunks, count_lines, open_inputs, reader_left
from regard.commands.options import CheckpointName, DeviceName, Run, Threads, epilog, open_predictor
from regard.commands.output import open_output
from regard.commands.progress import progress
from regard.commands.setting_options import SharedOption, option_group
from regard.core.task_table import TASKS

CHUNK = 64  # maximum number of lines predicted together

Input = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Inputs, one per line, plain or .gz; several files run in bulk. Each sound or image is one input.",
        show_default="standard input",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.", rich_help_panel="Output")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a prediction setting, such as beam=1 or top_k=3; may be repeated."
    ),
]


class PredictOptions(NamedTuple):
    """Options of a verb that predicts an output for each line."""

    files: list[Path] | None = None
    output: str | None = None
    as_json: bool = False
    set_: list[str] | None = None
    bulk: Bulk = Bulk()
    checkpoint: str | None = None
    device: str | None = None
    threads: int | None = None

    @classmethod
    def of(cls, **options: Any) -> PredictOptions:
        """Create it from all options, including those of bulk processing."""
        bulk = Bulk(**{name: options.pop(name) for name in BULK_OPTIONS if name in options})
        return cls(bulk=bulk, **options)

    @property
    def opening(self) -> dict[str, Any]:
        """Keyword arguments of ``open_predictor``."""
        return {"checkpoint": self.checkpoint, "device": self.device, "threads": self.threads}


PREDICT_OPTIONS = {
    "files": SharedOption(Input),
    "output": SharedOption(Folder),
    "as_json": SharedOption(AsJson, False),
    "set_": SharedOption(Settings),
    **BULK_OPTIONS,
    "checkpoint": SharedOption(CheckpointName),
    "device": SharedOption(DeviceName),
    "threads": SharedOption(Threads),
}
takes_predict_options = option_group("options", PREDICT_OPTIONS, PredictOptions.of)


def register(app: typer.Typer) -> None:
    """Add ``regard predict`` to the command line."""
    examples = "regard predict runs/mean < in.txt > out.txt", "regard predict runs/m30k --json --set beam=1 < in.txt"
    app.command("predict", epilog=epilog(*examples))(predict)


def register_verbs(app: typer.Typer) -> None:
    """Add the verbs of tasks that have no command of their own: ``regard predict`` restricted to that task."""
    registered = {command.name for command in app.registered_commands}
    for verb in dict.fromkeys(place.verb for place in TASKS.values() if place.verb not in registered):
        app.command(verb, epilog=epilog(f"regard {verb} RUN < in.txt > out.txt"))(_for_tasks(verb))


def _for_tasks(verb: str) -> Any:
    """Return ``predict`` restricted to the tasks that have this verb."""
    kinds = [kind for kind, place in TASKS.items() if place.verb == verb]

    @wraps(predict)
    def command(run: Path, **options: Any) -> None:
        from regard.runs.run_folder import RunFolder
        from regard.tasks.load import require_task

        require_task(RunFolder.open(run), *kinds)
        predict(run, **options)

    return command


@takes_predict_options
def predict(run: Run, *, options: PredictOptions) -> None:
    """Predict an output for each line with a trained model of any task.

    Each input line gives one output line, in order; so does each sound or image, for a model that reads such files.
    Standard input is read as a stream: results are flushed when no
    more input is waiting. The task defines the form of a line: a sentence, a prompt, numbers or JSON. --set takes the
    same settings as the model in Python.

    With -o OUT/, files are processed in bulk: in blocks, by --workers processes. After an interruption, run the same
    command again to resume.
    """
    run_prediction(run, options)


def run_prediction(
    run: Path,
    options: PredictOptions,
    *,
    task: str | None = None,
    opening: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Predict an output for each line, or process files in bulk.

    Args:
        run: the run folder.
        options: the options of the command line.
        task: the only task that the verb supports; None for all tasks.
        opening: further keyword arguments of ``open_predictor``.
        settings: prediction settings; None leaves a setting to the config of the run.
    """
    from regard.config.toml_layers import parse_override
    from regard.runs.run_folder import RunFolder
    from regard.tasks.load import require_task
    from regard.tasks.prediction import require_settings

    if task is not None:
        require_task(RunFolder.open(run), task)
    settings = {name: value for name, value in settings.items() if value is not None}
    settings |= {".".join(map(str, key)): value for key, value in map(parse_override, options.set_ or [])}
    loading = options.opening | dict(opening or {})
    files = options.files or []
    if files and RunFolder.open(run).config.reads_files:
        model = open_predictor(run, **loading)
        require_settings(model, settings)
        if are_inputs(model, files):
            print_file_predictions(model, files, settings, as_json=options.as_json, output=options.output)
            return
    if (bulk := options.bulk.with_files(options.files, options.output, folder=True)).requested:
        spec = {"verb": "predict", "settings": settings, "json": options.as_json, "seed": None}
        run_bulk(bulk, run, spec | loading, doing="predicting")
        return
    model = open_predictor(run, **loading)
    require_settings(model, settings)
    print_predictions(model, bulk.source, settings, as_json=options.as_json, run=run, columns=bulk.columns)


def print_predictions(
    model: Any, source: Path | None, settings: Mapping[str, Any], *, as_json: bool, run: Path,
    columns: Sequence[int | str] = (), doing: str = "predicting",
) -> None:  # fmt: skip
    """Print the output of each line or row of a file, or of each line of standard input, in order, as it arrives."""
    from regard.tasks.prediction import predict_lines, read_inputs

    name = str(source or "standard input")
    with (
        open_output(None, source, job={}, resume=False) as lines,
        progress(doing, count_lines(source), hidden=sys.stdout.isatty()) as advance,
        open_inputs(run, source, columns, watched=True) as (read, ready, row_names),
    ):
        number = 1
        for chunk in chunks(read, 1 if source is None and sys.stdin.isatty() else CHUNK, first=1, ready=ready):
            reader_left()
            where = None if row_names is None else list(row_names)[-len(chunk) :]
            inputs, error = read_inputs(model, chunk, name=name, first=number, row_names=where)
            for line in predict_lines(model, inputs, settings, json=as_json):
                lines.write(line)
            if error is not None:
                raise error
            number += len(chunk)
            advance(len(chunk))
