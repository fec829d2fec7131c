"""``regard compare``: train several recipes under one budget, with several seeds, and tabulate them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import AsJson, epilog
from regard.commands.setting_options import Beam

if TYPE_CHECKING:
    from regard.comparison.execution import Comparison
    from regard.data.reading import CorpusConfig
    from regard.runs.run_config import RunConfig

EPILOG = epilog(
    "regard compare small.toml large.toml --budget 10m --seeds 2",
    "regard compare multi30k --vary model.cross_attention.kind=dot,additive,general --budget 3000steps "
    "--test test.en test.de",
    notes="A budget is training time (90s, 10m, 1.5h; only updates count, so their number depends on the machine), "
    "target tokens (2000000tokens, 2Mtokens) or updates (3000steps). It replaces steps, epochs, minutes, tokens and "
    "early_stopping of every config. After an interruption the same command goes on.",
)

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RECIPE…",
        help="Recipes or .toml files, each optionally with a NAME for the table.",
        autocompletion=completion.recipes_and_files,
    ),
]
Given = Annotated[str | None, typer.Option("--budget", metavar="B", help="Training budget of each run; see below.")]
Seeds = Annotated[
    int,
    typer.Option("--seeds", min=1, metavar="N", help="Runs for each row, with the config's seed and those after it."),
]
Metric = Annotated[
    str,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Metric to compare: one of evaluate's, or loss.",
        autocompletion=completion.metrics,
    ),
]
Test = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--test", help="Test set: source and target file.", show_default="the validation data"),
]
TestFile = Annotated[
    Path | None,
    typer.Option("--test-file", help="Test set: one .tsv, .jsonl, .csv or .parquet of both.", show_default=False),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of every config, KEY=VALUE; may be repeated.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=V,W,…", help="Make a row for each value of a key; may be repeated."),
]
Average = Annotated[
    int | None, typer.Option("--average", min=1, metavar="K", help="Measure the average of the last K checkpoints.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FOLDER", help="Folder for runs and results.", show_default="runs/compare-NAMES"),
]


def register(app: typer.Typer) -> None:
    """Add ``regard compare`` to the command line."""
    app.command("compare", epilog=EPILOG)(compare)


def compare(
    sources: Sources,
    *,
    budget: Given = None,
    seeds: Seeds = 1,
    metric: Metric = "bleu",
    test: Test = None,
    test_file: TestFile = None,
    set_: Set = None,
    vary: Vary = None,
    beam: Beam = None,
    average: Average = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Train several recipes under one equal budget and compare quality, size, speed and memory.

    The table goes to standard output; results.json, results.md and a figure go to the folder of --out.
    """
    from regard.comparison.execution import Comparison
    from regard.comparison.members import choose_test_set, load_entries, make_rows, parse_budget
    from regard.data.reading import CorpusConfig
    from regard.errors import ConfigError
    from regard.metrics.text import check_names

    if os.environ.get("REGARD_QUICK"):  # run every part of the work as briefly as possible, as train does
        budget = "3steps"
    if metric != "loss":
        check_names([metric])
    if test is not None and test_file is not None:
        raise ConfigError("--test and --test-file cannot be combined", help="give one of them")
    given = CorpusConfig(source=test[0], target=test[1]) if test else None
    given = CorpusConfig(source=test_file) if test_file else given
    limit = parse_budget(budget) if budget is not None else None
    rows = make_rows(sources, vary or [], set_ or [], limit)
    entries = load_entries(rows, limit, _require)
    corpora = choose_test_set(entries, given, metric)
    key = {"metric": metric, "beam": beam, "average": average, "test": _digests(corpora)}
    folder = out or Path("runs") / f"compare-{'-'.join(dict.fromkeys(Path(row.source).stem for row in rows))}"[:100]
    comparison = Comparison(folder, entries, seeds, limit, key)
    code = comparison.run()
    _print_results(comparison, as_json=as_json)
    raise typer.Exit(code)


def _require(config: RunConfig) -> None:
    """Raise now whatever would fail before the first update, so that no member is trained in vain."""
    from regard.tasks.find_config import require_data
    from regard.training.setup import require_trainable

    require_data(config)
    require_trainable(config)


def _digests(corpora: tuple[CorpusConfig, ...]) -> list[dict[str, Any]]:
    """Describe the test set with the digests of its files, so that a changed text is measured anew."""
    from regard.core import atomic_files
    from regard.data.foreign_errors import unreadable

    parts = []
    for corpus in corpora:
        files = [path for one in corpus.each_file() for path in (one.source, one.target) if path is not None]
        for path in files:
            if not path.is_file():
                raise unreadable(path, FileNotFoundError())
        parts.append(
            {"corpus": corpus.model_dump(mode="json"), "sha256": [atomic_files.sha256(path) for path in files]}
        )
    return parts


def _print_results(comparison: Comparison, *, as_json: bool) -> None:
    """Print the table, or all results as JSON, and draw the picture."""
    from regard.comparison.results import draw, text_table
    from regard.core.figure import can_draw, save_figure
    from regard.core.installation import extra_command

    rows, metric = comparison.summaries(), comparison.key["metric"]
    print(json.dumps(comparison.results(), indent=2, ensure_ascii=False) if as_json else text_table(rows, metric))
    if not can_draw():
        typer.echo(f"no picture: matplotlib is not installed; {extra_command('plot')}", err=True)
    elif any(row.values for row in rows):
        save_figure(lambda figure: draw(figure, rows, metric), comparison.folder)
    pictures = ", figure.png, figure.svg" if can_draw() else ""
    typer.echo(f"in {comparison.folder}: results.json, results.md{pictures}", err=True)


def run_member() -> None:
    """Train and measure one member of a comparison, in this process."""
    from regard.commands.train import open_display
    from regard.comparison.member import main

    main(open_display)
