"""``regard evaluate``: measure a run of any task on given data; for translation see ``translation_scores``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.metric_tables import aligned, table_as_json
from regard.commands.options import AsJson, CheckpointName, DeviceName, EngineName, Run, Threads, epilog, set_up
from regard.commands.progress import progress
from regard.commands.search_options import Beam, CoveragePenalty, EarlyStopping, LengthPenalty, NoRepeatPieces
from regard.commands.several_ranks import several_ranks
from regard.core.atomic_files import explain_os_errors
from regard.core.installation import extra_command
from regard.core.wording import counted, counted_units
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.evaluation import Evaluation

__all__ = ["register"]

MOST_ROWS = 20  # of a table that is printed; --json has the others

EPILOG = epilog(
    "regard evaluate runs/m30k test.en test.de --metric bleu,chrf",
    "regard evaluate runs/m30k test.en test.de --against runs/gru",
    "regard evaluate runs/m30k test.en test.de --against outputs.txt --json",
    "regard evaluate runs/book test.txt --stride 64",
    notes="Metrics of translation: bleu, chrf, ter (sacreBLEU) · bleu-tok-lc (BLEU as papers print it, tokenised and "
    "lowercased) · wer (per cent of items whose output equals none of their references: the word error rate of "
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


def evaluate(
    run: Run,
    source: Source,
    targets: Targets = None,
    *,
    metric: Metric = None,
    stride: Stride = None,
    memory: Memory = None,
    beam: Beam = None,
    length_penalty: LengthPenalty = None,
    early_stopping: EarlyStopping = None,
    coverage_penalty: CoveragePenalty = None,
    no_repeat_ngram: NoRepeatPieces = None,
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
    search = {
        "beam": beam, "length_penalty": length_penalty, "coverage_penalty": coverage_penalty,
        "no_repeat_ngram": no_repeat_ngram, "early_stopping": early_stopping,
    }  # fmt: skip
    cut = {name: value for name, value in (("stride", stride), ("memory", memory)) if value is not None}
    if folder.config.task.kind == "translation":
        _refuse(folder, {"stride": stride, "memory": memory, "draw": draw}, why=f"{run} is a run of translation")
        from regard.commands.translation_scores import evaluate_translation

        opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine}
        with several_ranks(refused={"against": against}) as peers:
            evaluate_translation(
                folder, files, ["bleu", "chrf"] if names is None else names, given=search, opening=opening,
                checkpoint=checkpoint, against=against, output=output, as_json=as_json, peers=peers,
            )  # fmt: skip
        return
    _refuse(folder, search | {"against": against, "output": output, "engine": engine})
    set_up(device, threads)
    _evaluate(folder, files, names, draw, as_json=as_json, checkpoint=checkpoint, device=device, **cut)


def _evaluate(
    folder: RunFolder, files: list[Path], names: list[str] | None, draw: Path | None, *, as_json: bool, **given: Any
) -> None:
    """Measure a run of any other task, and print its figures: on rank 0, where several share the data."""
    from regard.tasks.evaluation import evaluate_run

    with several_ranks() as peers:
        leads = peers is None or peers.rank == 0
        with progress("measuring", None, unit="examples", hidden=not leads) as advance:
            found = evaluate_run(folder, files, names, progress=advance, peers=peers, **given)
    if leads and as_json:
        print(json.dumps(_as_json(found), indent=2))
    elif leads:
        _print(found)
    if leads and draw is not None:
        _draw(found, draw)


def _draw(found: Evaluation, folder: Path) -> None:
    """Draw the table that is a square of counts, and say where it is."""
    from regard.core.figure import can_draw, draw_counts, save_figure

    squares = [table for table in found.tables.values() if table.square]
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


def _refuse(run: RunFolder, options: dict[str, Any], why: str | None = None) -> None:
    """Raise ConfigError for an option that is given; unless told otherwise, because it is of translation alone."""
    why = why or f"it is of translation, and {run.path} is a run of {run.config.task.kind}"
    for name, value in options.items():
        if value is not None:
            raise ConfigError("this option does not apply", where=f"--{name.replace('_', '-')}", why=why)


def _print(found: Evaluation) -> None:
    width = max(map(len, found.figures))
    for name, value in found.figures.items():
        print(f"{name:<{width}}  {value:.4f}" + (" nats" if name == "loss" and "nll" in found.sums else ""))
    for table in found.tables.values():
        if len(table.rows) <= MOST_ROWS:
            print("\n" + aligned(table) + "\n")
    counts = [counted_units(int(value), name) for name, value in found.sums.items() if value.is_integer()]
    cut = [
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in found.settings.items()
    ]
    parts = [*_sizes(found), *counts, *cut, f"checkpoint {found.checkpoint}", f"{found.seconds:.1f} s"]
    print(", ".join(parts))


def _sizes(found: Evaluation) -> list[str]:
    """The number of examples, and of the task's unit where sums lack it; one large graph is counted by its nodes."""
    examples = counted(found.examples, "example")
    if found.units is None or found.unit in found.sums:
        return [examples]
    units = counted_units(found.units, found.unit)
    return [units] if found.examples in (1, found.units) else [examples, units]


def _as_json(found: Evaluation) -> dict[str, object]:
    tables = {name: table_as_json(table) for name, table in found.tables.items()}
    described = found._asdict() | {"seconds": round(found.seconds, 3), "tables": tables}
    return {name: value for name, value in described.items() if name not in ("signatures", "outputs")}
