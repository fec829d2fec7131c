"""``regard compare``: train several recipes with equal budgets and several seeds, and tabulate the results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.commands import completion
from regard.commands.options import AsJson, epilog
from regard.commands.setting_options import Beam

if TYPE_CHECKING:
    from regard.comparison.execution import Comparison

EPILOG = epilog(
    "regard compare small.toml large.toml --budget 10m --seeds 2",
    "regard compare multi30k --vary model.cross_attention.kind=dot,additive,general --budget 3000steps "
    "--test test.en test.de",
    notes="A budget is training time (90s, 10m, 1.5h), target tokens (2000000tokens, 2Mtokens) or updates (3000steps). "
    "Training time counts updates only, so the number of updates depends on the machine. The budget replaces steps, "
    "epochs, minutes, tokens and early_stopping of every config. After an interruption, run the same command again to "
    "resume.",
)

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]RECIPE…",
        help="Recipes or .toml files, each optionally with a NAME for the table.",
        autocompletion=completion.recipes_and_files,
    ),
]
Budget = Annotated[str | None, typer.Option("--budget", metavar="B", help="Limit the training of each run; see below.")]
Seeds = Annotated[
    int,
    typer.Option("--seeds", min=1, metavar="N", help="Train N runs per row, with consecutive seeds from the config's."),
]
Metric = Annotated[
    str,
    typer.Option(
        "--metric",
        metavar="NAME",
        help="Compare this metric: loss, or a metric of regard evaluate.",
        autocompletion=completion.metrics,
    ),
]
Test = Annotated[
    tuple[Path, Path] | None,
    typer.Option("--test", help="Test on these two files, source and target.", show_default="the validation data"),
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        "--test-file", help="Test on this .tsv, .jsonl, .csv or .parquet with both sides.", show_default=False
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="Override a key of every config: KEY=VALUE; may be repeated.")
]
Vary = Annotated[
    list[str] | None,
    typer.Option("--vary", metavar="KEY=V,W,…", help="Add a row for each value of this key; may be repeated."),
]
Average = Annotated[
    int | None, typer.Option("--average", min=1, metavar="K", help="Evaluate the average of the last K checkpoints.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FOLDER", help="Write runs and results to this folder.", show_default="runs/compare-NAMES"
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``regard compare`` to the command line."""
    app.command("compare", epilog=EPILOG)(compare)


def compare(
    sources: Sources,
    *,
    budget: Budget = None,
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
    """Train several recipes with equal budgets and compare quality, size, speed and memory.

    The table goes to standard output; results.json, results.md and a figure go to the --out folder.
    """
    from regard.comparison.plan import plan_comparison
    from regard.errors import ConfigError

    if os.environ.get("REGARD_QUICK"):  # a short run of all stages, as in train
        budget = "3steps"
    if test is not None and test_file is not None:
        raise ConfigError("--test and --test-file cannot be combined", help="use only one of them")
    comparison = plan_comparison(
        sources, budget=budget, seeds=seeds, metric=metric, test=test or ((test_file,) if test_file else ()),
        overrides=set_ or [], vary=vary or [], beam=beam, average=average, out=out,
    )  # fmt: skip
    code = comparison.run()
    _print_results(comparison, as_json=as_json)
    raise typer.Exit(code)


def _print_results(comparison: Comparison, *, as_json: bool) -> None:
    """Print the table, or all results as JSON, and draw the figure."""
    from regard.comparison.results import draw, text_table
    from regard.core.figure import Caption, can_draw, save_figure
    from regard.core.installation import extra_command

    rows, metric = comparison.summaries(), comparison.key["metric"]
    print(json.dumps(comparison.results(), indent=2, ensure_ascii=False) if as_json else text_table(rows, metric))
    if not can_draw():
        typer.echo(f"no figure: matplotlib is not installed; {extra_command('plot')}", err=True)
    elif any(row.values for row in rows):
        caption = Caption(f"{metric} and speed · {comparison.folder.resolve().name}", "regard compare")
        save_figure(lambda figure: draw(figure, rows, metric), comparison.folder, caption)
    figures = ", figure.png, figure.svg" if can_draw() else ""
    typer.echo(f"wrote results.json, results.md{figures} to {comparison.folder}", err=True)


def run_member() -> None:
    """Train and evaluate one member of a comparison in this process."""
    from regard.commands.train import open_display
    from regard.comparison.member import main

    main(open_display)
