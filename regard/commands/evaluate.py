"""``regard evaluate``: evaluate a run of any task on test data."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from regard.commands import completion
from regard.commands.evaluation_output import Rival, print_figures, print_scores
from regard.commands.options import (
    AsJson,
    CheckpointName,
    DeviceName,
    EngineName,
    Ensemble,
    Run,
    Threads,
    epilog,
    open_predictor,
    search_settings,
    set_up,
)  # fmt: skip
from regard.commands.prediction_files import ROWS, require_prediction_file, write_predictions
from regard.commands.progress import progress
from regard.commands.setting_options import option_group, takes_settings
from regard.commands.several_ranks import several_ranks
from regard.commands.speech_stream_evaluation import evaluate_speech_streams
from regard.commands.stream_evaluation import STREAM_EVALUATION, StreamEvaluationRequest, evaluate_streams
from regard.commands.streaming import require_streaming
from regard.config.search_settings import SearchSettings
from regard.core.atomic_files import explain_os_errors
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from regard.runs.run_folder import RunFolder
    from regard.tasks.evaluation import Evaluation
    from regard.tasks.reference_test import ReferenceTest
    from regard.tasks.run_comparison import RunComparison

EPILOG = epilog(
    "regard evaluate runs/m30k test.en test.de --metric bleu,chrf",
    "regard evaluate runs/m30k test.en test.de --against runs/gru",
    "regard evaluate runs/m30k test.en test.de --against outputs.txt --json",
    "regard evaluate runs/m30k test.en test.de --streaming --policy alignatt --lag 0,1,2,3",
    "regard evaluate runs/speech test.jsonl --streaming --step 0.3",
    "regard evaluate runs/speech test.jsonl test.de --streaming --translate runs/m30k",
    "regard evaluate runs/book test.txt --stride 64",
    "regard evaluate runs/reviews test.csv --errors -o predictions.csv",
    notes="Metrics of translation: bleu, chrf, ter (sacreBLEU) · bleu-tok-lc (BLEU as papers report it, tokenized and "
    "lowercased) · exact (percentage of outputs that equal a reference) · "
    "wer (percentage of items whose output equals no reference: the word error rate of pronunciation) · "
    "per (edits per reference token, to the nearest reference). For wer and per, lines with equal sources are one item "
    "with several references.",
)

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        help="Sentences to translate, one per line; a .tsv, .jsonl, .csv or .parquet with both sides; or data of "
        "another task, such as a text, a .jsonl or a folder of texts for a language model.",
    ),
]
Targets = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="TARGET",
        help="Reference translations, one file per reference; for another task, further files.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAMES",
        help="Compute these metrics, separated by commas.",
        show_default="bleu,chrf; all metrics of other tasks",
        autocompletion=completion.metrics,
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against",
        metavar="RUN|FILE",
        help="Compare with another run. A translation model is also compared with a file of outputs.",
        autocompletion=completion.runs_and_files,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write a row for each target with its prediction, probability and loss (.csv or .jsonl). Any other name "
        "gets the translations, one per line.",
    ),
]
Errors = Annotated[
    bool,
    typer.Option(
        "--errors",
        help="Print the worst examples, the most frequent confusions, and the metrics by input length and class "
        "frequency.",
    ),
]
Draw = Annotated[
    Path | None,
    typer.Option(
        "--draw",
        metavar="FOLDER",
        help="Draw the confusion matrix (figure.png, figure.svg) and the reliability diagram (calibration.png, "
        "calibration.svg) of a classifier in this folder.",
    ),
]
Sort = Annotated[
    Literal["label", "size"], typer.Option("--sort", help="Sort the drawn classes by label or by number of examples.")
]
Stride = Annotated[
    int | None,
    typer.Option(
        "--stride",
        metavar="N",
        min=1,
        help="Move the window of a language model by N tokens; smaller values give more context and take longer.",
        show_default="the context length: no overlap",
    ),
]


Memory = Annotated[
    int | None,
    typer.Option(
        "--memory",
        metavar="N",
        min=0,
        help="Keep N tokens in memory, for a language model with memory.",
        show_default="as in training",
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard evaluate`` to the command line."""
    app.command("evaluate", epilog=EPILOG)(evaluate)


