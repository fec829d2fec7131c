"""``regard evaluate``: measure a run of any task on given data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.evaluation_output import print_figures, print_scores
from regard.commands.options import (
    AsJson,
    CheckpointName,
    DeviceName,
    EngineName,
    Run,
    Threads,
    epilog,
    open_predictor,
    search_settings,
    set_up,
)  # fmt: skip
from regard.commands.progress import progress
from regard.commands.setting_options import takes_settings
from regard.commands.several_ranks import several_ranks
from regard.config.search_settings import SearchSettings
from regard.core.atomic_files import explain_os_errors
from regard.core.installation import extra_command
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.evaluation import Evaluation, ReferenceTest

EPILOG = epilog(
    "regard evaluate runs/m30k test.en test.de --metric bleu,chrf",
    "regard evaluate runs/m30k test.en test.de --against runs/gru",
    "regard evaluate runs/m30k test.en test.de --against outputs.txt --json",
    "regard evaluate runs/book test.txt --stride 64",
    notes="Metrics of translation: bleu, chrf, ter (sacreBLEU) · bleu-tok-lc (BLEU as papers print it, tokenized and "
    "lowercased) · wer (percent of items whose output equals none of their references: the word error rate of "
    "pronunciation) · per (edits per reference token, to the nearest reference). For wer and per, lines with the same "
    "source are one item with several references.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Sentences to translate, one a line; a .tsv, .jsonl, .csv or .parquet of both; or data of another task: "
        "for a language model a text, a .jsonl or a folder of texts.",
    ),
]
Targets = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="TARGET",
        help="Reference translations; several files are several references. For another task: further files.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAMES",
        help="Metrics, separated by commas.",
        show_default="bleu,chrf; all that another task has",
        autocompletion=completion.metrics,
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="RUN|FILE",
        help="Compare with another run or a file of outputs, by paired bootstrap.",
        autocompletion=completion.runs_and_files,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the outputs to this file, a line for each line."),
]
Draw = Annotated[
    Path | None,
    typer.Option(
        "--draw",
        metavar="FOLDER",
        help="Draw a classifier's table of labels and predictions as figure.png and figure.svg of this folder.",
    ),
]
Stride = Annotated[
    int | None,
    typer.Option(
        "--stride",
        metavar="N",
        min=1,
        help="Of a language model: tokens from window to window; fewer see more before each token, and take longer.",
        show_default="the context: windows that do not overlap",
    ),
]


Memory = Annotated[
    int | None,
    typer.Option(
        "--memory",
        metavar="N",
        min=0,
        help="Of a language model with memory: columns remembered, more than in training, or fewer.",
        show_default="as in training",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard evaluate`` to the command line."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


@takes_settings("search", SearchSettings, group="Search", without=("nbest",))
def evaluate(
    run: Run,
    source: Source,
    targets: Targets = None,
    *,
    metric: Metric = None,
    stride: Stride = None,
    memory: Memory = None,
    search: dict[str, Any],
    against: Against = None,
    output: Output = None,
    draw: Draw = None,
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Measure a trained model on given data.

    A translation model translates a test set, and its outputs are measured. A model of another task gets files as its
    training does: loss, metrics, and how the data were cut are printed. Ranks of torchrun share the data.
    """
    from regard.runs.run_folder import RunFolder

    folder, files = RunFolder.open(run), [source, *(targets or [])]
    names = None if metric is None else [name.strip() for name in metric.split(",") if name.strip()]
    cut = {"stride": stride, "memory": memory}
    kind = folder.config.task.kind
    if folder.task.reference_test is None:
        why = f"it applies to outputs that are compared with references, and {run} is a run of {kind}"
        _refuse(search | {"against": against, "output": output, "engine": engine}, why)
        set_up(device, threads)
        data_settings = {name: value for name, value in cut.items() if value is not None}
        _measure(folder, files, names, draw, as_json=as_json, checkpoint=checkpoint, device=device, **data_settings)
    else:
        _refuse(cut | {"draw": draw}, why=f"{run} is a run of {kind}")
        opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine}
        _compare(
            folder, files, names, search, opening, checkpoint=checkpoint, against=against, output=output,
            as_json=as_json,
        )  # fmt: skip


