"""``regard study``: test a claim of the literature by an experiment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.commands import completion
from regard.commands.options import AsJson, Threads, epilog, set_threads
from regard.core.wording import pluralize

if TYPE_CHECKING:
    from regard.studies.study import Cell, Study

EPILOG = epilog(
    "regard study list",
    "regard study saturation",
    "regard study dimension --seeds 5",
    "regard study all --page docs/evidence/studies.md",
)

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME…|list|all|page",
        help="Studies to run; list prints them, all runs all of them, page writes the page from stored results.",
        autocompletion=completion.studies,
    ),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Write results to this folder, one subfolder per study.")
]
Page = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FILE", help="Write the page of all studies to this file.", show_default="OUT/studies.md"
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, help="Set the seed of all random numbers, or the first of several.")
]
Seeds = Annotated[
    int, typer.Option("--seeds", min=1, metavar="N", help="Repeat a study with N seeds and count in how many it holds.")
]
Text = Annotated[
    Path | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help="Read this text, plain or .gz, for the studies modern, middle-word and pretrain (labeled).",
        exists=True,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="Read corpora from the subfolders of this folder, for crossover, long-speech and waiting.",
        envvar="REGARD_DATA",
        exists=True,
        file_okay=False,
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of a study, such as sizes=[100, 300]."),
]
Minimal = Annotated[
    bool,
    typer.Option("--quick", help="Run a minimal version as a test of the program; same as REGARD_QUICK=1."),
]


def register(app: typer.Typer) -> None:
    """Add ``regard study`` to the command line."""
    app.command("study", epilog=EPILOG)(study)


def study(
    names: Names,
    *,
    out: Out = Path("runs/studies"),
    page: Page = None,
    seed: Seed = 1,
    seeds: Seeds = 1,
    minimal: Minimal = False,
    text: Text = None,
    data: Data = None,
    options: Options = None,
    as_json: AsJson = False,
    threads: Threads = None,
) -> None:
    """Test claims of the literature; each study writes a table, a verdict, a figure and JSON.

    The exit code is 0 for any verdict.
    """
    from regard.studies.catalog import STUDIES, find_study

    if names == ["list"]:
        _list(STUDIES.values(), as_json=as_json)
        return
    every, minimal = names == ["all"], minimal or bool(os.environ.get("REGARD_QUICK"))
    inputs: dict[str, Any] = {"minimal": minimal, "text": text, "data": data, "options": _parse(options or [])}
    chosen = (
        _all(STUDIES.values(), inputs, seeds) if every else [find_study(name) for name in names if names != ["page"]]
    )
    for selected in chosen:  # before the first of them runs
        selected.require_options(inputs["options"])
        if not every:
            selected.require_seeds(seeds)
    set_threads(threads)
    for selected in chosen:
        runs = 1 if selected.check else seeds
        _run(selected, out / selected.name, seed=seed, seeds=runs, inputs=inputs, as_json=as_json)
    if every or names == ["page"] or page is not None:
        _write_page(page or out / "studies.md", out)


def _parse(options: Sequence[str]) -> dict[str, Any]:
    """Return settings by name from ``KEY=VALUE`` with values as in TOML. ConfigError for another form."""
    from regard.config.toml_layers import dotted, parse_override

    return {dotted(key): value for key, value in map(parse_override, options)}


def _list(studies: Any, *, as_json: bool) -> None:
    from dataclasses import asdict
    from textwrap import fill

    if as_json:
        print(json.dumps([asdict(study) for study in studies], indent=2, ensure_ascii=False))
        return
    for study in studies:
        claim = fill(study.claim, 100, initial_indent=" " * 15, subsequent_indent=" " * 15).lstrip()
        duration = f"{study.seconds} s" if study.seconds else "less than 1 s"
        kind = "check; " if study.check else ""
        required = f"; requires {study.missing_input}" if study.missing_input else ""
        print(f"{study.name:<14} {claim}\n{'':<14} {study.source}; {kind}{duration} with one thread{required}\n")


def _all(studies: Iterable[Study], inputs: Mapping[str, Any], seeds: int) -> list[Study]:
    """Return all studies that have their inputs, and report the others. With several seeds, checks run once."""
    chosen: list[Study] = []
    skipped: dict[str, list[str]] = {}
    for study in studies:
        missing = (study.needs_text and inputs["text"] is None) or (study.needs_data and inputs["data"] is None)
        if missing and not inputs["minimal"]:
            skipped.setdefault(str(study.missing_input), []).append(study.name)
        else:
            chosen.append(study)
    for option, names in skipped.items():
        count = pluralize(len(names), "study", "studies")
        typer.echo(f"skipped {count} that require {option}: {', '.join(names)}", err=True)
    checks = [study.name for study in chosen if study.check]
    if seeds > 1 and checks:
        typer.echo(f"{pluralize(len(checks), 'check')} run with one seed: {', '.join(checks)}", err=True)
    return chosen


def _run(study: Study, folder: Path, *, seed: int, seeds: int, inputs: Mapping[str, Any], as_json: bool) -> None:
    from regard.commands.progress import progress
    from regard.core.figure import can_draw
    from regard.core.installation import extra_command
    from regard.studies.record import record_study

    with progress(study.name, 100, unit="%") as advance:
        percent = 0

        def report(share: float) -> None:
            nonlocal percent
            advance(int(100 * share) - percent)
            percent = int(100 * share)

        record = record_study(study, folder, seed=seed, seeds=seeds, report=report, **inputs)
    if as_json:
        print(json.dumps(record, ensure_ascii=False), flush=True)  # one line per study
    else:
        for line in _lines(record):
            print(line)
        print(f"\nwrote {', '.join(sorted(path.name for path in folder.iterdir()))} to {folder}\n", flush=True)
    if not can_draw():
        typer.echo(f"no figure: matplotlib is not installed; {extra_command('plot')}", err=True)


def _lines(record: dict[str, Any]) -> Iterator[str]:
    from textwrap import wrap

    from regard.studies.page import verdict
    from regard.studies.seeds import seed_table

    yield from wrap(f"{record['name']}: {record['claim']}", 100)
    yield f"({record['source']})\n"
    yield from _aligned([record["columns"], *record["rows"]])
    if "over_seeds" in record:
        yield f"(seed {record['seed']})\n"
        columns, rows = seed_table(record["over_seeds"])
        yield from _aligned([columns, *rows])
    else:
        yield ""
        yield from _aligned([_judged(criterion) for criterion in record["criteria"]], left=2)
    for remark in record["remarks"]:
        yield from ("", *wrap(remark, 100))
    check = " (check: no seed can change this verdict)" if record.get("check") else ""
    form = " (minimal version: not a meaningful result)" if record["quick"] else ""
    yield f"\n{record['name']} {verdict(record)}{check}{form}"


def _judged(criterion: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of one criterion: a mark, its description, the value, the comparison and the threshold."""
    from regard.studies.study import format_cell

    value, threshold = (format_cell(criterion[key]) for key in ("value", "threshold"))
    return "✓" if criterion["holds"] else "✗", criterion["what"], value, criterion["comparison"], threshold


def _aligned(rows: Sequence[Sequence[Cell]], *, left: int = 1) -> Iterator[str]:
    """Yield rows with aligned columns: the first ``left`` columns to the left, the others to the right."""
    from regard.studies.study import format_cell

    shown = [[format_cell(cell) for cell in row] for row in rows]
    wide = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, wide, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _write_page(page: Path, out: Path) -> None:
    from regard.studies.page import write_page

    missing = write_page(page, out)
    typer.echo(f"wrote {page}", err=True)
    if missing:
        typer.echo(f"no results for {', '.join(missing)}; run: regard study {' '.join(missing)}", err=True)