@option_group("stream", STREAM_EVALUATION, StreamEvaluationRequest)
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
    errors: Errors = False,
    draw: Draw = None,
    sort: Sort = "label",
    stream: StreamEvaluationRequest = StreamEvaluationRequest(),
    as_json: AsJson = False,
    checkpoint: CheckpointName = None,
    ensemble: Ensemble = None,
    device: DeviceName = None,
    threads: Threads = None,
    engine: EngineName = None,
) -> None:
    """Evaluate a trained model on test data.

    A translation model translates a test set, and its outputs are compared with references. For other tasks, the files
    have the same form as in training; the loss, the metrics and the windows are printed. Processes started by torchrun
    share the data.
    """
    from regard.runs.run_folder import RunFolder

    folder, files = RunFolder.open(run), [source, *(targets or [])]
    names = None if metric is None else [name.strip() for name in metric.split(",") if name.strip()]
    windows, analysis = {"stride": stride, "memory": memory}, _Analysis(output, errors, against, draw, sort)
    require_streaming(stream)
    opening: dict[str, Any] = {"device": device, "threads": threads, "engine": engine, "checkpoint": checkpoint}
    if stream.streaming:
        refused = windows | analysis.options | {"draw": draw, "ensemble": ensemble}
        _refuse(refused, why="--streaming reports quality and latency only")
        measure = evaluate_speech_streams if "transcribe" in folder.task.serves else evaluate_streams
        measure(folder, files, names, search, opening, stream, as_json=as_json)
    elif folder.task.reference_test is None:
        why = f"it requires outputs that are compared with references, and the task of {run} is {folder.task.name}"
        _refuse(search | {"engine": engine, "ensemble": ensemble}, why)
        set_up(device, threads)
        data_settings = {name: value for name, value in windows.items() if value is not None}
        _measure(folder, files, names, analysis, as_json, checkpoint=checkpoint, device=device, **data_settings)
    else:
        _refuse(windows | {"draw": draw}, why=f"the task of {run} is {folder.task.name}")
        _compare(folder, files, names, search, opening | {"ensemble": ensemble or ()}, analysis, as_json=as_json)


class _Analysis(NamedTuple):
    """Requested results in addition to the metrics."""

    output: Path | None
    errors: bool
    against: Path | None
    draw: Path | None
    sort: str

    @property
    def options(self) -> dict[str, Any]:
        """The options that need outcomes, by name; None if not set."""
        return {"output": self.output, "errors": self.errors or None, "against": self.against}


def _measure(
    folder: RunFolder, files: list[Path], names: list[str] | None, analysis: _Analysis, as_json: bool, **options: Any
) -> None:
    """Evaluate a run as validation does, and print the metrics on rank 0."""
    from regard.tasks.evaluation import evaluate_run

    if analysis.output is not None:
        require_prediction_file(analysis.output)
    other = None if analysis.against is None else _other_run(folder, analysis.against)
    needs_outcomes = any(value is not None for value in analysis.options.values())
    with several_ranks(refused=analysis.options) as peers:
        leads = peers is None or peers.rank == 0
        with progress("evaluating", None, unit="examples", hidden=not leads) as advance:
            evaluation = evaluate_run(
                folder, files, names, progress=advance, peers=peers, outcomes=needs_outcomes, **options
            )  # fmt: skip
    if not leads:
        return
    if analysis.output is not None and evaluation.outcomes is not None:
        write_predictions(evaluation.outcomes.rows, analysis.output)
    comparison = None if other is None else _comparison(folder, evaluation, other, files, options)
    print_figures(
        evaluation, folder.task.metrics, as_json=as_json, loss_unit=folder.config.loss_unit, errors=analysis.errors,
        comparison=comparison,
    )  # fmt: skip
    if analysis.draw is not None:
        title = f"{folder.path.resolve().name} · {', '.join(path.name for path in files)}"
        _draw(evaluation, analysis.draw, title, by_size=analysis.sort == "size")


def _other_run(run: RunFolder, path: Path) -> RunFolder:
    """Open the run to compare with; raise ConfigError if it is not comparable."""
    from regard.runs.run_folder import RunFolder
    from regard.tasks.measured_outcomes import require_outcomes
    from regard.tasks.run_comparison import require_comparable

    require_outcomes(run.task)
    other = RunFolder.open(path)
    require_comparable(run, other)
    return other


def _comparison(
    run: RunFolder, evaluation: Evaluation, other: RunFolder, files: list[Path], options: dict[str, Any]
) -> RunComparison:
    """Compare an evaluation with that of another run, by its default checkpoint."""
    from regard.tasks.run_comparison import compare_runs

    assert evaluation.outcomes is not None
    settings = {name: value for name, value in options.items() if name != "checkpoint"}
    with progress(f"evaluating {other.path.name}", None, hidden=False):
        return compare_runs(run, evaluation.outcomes, other, files, **settings)