def _measure(
    folder: RunFolder,
    files: list[Path],
    names: list[str] | None,
    draw: Path | None,
    *,
    as_json: bool,
    **data_settings: Any,
) -> None:
    """Measure a run as validation does, and print its figures: on rank 0, where several share the data."""
    from regard.tasks.evaluation import evaluate_run

    with several_ranks() as peers:
        leads = peers is None or peers.rank == 0
        with progress("measuring", None, unit="examples", hidden=not leads) as advance:
            evaluation = evaluate_run(folder, files, names, progress=advance, peers=peers, **data_settings)
    if leads:
        print_figures(evaluation, as_json=as_json)
    if leads and draw is not None:
        _draw(evaluation, draw)


def _compare(
    run: RunFolder, files: list[Path], names: list[str] | None, search_options: dict[str, Any],
    opening: dict[str, Any], *, checkpoint: str | None, against: Path | None, output: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compare outputs with references, and with those of another model: on rank 0, where several share the work.

    ``search_options``: options of the search. ``opening``: how models are opened.
    """
    from regard.core import atomic_files
    from regard.tasks.evaluation import evaluate_outputs, require_metrics

    with several_ranks(refused={"against": against}) as peers:
        _require_rival(against)
        metrics = require_metrics(run, names)
        test = _test(run, files, opening, checkpoint)
        search = search_settings(test.search, nbest=1, **search_options)
        leads, ranks = peers is None or peers.rank == 0, 1 if peers is None else peers.world
        for warning in test.warnings if leads else ():
            typer.echo(f"warning: {warning}", err=True)
        with progress("translating", len(test.inputs) // ranks, hidden=not leads) as advance:
            evaluation = evaluate_outputs(
                run, test, metrics, search, checkpoint=checkpoint, progress=advance, peers=peers
            )  # fmt: skip
        if not leads:
            return
        if output is not None:
            text = "".join(line.replace("\r", " ").replace("\n", " ") + "\n" for line in evaluation.outputs)
            atomic_files.write_bytes_atomically(output, text.encode())
        others = _rival_outputs(against, files, search_options, opening) if against else None
        differences = [] if others is None else [test.compare(name, evaluation.outputs, others) for name in metrics]
        print_scores(evaluation, against, differences, run.task.metrics, as_json=as_json)


def _test(run: RunFolder, files: list[Path], opening: dict[str, Any], checkpoint: str | None = None) -> ReferenceTest:
    """Open a run for a test set. Raises ConfigError if its outputs are not compared with references."""
    if run.task.reference_test is None:
        why = f"{run.path} is a run of {run.config.task.kind}"
        raise ConfigError("its outputs cannot be compared", where="--against", why=why)
    test: ReferenceTest = run.task.reference_test(
        run.config, open_predictor(run.path, checkpoint=checkpoint, **opening), files
    )
    return test


def _require_rival(against: Path | None) -> None:
    """Raise ModelError, before anything is computed, if there is nothing to compare with."""
    if against is not None and not against.exists():
        raise ModelError(
            f"there is neither a run nor a file {against}",
            where="--against",
            help="name a run folder, or a file with an output a line",
        )


def _rival_outputs(
    against: Path, files: list[Path], search_options: dict[str, Any], opening: dict[str, Any]
) -> list[str]:
    """Return another system's outputs, read from a file or computed by another run with the same options."""
    from regard.data.text_files import read_lines
    from regard.runs.run_folder import RunFolder

    if not against.is_dir():
        return list(read_lines(against))
    test = _test(RunFolder.open(against), files, opening)
    search = search_settings(test.search, nbest=1, **search_options)
    with progress(f"translating by {against.name}", len(test.inputs)) as advance:
        return test.outputs(search, advance)


def _draw(evaluation: Evaluation, folder: Path) -> None:
    """Draw the table that is a square of counts, and say where it is."""
    from regard.core.figure import can_draw, draw_counts, save_figure

    squares = [table for table in evaluation.tables.values() if table.square]
    if not squares:
        raise ConfigError("there is nothing to draw", where="--draw", why="this task counts no label by prediction")
    if not can_draw():
        raise ConfigError(
            "there is no picture", where="--draw", why="matplotlib is not installed", help=extra_command("plot")
        )
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        paths = save_figure(lambda figure: draw_counts(figure, squares[0]), folder)
    typer.echo(f"in {folder}: {', '.join(path.name for path in paths)}", err=True)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Raise ConfigError for an option that is set."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError("this option does not apply", where=f"--{name.replace('_', '-')}", why=why)