def _compare(
    run: RunFolder, files: list[Path], names: list[str] | None, search_options: dict[str, Any],
    opening: dict[str, Any], analysis: _Analysis, *, as_json: bool,
) -> None:  # fmt: skip
    """Compare outputs with references and with those of another model; only rank 0 prints.

    Args:
        run: the run folder.
        files: the test files: sources, then references.
        names: the names of the metrics; None for the default ones.
        search_options: the search options of the command line.
        opening: keyword arguments of ``open_predictor``.
        analysis: the other system, a run folder or a file of outputs; and the file for the outputs or rows.
        as_json: whether to print JSON.
    """
    from regard.tasks.evaluation import evaluate_outputs, require_metrics

    output, against = analysis.output, analysis.against
    rows = analysis.errors or (output is not None and output.suffix in ROWS)
    with several_ranks(refused={"against": against, "errors": rows or None}) as peers:
        _require_rival(against)
        metrics = require_metrics(run, names)
        test, checkpoint = _test(run, files, opening), opening["checkpoint"]
        search = search_settings(test.search, nbest=1, **search_options)
        leads, ranks = peers is None or peers.rank == 0, 1 if peers is None else peers.world
        for warning in test.warnings if leads else ():
            typer.echo(f"warning: {warning}", err=True)
        with progress("translating", len(test.inputs) // ranks, hidden=not leads) as advance:
            evaluation = evaluate_outputs(
                run, test, metrics, search, checkpoint=checkpoint, progress=advance, peers=peers, outcomes=rows
            )  # fmt: skip
        if not leads:
            return
        if output is not None:
            _write_outputs(evaluation, output)
        rival = None
        if against is not None:
            other = {name: value for name, value in opening.items() if name != "ensemble"}
            lines = _rival_outputs(against, files, search_options, other | {"checkpoint": None})
            differences = [test.compare(name, evaluation.outputs, lines) for name in metrics]
            rival = Rival(str(against), differences, test.only_exact(evaluation.outputs, lines), len(test.inputs))
        print_scores(evaluation, rival, run.task.metrics, as_json=as_json, errors=analysis.errors)


def _write_outputs(evaluation: Evaluation, path: Path) -> None:
    """Write a row for each line to a .csv or .jsonl file, and to any other file the outputs, one per line."""
    from regard.core import atomic_files

    if evaluation.outcomes is not None and path.suffix in ROWS:
        return write_predictions(evaluation.outcomes.rows, path)
    text = "".join(line.replace("\r", " ").replace("\n", " ") + "\n" for line in evaluation.outputs)
    atomic_files.write_bytes_atomically(path, text.encode())


def _test(run: RunFolder, files: list[Path], opening: dict[str, Any]) -> ReferenceTest:
    """Open a run for a test set; raise ConfigError if its outputs cannot be compared with references."""
    if run.task.reference_test is None:
        what = f"the outputs of {run.path} cannot be compared with references"
        raise ConfigError(what, where="--against", why=f"its task is {run.config.task.kind}")
    test: ReferenceTest = run.task.reference_test(run.config, open_predictor(run.path, **opening), files)
    return test


def _require_rival(against: Path | None) -> None:
    """Raise ModelError if ``against`` does not exist, before the outputs are computed."""
    if against is not None and not against.exists():
        raise ModelError(
            f"{against} does not exist", where="--against", help="name a run folder, or a file with one output per line"
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
    with progress(f"translating with {against.name}", len(test.inputs)) as advance:
        return test.outputs(search, advance)


def _draw(evaluation: Evaluation, folder: Path, title: str, *, by_size: bool) -> None:
    """Draw the confusion matrix and the calibration, and print the paths of the files."""
    from regard.core.figure import Caption, require_drawing, save_figure
    from regard.core.metric_figures import draw_calibration, draw_counts

    squares = [table for table in evaluation.tables.values() if table.square]
    if not squares:
        raise ConfigError("this option does not apply", where="--draw", why="this task has no confusion matrix")
    require_drawing("--draw")
    source = f"regard evaluate, checkpoint {evaluation.checkpoint}"
    size = f"n = {evaluation.units or evaluation.examples:,}"
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        confusions = Caption(f"confusions · {title} · {size}", source)
        paths = save_figure(partial(draw_counts, table=squares[0], by_size=by_size), folder, confusions)
        if "calibration" in evaluation.tables:
            drawn = partial(draw_calibration, table=evaluation.tables["calibration"])
            caption = Caption(f"calibration · {title} · {size}", source)
            paths += save_figure(drawn, folder, caption, name="calibration")
    typer.echo(f"wrote {', '.join(path.name for path in paths)} to {folder}", err=True)


def _refuse(options: dict[str, Any], why: str) -> None:
    """Raise ConfigError if one of the options is set."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError("this option does not apply", where=f"--{name.replace('_', '-')}", why=why)
